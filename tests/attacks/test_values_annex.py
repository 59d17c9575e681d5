"""Annexes whose checksums are right and whose contents are hostile: errors of ours, and no others."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import headrace
import headrace.errors
from headrace.annex import CHECKSUMS, CLASSES, METADATA, NAMES, SCHEMA, TILE_INDEX, side_path, write_annex
from headrace.cli.main import main
from headrace.errors import HeadraceError
from headrace.formats.beton import BetonDataset

if TYPE_CHECKING:
    from pathlib import Path

DEEP = b"[" * 100_000 + b"]" * 100_000
DEEPER = b'{"a":' * 50_000 + b"1" + b"}" * 50_000
NOT_QUITE_DEEP = b"[" * 900 + b"]" * 900
VALUES = [
    DEEP,
    DEEPER,
    NOT_QUITE_DEEP,
    b"",
    b"\xff\xfe",
    b"null",
    b"1e999",
    b"NaN",
    b"9" * 5000,
    b'"\\ud800"',
    b"{}",
    b"[]",
]
VALUES += [
    b"[1]",
    b'{"n": 1}',
    b'{"n": [1, null, {}]}',
    b'{"n": ["\\u001b[31m"]}',
    b'{"\\u0000": []}',
    b"[[]]",
    b"true",
]


def schema(**changes: Any) -> bytes:
    spec = {"kind": "ndarray", "dtype": "<i8", "shape": [4], **changes}
    return json.dumps([["a", spec], ["n", {"kind": "int"}]]).encode()


SCHEMAS = [
    *VALUES,
    schema(shape=[1e999]),
    schema(shape=[float("nan")]),
    schema(shape=[10**30]),
    schema(shape=["4"]),
    schema(shape=[[4]]),
    schema(shape=4),
    schema(shape=None),
    schema(shape={"a": 1}),
    schema(shape=[1] * 1000),
    schema(dtype="V" + "9" * 12),
    schema(dtype="U2147483647"),
    schema(dtype="S" + "9" * 30),
    schema(dtype="O"),
    schema(dtype="M8[zz]"),
    schema(dtype="<m8[99999999999s]"),
    schema(dtype=["<i8"]),
    schema(dtype=None),
    schema(kind="image"),
    schema(kind=["int"]),
    schema(kind="int"),
    schema(other=1),
    schema(**{"__class__": 1}),
    b'[["a", 1], ["n", 2]]',
    b'[["a"], ["n"]]',
    b'[[1, {"kind": "int"}], [[], {"kind": "int"}]]',
    b'[["a", {"kind": "image", "quality": 1e999}], ["n", {"kind": "int"}]]',
    b'[["a", {"kind": "image", "mode": [], "max_side": -1}], ["n", {"kind": "int"}]]',
    b'[["a", {"kind": "image", "background": {"x": 1}, "smart_threshold": NaN}], ["n", {"kind": "int"}]]',
]


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    path = tmp_path / "x.beton"
    fields = {"a": headrace.NDArray("int64", (4,)), "n": headrace.Int()}
    headrace.write(path, [(np.arange(4), i) for i in range(3)], fields=fields, annex=False, page_size=2 << 20)
    return path


def put_beside(path: Path, **sections: bytes) -> None:
    with BetonDataset(path, annex=False) as opened:
        pieces: list[bytes] = []
        write_annex(
            lambda buffers: pieces.extend(bytes(memoryview(buffer)) for buffer in buffers),
            {name: [data] for name, data in sections.items()},
            num_samples=len(opened),
            dataset_size=lambda _: len(opened.mapped),
            dataset_fingerprint=lambda _: opened.fingerprint,
        )
    with open(side_path(str(path)), "wb") as file:
        file.write(b"".join(pieces))


def use(path: Path) -> None:
    try:
        dataset = headrace.open(path)
    except HeadraceError:
        dataset = None
    calls: list[Any] = [lambda: headrace.verify(path), lambda: headrace.Loader(path, 2)[0]]
    if dataset is not None:
        calls += [lambda: dataset[0], lambda: list(dataset.keys or ()), lambda: dataset.class_names]
        calls += [lambda: dataset.metadata, lambda: dataset.read_bytes([0, 1], "a"), lambda: repr(dataset)]
    for call in calls:
        with contextlib.suppress(HeadraceError):
            call()


@pytest.mark.parametrize("section", [CLASSES, METADATA, SCHEMA, NAMES, CHECKSUMS, TILE_INDEX])
def test_sections_of_hostile_values(dataset: Path, section: str, capsys: pytest.CaptureFixture[str]) -> None:
    for value in SCHEMAS if section == SCHEMA else VALUES:
        put_beside(dataset, **{section: value})
        try:
            use(dataset)
        except Exception as error:
            error.add_note(f"{section}: {value[:80]!r}")
            raise
        for words in (["info"], ["ls", "-l"], ["verify"], ["info", "--json"]):
            assert main([words[0], str(dataset), *words[1:]]) in (0, 1, 2), value[:60]
        assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("seed", range(20))
def test_random_tables(dataset: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    numbers = [0, 1, 2, 3, 8, 24, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1]
    for section in (NAMES, CHECKSUMS, TILE_INDEX):
        table = np.array([numbers[int(i)] for i in rng.integers(0, len(numbers), int(rng.integers(1, 8)))], np.uint64)
        head = b"" if section == NAMES else rng.integers(0, 3, 8, dtype=np.uint8).tobytes()
        put_beside(dataset, **{section: head + table.tobytes() + rng.bytes(int(rng.integers(0, 9)))})
        use(dataset)


def test_values_of_fields_that_are_nested_too_deeply(tmp_path: Path) -> None:
    path = tmp_path / "x.beton"
    headrace.write(path, [(b"[" * 50_000,), (b"1" * 5000,), (b"\xff",)], fields={"j": headrace.Bytes()}, annex=False)
    data = bytearray(path.read_bytes())
    data[24] = 5  # the field is JSON
    path.write_bytes(data)
    opened = headrace.open(path)
    for i in range(3):
        with pytest.raises(headrace.errors.CorruptSampleError, match=f"sample {i}"):
            opened[i]
    assert len(headrace.verify(path, decode=True).problems) == 3
    with pytest.raises(headrace.errors.CorruptSampleError):
        next(iter(headrace.Loader(path, 3)))
    for verb in ("cat", "extract"):
        assert main([verb, str(path), "0", *(["-C", str(tmp_path / "out")] if verb == "extract" else [])]) == 2
