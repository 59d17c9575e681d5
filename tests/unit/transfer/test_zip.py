"""zip: what unpacks to too much."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

import pytest

from headrace.errors import FormatError
from headrace.transfer.convert import convert

if TYPE_CHECKING:
    from pathlib import Path


def test_bombs_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(5_000_000))
    with pytest.raises(FormatError, match="more than 1000000 bytes"):
        convert(tmp_path / "x.zip", tmp_path / "x.barecat", max_bytes=1_000_000)
    assert not list(tmp_path.glob("x.barecat*"))
    data = bytearray((tmp_path / "x.zip").read_bytes())
    at = data.rindex(b"PK\1\2") + 24
    data[at : at + 4] = (10).to_bytes(4, "little")  # the directory says 10 bytes
    (tmp_path / "liar.zip").write_bytes(data)
    with pytest.raises(ValueError, match=r"should have|cannot be read"):
        convert(tmp_path / "liar.zip", tmp_path / "x.barecat")
