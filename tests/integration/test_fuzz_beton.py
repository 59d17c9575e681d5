"""Mutated files: whatever comes out is a HeadraceError, never another exception, never a crash.

HEADRACE_FUZZ_ITERATIONS sets the number of mutations in all (a few hundred by default), HEADRACE_FUZZ_SEED the
start. Mutations hit the places that matter: header, descriptors, metadata, payloads in use, annex and table.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.helpers import Surgeon, write_all_fields

import headrace as hr
from headrace.errors import HeadraceError

ITERATIONS = int(os.environ.get("HEADRACE_FUZZ_ITERATIONS", "300"))
SEED = int(os.environ.get("HEADRACE_FUZZ_SEED", "1"))
GOLDEN = ["scalars", "all_fields", "one_sample", "img_jpg_var", "img_raw_only", "img_prop", "ndarrays", "tensors"]
GOLDEN += ["bytes_json", "bytes_empty", "names", "custom"]
OURS = ["annex", "beside"]
MAX_PIXELS = 1 << 22
INTERESTING = [0, 1, 2, 7, 8, 255, 1 << 15, 1 << 16, (1 << 21) - 1, 1 << 21, (1 << 21) + 1, 1 << 22, 1 << 31]
INTERESTING += [(1 << 32) - 1, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 24, (1 << 64) - 1]


@pytest.fixture(scope="module")
def sources(golden_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Surgeon]:
    found = {name: Surgeon(golden_dir / f"{name}.beton") for name in GOLDEN}
    path = tmp_path_factory.mktemp("fuzz") / "annex.beton"
    write_all_fields(path, 6, names=list("abcdef"), class_names={"label": ["x"]}, metadata={"k": 1})
    return found | {"annex": Surgeon(path)}


@pytest.fixture(autouse=True)
def small_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """A header may claim a picture of 800 MB; refuse earlier, the machine has other work."""
    monkeypatch.setattr("headrace.codecs.jpeg.MAX_PIXELS", MAX_PIXELS)


def regions(file: Surgeon) -> list[tuple[int, int]]:
    """The parts of a file that mean something: (first byte, end)."""
    table = file.header["alloc_table_ptr"]
    rows = file.table
    used = [(int(ptr), int(ptr + size)) for _, ptr, size in rows if size]
    parts = [(0, 24), (24, file.metadata_start), (0, file.metadata_start)]
    parts += [(file.metadata_start, file.metadata_start + 2048), (table - 700, table), (table, len(file.data))]
    if used:
        parts += [(min(a for a, _ in used), max(b for _, b in used))] * 2
    return [(max(0, a), min(b, len(file.data))) for a, b in parts if a < min(b, len(file.data))]


def mutate(file: Surgeon, rng: np.random.Generator) -> bytearray:
    data = bytearray(file.data)
    places = regions(file)
    for _ in range(rng.integers(1, 4)):
        first, end = places[rng.integers(len(places))]
        at = int(rng.integers(first, end))
        match rng.integers(6):
            case 0:
                data[at] ^= 1 << rng.integers(8)
            case 1:
                data[at] = rng.integers(256)
            case 2 | 3:
                aligned = first + (at - first) // 8 * 8 if rng.integers(2) else at
                value = INTERESTING[rng.integers(len(INTERESTING))]
                width = int(rng.choice([1, 2, 4, 8]))
                patch = (value & ((1 << 8 * width) - 1)).to_bytes(width, "little")[: len(data) - aligned]
                data[aligned : aligned + len(patch)] = patch
            case 4:
                source = int(rng.integers(0, len(data)))
                piece = data[source : source + int(rng.integers(1, 64))][: len(data) - at]
                data[at : at + len(piece)] = piece
            case 5:
                if rng.integers(4) == 0:
                    del data[at:]
                    return data
    return data


def use(path: Path, rng: np.random.Generator) -> None:
    """Everything a user may do with a file; HeadraceErrors are what is expected."""
    options: dict[str, Any] = {"annex": bool(rng.integers(4)), "checksums": bool(rng.integers(2))}
    try:
        dataset = hr.open(path, **options)
    except HeadraceError:
        return
    some = rng.integers(0, len(dataset), 4).tolist() if len(dataset) else []
    calls = [lambda i=i: dataset[i] for i in [*some, *range(min(len(dataset), 8))]]
    calls += [lambda: dataset[some], lambda: dataset.keys and list(dataset.keys[:9]), lambda: dataset.class_names]
    calls += [lambda: dataset.metadata, lambda: repr(dataset), lambda: dataset.verify(decode=True, workers=2)]
    for column in dataset.layout.columns:
        if column.slot is None:
            calls += [lambda c=column: dataset.column(c.name)[:9].tolist()]
        else:
            calls += [lambda c=column: dataset.read_bytes(some, c.name)]
            if column.field.kind != "image":
                calls += [lambda c=column, i=i: dataset.view(i, c.name) for i in some]
    for call in calls:
        with contextlib.suppress(HeadraceError):
            call()


@pytest.mark.parametrize("name", GOLDEN + OURS)
def test_only_headrace_errors(sources: dict[str, Surgeon], tmp_path: Path, name: str) -> None:
    from headrace.formats import index

    path = tmp_path / "x.beton"
    file = sources["annex"] if name in OURS else sources[name]
    annex = b""
    if name == "beside":
        plain = tmp_path / "plain.beton"
        write_all_fields(plain, 3, annex=False)
        annex = Path(index(plain, names=list("abc"))).read_bytes()
        file = Surgeon(plain)
    for iteration in range(-(-ITERATIONS // len(GOLDEN + OURS))):
        rng = np.random.default_rng([SEED, iteration, len(name), *name.encode()])
        data = mutate(file, rng)
        path.unlink(missing_ok=True)
        path.write_bytes(data)
        if annex:
            broken = bytearray(annex)
            for at in rng.integers(0, len(annex), rng.integers(0, 3)):
                broken[at] = rng.integers(256)
            path.with_name("x.beton.annex").write_bytes(broken[: rng.integers(len(annex) // 2, len(annex) * 3)])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                use(path, rng)
            except Exception as error:
                error.add_note(f"{name}, seed {SEED}, iteration {iteration}")
                raise
