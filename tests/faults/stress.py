"""Threads and processes that read one archive while another process changes it in every way.

Every file says in its bytes what it must be, so that a reader can tell a wrong byte without asking anybody. Readers may
find that a file is gone or that the archive is busy; anything else is a finding. The writer is stopped and continued
now and then, and readers must get along with that, too.

usage: python -m tests.faults.stress [--seconds S] [--processes N] [--threads N] [--wal] [--seed N]
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import logging
import os
import random
import re
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from typing import TYPE_CHECKING

from headrace.errors import ArchiveBusyError, EntryNotFoundError, FormatError, HeadraceError, UnfinishedError
from headrace.formats.barecat import Archive
from headrace.formats.barecat.archive import new_archive
from headrace.formats.barecat.edit.maintenance import defragment, reshard

if TYPE_CHECKING:
    from collections.abc import Callable

_SHARD_BYTES = 60_000
_SIZES = (0, 50, 2000, 9000)
_SLOW_S = 30.0  # longer than all that readers wait for
_STOP_S = 0.4
_SWITCH_S = 2e-5  # threads take turns far more often than usual, so that they get in each other's way


def content(name: str, version: int, size: int) -> bytes:
    """Bytes that say what they are, with their own checksum at the end."""
    block = hashlib.sha256(f"{name}:{version}".encode()).digest()
    body = (f"{name}|{version}|{size}|".encode() + block * (size // 32 + 1))[: size + 20]
    return body + hashlib.sha256(body).digest()


def is_good(name: str, data: bytes) -> bool:
    """The bytes are those of this file, whole, whichever version."""
    return hashlib.sha256(data[:-32]).digest() == data[-32:] and data.startswith(f"{name}|".encode()[:20])


class Writer:
    """Changes the archive until the time is over; the seed decides how.

    Args:
        path: the archive, which exists.
        seed: of its choices.
        wal: the index keeps a write-ahead log.
    """

    def __init__(self, path: str, seed: int, wal: bool) -> None:
        self._path, self._wal = path, wal
        self._chance = random.Random(seed)
        self._version, self._names = 0, [name for name in Archive(path)]
        self._archive = self._open()
        self.counts: Counter[str] = Counter()

    def _open(self) -> Archive:
        return Archive(self._path, "a", shard_size=_SHARD_BYTES, sync=False, wal=self._wal)

    def run(self, until_s: float) -> Counter[str]:
        """Change it; gives how often what was done."""
        while time.time() < until_s:
            self._version += 1
            try:
                self.counts[self._step()] += 1
            except ArchiveBusyError:
                self.counts["busy"] += 1
            if self._chance.random() < 0.02:
                time.sleep(0.01)
        self._archive.close()
        return self.counts

    def _content(self, name: str) -> bytes:
        return content(name, self._version, self._chance.choice(_SIZES))

    def _step(self) -> str:
        roll = self._chance.random()
        if roll < 0.4 or len(self._names) < 20:
            name = f"d{self._chance.randrange(5)}/f{self._version}"
            self._archive[name] = self._content(name)
            self._names.append(name)
            return "add"
        if roll < 0.6:
            name = self._chance.choice(self._names)
            self._archive.update_file(name, self._content(name))
            return "replace"
        if roll < 0.85:
            if len(self._names) > 100:
                del self._archive[self._names.pop(self._chance.randrange(len(self._names)))]
            return "remove"
        if roll < 0.95:
            self._archive.commit()
            return "commit"
        self._archive.commit()
        if roll < 0.985:
            defragment(self._archive, self._chance.choice(["full", "quick", "smart"]))
            return "defrag"
        if roll < 0.992:
            reshard(self._archive, self._chance.choice([30_000, 60_000, 90_000]))
            return "reshard"
        self._replace_all()
        return "replace all"

    def _replace_all(self) -> None:
        self._archive.close()
        with new_archive(self._path, shard_size=_SHARD_BYTES) as fresh:
            for name in self._names:
                fresh[name] = self._content(name)
        self._archive = self._open()


class Reader:
    """Reads in every way until the time is over, and counts what it meets.

    Args:
        path: the archive.
        seed: of its choices.
        shared: an archive that other threads read, too; by default one of its own, opened anew now and then.
    """

    def __init__(self, path: str, seed: int, shared: Callable[[], Archive] | None = None) -> None:
        self._path, self._shared = path, shared
        self._chance = random.Random(seed)
        self._archive: Archive | None = None
        self._names: list[str] = []
        self.counts: Counter[str] = Counter()

    def run(self, until_s: float) -> Counter[str]:
        """Read; gives how often what happened, ``FINDING ...`` for what should not."""
        while time.time() < until_s:
            start_s = time.monotonic()
            try:
                self._step(self._opened())
                self.counts["read"] += 1
            except EntryNotFoundError:
                self.counts["gone"] += 1
                self._names = []
            except (ArchiveBusyError, UnfinishedError) as error:
                self._note(error, is_known=True)
            except FormatError as error:
                self._note(error, is_known=error.fix in ("Open it again.", "List it again."))
            except Exception as error:
                self._note(error, is_known=False)
            if time.monotonic() - start_s > _SLOW_S:
                self.counts["FINDING slow"] += 1
        self._close()
        return self.counts

    def _note(self, error: Exception, *, is_known: bool) -> None:
        text = re.sub(r"/\S*/|\bd\d/[sf]\d+|0x[0-9a-f]+|\d+", "#", str(error))[:160]
        place = " < ".join(frame.name for frame in reversed(traceback.extract_tb(error.__traceback__)[2:]))
        self.counts[f"{'' if is_known else 'FINDING '}{type(error).__name__}: {text} ({place})"] += 1
        if self._chance.random() < 0.5:
            self._close()

    def _close(self) -> None:
        if self._archive is not None and self._shared is None:
            with contextlib.suppress(HeadraceError):
                self._archive.close()
        self._archive = None

    def _opened(self) -> Archive:
        if self._archive is None or self._chance.random() < 0.01:
            self._close()
            if self._shared is not None:
                self._archive = self._shared()
            else:
                cold = self._chance.choice([None, None, True])
                preload = self._chance.random() < 0.2
                self._archive = Archive(self._path, preload=preload, cold=cold)
            self._names = list(self._archive)
        return self._archive

    def _step(self, archive: Archive) -> None:
        if not self._names:
            self._names = list(archive)
            return
        name = self._chance.choice(self._names)
        roll = self._chance.randrange(6)
        if roll == 0:
            self._check(name, archive[name])
        elif roll == 1:
            some = self._chance.sample(self._names, min(len(self._names), 20))
            for one, data in zip(some, archive.read_many(some), strict=True):
                self._check(one, data)
        elif roll == 2:
            self._names = list(archive)
        elif roll == 3:
            archive.listdir(name.partition("/")[0])
            archive.stat(name)
        elif roll == 4:
            with archive.open(name, "rb") as file:
                self._check(name, file.read())
        else:
            for one, data in archive.items():
                self._check(one, data)
                if self._chance.random() < 0.05:
                    break

    def _check(self, name: str, data: bytes) -> None:
        if not is_good(name, data):
            raise AssertionError(f"wrong bytes in {name}: {len(data)}")


def _read_in_threads(path: str, seed: int, count: int, until_s: float) -> Counter[str]:
    """Threads that share archives, opened anew by whichever thread needs one."""
    lock = threading.Lock()
    held: list[Archive] = []

    def shared() -> Archive:
        with lock:
            if not held or random.random() < 0.2:
                held.append(Archive(path))
            return held[-1]

    readers = [Reader(path, seed * 1000 + i, shared) for i in range(count)]
    threads = [threading.Thread(target=reader.run, args=(until_s,)) for reader in readers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for archive in held:
        archive.close()
    return sum((reader.counts for reader in readers), Counter())


def _forked(work: Callable[[], Counter[str]]) -> tuple[int, int]:
    """A process that counts; gives its number and where it writes the counts."""
    read, write = os.pipe()
    child = os.fork()
    if child:
        os.close(write)
        return child, read
    try:
        os.close(read)
        try:
            counts = work()
        except BaseException:
            counts = Counter({f"FINDING died: {traceback.format_exc()[-1500:]}": 1})
        data = json.dumps(counts).encode()
        while data:
            data = data[os.write(write, data) :]
    finally:
        os._exit(0)


def _collected(child: int, read: int) -> Counter[str]:
    with open(read, "rb") as file:
        data = file.read()
    _, status = os.waitpid(child, 0)
    counts = Counter(json.loads(data)) if data else Counter()
    if status or not data:
        counts[f"FINDING a process ended with status {status}"] += 1
    return counts


def stress(args: argparse.Namespace, folder: str) -> tuple[Counter[str], Counter[str]]:
    """Run it; gives what the writer and what the readers counted."""
    path = os.path.join(folder, "x.barecat")
    with Archive(path, "x", shard_size=_SHARD_BYTES, wal=args.wal) as archive:
        for i in range(50):
            archive[f"d{i % 5}/s{i}"] = content(f"d{i % 5}/s{i}", 0, 500)
    until_s = time.time() + args.seconds
    writer = _forked(lambda: Writer(path, args.seed, args.wal).run(until_s))
    readers = [_forked(lambda i=i: Reader(path, args.seed + 1 + i).run(until_s)) for i in range(args.processes)]
    if args.threads:
        readers.append(_forked(lambda: _read_in_threads(path, args.seed, args.threads, until_s)))
    stops = _stop_now_and_then(writer[0], until_s, random.Random(args.seed))
    wrote = _collected(*writer) + Counter({"stopped": stops})
    read = sum((_collected(*reader) for reader in readers), Counter())
    report = Archive(path).verify()
    if not report.ok:
        read[f"FINDING verify: {report.problems[0].message}"] += 1
    left = [name for name in os.listdir(folder) if not re.fullmatch(r"x\.barecat(-shard-\d+|-wal|-shm)?", name)]
    if left:
        read[f"FINDING left behind: {sorted(left)}"] += 1
    return wrote, read


def _stop_now_and_then(process: int, until_s: float, chance: random.Random) -> int:
    """Stop a process for a moment, again and again; gives how often."""
    count = 0
    while (left_s := until_s - time.time()) > 2 * _STOP_S:
        time.sleep(min(left_s - 2 * _STOP_S, chance.uniform(0.2, 1.5)))
        os.kill(process, signal.SIGSTOP)
        time.sleep(_STOP_S)
        os.kill(process, signal.SIGCONT)
        count += 1
    return count


def main() -> int:
    """Run it and print the counts; 1 if there are findings."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.stress", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="how long (default: 600)")
    parser.add_argument("--processes", type=int, default=8, help="that read (default: 8)")
    parser.add_argument("--threads", type=int, default=16, help="of one more process that read (default: 16)")
    parser.add_argument("--wal", action="store_true", help="with a write-ahead log")
    parser.add_argument("--seed", type=int, default=5, help="of all choices")
    args = parser.parse_args()
    logging.disable(logging.WARNING)
    sys.setswitchinterval(_SWITCH_S)
    with tempfile.TemporaryDirectory(prefix="headrace-stress-") as folder:
        wrote, read = stress(args, folder)
    for title, counts in (("writer", wrote), ("readers", read)):
        print(title)
        for what, count in counts.most_common():
            print(f"  {count:9,} {what}")
    return 1 if any(what.startswith("FINDING") for what in wrote + read) else 0


if __name__ == "__main__":
    sys.exit(main())
