from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.compat.barecat import Barecat

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONTENT = {
    "a.txt": b"first",
    "dir/b.txt": b"second file",
    "dir/sub/c.bin": bytes(range(256)) * 40,
    "dir/.hidden": b"h",
    "other/empty": b"",
}


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "x.barecat")


@pytest.fixture
def filled(path: str) -> str:
    """The path of an archive with a few files."""
    with Barecat(path, readonly=False) as bc:
        bc.update(CONTENT)
    return path


@pytest.fixture
def reader(filled: str) -> Iterator[Barecat]:
    with Barecat(filled) as bc:
        yield bc


@pytest.fixture
def writer(filled: str) -> Iterator[Barecat]:
    with Barecat(filled, readonly=False) as bc:
        yield bc
