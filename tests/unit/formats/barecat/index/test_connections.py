"""Connections to the index."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from headrace.errors import FormatError
from headrace.formats.barecat import Archive

if TYPE_CHECKING:
    from pathlib import Path


def test_an_empty_index(texts: Path) -> None:
    os.truncate(texts, 0)
    with pytest.raises(FormatError, match="the index is an empty file"):
        Archive(texts)
