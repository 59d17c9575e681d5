"""Changes that fail in the middle: the archive holds old or new afterwards, whole, and says that it failed."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import sqlite3
import sys
from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace.cli.main import main
from headrace.errors import ArchiveBusyError, FormatError, HeadraceError, UnfinishedError, WriteError
from headrace.formats.barecat import Archive
from headrace.formats.barecat.archive import new_archive
from headrace.formats.barecat.edit import shard_writer
from headrace.formats.barecat.edit.maintenance import defragment, reshard
from headrace.formats.barecat.edit.transactions import WriteOptions
from headrace.formats.barecat.index.connections import WriteConnection
from headrace.formats.metadata import Metadata

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FILES = {f"d{i % 5}/{i:03d}": f"content {i} ".encode() * (i % 60 + 1) for i in range(300)}
KIB = 1 << 10


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """An archive with gaps, in several shards."""
    with Archive(tmp_path / "x.barecat", "x", shard_size=40_000) as archive:
        archive.update(FILES)
        archive.update({f"gap/{i}": bytes(600) for i in range(10)})
    with Archive(tmp_path / "x.barecat", "r+") as archive:
        archive.rmtree("gap")
        for name in list(FILES)[:60:2]:
            del archive[name]
    return tmp_path / "x.barecat"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder whose files are in the archive, too, and some that are not."""
    folder = tmp_path / "in"
    for i in range(0, 300, 3):
        for name in (f"d{i % 5}/{i:03d}", f"new/{i:03d}"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(b"replaced" * (i % 40))
    return folder


VERBS = {
    "add": ["add", "X", "new", "-C", "IN", "-q"],
    "replace": ["add", "X", "d0", "d1", "new", "-C", "IN", "--replace", "-q"],
    "rm": ["rm", "-r", "X", "d1", "d2"],
    "mv": ["mv", "X", "d1", "moved" * 20],
    "defrag": ["defrag", "X", "-q"],
    "quick": ["defrag", "X", "--quick", "-q"],
    "reshard": ["reshard", "X", "-s", "25000", "-q"],
    "sync": ["sync", "IN/", "X", "--delete"],
    "merge": ["merge", "IN", "-o", "X", "-a", "-q", "--prefix", "m"],
}


def run_limited(words: list[str], limit: int) -> int:
    """Run a verb in a process whose files cannot grow beyond a limit: the exit code."""
    child = os.fork()
    if child == 0:
        sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115  # what catches them is a file, too
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        code = 99
        with contextlib.suppress(BaseException):  # a traceback: 99
            code = main(words)
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("verb", VERBS)
def test_files_that_cannot_grow(path: Path, source: Path, verb: str) -> None:
    old = dict(Archive(path).items())
    kept = {file: file.read_bytes() for file in path.parent.glob("x.barecat*")}
    words = [str(path) if word == "X" else word.replace("IN", str(source)) for word in VERBS[verb]]
    codes = set()
    states: list[dict[str, bytes]] = []
    for limit in (1, 14 * KIB, 50 * KIB, 1 << 40):
        for file in path.parent.glob("*x.barecat*"):
            file.unlink()
        for file, content in kept.items():
            file.write_bytes(content)
        code = run_limited(words, limit)
        codes.add(code)
        with contextlib.suppress(UnfinishedError), Archive(path):
            assert not [name for name in os.listdir(path.parent) if name.endswith(("-undo", "-journal"))]
        hr.repair(path)  # where SQLite could not write to the index at all, it could not roll back either
        with Archive(path) as archive:
            assert archive.verify().ok, limit
            states.append(dict(archive.items()))
        assert code == 0 or states[-1] == old, limit
    assert codes == {0, 2}
    assert states[-1] != old or verb in ("defrag", "quick", "reshard")


def fail_at(monkeypatch: pytest.MonkeyPatch, error: BaseException, when: int) -> None:
    """Let a write to a shard fail half way."""
    real, left = shard_writer.write_all, [when]

    def write_all(fd: int, buffers: list[bytes], position: int) -> None:
        left[0] -= 1
        if left[0] == 0:
            real(fd, [b"".join(buffers)[:2]], position)
            raise error
        real(fd, buffers, position)

    monkeypatch.setattr(shard_writer, "write_all", write_all)


@pytest.mark.parametrize(
    "error",
    [OSError(errno.EIO, "Input/output error"), OSError(errno.EDQUOT, "quota"), KeyboardInterrupt(), MemoryError()],
)
def test_everything_goes_back_at_once(path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    old = dict(Archive(path).items())
    names = list(old)
    archive = Archive(path, "r+")
    fail_at(monkeypatch, error, 3)
    archive.update_file(names[0], b"1")
    archive.update_file(names[1], b"2")
    shown = OSError if isinstance(error, MemoryError) else type(error)
    with pytest.raises(shown):
        archive.update_file(names[2], b"3")
    assert dict(Archive(path).items()) == old  # before it is closed
    for call in (archive.commit, lambda: archive[names[3]], lambda: archive.remove(names[3])):
        with pytest.raises((OSError, WriteError), match="what was not committed is lost"):
            call()
    archive.close()
    assert Archive(path).verify().ok
    assert not os.path.exists(f"{path}-undo")


def test_a_stream_that_breaks_off_costs_only_itself(path: Path) -> None:
    class Broken:
        def read(self, size: int) -> bytes:
            raise OSError(errno.EIO, "the source cannot be read")

    with Archive(path, "r+") as archive:
        archive["before"] = b"1"
        with pytest.raises(OSError, match="the source cannot be read"):
            archive.add("broken", Broken(), size=10_000)  # type: ignore[arg-type]
        archive["after"] = b"2"
    with Archive(path) as archive:
        assert (archive["before"], archive["after"], "broken" in archive) == (b"1", b"2", False)


def commit_and(monkeypatch: pytest.MonkeyPatch, error: Exception, *, is_done: bool) -> None:
    """Let a commit fail, before or after it has happened."""
    real = WriteConnection.execute

    def execute(self: WriteConnection, statement: str, values: Any = (), /) -> sqlite3.Cursor:
        if statement != "COMMIT":
            return real(self, statement, values)
        if is_done:
            real(self, statement, values)
        raise error

    monkeypatch.setattr(WriteConnection, "execute", execute)


@pytest.mark.parametrize("is_done", [True, False])
def test_a_commit_that_fails_is_asked_whether_it_happened(
    path: Path, monkeypatch: pytest.MonkeyPatch, is_done: bool
) -> None:
    old = dict(Archive(path).items())
    name = list(old)[5]
    archive = Archive(path, "r+")
    archive.update_file(name, b"new")
    archive["more"] = b"appended" * 100
    with monkeypatch.context() as patch:
        commit_and(patch, OSError(errno.EIO, "Input/output error"), is_done=is_done)
        with pytest.raises(OSError, match="Input/output"):
            archive.commit()
    archive.close()
    with Archive(path) as again:
        assert again.verify().ok
        assert dict(again.items()) == ({**old, name: b"new", "more": b"appended" * 100} if is_done else old)


def test_where_nothing_can_be_put_back_repair_does_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = dict(Archive(path).items())
    names = list(old)

    def write_back(*args: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        archive = Archive(path, "r+")
        fail_at(patch, OSError(errno.ENOSPC, "No space left on device"), 2)
        patch.setattr(shard_writer.ShardWriter, "write_back", write_back)
        archive.update_file(names[0], b"1")
        with pytest.raises(UnfinishedError, match=r"No space left.*could not be put back.*headrace repair"):
            archive.update_file(names[1], b"2")
        archive.close()
    with pytest.raises(UnfinishedError):
        Archive(path)
    hr.repair(path)
    assert dict(Archive(path).items()) == old


def test_an_error_that_was_caught_does_not_make_an_archive(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = dict(Archive(path).items())
    fail_at(monkeypatch, OSError(errno.ENOSPC, "No space left on device"), 1)

    def add_all(archive: Archive) -> None:
        for i in range(3):
            with contextlib.suppress(OSError):
                archive[f"large/{i}"] = bytes(2 << 20)

    with pytest.raises(OSError, match="No space left"), new_archive(path) as archive:
        add_all(archive)
    monkeypatch.undo()
    assert dict(Archive(path).items()) == old


def test_a_journal_that_somebody_deletes(path: Path) -> None:
    old = dict(Archive(path).items())
    archive = Archive(path, "r+")
    name = next(iter(old))
    archive.update_file(name, b"new")
    archive.rmtree("d3")
    os.unlink(f"{path}-journal")
    with pytest.raises(OSError, match="SQLite says"):
        archive.commit()
    archive.close()
    new = {other: data for other, data in old.items() if not other.startswith("d3/")} | {name: b"new"}
    assert dict(Archive(path).items()) in (old, new)  # SQLite fails after it has written everything
    assert Archive(path).verify().ok


def test_an_archive_that_somebody_replaces(path: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with Archive(tmp_path / "other" / "x.barecat", "x") as other:
        other["other"] = b"1" * 50_000
    archive = Archive(path, "r+")
    archive.update_file(next(iter(archive)), b"new")
    for file in (tmp_path / "other").iterdir():
        os.replace(file, tmp_path / file.name)
    with pytest.raises(ArchiveBusyError, match="another archive has taken this name"):
        archive.commit()
    archive.close()
    assert dict(Archive(path).items()) == {"other": b"1" * 50_000}


def shared(path: Path) -> dict[str, bytes]:
    """Let files share bytes: one whole, one inside another that begins far before it."""
    names = sorted(Archive(path).files(), key=lambda info: (info.shard, info.offset))
    first, *rest = [info for info in names if info.shard == 0 and info.size]
    with contextlib.closing(sqlite3.connect(path)) as index, index:
        index.execute("UPDATE config SET value_int = 0 WHERE key = 'use_triggers'")
        question = "UPDATE files SET shard = ?, offset = ?, size = ?, crc32c = NULL WHERE path = ?"
        index.execute(question, (0, first.offset, rest[20].end - first.offset, rest[30].path))
        index.execute(question, (rest[5].shard, rest[5].offset, rest[5].size, rest[31].path))
        index.execute("UPDATE config SET value_int = 1 WHERE key = 'use_triggers'")
    return dict(Archive(path).items())


@pytest.mark.parametrize(
    "work",
    [
        defragment,
        lambda archive: defragment(archive, "smart"),
        lambda archive: defragment(archive, "quick"),
        lambda archive: reshard(archive, 35_000),
        lambda archive: reshard(archive, 9_000),
    ],
)
def test_files_that_share_bytes_are_moved(path: Path, work: Callable[[Archive], object]) -> None:
    contents = shared(path)
    with Archive(path, "r+") as archive:
        if work is not defragment:
            limit = max(map(len, contents.values()))
            archive.editor.set_limit(max(archive.editor.limit, limit))
        with contextlib.suppress(ValueError):  # a file does not fit: then nothing happens
            work(archive)
    assert dict(Archive(path).items()) == contents


def test_files_that_share_bytes_are_not_overwritten(path: Path) -> None:
    contents = shared(path)
    with Archive(path, "r+") as archive:
        for name in list(contents)[::3]:
            contents[name] = b"new"
            archive.update_file(name, b"new")
        archive["large"] = contents["large"] = bytes(30_000)
        archive.update_file("large", b"small")
        contents["large"] = b"small"
    assert dict(Archive(path).items()) == contents


def test_a_limit_that_shards_do_not_keep_to_moves_nothing_up(path: Path) -> None:
    contents = dict(Archive(path).items())
    with contextlib.closing(sqlite3.connect(path)) as index, index:
        index.execute("UPDATE config SET value_int = 100 WHERE key = 'shard_size_limit'")
    with Archive(path, "r+") as archive:
        defragment(archive)
    assert dict(Archive(path).items()) == contents


def test_files_outside_of_their_shards_are_not_moved(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as index, index:
        index.execute("UPDATE files SET offset = 1000000 WHERE path = (SELECT max(path) FROM files)")
    before = {file.name: file.read_bytes() for file in path.parent.glob("*-shard-*")}
    with Archive(path, "r+") as archive, pytest.raises(FormatError, match="headrace verify"):
        defragment(archive)
    assert {file.name: file.read_bytes() for file in path.parent.glob("*-shard-*")} == before


@pytest.mark.parametrize(
    "spoiled",
    [
        "DELETE FROM dirs WHERE path = 'd1'",
        "INSERT INTO dirs (path) VALUES ('d1/009')",
        "UPDATE dirs SET size_tree = 9223372036854775807",
        "UPDATE files SET size = 9223372036854775807 WHERE path = 'd1/001'",
        "UPDATE files SET offset = -5 WHERE path = 'd1/001'",
        "UPDATE files SET shard = 'text' WHERE path = 'd1/001'",
        "UPDATE files SET mode = 'text', mtime_ns = 1e300 WHERE path = 'd1/001'",
        "UPDATE dirs SET path = 'other' WHERE path = 'd1'",
    ],
)
def test_odd_rows_give_our_errors(path: Path, spoiled: str) -> None:
    with contextlib.closing(sqlite3.connect(path)) as index, index:
        index.execute("UPDATE config SET value_int = 0 WHERE key = 'use_triggers'")
        index.execute(spoiled)
        index.execute("UPDATE config SET value_int = 1 WHERE key = 'use_triggers'")
    works: list[Callable[[Archive], object]] = [
        lambda archive: archive.update_file("d1/001", b"x"),
        lambda archive: archive.remove("d1/001"),
        lambda archive: archive.rename("d1", "d9/e"),
        lambda archive: archive.rename("d1/001", "d2/moved"),
        lambda archive: archive.rmtree("d1"),
        lambda archive: archive.rmdir("d1"),
        lambda archive: archive.mkdir("d1/new", exist_ok=True),
        lambda archive: archive.add("d1/009/more", b"x"),
        lambda archive: archive.add("d1/more", b"x"),
        lambda archive: archive.set_metadata("d1/001", Metadata(mode=1)),
        defragment,
        lambda archive: reshard(archive, 50_000),
        lambda archive: archive.clear(),
    ]
    for work in works:
        with contextlib.suppress(HeadraceError, OSError, ValueError, TypeError), Archive(path, "r+") as archive:
            work(archive)


@pytest.mark.parametrize("size", [0, -1, 1 << 63, 10**30])
def test_shard_sizes_that_no_index_can_hold(path: Path, size: int) -> None:
    with pytest.raises(ValueError, match="shard_size must be"):
        Archive(path, "r+", shard_size=size)
    with pytest.raises(ValueError, match="shard_size must be"):
        WriteOptions(shard_size=size)
    with Archive(path, "r+") as archive, pytest.raises(ValueError, match="shard_size must be"):
        reshard(archive, size)
    with Archive(path, "r+") as archive, pytest.raises(ValueError, match="shard_size must be"):
        archive.editor.set_limit(size)


def modes(path: Path) -> set[int]:
    return {file.stat().st_mode & 0o777 for file in path.parent.glob("*x.barecat*") if file.stat().st_size}


@pytest.mark.parametrize("mode", [0o600, 0o640])
def test_a_private_archive_stays_private(path: Path, mode: int) -> None:
    before = os.umask(0o022)
    try:
        for file in path.parent.glob("x.barecat*"):
            file.chmod(mode)
        with Archive(path, "r+") as archive:
            archive.update({f"more/{i}": bytes(30_000) for i in range(4)})
            archive.commit()
            archive.update_file("more/1", b"in place")
            assert os.path.exists(f"{path}-undo")
            assert modes(path) == {mode}
            defragment(archive)
            reshard(archive, 30_000)
        assert modes(path) == {mode}
        with new_archive(path, shard_size=10_000) as archive:
            archive.update({f"more/{i}": bytes(9000) for i in range(4)})
            archive.commit()
            assert modes(path) == {mode}
        assert modes(path) == {mode}
    finally:
        os.umask(before)
