"""tar: links, devices, holes, times, Zstandard."""

from __future__ import annotations

import os
import tarfile
from typing import TYPE_CHECKING

import pytest
from tests.unit.transfer.tools import make_tar, member

from headrace.errors import FormatError, MissingExtraError
from headrace.formats.barecat import Archive
from headrace.transfer.convert import convert

if TYPE_CHECKING:
    from pathlib import Path


def test_zstd_asks_for_its_package(folder: Path, tmp_path: Path) -> None:
    try:
        import zstandard  # noqa: F401
    except ImportError:
        with pytest.raises(MissingExtraError, match="zstd"):
            convert(folder, tmp_path / "x.tar.zst")
        assert not list(tmp_path.glob("x.tar*"))
    else:
        convert(folder, tmp_path / "x.tar.zst")
        convert(tmp_path / "x.tar.zst", tmp_path / "z.barecat")
        assert len(Archive(tmp_path / "z.barecat")) == 3


@pytest.mark.parametrize("ending", ["tar", "tar.gz", "tar.zst"])
def test_tar_with_links_devices_and_late_directories(tmp_path: Path, ending: str) -> None:
    plain = tmp_path / ("x.tar" if ending == "tar.zst" else f"x.{ending}")
    make_tar(
        plain,
        [
            (member("before", tarfile.SYMTYPE, "d/soft"), b""),
            (member("d/file"), b"content"),
            (member("d", tarfile.DIRTYPE), b""),
            (member("hard", tarfile.LNKTYPE, "d/file"), b""),
            (member("d/soft", tarfile.SYMTYPE, "./file"), b""),
            (member("nowhere", tarfile.SYMTYPE, "/etc/passwd"), b""),
            (member("up", tarfile.SYMTYPE, "../../x"), b""),
            (member("self", tarfile.SYMTYPE, "self"), b""),
            (member("folder", tarfile.SYMTYPE, "d"), b""),
            (member("pipe", tarfile.FIFOTYPE), b""),
            (member("disk", tarfile.BLKTYPE), b""),
            (member("tty", tarfile.CHRTYPE), b""),
        ],
    )
    if ending == "tar.zst":
        zstandard = pytest.importorskip("zstandard")
        (tmp_path / "x.tar.zst").write_bytes(zstandard.compress(plain.read_bytes()))
    result = convert(tmp_path / f"x.{ending}", tmp_path / "x.barecat")
    names = ("d/file", "hard", "d/soft", "before")
    assert dict(Archive(tmp_path / "x.barecat").items()) == dict.fromkeys(names, b"content")
    left_out = {line.partition(":")[0] for line in result.skipped}
    assert left_out == {"nowhere", "up", "self", "folder", "pipe", "disk", "tty"}


def test_sparse_files(tmp_path: Path) -> None:
    """As GNU tar writes them, with a map of where the data are; one that claims far too much is refused."""
    for size in (100_000, 1 << 50):
        info = member("holes")
        info.pax_headers = {
            "GNU.sparse.major": "1",
            "GNU.sparse.minor": "0",
            "GNU.sparse.name": "holes",
            "GNU.sparse.realsize": str(size),
        }
        make_tar(tmp_path / "x.tar", [(info, b"1\n50000\n5\n".ljust(512, b"\0") + b"hello")])
        if size > 1 << 40:
            with pytest.raises(FormatError, match="more than 1073741824 bytes"):
                convert(tmp_path / "x.tar", tmp_path / "y.barecat")
            assert not (tmp_path / "y.barecat").exists()
        else:
            convert(tmp_path / "x.tar", tmp_path / "x.barecat")
            expected = bytes(50_000) + b"hello" + bytes(49_995)
            assert Archive(tmp_path / "x.barecat")["holes"] == expected


def test_large_entries_must_have_the_size_that_was_announced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.transfer.containers.LARGE_BYTES", 1000)
    make_tar(tmp_path / "x.tar", [(member("a"), bytes(5000))])
    data = (tmp_path / "x.tar").read_bytes()
    (tmp_path / "x.tar").write_bytes(data[: 512 + 2000])
    with pytest.raises(FormatError, match="cannot be read"):
        convert(tmp_path / "x.tar", tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_a_cut_tar_zst_is_an_error(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("zstandard")
    (folder / "noise").write_bytes(os.urandom(300_000))
    convert(folder, tmp_path / "x.tar.zst")
    whole = (tmp_path / "x.tar.zst").read_bytes()
    for length in (len(whole) - 1, len(whole) // 2, 140_000, 20, 0):
        (tmp_path / "cut.tar.zst").write_bytes(whole[:length])
        with pytest.raises(FormatError, match="cannot be read"):
            convert(tmp_path / "cut.tar.zst", tmp_path / "y.barecat")
        assert not (tmp_path / "y.barecat").exists()


def test_times_that_no_index_can_hold(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar", "w") as tar:
        for name, mtime in (("a", 1e300), ("b", -5), ("c", 2**40)):
            member = tarfile.TarInfo(name)
            member.mtime = mtime
            tar.addfile(member)
    convert(tmp_path / "x.tar", tmp_path / "x.barecat")
    with Archive(tmp_path / "x.barecat") as archive:
        assert [info.mtime_ns for info in archive.files("path")] == [None, -5_000_000_000, None]
