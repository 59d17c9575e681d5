"""Sizes of directories in the terminal; headrace's own browser shows them."""

from __future__ import annotations

from headrace.compat.barecat.tui.browse import BarecatBrowser, main

__all__ = ["BarecatDu", "main"]


class BarecatDu(BarecatBrowser):
    """Shows directories with their sizes; sort them with ``s``."""
