"""Random samples of a file, read as bytes: by this package, and by what one would write in plain Python."""

from __future__ import annotations

import gc
import os
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace._native import RangeReader, crc32, crc32c, gather_into
from headrace.bench.charts import bars_of
from headrace.bench.page_cache import forget, forget_file
from headrace.bench.peers.peer import is_there
from headrace.bench.rows import Missing, compared_rows
from headrace.bench.suite import Suite
from headrace.bench.turns import one_core, take_turns
from headrace.fields import Bytes
from headrace.formats.beton.reader import BetonDataset
from headrace.formats.ffr import FfrReader, FfrWriter
from headrace.formats.open import open_dataset
from headrace.formats.write import write
from headrace.storage import map_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    import numpy.typing as npt

    from headrace.bench.rows import Finding, Row
    from headrace.bench.suite import Settings, Tell
    from headrace.charts import Chart

    Read = Callable[[npt.NDArray[np.int64]], object]

__all__ = ["SUITE"]

_BLOCK, _PAGE, _THREADS = 4096, 8 << 20, 16
_LOOP, _POOL, _ZLIB = "os.pread, a loop", f"os.pread on {_THREADS} threads", "os.pread and zlib.crc32"
_WHOLE, _SLICES, _PREADS = "the whole file in sequence", "numpy.memmap", "os.pread"
_CHECKSUMS = ("zlib.crc32", "google-crc32c")
_PEERS = (_LOOP, _POOL, _ZLIB, _WHOLE, _SLICES, _PREADS, *_CHECKSUMS)
_SAMPLE, _SMALL = 10_000, 1000
_LONGEST_S = 30.0


def _run(settings: Settings, tell: Tell) -> Iterator[Finding]:
    if settings.warm_only:
        yield Missing("cold reads", settings.warm_only)
    for what, measure in (
        ("ranges of a file", _ranges),
        ("samples of an .ffr", _ffr),
        ("samples of a .beton", _beton),
        ("checksums", _checksums),
    ):
        tell(what)
        yield from measure(settings)


def _batches(settings: Settings, full: int) -> int:
    """Of a round."""
    return max(2, full // 6) if settings.quick else full


def _rounds(settings: Settings) -> int:
    return settings.repeats(quick=3, full=9)


# Ranges of a file


class _Memory:
    """Aligned memory that is used again for every batch, as that of a loader."""

    def __init__(self) -> None:
        self._array = np.zeros(0, np.uint8)

    def of(self, size: int) -> npt.NDArray[np.uint8]:
        if len(self._array) < size:
            memory = np.zeros(size + _BLOCK, np.uint8)
            self._array = memory[-memory.ctypes.data % _BLOCK :]
        return self._array[:size]


def _reading(path: str, size: int, *, is_in_place: bool = False, **options: Any) -> Read:
    """Batches packed one range after another; in place: on blocks of memory as they lie on blocks of the file."""
    reader, memory = RangeReader(path, **options), _Memory()
    step = (size // _BLOCK + 2) * _BLOCK if is_in_place else size

    def read(offsets: npt.NDArray[np.int64]) -> None:
        starts = offsets.astype(np.uint64)
        places = np.arange(len(starts), dtype=np.uint64) * np.uint64(step)
        places += starts % np.uint64(_BLOCK) if is_in_place else np.uint64(0)
        reader.read(starts, np.full(len(starts), size, np.uint64), memory.of(len(starts) * step), places)

    return read


def _copying(path: str, size: int) -> Read:
    mapped, memory = map_file(path), _Memory()

    def read(offsets: npt.NDArray[np.int64]) -> None:
        starts = offsets.astype(np.uint64)
        places = np.arange(len(starts), dtype=np.uint64) * np.uint64(size)
        gather_into(mapped, starts, np.full(len(starts), size, np.uint64), memory.of(len(starts) * size), places)

    return read


def _preads(stack: ExitStack, path: str, size: int, pool: ThreadPoolExecutor | None = None) -> Read:
    fd = os.open(path, os.O_RDONLY)
    stack.callback(os.close, fd)
    if pool is not None:
        return lambda offsets: list(pool.map(lambda offset: os.pread(fd, size, offset), offsets.tolist()))
    return lambda offsets: [os.pread(fd, size, offset) for offset in offsets.tolist()]


def _ranges(settings: Settings) -> Iterator[Finding]:
    path = str(settings.work / "data")
    file_bytes = _write_random(path, _file_bytes(settings))
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(_THREADS))
        for n, size, batches in ((256, _SAMPLE, _batches(settings, 12)), (64, 1_000_000, _batches(settings, 4))):
            if settings.warm_only or size * 4 > file_bytes:
                continue
            contenders = {
                "headrace": _reading(path, size),
                "headrace, threads instead of io_uring": _reading(path, size, engine="threads"),
                "headrace, direct": _reading(path, size, direct=True),
                "headrace, direct, in place": _reading(path, size, is_in_place=True, direct=True),
                _LOOP: _preads(stack, path, size),
                _POOL: _preads(stack, path, size, pool),
            }
            work = _offsets(file_bytes - size, n, batches)
            section = f"ranges of a file, cold: {n} x {_size(size)}"
            yield from _compare(section, contenders, work, n, settings, cold=path)
        if not settings.warm_only:
            yield from _pages(path, file_bytes, settings)
        with open(path, "rb") as file:
            while file.read(16 << 20):
                pass
        contenders = {
            "headrace": _reading(path, _SAMPLE),
            "headrace, copied from the mapped file": _copying(path, _SAMPLE),
            _LOOP: _preads(stack, path, _SAMPLE),
        }
        work = _offsets(file_bytes - _SAMPLE, 256, _batches(settings, 20))
        with one_core():
            yield from _compare(f"ranges of a file, warm: 256 x {_size(_SAMPLE)}", contenders, work, 256, settings)
    os.unlink(path)


def _pages(path: str, file_bytes: int, settings: Settings) -> Iterator[Finding]:
    """Pages of 8 MiB at random, four at a time, beside the same bytes from the front."""
    order = np.random.default_rng(2).permutation(file_bytes // _PAGE) * _PAGE
    batches = [order[start : start + 4] for start in range(0, len(order), 4)]

    def all_pages(read: Read) -> Read:
        return lambda _: [read(batch) for batch in batches]

    def sequential(_: Any) -> None:
        memory = bytearray(_PAGE)
        with open(path, "rb", buffering=0) as file:
            while file.readinto(memory):
                pass

    contenders: dict[str, Read] = {
        "headrace": all_pages(_reading(path, _PAGE)),
        "headrace, direct": all_pages(_reading(path, _PAGE, direct=True)),
        _WHOLE: sequential,
    }
    section = "pages of 8 MiB in random order, cold"
    yield from _compare(section, contenders, lambda turn: [order], len(order), settings, cold=path)


def _write_random(path: str, size: int) -> int:
    piece = np.random.default_rng(0).bytes(min(size, 64 << 20))
    with open(path, "wb") as file:
        for _ in range(size // len(piece)):
            file.write(piece)
        os.fsync(file.fileno())
    return os.path.getsize(path)


def _at(read: Read, offsets: npt.NDArray[Any], batch: npt.NDArray[np.int64]) -> object:
    return read(offsets[batch])


def _offsets(most: int, n: int, batches: int) -> Callable[[int], Sequence[Any]]:
    return lambda turn: list(np.random.default_rng(turn).integers(0, most, (batches, n)))


def _size(size: int) -> str:
    return f"{size // 1000} kB" if size < 1_000_000 else f"{size // 1_000_000} MB"


def _compare(
    section: str,
    contenders: dict[str, Read],
    work: Callable[[int], Sequence[Any]],
    n: int,
    settings: Settings,
    *,
    cold: str = "",
) -> Iterator[Row]:
    """In turns; cold: the file leaves the page cache before each turn."""
    before = (lambda name: forget_file(cold)) if cold else (lambda name: None)
    seconds = take_turns(contenders, work, _rounds(settings), before=before, longest_s=_LONGEST_S)
    unit = "pages/s" if "pages" in section else "samples/s"
    yield from compared_rows(section, seconds, _PEERS, samples=n, unit=unit, cache="cold" if cold else "warm")


# Samples of an .ffr


def _ffr(settings: Settings) -> Iterator[Finding]:
    path, count = str(settings.work / "x.ffr"), settings.count(quick=5000, full=100_000)
    blob = np.random.default_rng(0).bytes(_SAMPLE + count)
    with FfrWriter(path, count) as writer:
        writer.append_many(blob[i : i + _SAMPLE] for i in range(count))
    n = min(256, count)
    if not settings.warm_only:
        yield from _ffr_cold(path, count, n, settings)
    with ExitStack() as stack:
        offsets, read = FfrReader(path, checksums=False).offsets(), _preads(stack, path, _SAMPLE)

        def checked(batch: npt.NDArray[np.int64]) -> None:
            for data in read(offsets[batch]):  # type: ignore[attr-defined]
                zlib.crc32(data)

        contenders: dict[str, Read] = {
            "FfrReader.read": FfrReader(path).read,
            "FfrReader.read_bytes": FfrReader(path).read_bytes,
            "FfrReader.read, checksums=False": FfrReader(path, checksums=False).read,
            _ZLIB: checked,
        }
        with one_core():
            section = f"samples of an .ffr, warm: 256 x {_size(_SAMPLE)}"
            yield from _compare(section, contenders, _offsets(count, n, _batches(settings, 24)), n, settings)


def _ffr_cold(path: str, count: int, n: int, settings: Settings) -> Iterator[Row]:
    """A reader that was mapped and touched would keep its pages, so every turn opens its own."""
    opened: dict[str, Read] = {}
    options: dict[str, dict[str, Any]] = {
        "FfrReader.read": {},
        "FfrReader.read, cold=True": {"cold": True},
        "FfrReader.read, cold=True, checksums=False": {"cold": True, "checksums": False},
    }
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(_THREADS))
        offsets = FfrReader(path, checksums=False).offsets()
        plain = {_LOOP: _preads(stack, path, _SAMPLE), _POOL: _preads(stack, path, _SAMPLE, pool)}

        def before(name: str) -> None:
            opened.clear()
            if name in options:
                reader = FfrReader(path, **options[name])
                reader.read(range(min(64, count)))  # the queue is made, its memory touched: once for a training
                opened[name] = reader.read
                del reader
            gc.collect()
            forget(settings.work)

        def reading(name: str) -> Read:
            return lambda batch: opened[name](batch)

        contenders: dict[str, Read] = {name: reading(name) for name in options}
        contenders |= {name: partial(_at, read, offsets) for name, read in plain.items()}
        work = _offsets(count, n, _batches(settings, 12))
        seconds = take_turns(contenders, work, _rounds(settings), before=before, longest_s=_LONGEST_S)
    section = f"samples of an .ffr, cold: 256 x {_size(_SAMPLE)}"
    yield from compared_rows(section, seconds, _PEERS, samples=n, cache="cold")


# Samples of a .beton, and checksums


def _beton(settings: Settings) -> Iterator[Finding]:
    path, count = settings.work / "x.beton", settings.count(quick=20_000, full=200_000)
    blob = np.random.default_rng(0).bytes(_SMALL + count)
    n = min(256, count)
    with one_core(), ExitStack() as stack:
        write(path, ((blob[i : i + _SMALL],) for i in range(count)), fields={"data": Bytes()}, workers=1)
        checked = stack.enter_context(open_dataset(path))
        plain = stack.enter_context(open_dataset(path, checksums=False))
        offsets, memory = _places(path), np.memmap(path, np.uint8, "r")
        read = _preads(stack, str(path), _SMALL)
        contenders: dict[str, Read] = {
            "read_bytes": lambda batch: checked.read_bytes(batch, "data"),
            "read_bytes, checksums=False": lambda batch: plain.read_bytes(batch, "data"),
            _PREADS: lambda batch: read(offsets[batch]),
            _SLICES: lambda batch: [memory[o : o + _SMALL].tobytes() for o in offsets[batch].tolist()],
        }
        first = np.arange(min(3, n))
        if list(contenders[_SLICES](first)) != list(contenders["read_bytes"](first)):  # type: ignore[call-overload]
            raise ValueError("the places of the samples are not where they should be")
        section = f"samples of a .beton, warm: 256 x {_size(_SMALL)}"
        yield from _compare(section, contenders, _offsets(count, n, _batches(settings, 200)), n, settings)


def _places(path: Path) -> npt.NDArray[np.int64]:
    """Where the bytes of each sample begin."""
    with BetonDataset(path) as dataset:
        return np.array(dataset.table[:, 1], np.int64)


def _checksums(settings: Settings) -> Iterator[Finding]:
    contenders: dict[str, Callable[[Any], object]] = {"CRC-32C": crc32c, "CRC-32": crc32, "zlib.crc32": zlib.crc32}
    if is_there("google_crc32c"):
        import google_crc32c

        contenders["google-crc32c"] = google_crc32c.value
    else:
        yield Missing("google-crc32c", "not installed: google_crc32c")
    with one_core():
        for size, count in ((1 << 10, 5000), (1 << 20, 50)):
            data = np.random.default_rng(0).bytes(size)
            seconds = take_turns(contenders, partial(_again, data, count), _rounds(settings))
            section = f"checksums, pieces of {size >> 10} KiB"
            yield from compared_rows(section, seconds, _CHECKSUMS, samples=size / 1e9, unit="GB/s")


def _again(data: bytes, count: int, turn: int) -> list[bytes]:
    return [data] * count


def _file_bytes(settings: Settings) -> int:
    if settings.samples is not None:
        return max(_PAGE, settings.samples * _SAMPLE // _PAGE * _PAGE)
    return 64 << 20 if settings.quick else 1 << 30


def _charts(rows: Sequence[Row]) -> list[Chart]:
    sections = dict.fromkeys(row.section for row in rows)
    return [chart for section in sections for chart in bars_of(rows, section.capitalize(), [section])]


SUITE = Suite(
    name="reads",
    question="How fast are random samples read from a file, beside plain Python?",
    run=_run,
    charts=_charts,
    room_bytes=lambda settings: 2 * _file_bytes(settings) + settings.count(quick=5000, full=100_000) * 2 * _SAMPLE,
    rooms=("storage", "formats/ffr", "formats/beton", "read"),
    notes=(
        "All contenders read the same places in the same round. Warm: on one core. Cold: the file leaves the page "
        "cache before each turn, and contenders may use all cores. On a virtual machine the host may still hold the "
        "file in its memory: then cold is the cost of the way, not of the disk. Direct: past the page cache.",
        "Samples of an .ffr and of a .beton are checked, unless the name says it; what plain Python reads of a .beton "
        "is not.",
    ),
)
