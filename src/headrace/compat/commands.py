"""The originals' commands, answered by headrace.

``python -m headrace.compat barecat ls x.barecat`` runs one. Programs that are started through the launcher find them
on their ``PATH``: the scripts in the folder ``_bin`` have the originals' names and come back here.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["COMMANDS", "run_command", "share_commands"]

_LEGACY = "headrace.compat.barecat.cli.legacy"
COMMANDS = {
    "archive2barecat": f"{_LEGACY}:archive2barecat",
    "barecat": "headrace.compat.barecat.cli.main:main",
    "barecat-create": f"{_LEGACY}:create",
    "barecat-create-recursive": f"{_LEGACY}:create_recursive",
    "barecat-defrag": f"{_LEGACY}:defrag",
    "barecat-extract": f"{_LEGACY}:extract",
    "barecat-extract-single": f"{_LEGACY}:extract_single",
    "barecat-index-to-csv": f"{_LEGACY}:index_to_csv",
    "barecat-merge": f"{_LEGACY}:merge",
    "barecat-merge-symlink": f"{_LEGACY}:merge_symlink",
    "barecat-to-ncdu-json": f"{_LEGACY}:print_ncdu_json",
    "barecat-upgrade-database": f"{_LEGACY}:upgrade_database",
    "barecat-verify": f"{_LEGACY}:verify_integrity",
    "barecat2archive": f"{_LEGACY}:barecat2archive",
}
"""Names of commands, and the functions that run them: they take their arguments from ``sys.argv``."""
_BIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_bin")


def run_command(words: Sequence[str]) -> int:
    """Run a command with its arguments; leaves by ``SystemExit`` where the original does."""
    module, _, function = COMMANDS[words[0]].partition(":")
    sys.argv = list(words)
    result = getattr(importlib.import_module(module), function)()
    return int(result or 0)


def share_commands() -> None:
    """Let programs that this process starts find the commands."""
    inherited = [entry for entry in os.environ.get("PATH", os.defpath).split(os.pathsep) if entry != _BIN]
    os.environ["PATH"] = os.pathsep.join([_BIN, *inherited])
    os.environ["HEADRACE_PYTHON"] = sys.executable
