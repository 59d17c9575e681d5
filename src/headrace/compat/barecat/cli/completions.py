"""Completion of the command in shells."""

from __future__ import annotations

import importlib.resources

__all__ = ["get_completion_script"]


def get_completion_script(shell: str = "bash") -> str:
    """The path of the completion script for ``bash`` or ``zsh``; source it in the shell."""
    if shell not in ("bash", "zsh"):
        raise ValueError(f"Unknown shell: {shell}. Use 'bash' or 'zsh'.")
    return str(importlib.resources.files("headrace.compat.barecat.completions").joinpath(f"barecat.{shell}"))
