"""Annexes of columns: the one form that checksums are of, and annexes that do not fit."""

from __future__ import annotations

import datetime
import json
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import headrace as hr
from headrace._native import crc32c
from headrace.annex import COLUMNS, SCHEMA, TILE_INDEX, Annex, write_annex
from headrace.fields import Bytes, Float, Image, Int, Json, NDArray, Text
from headrace.formats.column_annex import value_sums
from headrace.storage import LocalFile

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.types import Field


@pytest.mark.parametrize(
    ("field", "stored", "form"),
    [
        (Int(), np.array([-2], "i1"), struct.pack("<q", -2)),
        (Int(), np.array([-2], ">i4"), struct.pack("<q", -2)),
        (Float(), np.array([0.5], "f2"), struct.pack("<d", 0.5)),
        (NDArray("float32", (2,)), np.array([[1, 2]], ">f4"), struct.pack("<2f", 1, 2)),
        (
            NDArray("int16", (2, 2)),
            np.asfortranarray(np.array([[[1, 2], [3, 4]]], "i2")),
            struct.pack("<4h", 1, 2, 3, 4),
        ),
        (Image(), np.arange(12, dtype=np.uint8).reshape(1, 2, 2, 3), bytes(range(12))),
        (Image(), [b"a file"], b"a file"),
        (Bytes(), [b""], b""),
        (Text(), ["größe"], "größe".encode()),
        (Json(), [None], b"n"),
        (Json(), [[1, "a"]], b"l2:i1:1s1:a"),
        (Json(), [{"k": [True, False, b"xy"]}], b"m1:s1:kl3:tfb2:xy"),
        (Json(), [[0.5]], b"l1:d" + struct.pack("<d", 0.5)),
        (Json(), [[datetime.date(2020, 1, 2)]], b"l1:o10:2020-01-02"),
        (Json(), [(np.arange(2), np.int64(7))], b"l2:l2:i1:0i1:1i1:7"),
    ],
)
def test_one_form(field: Field, stored: Any, form: bytes) -> None:
    sums, sizes = value_sums(field, stored)
    assert (sums.tolist(), sizes.tolist()) == ([crc32c(form)], [len(form)])


def test_no_values() -> None:
    for stored in ([], np.empty(0, np.int64), np.empty((0, 3), np.float32)):
        sums, sizes = value_sums(NDArray("float32", (3,)), stored)
        assert (len(sums), len(sizes)) == (0, 0)


def indexed(path: Path, count: int = 8) -> Path:
    np.savez(path, x=np.arange(count), y=np.arange(2.0 * count).reshape(count, 2))
    hr.index(path)
    return path


def test_fields_that_are_read_as_something_else(tmp_path: Path) -> None:
    path = indexed(tmp_path / "x.npz")
    assert hr.open(path).has_checksums
    other = hr.open(path, fields={"x": hr.Float()})
    assert not other.has_checksums  # the form is another one
    assert other.verify().ok
    assert other.verify().checksums_checked == 2 + 8  # of the zip, and of y


def test_another_dataset_is_told_as_one(tmp_path: Path) -> None:
    path = indexed(tmp_path / "x.npz")
    np.savez(path, x=np.arange(8) + 1, y=np.zeros((8, 2)))
    (problem,) = hr.verify(path).problems
    assert problem.sample is None
    assert "belongs to another dataset" in problem.message


def test_a_changed_value_is_named_though_the_annex_does_not_fit(tmp_path: Path) -> None:
    path = indexed(tmp_path / "x.npz")
    y = np.arange(16.0).reshape(8, 2)
    y[5, 1] = -1
    np.savez(path, x=np.arange(8), y=y)
    file, value = hr.verify(path).problems
    assert "belongs to another dataset" in file.message
    assert (value.sample, value.field) == (5, "y")
    assert value.message.startswith("the value does not match its checksum in the annex: 0x")
    with pytest.warns(RuntimeWarning, match="values are not checked"):
        assert not hr.open(path).has_checksums


@pytest.mark.parametrize(
    "change",
    [
        {COLUMNS: [1]},
        {COLUMNS: {"format": "tar", "columns": ["x", "y"], "fields": {}, "facts": {"pictures": []}}},
        {COLUMNS: {"format": "values", "columns": ["x"], "fields": {}, "facts": {"pictures": []}}},
        {COLUMNS: {"format": "values", "columns": ["x", "y"], "fields": {}, "facts": {}}},
        {COLUMNS: {"format": "values", "columns": ["x", "y"], "fields": {}, "facts": {"pictures": ["z"]}}},
        {COLUMNS: {"format": "values", "columns": ["x", "y"], "fields": {}, "facts": {"pictures": [["x"]]}}},
        {SCHEMA: None},
        {SCHEMA: [["x", 3], ["y", {}]]},
        {SCHEMA: {"x": 1}},
    ],
)
def test_hostile(tmp_path: Path, change: dict[str, Any]) -> None:
    path = indexed(tmp_path / "x.npz")
    rewrite(path, change)
    with pytest.warns(RuntimeWarning, match="does not say what it should"):
        assert not hr.open(path).has_checksums
    (problem,) = hr.verify(path).problems
    assert "does not say what it should" in problem.message


def rewrite(path: Path, change: dict[str, Any]) -> None:
    """The same annex with other JSON in some sections."""
    side = f"{path}.annex"
    facts = hr.open(path).side_facts
    bound: dict[str, Any] = {"dataset_size": facts.size_bytes, "dataset_fingerprint": facts.fingerprint}
    annex = Annex.find(LocalFile(side), num_samples=facts.num_samples, **bound)
    assert annex is not None
    assert TILE_INDEX not in annex.names()
    sections: dict[str, Any] = {}
    for name in annex.names():
        data = annex.section(name)
        assert data is not None
        sections[name] = [json.dumps(change[name]).encode() if name in change else data.tobytes()]
    out = bytearray()
    write_annex(
        lambda pieces: [out.extend(memoryview(piece).cast("B")) for piece in pieces] and None,
        sections,
        num_samples=facts.num_samples,
        dataset_size=lambda _: facts.size_bytes,
        dataset_fingerprint=lambda _: facts.fingerprint,
    )
    with open(side, "wb") as file:
        file.write(out)
