"""Random batches of 256 samples of 10 kB from every format, as ratios to `.ffr` in the same run, on one core.

All formats hold the same bytes and have their annex where the format has one. They take turns with the same batches.
Values are checked where the format or its annex has checksums, as everywhere by default.

Cold: the files of a contender leave the page cache before its turn, and it is opened anew. On a virtual machine the
host may still hold them in its memory: then "cold" is the cost of the way, not of the disk.

The peers read the very files that headrace has written, where they can: h5py with a sorted list of indices, pyarrow's
`take` of a Parquet dataset and of a mapped Arrow file, and the lmdb package. The row groups of the Parquet fit into the
memory that headrace keeps them in, so after the first batch they are not unpacked again, cold or warm.
"""

from __future__ import annotations

import gc
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import headrace as hr
from benchmarks.format_files import left_out, ratios
from benchmarks.harness import ROOT
from headrace.bench.format_files import FormatFile, make_files
from headrace.bench.page_cache import forget
from headrace.bench.turns import one_core, take_turns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Read = Callable[[np.ndarray], object]

QUESTION = "How fast are random batches of 256 x 10 kB in each format, warm and cold, beside .ffr?"
COUNT, SIZE, BATCH = 8192, 10_000, 256
WARM_ROUNDS, COLD_ROUNDS = 9, 7
PEERS = {"hdf5": "h5py", "parquet": "pyarrow, Parquet", "arrow": "pyarrow, Arrow", "lmdb": "lmdb"}
FIELDS = ({"data": hr.Bytes()}, {"data": hr.NDArray("uint8", (SIZE,))})


def run() -> list[dict[str, Any]]:
    folder = ROOT / "build"
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as name, one_core():
        files, reasons = _files(Path(name))
        return [*_warm(files), *_cold(files), *left_out(reasons)]


def _files(folder: Path) -> tuple[list[FormatFile], dict[str, str]]:
    blob = np.random.default_rng(0).integers(0, 256, SIZE + COUNT, np.uint8)
    arrays = [blob[i : i + SIZE] for i in range(COUNT)]
    (folder / "bytes").mkdir()
    (folder / "arrays").mkdir()
    files, reasons = make_files(folder / "bytes", [(a.tobytes(),) for a in arrays], FIELDS[:1], decode="bytes")
    more, reasons = make_files(folder / "arrays", [(a,) for a in arrays], FIELDS[1:], only=list(reasons) or ["-"])
    return [*files, *more], reasons


def _reader(dataset: Any, field: str) -> Read:
    if dataset.schema[field].kind == "ndarray":
        return lambda batch: dataset.read_values(batch, field)
    return lambda batch: dataset.read_bytes(batch, field)


def _batches(turn: int, count: int = 8) -> Sequence[np.ndarray]:
    rng = np.random.default_rng(turn)
    return [rng.permutation(COUNT)[:BATCH] for _ in range(count)]


def _warm(files: list[FormatFile]) -> list[dict[str, Any]]:
    with ExitStack() as stack:
        contenders: dict[str, Read] = {}
        for file in files:
            field = file.field(("bytes", "ndarray"))
            contenders[file.name] = _reader(stack.enter_context(file.open()), field)
        contenders |= _peers({file.name: file for file in files}, stack)
        _check_same(contenders)
        seconds = take_turns(contenders, _batches, WARM_ROUNDS)
    rows = ratios("warm", seconds, "ffr", samples=BATCH, size_bytes=BATCH * SIZE, cache="warm")
    for ours, peer in PEERS.items():
        pair = {name: seconds[name] for name in (ours, f"{peer} (peer)") if name in seconds}
        if len(pair) == 2:
            rows += ratios("warm", pair, f"{peer} (peer)", samples=BATCH, cache="warm")[2:]
    return rows


def _check_same(contenders: dict[str, Read]) -> None:
    """Everyone gives the same bytes."""
    batch = np.array([7, 3, COUNT - 1])
    expected = [bytes(value) for value in contenders["ffr"](batch)]  # type: ignore[attr-defined]
    for name, read in contenders.items():
        if not name.endswith("(peer)"):
            found = [bytes(value) for value in read(batch)]  # type: ignore[attr-defined]
            assert found == expected, name


def _cold(files: list[FormatFile]) -> list[dict[str, Any]]:
    """Opened before the files leave the cache, so that what a training does once does not count."""
    opened: dict[str, Any] = {}
    by_name = {file.name: (file, file.field(("bytes", "ndarray"))) for file in files}

    def before(name: str) -> None:
        for dataset in opened.values():
            dataset.close()
        opened.clear()
        gc.collect()  # what is mapped stays in the cache
        file, field = by_name[name]
        forget(file.path.parent)
        opened[name] = file.open()
        _reader(opened[name], field)(np.arange(64))  # the queue is made, its memory touched
        forget(file.path.parent)

    def reading(name: str, field: str) -> Read:
        return lambda batch: _reader(opened[name], field)(batch)

    contenders = {name: reading(name, field) for name, (_, field) in by_name.items()}
    seconds = take_turns(contenders, lambda turn: _batches(turn, 4), COLD_ROUNDS, before=before)
    return ratios("cold", seconds, "ffr", samples=BATCH, size_bytes=BATCH * SIZE, cache="cold")


# Peers


def _peers(files: dict[str, FormatFile], stack: ExitStack) -> dict[str, Read]:
    found: dict[str, Read] = {}
    for make in (_h5py, _pyarrow_parquet, _pyarrow_arrow, _lmdb):
        try:
            name, read = make(files, stack)
        except (ImportError, KeyError):
            continue
        found[f"{name} (peer)"] = read
    return found


def _h5py(files: dict[str, FormatFile], stack: ExitStack) -> tuple[str, Read]:
    import h5py

    data = stack.enter_context(h5py.File(files["hdf5"].path, "r"))["data"]
    return "h5py", lambda batch: data[np.sort(batch)]


def _pyarrow_parquet(files: dict[str, FormatFile], stack: ExitStack) -> tuple[str, Read]:
    import pyarrow.dataset

    table = pyarrow.dataset.dataset(files["parquet"].path)
    return "pyarrow, Parquet", lambda batch: table.take(batch, columns=["data"])["data"].to_pylist()


def _pyarrow_arrow(files: dict[str, FormatFile], stack: ExitStack) -> tuple[str, Read]:
    import pyarrow

    table = pyarrow.ipc.open_file(stack.enter_context(pyarrow.memory_map(str(files["arrow"].path)))).read_all()
    return "pyarrow, Arrow", lambda batch: table.take(batch)["data"].to_pylist()


def _lmdb(files: dict[str, FormatFile], stack: ExitStack) -> tuple[str, Read]:
    import lmdb

    environment = stack.enter_context(lmdb.open(str(files["lmdb"].path), subdir=False, lock=False, readonly=True))
    with environment.begin() as reader:
        keys = [key for key, _ in reader.cursor()]

    def read(batch: np.ndarray) -> list[bytes]:
        with environment.begin() as reader:
            return [reader.get(keys[i]) for i in batch.tolist()]

    return "lmdb", read
