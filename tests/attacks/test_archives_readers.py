"""Readers keep an archive open while a writer changes it, defragments it, and puts another in its place."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from headrace.formats.barecat import Archive

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = float(os.environ.get("HEADRACE_READING_S", "5"))
COMMON = """
import collections, hashlib, json, logging, random, sys, time
from headrace.errors import ArchiveBusyError, CorruptFileError, EntryNotFoundError, HeadraceError
from headrace.formats.barecat import Archive
from headrace.formats.barecat.archive import new_archive
from headrace.formats.barecat.edit.maintenance import defragment
logging.disable()
path, seed, wal, stop = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "wal", time.time() + float(sys.argv[4])
chance, said = random.Random(seed), collections.Counter()

def content(name, version, size):
    body = f"{name}|{version}|".encode() + bytes(chance.randrange(256) for _ in range(size))
    return body + hashlib.sha256(body).digest()
"""
WRITER = (
    COMMON
    + """
def write(archive, names, version):
    for name in names:
        archive[name] = content(name, version, chance.choice([0, 50, 900]))

archive = Archive(path, "a", shard_size=20_000, sync=False, wal=wal)
names, version = list(archive), 0
if not names:
    names = [f"d{i % 5}/{i}" for i in range(60)]
    write(archive, names, version)
while time.time() < stop:
    version += 1
    what = chance.random()
    name = chance.choice(names)
    if what < 0.3:
        names.append(f"d{version % 5}/v{version}-{seed}")
        write(archive, names[-1:], version)
    elif what < 0.6:
        archive.update_file(name, content(name, version, chance.choice([0, 50, 900])))
    elif what < 0.8 and len(names) > 40:
        del archive[names.pop(names.index(name))]
    elif what < 0.9:
        archive.commit()
    elif what < 0.97:
        archive.commit()
        defragment(archive, chance.choice(["full", "quick", "smart"]))
    else:
        archive.close()
        with new_archive(path, shard_size=20_000) as other:
            write(other, names, version)
        archive = Archive(path, "a", sync=False, wal=wal)
    said["steps"] += 1
archive.close()
print(json.dumps(said))
"""
)
READER = (
    COMMON
    + """
def check(name, data):
    if not data.startswith(f"{name}|".encode()) or hashlib.sha256(data[:-32]).digest() != data[-32:]:
        said["WRONG BYTES"] += 1
    said["read"] += 1

archive = None
while time.time() < stop:
    try:
        if archive is None or chance.random() < 0.02:
            archive = Archive(path, cold=chance.choice([None, True]), preload=chance.random() < 0.2)
            names = list(archive)
        name, way = chance.choice(names), chance.randrange(5)
        if way == 0:
            check(name, archive[name])
        elif way == 1:
            for one, data in zip(names[:20], archive.read_many(names[:20])):
                check(one, data)
        elif way == 2:
            names = list(archive)
        elif way == 3:
            check(name, archive.open(name, "rb").read())
        else:
            archive.listdir("d1"), archive.stat(name)
    except EntryNotFoundError:
        archive = None
    except CorruptFileError as error:
        said[f"CALLED DAMAGED {error}"] += 1
    except HeadraceError as error:
        said[type(error).__name__] += 1
        archive = None
    except Exception as error:
        said[f"NOT OURS {error!r}"] += 1
        archive = None
print(json.dumps(said))
"""
)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["journal", "wal"])
def test_readers_beside_a_writer(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x.barecat"
    with Archive(path, "x", shard_size=20_000, wal=kind == "wal"):
        pass
    first = subprocess.run([sys.executable, "-c", WRITER, path, "0", kind, "0.3"], capture_output=True, text=True)
    assert first.returncode == 0, first.stderr
    running = [
        subprocess.Popen(
            [sys.executable, "-c", program, path, str(seed), kind, str(SECONDS)], stdout=subprocess.PIPE, text=True
        )
        for seed, program in enumerate([WRITER, READER, READER, READER], 1)
    ]
    outputs = [one.communicate(timeout=100)[0] for one in running]
    assert [one.returncode for one in running] == [0] * 4
    for said in map(json.loads, outputs[1:]):
        assert said["read"] > 10
        assert not [what for what in said if what.startswith(("WRONG", "CALLED", "NOT OURS"))], said
    assert Archive(path).verify().ok


WRITE_A_LOG = """
import sys
from headrace.formats.barecat import Archive
archive = Archive(sys.argv[1], "x", wal=True)
archive.update({f"d/{i}": b"content" for i in range(50)})
archive.commit()
print("ready", flush=True)
input()
"""
READ_BESIDE_A_LOG = """
import sys
from headrace.errors import HeadraceError
from headrace.formats.barecat import Archive

def read(archive):
    try:
        return len(list(archive))  # no shard is mapped
    except (HeadraceError, OSError) as error:
        return type(error).__name__

archive = Archive(sys.argv[1])
print(read(archive), flush=True)
input()
print(*(read(archive) for _ in range(3)), flush=True)
"""


@pytest.mark.parametrize("size", [0, 100, 4096, 20_000])
def test_shared_memory_of_a_log_that_is_cut_does_not_end_the_reader(tmp_path: Path, size: int) -> None:
    """SQLite has mapped it: a page that is not there any more would be the end of the process."""
    path = str(tmp_path / "x.barecat")
    with talking(WRITE_A_LOG, path) as writer:
        assert writer.stdout.readline() == "ready\n"
        with talking(READ_BESIDE_A_LOG, path) as reader:
            assert reader.stdout.readline() == "50\n"
            os.truncate(f"{path}-shm", size)
            said, _ = reader.communicate("\n", timeout=60)
        writer.kill()
    assert reader.returncode == 0
    assert len(said.split()) == 3


def talking(program: str, path: str) -> Any:
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", program, path], text=True, **pipes)
