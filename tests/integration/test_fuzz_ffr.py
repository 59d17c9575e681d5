"""Mutated .ffr files never do more than raise a HeadraceError: no crash, no other exception.

The number of mutations and the seed can be set: HEADRACE_FUZZ_ITERATIONS, HEADRACE_FUZZ_SEED.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import struct
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.codecs.pickle_values import RefusedPickleError, load_values
from headrace.errors import HeadraceError
from headrace.formats.ffr import FfrReader, PackedFolder
from headrace.formats.ffr import packed_index as index

GOLDEN = Path(__file__).parents[1] / "golden" / "ffr"
SOURCES = [
    "plain/mixed_empty.ffr",
    "plain/count_3.ffr",
    "plain/page_edges.ffr",
    "old/old_mixed_empty.ffr",
    "packed/packed_nested.ffr",
    "packed/packed_meta_protocol_0.ffr",
    "packed/packed_meta_protocol_2.ffr",
]
ITERATIONS = int(os.environ.get("HEADRACE_FUZZ_ITERATIONS", "600"))
SEED = int(os.environ.get("HEADRACE_FUZZ_SEED", "0"))
INTERESTING = [0, 1, 2, 11, 12, 13, 127, 128, 255, 256, 2**16, 2**31, 2**32, 2**48, 2**62, 2**63 - 1, 2**63, 2**64 - 1]


def mutate(data: bytearray, rng: np.random.Generator) -> bytearray:
    n = struct.unpack_from("<q", data, 4)[0]
    end = min(12 + 12 * n, len(data))
    places = [(0, 12), (12, end), (end - 8 * n, end), (end, len(data)), (max(0, len(data) - 60), len(data))]
    for _ in range(rng.integers(1, 5)):
        first, last = places[rng.integers(len(places))]
        if first >= min(last, len(data)):
            continue
        at = int(rng.integers(first, min(last, len(data))))
        match rng.integers(5):
            case 0:
                data[at] ^= 1 << rng.integers(8)
            case 1:
                data[at] = rng.integers(256)
            case 2:
                value = INTERESTING[rng.integers(len(INTERESTING))]
                width = int(rng.choice([1, 4, 8]))
                patch = (value & ((1 << 8 * width) - 1)).to_bytes(width, "little")[: len(data) - at]
                data[at : at + len(patch)] = patch
            case 3:
                del data[at : at + int(rng.integers(1, 9))]
            case 4:
                data[at:at] = rng.bytes(int(rng.integers(1, 9)))
    if len(data) >= 12 and rng.integers(3):  # with a right checksum, what follows is reached
        n = min(max(0, struct.unpack_from("<q", data, 4)[0]), len(data))
        struct.pack_into("<I", data, 0, zlib.crc32(data[4 : 12 + 12 * n]))
    return data


def use(path: Path, rng: np.random.Generator) -> None:
    """Everything a user may do with a file; HeadraceErrors are what is expected."""
    options: dict[str, Any] = {"checksums": bool(rng.integers(2)), "cold": [None, True, False][rng.integers(3)]}
    with contextlib.suppress(HeadraceError):
        folder = PackedFolder(path, **options)
        names = folder.list(recursive=True, folders=False)
        folder.read(names[:5])
    try:
        dataset = hr.open(path, packed=[None, False][rng.integers(2)], **options)
    except HeadraceError:
        return
    some = rng.integers(0, len(dataset), 5).tolist() if len(dataset) else []
    calls = [lambda i=i: dataset[i] for i in range(min(len(dataset), 8))]
    calls += [lambda: dataset.read_bytes(some, "data"), lambda: dataset.read_ragged(np.array(some, np.int64), "data")]
    calls += [lambda i=i: dataset.view(i, "data") for i in some]
    calls += [lambda: dataset.verify(workers=2), lambda: dataset.fingerprint, lambda: repr(dataset)]
    calls += [lambda: FfrReader(path, **options).read(some)]
    for call in calls:
        with contextlib.suppress(HeadraceError):
            call()


@pytest.mark.parametrize("name", SOURCES)
def test_only_headrace_errors(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x.ffr"
    original = (GOLDEN / name).read_bytes()
    for iteration in range(-(-ITERATIONS // len(SOURCES))):
        rng = np.random.default_rng([SEED, iteration, len(name), *name.encode()])
        path.unlink(missing_ok=True)
        path.write_bytes(mutate(bytearray(original), rng))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                use(path, rng)
            except Exception as error:
                error.add_note(f"{name}, seed {SEED}, iteration {iteration}")
                raise


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_mutated_indexes(protocol: int) -> None:
    tree = index.build_tree([f"folder {i % 3}/file {i}" for i in range(20)])
    original = pickle.dumps(tree, protocol)
    for iteration in range(ITERATIONS * 3):
        rng = np.random.default_rng([SEED, iteration, protocol])
        data = bytearray(original)
        for _ in range(rng.integers(1, 4)):
            at = int(rng.integers(len(data)))
            match rng.integers(3):
                case 0:
                    data[at] = rng.integers(256)
                case 1:
                    del data[at : at + int(rng.integers(1, 9))]
                case 2:
                    data[at:at] = bytes(data[at : at + int(rng.integers(1, 30))])
        with contextlib.suppress(RefusedPickleError):
            index._checked_tree(load_values(bytes(data)), 20, 1 << 20)
