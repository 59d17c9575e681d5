"""Writes the pages and pictures that show benchmarks/results anew: ``python -m benchmarks.refresh``."""

from __future__ import annotations

from benchmarks.choosing import refresh_choosing
from benchmarks.pictures import refresh_pictures
from benchmarks.quotes import refresh_quotes
from benchmarks.readme import refresh_readme
from benchmarks.results_page import refresh_results

__all__ = ["refresh"]


def refresh() -> None:
    """Everything that is drawn or quoted from the results."""
    refresh_readme()
    refresh_choosing()
    refresh_quotes()
    refresh_pictures()
    refresh_results()


if __name__ == "__main__":
    refresh()
