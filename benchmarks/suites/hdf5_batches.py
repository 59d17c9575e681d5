"""Random batches of HDF5 and LMDB files, against h5py with a sorted list of indices and the lmdb package.

Both sides read the same batches of 256 samples from a warm file, on one core. *Anywhere* draws from the whole file, so
that chunks are hit about as often as the batch is large; *near* draws from 512 samples in a row, as an order by pages
does, so each chunk is hit many times. headrace keeps no chunks from one batch to the next here (``cache_size=0``).

In packed chunks that are hit once or twice nearly all of the time goes into unpacking them: h5py unpacks each chunk of
a sorted list once, as headrace does. So there headrace can be faster only by what h5py spends on choosing rows, and by
libdeflate, which unpacks in about two thirds of zlib's time: two to four times, not five. LZF is unpacked by the HDF5
library on both sides.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import headrace as hr
from benchmarks.harness import ROOT, ratio, row
from headrace.bench.turns import one_core, timed

if TYPE_CHECKING:
    from collections.abc import Callable

QUESTION = "How fast are random batches of HDF5 and LMDB files read, compared with h5py and lmdb?"
COUNT, BATCH = 8192, 256
LAYOUTS: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "chunks of 64": {"chunks": (64, 32, 32, 3)},
    "gzip, chunks of 16": {"chunks": (16, 32, 32, 3), "compression": "gzip", "shuffle": True},
    "gzip, chunks of 64": {"chunks": (64, 32, 32, 3), "compression": "gzip", "shuffle": True},
    "lzf, chunks of 16": {"chunks": (16, 32, 32, 3), "compression": "lzf"},
}


def missing() -> str:
    try:
        import h5py  # noqa: F401
        import lmdb  # noqa: F401
    except ImportError as error:
        return f"{error.name} is not installed"
    return ""


def run() -> list[dict[str, Any]]:
    folder = ROOT / "build"
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as name, one_core():
        return [*_hdf5(Path(name, "x.h5")), *_lmdb(Path(name, "x.lmdb"))]


def _batches() -> dict[str, list[np.ndarray]]:
    rng = np.random.default_rng(1)
    near = [first + rng.permutation(2 * BATCH)[:BATCH] for first in (0, 3000, 7000)]
    return {"anywhere": [rng.permutation(COUNT)[:BATCH] for _ in range(3)], "near": near}


def _hdf5(path: Path) -> list[dict[str, Any]]:
    import h5py

    rng, rows = np.random.default_rng(0), []
    pictures = rng.integers(0, 64, (COUNT, 32, 32, 3), dtype=np.uint8)
    with h5py.File(path, "w") as file:
        for name, options in LAYOUTS.items():
            file.create_dataset(name, data=pictures, **options)
        values = file.create_dataset("10 kB of any length", (COUNT,), h5py.vlen_dtype(np.uint8))
        for i in range(COUNT):
            values[i] = rng.integers(0, 256, 10_000 - i % 7, dtype=np.uint8)
    with h5py.File(path, "r") as file, hr.open(path, cache_size=0) as opened:
        for name in (*LAYOUTS, "10 kB of any length"):
            for where, batches in _batches().items():

                def theirs(dataset: Any = file[name], batches: list[np.ndarray] = batches) -> None:
                    for batch in batches:
                        _ = dataset[np.sort(batch)]

                def ours(name: str = name, batches: list[np.ndarray] = batches) -> None:
                    for batch in batches:
                        opened.read_values(batch, name)

                rows += _compare(f"HDF5, {name}, {where}", ours, theirs, "h5py")
    return rows


def _lmdb(path: Path) -> list[dict[str, Any]]:
    import lmdb

    blob = np.random.default_rng(0).bytes(10_000 + COUNT)
    hr.write(path, [blob[i : i + 10_000] for i in range(COUNT)], fields={"data": hr.Bytes()})
    batches = _batches()["anywhere"]
    with hr.open(path) as dataset, lmdb.open(str(path), subdir=False, lock=False, readonly=True) as environment:
        keys = [key.encode() for key in dataset.keys or []]

        def theirs() -> None:
            for batch in batches:
                with environment.begin() as reader:
                    _ = [reader.get(keys[i]) for i in batch]

        def ours() -> None:
            for batch in batches:
                dataset.read_bytes(batch, "data")

        return _compare("LMDB, 10 kB, anywhere", ours, theirs, "lmdb")


def _compare(what: str, ours: Callable[[], None], theirs: Callable[[], None], peer: str) -> list[dict[str, Any]]:
    seconds = {"headrace": timed(ours, 3), peer: timed(theirs, 3)}
    rows = [row(f"{what}: {who}", taken, samples=3 * BATCH) for who, taken in seconds.items()]
    faster = statistics.median(seconds[peer]) / statistics.median(seconds["headrace"])
    return [*rows, ratio(what, faster, f"the rate of {peer}")]
