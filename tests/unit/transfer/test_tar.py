"""tar: links, devices, holes, times, Zstandard."""

from __future__ import annotations

import os
import subprocess
import tarfile
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.transfer.tools import make_tar, member

from headrace.errors import FormatError, MissingExtraError
from headrace.formats.barecat import Archive
from headrace.transfer import tar_parts
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


def _odd_folder(root: Path) -> Path:
    """Names, modes and times that a header of ustar can say, and some that it cannot."""
    names = ["a", "d/" + "n" * 98, "d/" + "n" * 150, "p" * 120 + "/" + "q" * 90, "ä/ö.txt", "x" * 200, "large"]
    for i, name in enumerate(names):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(bytes([i]) * (700 * i))
        os.utime(root / name, ns=(0, 1_600_000_000_123_456_789 + i))
    (root / "large").write_bytes(os.urandom(400_000))
    os.utime(root / "large", ns=(0, -1_500_000_000))
    (root / "a").chmod(0o6751)
    (root / "void").mkdir()
    (root / "link").symlink_to("a")
    (root / "dead").symlink_to("nothing")
    os.mkfifo(root / "pipe")
    return root


def _listed(path: Path, root: Path) -> dict[str, tuple[bytes | None, int, int]]:
    with tarfile.open(path) as tar:
        found = {}
        for info in tar:
            file = tar.extractfile(info)
            found[info.name] = (file.read() if file else None, info.mode, int(info.mtime // 1))
        return found


@pytest.mark.parametrize("ending", ["tar", "tar.gz"])
def test_a_tar_of_a_folder_or_an_archive(tmp_path: Path, ending: str) -> None:
    root = _odd_folder(tmp_path / "in")
    result = convert(root, tmp_path / f"x.{ending}")
    assert (result.files, result.dirs) == (8, 4)
    assert sorted(line.partition(": ")[2] for line in result.skipped) == [
        "a link that leads nowhere (No such file or directory)",
        "not a regular file",
    ]
    expected = {}
    for path in root.rglob("*"):
        if path.name not in ("dead", "pipe"):
            status = path.stat()
            data = path.read_bytes() if path.is_file() else None
            expected[str(path.relative_to(root))] = (data, status.st_mode & 0o7777, status.st_mtime_ns // 10**9)
    assert _listed(tmp_path / f"x.{ending}", root) == expected
    convert(root, tmp_path / "x.barecat")
    assert convert(tmp_path / "x.barecat", tmp_path / f"y.{ending}").files == 8
    assert _listed(tmp_path / f"y.{ending}", root) == expected
    convert(tmp_path / f"x.{ending}", tmp_path / f"z.{ending}")
    assert _listed(tmp_path / f"z.{ending}", root) == expected
    if ending == "tar":
        assert (tmp_path / "x.tar").stat().st_size == (tmp_path / "y.tar").stat().st_size
        assert (tmp_path / "z.tar").read_bytes() == (tmp_path / "x.tar").read_bytes()


def test_tar_itself_reads_it(tmp_path: Path) -> None:
    root = _odd_folder(tmp_path / "in")
    convert(root, tmp_path / "x.tar")
    (tmp_path / "out").mkdir()
    subprocess.run(["tar", "xpf", tmp_path / "x.tar", "-C", tmp_path / "out"], check=True)
    assert {path.name for path in (tmp_path / "out").iterdir()} == set(os.listdir(root)) - {"dead", "pipe"}
    for path in root.rglob("*"):
        if path.is_file():
            copy = tmp_path / "out" / path.relative_to(root)
            assert copy.read_bytes() == path.read_bytes()
            assert copy.stat().st_mtime_ns == path.stat().st_mtime_ns // 10**9 * 10**9


def test_a_tar_is_as_small_as_that_of_tar(tmp_path: Path) -> None:
    for i in range(300):
        (tmp_path / "in" / f"{i % 3}").mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / f"{i % 3}" / f"{i}").write_bytes(bytes(i))
    convert(tmp_path / "in", tmp_path / "x.tar")
    subprocess.run(["tar", "cf", tmp_path / "y.tar", "-C", tmp_path / "in", "."], check=True)
    assert (tmp_path / "x.tar").stat().st_size == (tmp_path / "y.tar").stat().st_size
    convert(tmp_path / "in", tmp_path / "exact.tar", exact_times=True)
    assert (tmp_path / "exact.tar").stat().st_size > 1.5 * (tmp_path / "x.tar").stat().st_size


@pytest.mark.parametrize("source", ["in", "x.barecat", "x.zip"])
def test_exact_times(tmp_path: Path, source: str) -> None:
    root = tmp_path / "in"
    root.mkdir()
    (root / "a").write_bytes(b"a")
    os.utime(root / "a", ns=(0, 1_600_000_000_250_000_000))
    if source != "in":
        convert(root, tmp_path / source)
    for is_exact, fraction in ((False, 0), (True, 0 if source == "x.zip" else 0.25)):
        convert(tmp_path / source, tmp_path / "x.tar", exact_times=is_exact, force=True)
        with tarfile.open(tmp_path / "x.tar") as tar:
            assert tar.getmember("a").mtime == 1_600_000_000 + fraction
    for target in ("y.zip", "y.barecat", "out", "y.ffr"):
        with pytest.raises(ValueError, match="--exact-times is for what is written to a tar"):
            convert(tmp_path / source, tmp_path / target, exact_times=True)


def test_files_that_change_or_go_while_they_are_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "in"
    root.mkdir()
    for name in ("a", "b", "c"):
        (root / name).write_bytes(name.encode() * 1000)
    read = tar_parts.tar_files

    def read_later(*args: Any) -> tuple[bytes, int, int]:
        (root / "a").write_bytes(b"short")
        (root / "b").unlink(missing_ok=True)
        return read(*args)

    monkeypatch.setattr(tar_parts, "tar_files", read_later)
    result = convert(root, tmp_path / "x.tar")
    assert (result.files, result.size_bytes) == (2, 1005)
    assert result.skipped == [f"{root}/b: No such file or directory"]
    with tarfile.open(tmp_path / "x.tar") as tar:
        assert {info.name: info.size for info in tar} == {"a": 5, "c": 1000}


def test_a_file_that_cannot_be_read_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "in"
    root.mkdir()
    (root / "a").write_bytes(b"a")
    monkeypatch.setattr(tar_parts, "tar_files", lambda *args: (b"", 0, 0))

    def refuse(path: str, **options: object) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(tar_parts, "open_stream", refuse)
    with pytest.raises(PermissionError, match="in/a"):
        convert(root, tmp_path / "x.tar")
    assert os.listdir(tmp_path) == ["in"]


def test_names_that_no_archive_can_have(tmp_path: Path) -> None:
    root = tmp_path / "in"
    root.mkdir()
    (root / "bad\udcff").write_bytes(b"a")
    with pytest.raises(ValueError, match="not valid UTF-8"):
        convert(root, tmp_path / "x.tar")
    assert os.listdir(tmp_path) == ["in"]


@pytest.mark.parametrize("before", [0, 1])
@pytest.mark.parametrize("size", [-512, -1024, -(1 << 80), 1 << 80])
@pytest.mark.parametrize("ending", ["tar", "zip", "barecat"])
def test_sizes_that_cannot_be(tmp_path: Path, before: int, size: int, ending: str) -> None:
    """A size below zero would lead back to the same header, again and again."""
    header = bytearray(tarfile.TarInfo("a.txt").tobuf())
    header[124:136] = size.to_bytes(12, "big", signed=True)
    header[124] = 0xFF if size < 0 else 0x80
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    plain = tarfile.TarInfo("first.txt").tobuf() * before
    (tmp_path / "x.tar").write_bytes(plain + bytes(header) + bytes(1024))
    with pytest.raises(FormatError, match="a size or an owner that cannot be"):
        convert(tmp_path / "x.tar", tmp_path / f"y.{ending}", progress=False)
    assert not (tmp_path / f"y.{ending}").exists()
