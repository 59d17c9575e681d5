"""Reading: damage, threads, forked children, and archives that change while they are read."""

from __future__ import annotations

import contextlib
import gc
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.formats.barecat.tools import FILES, TEXTS, spoil

from headrace.errors import (
    ClosedError,
    CorruptFileError,
)
from headrace.formats.barecat import Archive
from headrace.formats.barecat.edit.maintenance import defragment

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_damage_is_an_error_that_names_the_file(full: Path) -> None:
    info = Archive(full).stat("d1/e1/1.bin")
    with open(f"{full}-shard-{info.shard:05d}", "r+b") as shard:
        shard.seek(info.offset)
        shard.write(b"\xff")
    for preload in (False, True):
        archive = Archive(full, preload=preload)
        for read in (lambda: archive["d1/e1/1.bin"], lambda: archive.read_many(["d1/e1/1.bin"])):  # noqa: B023
            with pytest.raises(CorruptFileError, match=r"d1/e1/1\.bin: checksum"):
                read()
        with archive.open("d1/e1/1.bin", "rb") as file, pytest.raises(CorruptFileError):
            file.read()
    assert Archive(full, checksums=False)["d1/e1/1.bin"][:1] == b"\xff"
    assert [p.message.split(":")[0] for p in Archive(full).verify().problems] == ["d1/e1/1.bin"]
    assert Archive(full).verify(quick=True).ok


def test_many_threads_share_one_archive(full: Path) -> None:
    archive = Archive(full)
    failures: list[BaseException] = []

    def read() -> None:
        try:
            for name, data in FILES.items():
                assert archive[name] == data
            assert archive.read_many(list(FILES)) == list(FILES.values())
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_forked_children_read_and_may_not_write(full: Path) -> None:
    reader, writer = Archive(full), Archive(full, "r+")
    assert reader["d1/e1/1.bin"]
    child = os.fork()
    if child == 0:
        is_fine = all(reader[name] == data for name, data in FILES.items())
        try:
            writer["new"] = b""
            is_fine = False
        except RuntimeError:
            pass
        os._exit(0 if is_fine else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert all(reader[name] == data for name, data in FILES.items())
    writer["new"] = b"parent"
    writer.close()


@pytest.mark.parametrize("preload", [False, True])
def test_a_reader_finds_what_was_written_later(full: Path, preload: bool) -> None:
    reader = Archive(full, preload=preload)
    assert "later" not in reader
    with Archive(full, "r+") as writer:
        writer["later"] = b"x" * 30_000 if writer.shard_size is None else b"x" * 10_000
    assert reader["later"] == b"x" * 10_000
    assert reader["d1/e1/1.bin"] == FILES["d1/e1/1.bin"]


def test_a_reader_beside_a_writer_sees_what_is_committed(path: Path) -> None:
    with Archive(path, "x") as writer:
        writer["a"] = b"1"
        writer.commit()
        writer["b"] = b"2"
        reader = Archive(path)
        assert list(reader) == ["a"]
        writer.commit()
        assert reader["b"] == b"2"


def test_closed_is_closed(texts: Path) -> None:
    archive = Archive(texts)
    names, infos = iter(archive), archive.files("path")
    next(names), next(infos)
    assert archive["d1/e1/1.txt"]
    archive.close()
    calls: list[Callable[[], Any]] = [
        lambda: archive["d1/e1/1.txt"],
        lambda: archive.read_many(["d1/e1/1.txt"]),
        lambda: list(names),
        lambda: list(infos),
        lambda: archive.listdir(),
    ]
    for call in calls:
        with pytest.raises(ClosedError):
            call()
    writer = Archive(texts, "a")
    writer.close()
    for call in (writer.commit, writer.verify, writer.listdir):
        with pytest.raises(ClosedError):
            call()


@pytest.mark.parametrize("preload", [False, True])
def test_files_that_were_moved_since(texts: Path, preload: bool) -> None:
    with Archive(texts, "a") as writer:
        writer.update({f"z{name}": bytes(2000) for name in TEXTS})
    names = [f"z{name}" for name in TEXTS]
    for read in (
        lambda archive: archive.read_many(names),
        lambda archive: [archive.read(name, 0, 2000) for name in names],
        lambda archive: [archive.open(name, "rb").read() for name in names],
        lambda archive: [archive[name] for name in names],
    ):
        with Archive(texts, preload=preload) as archive:
            assert read(archive) == [bytes(2000)] * len(names)
            with Archive(texts, "a") as writer:
                first = next(name for name in TEXTS if name in writer)
                writer.remove(first)
                defragment(writer)
            assert read(archive) == [bytes(2000)] * len(names)


def test_a_failure_holds_no_listing(texts: Path) -> None:
    gc.disable()
    try:
        with Archive(texts) as archive:
            spoil(texts, "UPDATE files SET crc32c = 1 WHERE path = 'd1/e1/1.txt'")
            assert archive.refresh()
            seen: list[weakref.ref[Any]] = []

            def list_and_read() -> None:
                listing = iter(archive)
                seen.append(weakref.ref(listing))
                next(listing)
                archive["d1/e1/1.txt"]

            with contextlib.suppress(CorruptFileError):
                list_and_read()
            assert [listing() for listing in seen] == [None]
    finally:
        gc.enable()


def test_a_bad_checksum_stays_an_error_when_changes_are_followed(texts: Path) -> None:
    with Archive(texts) as archive:
        spoil(texts, "UPDATE files SET crc32c = 1 WHERE path = 'd1/e1/1.txt'")
        assert archive.refresh()
        with pytest.raises(CorruptFileError, match="checksum"):
            archive["d1/e1/1.txt"]
        with pytest.raises(CorruptFileError, match="checksum"):
            archive.read_many(["d1/e1/1.txt"])
