"""An archive is replaced by another; whenever the process is killed, the old or the new one is there, whole.

One child goes through all points: it makes the old archive anew, forks, and lets the fork kill itself before the n-th
call to the system. HEADRACE_KILLS sets how often the kill comes from outside, at a random moment.
"""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace.errors import ArchiveBusyError, FormatError, UnfinishedError
from headrace.formats.barecat import Archive
from headrace.formats.barecat.archive import new_archive
from headrace.formats.barecat.edit import handover
from headrace.formats.barecat.edit import lock as locking
from headrace.formats.barecat.edit.handover import finish_handover

if TYPE_CHECKING:
    from pathlib import Path

KILLS = int(os.environ.get("HEADRACE_KILLS", "24"))
COMMON = """
import json, os, shutil, signal, sys
from headrace.formats.barecat import Archive
from headrace.formats.barecat.edit.handover import finish_handover, made_beside
from headrace.transfer.merge import link_archives
from headrace.formats.barecat.archive import new_archive

def files(version, count):
    return {f"d/{i}": f"{version}-{i}-".encode() * 30 for i in range(count)}

def write(path, version, count):
    with new_archive(path, shard_size=1000) as archive:
        archive.update(files(version, count))
"""
EVERY_POINT = (
    COMMON
    + """
CALLS = ("open", "close", "replace", "unlink", "fsync", "link", "symlink", "ftruncate", "pwritev")
folder, work, old, new = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])

def count_down(left):
    def guarded(call):
        def stand_in(*args, **kwargs):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*args, **kwargs)
        return stand_in
    for name in CALLS:
        setattr(os, name, guarded(getattr(os, name)))

def replace(path):
    if work == "new":
        write(path, "new", new)
    elif work == "w":
        Archive(path, "w").close()
    elif work == "links":
        with made_beside(path) as beside:
            link_archives([os.path.join(folder, "source.barecat")], beside)
    else:
        finish_handover(path)  # what a first one has begun

write(os.path.join(folder, "source.barecat"), "new", new)
point = 0
while True:
    point += 1
    place = os.path.join(folder, str(point))
    path = os.path.join(place, "x.barecat")
    os.mkdir(place)
    if work == "finish":
        shutil.rmtree(place)
        shutil.copytree(os.path.join(folder, "begun"), place, symlinks=True)
    elif old:
        write(path, "old", old)
    pid = os.fork()
    if pid == 0:
        count_down([point])
        replace(path)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    print(json.dumps([path, status]), flush=True)
    if status != -signal.SIGKILL:
        break
"""
)
AGAIN_AND_AGAIN = (
    COMMON
    + """
version = 0
while True:
    version += 1
    count = 1 + version * 7 % 23
    print(json.dumps([version, count]), flush=True)
    write(sys.argv[1], version, count)
"""
)


def contents(version: object, count: int) -> dict[str, bytes]:
    return {f"d/{i}": f"{version}-{i}-".encode() * 30 for i in range(count)}


def killed_everywhere(folder: Path, work: str, old: int, new: int) -> list[Path]:
    """The archives after a kill at each point, and at last one without."""
    command = [sys.executable, "-c", EVERY_POINT, str(folder), work, str(old), str(new)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=170)
    assert done.returncode == 0, done.stderr
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert results[-1][1] == 0
    assert all(status == -signal.SIGKILL for _, status in results[:-1])
    return [folder / os.path.relpath(path, folder) for path, _ in results]


def put_in_order(path: Path) -> None:
    """Do what a killed process has left undone; a reader says that there is something, and leaves it alone."""
    try:
        Archive(path).close()
    except UnfinishedError:
        finish_handover(str(path))


def is_whole(path: Path, *possible: dict[str, bytes]) -> int:
    """Open as a reader, once everything is in order; which of the contents it has."""
    put_in_order(path)
    with Archive(path, follow_links=True) as archive:
        found = dict(archive.items())
        assert found in possible, sorted(found)
        report = archive.verify()
        assert report.ok, report.problems
    assert not os.path.exists(f"{path}-replace")
    return possible.index(found)


@pytest.mark.parametrize(("old", "new"), [(4, 14), (14, 4), (1, 0)])
def test_killed_at_every_call(tmp_path: Path, old: int, new: int) -> None:
    paths = killed_everywhere(tmp_path, "new", old, new)
    assert len(paths) > 20, "there are many calls to be killed at"
    outcomes = [is_whole(path, contents("old", old), contents("new", new)) for path in paths]
    assert outcomes == sorted(outcomes), "first the old one, from some point on the new one"
    assert set(outcomes) == {0, 1}
    for path in paths:
        with new_archive(path) as archive:  # clears away what is left
            archive["after"] = b"it goes on"
        assert sorted(os.listdir(path.parent)) == ["x.barecat", "x.barecat-shard-00000"]


def test_killed_at_every_call_where_nothing_was(tmp_path: Path) -> None:
    paths = killed_everywhere(tmp_path, "new", 0, 9)
    made = [os.path.exists(path) or os.path.exists(f"{path}-replace") for path in paths]
    assert made == sorted(made)
    for path, is_made in zip(paths, made, strict=True):
        if is_made:
            is_whole(path, contents("new", 9))
        else:
            with pytest.raises(FileNotFoundError):
                Archive(path)
        hr.write(path, [b"1"], fields={"data": hr.Bytes()}, force=True)
        assert sorted(os.listdir(path.parent)) == ["x.barecat", "x.barecat-shard-00000"]


def test_killed_at_every_call_of_beginning_anew(tmp_path: Path) -> None:
    paths = killed_everywhere(tmp_path, "w", 9, 9)
    outcomes = [is_whole(path, contents("old", 9), {}) for path in paths]
    assert outcomes == sorted(outcomes)
    assert outcomes[-1] == 1


def test_killed_at_every_call_of_linking(tmp_path: Path) -> None:
    paths = killed_everywhere(tmp_path, "links", 9, 30)
    outcomes = [is_whole(path, contents("old", 9), contents("new", 30)) for path in paths]
    assert outcomes == sorted(outcomes)
    assert outcomes[-1] == 1
    assert os.path.islink(f"{paths[-1]}-shard-00000")


def interrupted(path: Path, monkeypatch: pytest.MonkeyPatch, *, after: int = 0) -> None:
    """Leave a hand-over after it was announced and so many files were renamed."""
    renamed = []

    def replace(source: str, target: str) -> None:
        if not target.endswith("-replace"):
            if len(renamed) == after:
                raise KeyboardInterrupt
            renamed.append(target)
        os.rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(handover.os, "replace", replace)
        with pytest.raises(KeyboardInterrupt), new_archive(path, shard_size=1000) as archive:
            archive.update(contents("new", 30))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with new_archive(tmp_path / "x.barecat", shard_size=1000) as archive:
        archive.update(contents("old", 50))
    return tmp_path / "x.barecat"


def test_killed_at_every_call_of_going_on(tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(path, monkeypatch, after=2)
    (tmp_path / "begun").mkdir()
    for file in tmp_path.glob("*x.barecat*"):
        file.rename(tmp_path / "begun" / file.name)
    paths = killed_everywhere(tmp_path, "finish", 0, 1)
    assert len(paths) > 5
    for one in paths:
        is_whole(one, contents("new", 30))


@pytest.mark.parametrize("after", [0, 1, 3, 6])
@pytest.mark.parametrize("how", ["read", "write", "a", "dataset", "verify", "x", "again"])
def test_whoever_writes_goes_on(path: Path, monkeypatch: pytest.MonkeyPatch, how: str, after: int) -> None:
    interrupted(path, monkeypatch, after=after)
    readers = {"read": Archive, "dataset": hr.open, "verify": hr.verify}
    if how in readers:
        before = sorted(os.listdir(path.parent))
        with pytest.raises(UnfinishedError, match=r"when its process was killed.*headrace repair"):
            readers[how](path)
        assert sorted(os.listdir(path.parent)) == before
    elif how == "write":
        Archive(path, "r+").close()
    elif how == "a":
        Archive(path, "a").close()
    elif how == "x":
        with pytest.raises(FileExistsError):
            Archive(path, "x")
    else:
        with pytest.raises(ZeroDivisionError), new_archive(path):
            raise ZeroDivisionError
    is_whole(path, contents("new", 30))
    assert not [name for name in os.listdir(path.parent) if name.startswith(".")]


@pytest.mark.parametrize("count", [3, 30, 70])
@pytest.mark.parametrize("mapped", [0, 1, 12])
def test_a_reader_goes_over_to_the_new_archive(path: Path, count: int, mapped: int) -> None:
    reader = Archive(path)
    for i in range(mapped):
        assert reader[f"d/{4 * i}"] == contents("old", 50)[f"d/{4 * i}"]
    with new_archive(path, shard_size=700) as archive:
        archive.update(contents("new", count))
    new = contents("new", count)
    # Shards that are mapped already are those of the old archive, so the first few may still come from there.
    assert all(reader[name] in (new[name], contents("old", 50).get(name)) for name in new)
    assert reader.refresh() or reader[f"d/{count - 1}"] == new[f"d/{count - 1}"]
    assert {name: reader[name] for name in new} == new


def test_a_reader_does_not_mix_two_archives(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Archive(path)
    interrupted(path, monkeypatch, after=2)
    with pytest.raises(UnfinishedError):
        reader["d/1"]
    finish_handover(str(path))
    assert reader["d/1"] == contents("new", 30)["d/1"]
    assert not os.path.exists(f"{path}-replace")


def test_where_nothing_can_be_renamed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(path, monkeypatch, after=2)

    def refuse(*args: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    with monkeypatch.context() as patch:
        patch.setattr(handover, "lock_file", refuse)
        with pytest.raises(FormatError, match=r"was interrupted.*may write to the folder.*headrace repair"):
            Archive(path, "r+")
    is_whole(path, contents("new", 30))


def test_a_copy_without_the_hidden_files(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(path, monkeypatch, after=2)
    for number, pattern in enumerate(["x.barecat*", "*x.barecat*.incomplete"]):
        copy = tmp_path / f"copy{number}"
        copy.mkdir()
        for file in {*tmp_path.glob("x.barecat*"), *tmp_path.glob(pattern)}:
            shutil.copy2(file, copy / file.name)
        before = sorted(os.listdir(copy))
        with pytest.raises(UnfinishedError):
            Archive(copy / "x.barecat")
        with pytest.raises(FormatError, match=r"\.incomplete.* is not here.*If the archive was copied"):
            Archive(copy / "x.barecat", "r+")
        with pytest.raises(ZeroDivisionError), new_archive(copy / "x.barecat"):
            raise ZeroDivisionError
        assert sorted(os.listdir(copy)) == before, "nothing is deleted that may be the last copy"
        with new_archive(copy / "x.barecat", shard_size=1000) as archive:
            archive.update(contents("again", 3))
        is_whole(copy / "x.barecat", contents("again", 3))


@pytest.mark.parametrize(
    "plan",
    [
        b"",
        b"{}",
        b"[]",
        b'{"by": 5}',
        b'{"by": "../y.barecat", "index": [1, 1], "shards": []}',
        b'{"by": ".y.barecat.01234567.incomplete", "index": [1, 1], "shards": []}',
        b'{"by": ".x.barecat.01234567.incomplete", "index": [1], "shards": []}',
        b'{"by": ".x.barecat.01234567.incomplete", "index": [1, 1], "shards": [[-1, 1, 1]]}',
        b'{"by": ".x.barecat.01234567.incomplete", "index": [1, 1], "shards": [["/../y", 1, 1]]}',
        b"[" * 100_000,
    ],
)
def test_a_plan_that_is_none(path: Path, plan: bytes) -> None:
    with open(f"{path}-replace", "wb") as file:
        file.write(plan)
    before = sorted(os.listdir(path.parent))
    with pytest.raises(UnfinishedError):
        Archive(path)
    with pytest.raises(FormatError, match="cannot be understood"):
        Archive(path, "r+")
    with pytest.raises(ZeroDivisionError), new_archive(path):
        raise ZeroDivisionError
    assert sorted(os.listdir(path.parent)) == before
    with new_archive(path, shard_size=1000) as archive:
        archive.update(contents("new", 5))
    is_whole(path, contents("new", 5))


def test_two_at_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.formats.barecat.edit.lock.WAIT_S", 0)
    with new_archive(path) as archive:
        archive["a"] = b"1"
        with pytest.raises(ArchiveBusyError, match="somebody else is making"), new_archive(path):
            pytest.fail("it must be noticed at the beginning")
        with pytest.raises(ArchiveBusyError, match="somebody else is making"):
            Archive(path, "w")
        is_whole(path, contents("old", 50))
    is_whole(path, {"a": b"1"})
    with Archive(path, "r+") as writer:
        with pytest.raises(ArchiveBusyError, match="somebody else is writing"):
            Archive(path, "w")
        writer["b"] = b"2"
    is_whole(path, {"a": b"1", "b": b"2"})


def test_a_writer_that_waited_does_not_write_to_the_old_archive(path: Path) -> None:
    """The lock that it waits for is that of a file which is replaced meanwhile."""
    with Archive(path, "r+"):
        child = subprocess.Popen(
            [
                sys.executable,
                "-c",
                "import sys; from headrace.formats.barecat import Archive\n"
                "from headrace.formats.barecat.edit import lock as locking\n"
                "locking.WAIT_S = 20; print('ready', flush=True)\n"
                "with Archive(sys.argv[1], 'r+') as archive: archive['late'] = b'1'",
                str(path),
            ],
            stdout=subprocess.PIPE,
        )
        with child:
            assert child.stdout is not None
            child.stdout.readline()
            time.sleep(0.3)  # it waits for the lock now
            shutil.copyfile(f"{path}-shard-00000", f"{path}-copy")
            os.replace(f"{path}-copy", f"{path}-shard-00000")
            lock = locking.lock_archive(str(path))
            time.sleep(0.3)
            assert child.poll() is None
            os.close(lock)
    assert child.returncode == 0
    assert Archive(path)["late"] == b"1"


def test_killed_at_random(tmp_path: Path) -> None:
    for seed in range(max(1, KILLS // 3)):
        path = tmp_path / str(seed) / "x.barecat"
        path.parent.mkdir()
        said = killed_run(path, seed)
        possible: list[dict[str, bytes]] = [contents(*words) for words in said[-2:]]
        is_whole(path, *possible)
        with new_archive(path) as archive:
            archive["after"] = b"it goes on"
        assert sorted(os.listdir(path.parent)) == ["x.barecat", "x.barecat-shard-00000"]


def killed_run(path: Path, seed: int) -> list[Any]:
    """Let a child replace an archive again and again, and kill it; gives versions and counts it has begun with."""
    command = [sys.executable, "-c", AGAIN_AND_AGAIN, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        lines = [child.stdout.readline(), child.stdout.readline()]
        time.sleep(random.Random(seed).random() * 0.2)
        child.send_signal(signal.SIGKILL)
        lines += child.stdout.read().split(b"\n")[:-1]
    return [json.loads(line) for line in lines]
