"""zip: what unpacks to too much."""

from __future__ import annotations

import stat
import zipfile
from typing import TYPE_CHECKING

import pytest

from headrace.errors import FormatError
from headrace.formats.barecat import Archive, Metadata
from headrace.transfer.convert import convert
from headrace.transfer.zip import count_in_zip, read_zip

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


def test_what_a_zip_cannot_say_and_what_is_left_out(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("d/", b"")
        archive.writestr("d/a", b"abc")
        link = zipfile.ZipInfo("link")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "d/a")
    skipped: list[str] = []
    entries = {entry.name: (entry.is_dir, entry.size) for entry in read_zip(str(tmp_path / "x.zip"), skipped)}
    assert entries == {"d": (True, 0), "d/a": (False, 3)}
    assert [line.partition(":")[0] for line in skipped] == ["link"]
    assert count_in_zip(str(tmp_path / "x.zip")) == 2


def test_times_before_there_were_zips(tmp_path: Path) -> None:
    with Archive(tmp_path / "x.barecat", "x") as archive:
        archive.add("old", b"1", metadata=Metadata(mtime_ns=0))
        archive.add("new", b"2", metadata=Metadata(mtime_ns=10**18))
    convert(tmp_path / "x.barecat", tmp_path / "x.zip")
    times = {entry.name: entry.about.mtime_ns for entry in read_zip(str(tmp_path / "x.zip"), [])}
    assert times == {"old": 315_532_800 * 10**9, "new": 10**18}


def test_times_that_a_zip_cannot_say(tmp_path: Path) -> None:
    times = {"early": -(2**63), "old": 0, "usual": 10**18, "late": 2**63 - 1}
    with Archive(tmp_path / "x.barecat", "x") as archive:
        for name, mtime_ns in times.items():
            archive.add(name, b"", metadata=Metadata(mtime_ns=mtime_ns))
    convert(tmp_path / "x.barecat", tmp_path / "x.zip")
    with zipfile.ZipFile(tmp_path / "x.zip") as opened:
        assert [opened.getinfo(name).date_time[0] for name in times] == [1980, 1980, 2001, 2107]
