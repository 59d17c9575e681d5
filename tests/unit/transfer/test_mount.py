"""``headrace mount``: what FUSE asks for, and a real mount where that is possible."""

from __future__ import annotations

import errno
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from headrace.cli.main import main
from headrace.errors import FormatError
from headrace.formats.barecat import Archive, Metadata
from headrace.transfer import mount as mounting
from headrace.transfer.mount import ArchiveOperations, mount_archive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Said = Callable[..., str]


@pytest.fixture
def operations(tmp_path: Path) -> Iterator[ArchiveOperations]:
    with Archive(tmp_path / "x.barecat", "x") as archive:
        archive.add("d/a", b"0123456789", metadata=Metadata(0o104640, 7, 8, 10**18))
        archive.add("plain", b"")
        archive.add("bad", b"xxxx")
        archive.editor.execute("UPDATE files SET crc32c = 1 WHERE path = 'bad'")
    with Archive(tmp_path / "x.barecat") as archive:
        yield ArchiveOperations(archive)


def test_operations(operations: ArchiveOperations) -> None:
    about = operations.getattr("/d/a")
    assert about["st_mode"] == stat.S_IFREG | 0o640, "no set-user-id"
    assert (about["st_uid"], about["st_gid"], about["st_mtime"], about["st_size"]) == (7, 8, 10**18, 10)
    assert stat.S_ISDIR(operations.getattr("/")["st_mode"])
    assert operations.getattr("/plain")["st_mode"] == stat.S_IFREG | 0o644
    assert sorted(operations.readdir("/", 0)) == [".", "..", "bad", "d", "plain"]
    handle = operations.open("/d/a", os.O_RDONLY)
    assert operations.read("/d/a", 4, 3, handle) == b"3456"
    assert operations.read("/d/a", 4, 9, handle) == b"9"
    assert operations.release("/d/a", handle) == 0
    assert operations.read("/d/a", 4, 3, handle) == b"3456", "large files are read without a copy"
    assert operations.statfs("/")["f_files"] == 3


@pytest.mark.parametrize(
    ("ask", "number"),
    [
        (lambda o: o.getattr("/nope"), errno.ENOENT),
        (lambda o: o.getattr("/\udcff"), errno.ENOENT),
        (lambda o: list(o.readdir("/nope", 0)), errno.ENOENT),
        (lambda o: list(o.readdir("/plain", 0)), errno.ENOTDIR),
        (lambda o: o.open("/d", os.O_RDONLY), errno.EISDIR),
        (lambda o: o.open("/nope", os.O_RDONLY), errno.ENOENT),
        (lambda o: o.open("/d/a", os.O_RDWR), errno.EROFS),
        (lambda o: o.open("/bad", os.O_RDONLY), errno.EIO),
        (lambda o: o.read("/nope", 1, 0, 99), errno.EIO),
    ],
)
def test_errors_are_numbers(
    operations: ArchiveOperations, ask: Callable[[ArchiveOperations], object], number: int
) -> None:
    with pytest.raises(OSError) as caught:  # noqa: PT011  # the number is looked at
        ask(operations)
    assert caught.value.errno == number


def _listed(operations: ArchiveOperations, directory: str) -> set[str] | None:
    try:
        return set(operations.readdir(directory, 0))
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return None


@pytest.mark.parametrize("odd", ["..", ".", "d/..", "d//b", "d/.", "x" * 256, "ü" * 128, "nul\0name"])
def test_names_that_no_directory_can_hold_are_not_listed(tmp_path: Path, odd: str) -> None:
    """The kernel refuses a whole list for one of them."""
    with Archive(tmp_path / "x.barecat", "x") as archive:
        archive["odd"] = archive["d/ok"] = archive["x" * 255] = b""
    index = sqlite3.connect(tmp_path / "x.barecat")
    index.execute("UPDATE files SET path = ? WHERE path = 'odd'", (odd,))
    index.commit()
    index.close()
    with Archive(tmp_path / "x.barecat") as archive:
        operations = ArchiveOperations(archive)
        for directory, usual in (("/", {".", "..", "d", "x" * 255}), ("/d", {".", "..", "ok"})):
            assert _listed(operations, directory) in (usual, None)  # names that lead out are errors of the index
        if len(odd) > 100:
            assert "d" in (_listed(operations, "/") or ())
        with pytest.raises(OSError, match="nul"):
            operations.getattr("/nul\0")


def test_an_index_that_is_damaged_gives_errors_that_programs_know(
    operations: ArchiveOperations, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object) -> None:
        raise FormatError("x.barecat", problem="it is damaged")

    for name in ("stat", "listdir"):
        monkeypatch.setattr(Archive, name, fail)
    monkeypatch.setattr(Archive, "total_size", property(fail))
    calls: list[Callable[[], object]] = [
        lambda: operations.getattr("/d"),
        lambda: list(operations.readdir("/", 0)),
        lambda: operations.open("/d/a", os.O_RDONLY),
        lambda: operations.statfs("/"),
    ]
    for call in calls:
        with pytest.raises(OSError, match="it is damaged") as caught:
            call()
        assert caught.value.errno == errno.EIO


def test_large_files_are_checked_once(
    operations: ArchiveOperations, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mounting, "_IN_MEMORY_BYTES", 3)
    monkeypatch.setattr(mounting, "_PIECE_BYTES", 4)
    with pytest.raises(OSError, match="checksum") as caught:
        operations.open("/bad", os.O_RDONLY)
    assert caught.value.errno == errno.EIO
    handle = operations.open("/d/a", os.O_RDONLY)
    assert operations.read("/d/a", 4, 3, handle) == b"3456"
    monkeypatch.delattr(mounting, "CheckedFile")  # it is not needed again
    assert operations.read("/d/a", 9, 8, operations.open("/d/a", os.O_RDONLY)) == b"89"
    with pytest.raises(NameError):
        operations.open("/bad", os.O_RDONLY)


def test_a_shard_that_becomes_shorter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounting, "_IN_MEMORY_BYTES", 3)
    with Archive(tmp_path / "x.barecat", "x") as archive:
        archive["a"] = bytes(range(256)) * 256
    with Archive(tmp_path / "x.barecat") as archive:
        operations = ArchiveOperations(archive)
        handle = operations.open("/a", os.O_RDONLY)
        os.truncate(tmp_path / "x.barecat-shard-00000", 10)
        with pytest.raises(OSError, match="became shorter") as caught:
            operations.read("/a", 100, 60_000, handle)
        assert caught.value.errno == errno.EIO


def test_where_to(photos: Path, said: Said) -> None:
    assert "mkdir -p" in said("mount", "photos.barecat", "nowhere", code=2)
    assert "not empty" in said("mount", "photos.barecat", "photos", code=2)
    (photos / "mnt").mkdir()
    if not os.path.exists("/dev/fuse"):
        with pytest.raises(OSError, match="/dev/fuse is missing"):
            mount_archive("photos.barecat", "mnt")


def can_mount() -> bool:
    try:
        import mfusepy  # noqa: F401
    except (ImportError, OSError, AttributeError):
        return False
    return os.access("/dev/fuse", os.R_OK | os.W_OK)


@contextmanager
def mounted(path: Path) -> Iterator[subprocess.Popen[str]]:
    (path / "mnt").mkdir()
    command = [sys.executable, "-m", "headrace", "mount", "photos.barecat", "mnt"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            end = time.monotonic() + 30
            while not os.path.ismount(path / "mnt"):
                if process.poll() is not None:
                    assert process.stderr is not None
                    pytest.skip(f"this machine does not let us mount: {process.stderr.read()}")
                assert time.monotonic() < end
                time.sleep(0.05)
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)


@pytest.mark.skipif(not can_mount(), reason="there is no FUSE here")
def test_a_real_mount(photos: Path) -> None:
    with mounted(photos) as process:
        found = {p.relative_to(photos / "mnt"): p.read_bytes() for p in (photos / "mnt").rglob("*") if p.is_file()}
        expected = {p.relative_to(photos / "photos"): p.read_bytes() for p in (photos / "photos").rglob("*.*")}
        assert found == expected
        assert (photos / "mnt" / "void").is_dir()
        with pytest.raises(OSError, match="Read-only"):
            (photos / "mnt" / "new").write_text("x")
        assert not (photos / "mnt" / "nope").exists()
        when = (photos / "photos" / "notes.txt").stat().st_mtime_ns
        assert (photos / "mnt" / "notes.txt").stat().st_mtime_ns == when
    assert process.returncode == 0, "Ctrl-C is the way to end it"
    assert not os.path.ismount(photos / "mnt")


class FakeFuse:
    """What libfuse does, without a kernel: ``answer`` is what mounting comes to."""

    def __init__(self, answer: str) -> None:
        self.answer = answer

    def FUSE(self, operations: ArchiveOperations, place: str, *, foreground: bool, **options: object) -> None:
        assert foreground, "a process of our own serves in the background"
        if self.answer == "refused":
            raise RuntimeError(1)
        if self.answer == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        operations.init("/")
        if self.answer == "fails later":
            raise RuntimeError(7)


@pytest.mark.parametrize("options", [[], ["--background"]])
def test_success_is_announced_when_the_kernel_has_accepted_it(
    photos: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], options: list[str]
) -> None:
    (photos / "mnt").mkdir()
    words = ["mount", "photos.barecat", "mnt", *options]
    monkeypatch.setattr(mounting, "_load", lambda: FakeFuse("accepted"))
    assert main(words) == 0
    assert capfd.readouterr().err.startswith("photos.barecat is on mnt; end it with ")
    assert main([*words, "--quiet"]) == 0
    assert capfd.readouterr().err == ""
    monkeypatch.setattr(mounting, "_load", lambda: FakeFuse("refused"))
    assert main(words) == 2
    said = capfd.readouterr().err
    assert "could not be mounted (FUSE gave 1)" in said
    assert "is on" not in said


def test_a_process_in_the_background_that_ends(
    photos: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (photos / "mnt").mkdir()
    monkeypatch.setattr(mounting, "_load", lambda: FakeFuse("killed"))
    with pytest.raises(OSError, match="has ended"):
        mount_archive("photos.barecat", "mnt", background=True)
    monkeypatch.setattr(mounting, "_load", lambda: FakeFuse("fails later"))
    mount_archive("photos.barecat", "mnt", background=True)
    (photos / "photos.barecat").write_bytes(b"damaged")
    with pytest.raises(FormatError):
        mount_archive("photos.barecat", "mnt", background=True)


@pytest.mark.skipif(not can_mount() or os.geteuid() != 0, reason="there is no FUSE here, or root is needed to unmount")
def test_a_real_mount_in_the_background(photos: Path) -> None:
    (photos / "mnt").mkdir()
    command = [sys.executable, "-m", "headrace", "mount", "photos.barecat", "mnt", "-b"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    if run.returncode:
        pytest.skip(f"this machine does not let us mount: {run.stderr}")
    try:
        assert os.path.ismount(photos / "mnt"), "it is there as soon as the command ends"
        assert (photos / "mnt" / "notes.txt").read_text() == "hello\n"
    finally:
        subprocess.run(["umount", "mnt"], check=True)
