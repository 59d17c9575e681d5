"""Formats of others beside the packages that usually read them: the same files, the same samples, on one core.

Random batches of HDF5 beside h5py, of LMDB beside lmdb, of Parquet and Arrow beside pyarrow; examples of a TFRecord
parsed beside the tfrecord package; files without an index scanned beside ``cat``.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.bench.charts import bars_of
from headrace.bench.format_files import make_files
from headrace.bench.peers.peer import is_there
from headrace.bench.rows import Missing, compared_rows
from headrace.bench.suite import Suite
from headrace.bench.turns import one_core, take_turns
from headrace.fields import Bytes, Float, Int, Text
from headrace.formats.index import index
from headrace.formats.open import open_dataset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    import numpy.typing as npt

    from headrace.bench.format_files import FormatFile
    from headrace.bench.rows import Finding, Row
    from headrace.bench.suite import Settings, Tell
    from headrace.charts import Chart
    from headrace.types import Dataset

    Batch = npt.NDArray[np.int64]
    Read = Callable[[Any], object]

__all__ = ["SUITE"]

_SIZE, _BATCH = 10_000, 256
_LAYOUTS: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "chunks of 64": {"chunks": (64, 32, 32, 3)},
    "gzip, chunks of 16": {"chunks": (16, 32, 32, 3), "compression": "gzip", "shuffle": True},
    "gzip, chunks of 64": {"chunks": (64, 32, 32, 3), "compression": "gzip", "shuffle": True},
    "lzf, chunks of 16": {"chunks": (16, 32, 32, 3), "compression": "lzf"},
}
_SCANNED, _TEXTS = ("tar", "tfrecord", "recordio", "msgpack"), ("jsonl", "csv")
_PEERS = ("h5py", "lmdb", "pyarrow", "tfrecord", "cat")
_LONGEST_S = 5.0


def _run(settings: Settings, tell: Tell) -> Iterator[Finding]:
    with one_core():
        for module, measure in (
            ("h5py", _hdf5),
            ("lmdb", _lmdb),
            ("pyarrow", _arrow),
            ("msgpack", _scans),
        ):
            tell(measure.__name__.strip("_"))
            if is_there(module):
                yield from measure(settings)
            else:
                yield Missing(measure.__name__.strip("_"), f"not installed: {module}")


def _count(settings: Settings) -> int:
    return settings.count(quick=2048, full=8192)


def _compare(section: str, contenders: dict[str, Read], batches: Sequence[Batch], settings: Settings) -> Iterator[Row]:
    """The contenders in turns, each with all batches."""
    rounds = settings.repeats(quick=3, full=7)
    seconds = take_turns(contenders, lambda turn: batches, rounds, longest_s=_LONGEST_S)
    yield from compared_rows(section, seconds, _PEERS, samples=len(batches[0]), cache="warm")


def _batches(count: int, *, is_near: bool = False) -> list[Batch]:
    """Three batches: from anywhere, or each from a stretch of twice its length."""
    rng, size = np.random.default_rng(1), min(_BATCH, count)
    if not is_near:
        return [rng.permutation(count)[:size] for _ in range(3)]
    starts = rng.integers(0, max(1, count - 2 * size), 3)
    return [start + rng.permutation(min(2 * size, count))[:size] for start in starts]


def _hdf5(settings: Settings) -> Iterator[Finding]:
    import h5py

    path, count, rng = settings.work / "x.h5", _count(settings), np.random.default_rng(0)
    pictures = rng.integers(0, 64, (count, 32, 32, 3), dtype=np.uint8)
    with h5py.File(path, "w") as file:
        for name, options in _LAYOUTS.items():
            chunks = options.get("chunks")
            told = options | ({"chunks": (min(chunks[0], count), *chunks[1:])} if chunks else {})
            file.create_dataset(name, data=pictures, **told)
        values = file.create_dataset("10 kB of any length", (count,), h5py.vlen_dtype(np.uint8))
        for i in range(count):
            values[i] = rng.integers(0, 256, _SIZE - i % 7, dtype=np.uint8)
    with h5py.File(path, "r") as file, open_dataset(path, kept_bytes=0) as opened:
        for name in (*_LAYOUTS, "10 kB of any length"):
            for where in ("anywhere", "near"):
                contenders: dict[str, Read] = {
                    "headrace": partial(_values, opened, name),
                    "h5py": partial(_rows, file[name]),
                }
                batches = _batches(count, is_near=where == "near")
                yield from _compare(f"HDF5, {name}, {where}", contenders, batches, settings)


def _values(dataset: Dataset, field: str, batch: Batch) -> object:
    return dataset.read_values(batch, field)


def _rows(data: Any, batch: Batch) -> object:
    return data[np.sort(batch)]


def _blobs(settings: Settings) -> list[tuple[bytes, int]]:
    count = _count(settings)
    blob = np.random.default_rng(0).bytes(_SIZE + count)
    return [(blob[i : i + _SIZE], i) for i in range(count)]


def _files(settings: Settings, names: Sequence[str]) -> dict[str, FormatFile]:
    fields: list[Mapping[str, Any]] = [{"data": Bytes(), "label": Int()}, {"data": Bytes()}]
    files, _ = make_files(settings.work, _blobs(settings), fields, decode="bytes", only=names, indexed=False)
    return {file.name: file for file in files}


def _ours(stack: ExitStack, file: FormatFile) -> Read:
    dataset, field = stack.enter_context(file.open()), file.field(("bytes",))
    return lambda batch: dataset.read_bytes(batch, field)


def _lmdb(settings: Settings) -> Iterator[Finding]:
    import lmdb

    file = _files(settings, ["lmdb"])["lmdb"]
    with ExitStack() as stack:
        theirs = stack.enter_context(lmdb.open(str(file.path), subdir=False, lock=False, readonly=True))
        with theirs.begin() as reader:
            keys = [key for key, _ in reader.cursor()]

        def read(batch: Batch) -> object:
            with theirs.begin() as reader:
                return [reader.get(keys[i]) for i in batch.tolist()]

        contenders: dict[str, Read] = {"headrace": _ours(stack, file), "lmdb": read}
        yield from _compare("LMDB, 10 kB", contenders, _batches(_count(settings)), settings)


def _arrow(settings: Settings) -> Iterator[Finding]:
    """Both have pyarrow's own ``take``, of a dataset and of a mapped table."""
    import pyarrow
    import pyarrow.dataset

    files, batches = _files(settings, ["parquet", "arrow"]), _batches(_count(settings))
    with ExitStack() as stack:
        parquet = pyarrow.dataset.dataset(files["parquet"].path)
        mapped = stack.enter_context(pyarrow.memory_map(str(files["arrow"].path)))
        table = pyarrow.ipc.open_file(mapped).read_all()
        theirs: dict[str, Read] = {
            "parquet": lambda batch: parquet.take(batch, columns=["data"])["data"].to_pylist(),
            "arrow": lambda batch: table["data"].take(batch).to_pylist(),
        }
        for name, read in theirs.items():
            contenders = {"headrace": _ours(stack, files[name]), "pyarrow": read}
            yield from _compare(f"{name.capitalize()}, 10 kB", contenders, batches, settings)


# Files without an index


def _scans(settings: Settings) -> Iterator[Finding]:
    files = _files(settings, _SCANNED)
    lines = [(i, i / 7, f"the caption of sample {i}, some words long " * 3) for i in range(10 * _count(settings))]
    text: dict[str, Any] = {"id": Int(), "score": Float(), "caption": Text()}
    texts, _ = make_files(settings.work, lines, [text], only=_TEXTS, indexed=False)
    for file in (*files.values(), *texts):
        yield from _scan(file, settings)
    yield from _parse(files["tfrecord"].path, settings)


def _scan(file: FormatFile, settings: Settings) -> Iterator[Row]:
    """Finding: opening without an annex. Opening also keeps one. Indexing makes the checksums of all values as well."""

    def find(_: int) -> None:
        open_dataset(file.path, annex=False, **file.options).close()

    def keep(_: int) -> None:
        file.path.with_name(f"{file.path.name}.annex").unlink(missing_ok=True)
        file.open().close()

    contenders: dict[str, Callable[[int], object]] = {
        "finding": find,
        "opening": keep,
        "indexing": lambda _: index(file.path, fresh=True),
        "cat": lambda _: subprocess.run(["cat", str(file.path)], stdout=subprocess.DEVNULL, check=True),
    }
    seconds = take_turns(contenders, lambda turn: [turn], settings.repeats(quick=3, full=7))
    size = os.path.getsize(file.path)
    facts = {name: {"MB": size / 1e6} for name in contenders}
    yield from compared_rows(f"scan {file.name}", seconds, _PEERS, samples=size / 1e9, unit="GB/s", facts=facts)


def _parse(path: Path, settings: Settings) -> Iterator[Finding]:
    """All examples in order, all features of each. The tfrecord package never compares a checksum."""
    index(path, fresh=True)
    contenders: dict[str, Read] = {
        "headrace": lambda _: _read_all(path, checksums=True),
        "headrace, checksums=False": lambda _: _read_all(path, checksums=False),
        "headrace, sample by sample": lambda _: _iterate(path),
    }
    with open_dataset(path) as dataset:
        count = len(dataset)
        kinds = {name: "byte" if field.has_payload else "int" for name, field in dataset.schema.items()}
    if is_there("tfrecord"):
        from tfrecord.reader import tfrecord_loader  # type: ignore[import-untyped, unused-ignore]

        contenders["tfrecord"] = lambda _: [None for _ in tfrecord_loader(str(path), None, kinds)]
    else:
        yield Missing("TFRecord, examples parsed: tfrecord", "not installed: tfrecord")
    seconds = take_turns(contenders, lambda turn: [turn], settings.repeats(quick=3, full=5))
    yield from compared_rows("TFRecord, examples parsed", seconds, _PEERS, samples=count, cache="warm")


def _iterate(path: Path) -> None:
    with open_dataset(path) as dataset:
        for _ in dataset:
            pass


def _read_all(path: Path, *, checksums: bool) -> None:
    with open_dataset(path, checksums=checksums) as dataset:
        _read_in_batches(dataset)


def _read_in_batches(dataset: Dataset) -> None:
    for start in range(0, len(dataset), _BATCH):
        batch = np.arange(start, min(start + _BATCH, len(dataset)))
        for name in dataset.schema:
            dataset.read_values(batch, name)


def _charts(rows: Sequence[Row]) -> list[Chart]:
    charts: list[Chart] = []
    for title, beginning in (("Random batches", ("HDF5", "LMDB", "Parquet", "Arrow")), ("Scans beside cat", ("scan",))):
        sections = list(dict.fromkeys(row.section for row in rows if row.section.startswith(beginning)))
        for section in sections:
            charts += bars_of(rows, f"{title}: {section}", [section])
    charts += bars_of(rows, "TFRecord, examples parsed", ["TFRecord, examples parsed"])
    return charts


SUITE = Suite(
    name="libraries",
    question="How fast are files of other formats read, beside the packages that usually read them?",
    run=_run,
    charts=_charts,
    room_bytes=lambda settings: 16 * _count(settings) * _SIZE + (1 << 28),
    rooms=("formats", "storage", "annex"),
    notes=(
        f"Batches of {_BATCH}, warm, on one core. HDF5: pictures of 32 x 32, and values of any length of 10 kB; h5py "
        "is given sorted indices, as it needs them. Nothing that was unpacked is kept (kept_bytes=0). Where chunks are "
        "compressed, most of the time of both goes into unpacking them.",
        "The row groups of the Parquet fit into the memory that headrace keeps them in, so after the first batch they "
        "are not unpacked again.",
        "Scans: finding is opening the file without an annex: places, names and types. Opening also keeps them in an "
        "annex, as the first opening of a large file does. Indexing also makes the checksums of all values.",
    ),
)
