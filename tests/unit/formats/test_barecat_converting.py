"""Folders, tar and zip to archives and back; what is hostile is refused."""

from __future__ import annotations

import io
import os
import stat
import tarfile
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

from headrace.errors import CorruptFileError, FormatError, MissingExtraError
from headrace.formats.barecat import Archive, Metadata
from headrace.formats.barecat.pack import count_ahead, find_below, pack_files
from headrace.transfer.convert import convert
from headrace.transfer.extract import extract_files
from headrace.transfer.merge import merge_archives

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "in"
    (root / "a" / "deep").mkdir(parents=True)
    (root / "void").mkdir()
    (root / "a" / "1.txt").write_text("one")
    (root / "a" / "deep" / "new\nline").write_bytes(bytes(100_000))
    (root / "empty").write_bytes(b"")
    (root / "a" / "1.txt").chmod(0o640)
    for path in (root / "a" / "1.txt", root / "void"):
        os.utime(path, ns=(10**18, 10**18))
    return root


def tree(root: Path) -> dict[str, bytes | None]:
    return {str(p.relative_to(root)): p.read_bytes() if p.is_file() else None for p in root.rglob("*")}


@pytest.mark.parametrize("ending", ["barecat", "tar", "tar.gz", "tgz", "tar.bz2", "tar.xz", "zip", "out"])
def test_there_and_back(folder: Path, tmp_path: Path, ending: str) -> None:
    middle = tmp_path / ("out" if ending == "out" else f"x.{ending}")
    first = convert(folder, middle)
    assert (first.files, first.dirs, first.skipped) == (3, 3, [])
    convert(middle, tmp_path / "y.barecat", shard_size=100_001)
    assert Archive(tmp_path / "y.barecat").verify().ok
    convert(tmp_path / "y.barecat", tmp_path / "back")
    assert tree(tmp_path / "back") == tree(folder)
    status = (tmp_path / "back" / "a" / "1.txt").stat()
    assert stat.S_IMODE(status.st_mode) == 0o640
    assert status.st_mtime_ns == 10**18
    assert (tmp_path / "back" / "void").stat().st_mtime_ns == 10**18


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


def make_tar(path: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    how: Any = f"w:{path.suffix[1:]}" if path.suffix in (".gz", ".xz") else "w"
    with tarfile.open(path, how) as tar:
        for info, data in members:
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


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


@pytest.mark.parametrize("name", ["../out", "a/../../out", "/abs"])
def test_names_that_lead_out_are_refused(tmp_path: Path, name: str) -> None:
    make_tar(tmp_path / "x.tar", [(member(name), b"evil")])
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr(name, b"evil")
    for source in ("x.tar", "x.zip"):
        for target in ("t.barecat", "t"):
            with pytest.raises(ValueError, match=r"leads out|absolute"):
                convert(tmp_path / source, tmp_path / target)
    assert not (tmp_path / "t.barecat").exists()
    assert not (tmp_path.parent / "out").exists()


def test_extracting_never_leaves_the_folder(tmp_path: Path) -> None:
    """An archive of another tool may hold any name; and a link in the folder may lead anywhere."""
    with Archive(tmp_path / "x.barecat", "x") as archive:
        archive["ok"] = b"1"
        archive["evil"] = b"2"
        archive.mkdir("up")
        archive.editor.execute("PRAGMA defer_foreign_keys = 1")
        archive.editor.execute("UPDATE files SET path = '../evil' WHERE path = 'evil'")
        archive.editor.execute("UPDATE dirs SET path = '..' WHERE path = 'up'")
    with pytest.raises(ValueError, match="leads out"):
        extract_files(Archive(tmp_path / "x.barecat"), tmp_path / "sub" / "out")
    assert not (tmp_path / "sub" / "evil").exists()
    with Archive(tmp_path / "y.barecat", "x") as archive:
        archive["d/f"] = b"1"
    (tmp_path / "out2").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out2" / "d").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="link that leads out"):
        extract_files(Archive(tmp_path / "y.barecat"), tmp_path / "out2")
    assert list((tmp_path / "elsewhere").iterdir()) == []


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


@pytest.mark.parametrize("ending", ["tar", "tar.gz", "zip"])
def test_broken_input(tmp_path: Path, ending: str) -> None:
    (tmp_path / f"x.{ending}").write_bytes(b"not what it says" * 100)
    with pytest.raises(FormatError, match="cannot be read"):
        convert(tmp_path / f"x.{ending}", tmp_path / "x.barecat")
    assert not list(tmp_path.glob("x.barecat*"))


def test_packing_from_the_disk(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (folder / "broken").symlink_to("nowhere")
    (folder / "loop").symlink_to(folder)
    os.mkfifo(folder / "pipe")
    bytes_of = []
    for workers in (1, 4):
        with Archive(tmp_path / f"{workers}.barecat", "x") as archive:
            result = pack_files(archive, ["in"], exclude=["deep"], workers=workers)
        assert sorted(line.partition(":")[0] for line in result.skipped) == ["in/broken", "in/loop", "in/pipe"]
        bytes_of.append((tmp_path / f"{workers}.barecat-shard-00000").read_bytes())
    assert bytes_of[0] == bytes_of[1]
    archive = Archive(tmp_path / "1.barecat")
    assert sorted(archive) == ["in/a/1.txt", "in/empty"]
    assert archive.stat("in/a/1.txt").metadata == Metadata.of((folder / "a" / "1.txt").stat())
    assert archive.stat("in/void").mtime_ns == 10**18
    with Archive(tmp_path / "1.barecat", "r+") as writer:
        with pytest.raises(FileExistsError):
            pack_files(writer, ["in"])
        assert pack_files(writer, ["in"], replace=True).files == 3
    os.close(os.open(os.fsencode(folder) + b"/\xff", os.O_CREAT))
    with Archive(tmp_path / "bad.barecat", "x") as writer, pytest.raises(ValueError, match="UTF-8"):
        pack_files(writer, ["in"])


@pytest.mark.parametrize("target", ["out", "y.barecat", "x.tar", "x.zip"])
def test_large_files_go_piece_by_piece_and_are_checked(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    for module in ("containers", "extract"):
        monkeypatch.setattr(f"headrace.transfer.{module}.LARGE_BYTES", 1000)
    convert(folder, tmp_path / "x.barecat")
    convert(tmp_path / "x.barecat", tmp_path / target)
    convert(tmp_path / target, tmp_path / "back")
    assert tree(tmp_path / "back") == tree(folder)
    extract_files(Archive(tmp_path / "x.barecat"), tmp_path / "extracted")
    assert tree(tmp_path / "extracted") == tree(folder)
    place = Archive(tmp_path / "x.barecat").stat("a/deep/new\nline")
    with open(tmp_path / "x.barecat-shard-00000", "r+b") as shard:
        shard.seek(place.offset + 50_000)  # type: ignore[union-attr]
        shard.write(b"!")
    with pytest.raises(CorruptFileError, match="checksum"):
        convert(tmp_path / "x.barecat", tmp_path / f"bad{target}")
    with pytest.raises(CorruptFileError, match="checksum"):
        extract_files(Archive(tmp_path / "x.barecat"), tmp_path / "bad")
    assert not (tmp_path / "bad" / "a" / "deep" / "new\nline").exists()
    assert target == "out" or not (tmp_path / f"bad{target}").exists()


def test_large_entries_must_have_the_size_that_was_announced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.transfer.containers.LARGE_BYTES", 1000)
    make_tar(tmp_path / "x.tar", [(member("a"), bytes(5000))])
    data = (tmp_path / "x.tar").read_bytes()
    (tmp_path / "x.tar").write_bytes(data[: 512 + 2000])
    with pytest.raises(FormatError, match="cannot be read"):
        convert(tmp_path / "x.tar", tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_progress_knows_what_remains(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    calls: list[tuple[int, int | None, int]] = []

    def note(done: int, total: int | None, size_bytes: int) -> None:
        calls.append((done, total, size_bytes))

    for source, target in (("in", "x.barecat"), ("x.barecat", "x.zip"), ("x.zip", "x.tar"), ("x.tar", "y.barecat")):
        calls.clear()
        convert(source, target, progress=note)
        assert [done for done, _, _ in calls if done] == sorted(done for done, _, _ in calls if done)
        assert calls[-1][0] == 3
        assert calls[-1][2] == 100_003
        assert calls[-1][1] in ((3, None) if source == "in" else (None,) if source == "x.tar" else (3,))
    with count_ahead(note, lambda: find_below("in")) as report:
        assert report is not None
        while calls[-1][1] != 3:  # the thread counts as fast as it can
            report(0, None, 0)
    with Archive("m.barecat", "x") as archive:
        calls.clear()
        merge_archives(["x.barecat", "y.barecat"], archive, as_subdirs=True, progress=note)
    assert {total for _, total, _ in calls} <= {6}
    for rules, wanted in (((), {6}), ([(False, "**/*.txt")], {4})):
        with Archive("m.barecat", "w") as archive:
            calls.clear()
            merge_archives(["x.barecat", "y.barecat"], archive, as_subdirs=True, rules=rules, progress=note)
        assert {total for _, total, _ in calls} == wanted
        assert calls[-1][0] == max(wanted)


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


def test_a_list_of_names_may_have_what_cannot_be_packed(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a").write_bytes(b"1")
    os.symlink("nowhere", tmp_path / "broken")
    os.symlink("d", tmp_path / "link")
    os.mkfifo(tmp_path / "pipe")
    names = ["d", "d/a", "broken", "link", "pipe"]
    with Archive(tmp_path / "x.barecat", "x") as archive:
        result = pack_files(archive, names, folder=str(tmp_path), recurse=False)
        assert list(archive) == ["d/a"]
        assert archive.listdir() == ["d"]
        assert [line.partition(": ")[2][:14] for line in result.skipped] == [
            "a link that le",
            "a link to a di",
            "not a regular ",
        ]
        with pytest.raises(FileNotFoundError):
            pack_files(archive, ["no such file"], folder=str(tmp_path))
