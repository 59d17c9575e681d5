"""The msgpack package reads what we write, and the other way round."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import headrace as hr
from headrace.codecs import npy

if TYPE_CHECKING:
    from pathlib import Path

msgpack = pytest.importorskip("msgpack")
VALUES: list[dict[str, Any]] = [
    {"n": n, "x": x, "t": t, "b": b, "j": j}
    for n, x, t, b, j in zip(
        [0, 127, 128, -32, -33, 2**16, 2**32, -(2**31), 2**63 - 1, -(2**63)],
        [0.0, -1.5, 1e30, float("inf"), 0.1, 2.0, 3.0, 4.0, 5.0, 6.0],
        ["", "a" * 31, "b" * 32, "c" * 300, "π" * 70_000, "x", "y", "z", "\0", "q"],
        [b"", b"a" * 255, b"b" * 256, b"c" * 70_000, b"\xff\xd8", b"1", b"2", b"3", b"4", b"5"],
        [None, [], {}, [1, [2, [3]]], {"a": {"b": None}}, "t", 1, 2.5, True, list(range(70_000))],
        strict=True,
    )
]


@pytest.mark.parametrize("options", [{}, {"use_single_float": True}, {"use_bin_type": True}])
def test_we_read_theirs(tmp_path: Path, options: dict[str, bool]) -> None:
    path = tmp_path / "x.msgpack"
    with open(path, "wb") as file:
        for value in VALUES:
            file.write(msgpack.packb(value, **options))
    dataset = hr.open(path)
    with open(path, "rb") as file:
        theirs = list(msgpack.Unpacker(file))
    assert [dict(sample) for sample in dataset] == theirs


def test_they_read_ours(tmp_path: Path) -> None:
    path = tmp_path / "x.msgpack"
    fields = {"n": hr.Int(), "x": hr.Float(), "t": hr.Text(), "b": hr.Bytes(), "j": hr.Json()}
    hr.write(path, VALUES, fields=fields, names=[str(i) for i in range(10)])
    with open(path, "rb") as file:
        assert list(msgpack.Unpacker(file)) == VALUES
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    hr.write(tmp_path / "y.msgpack", [(array,)], fields={"a": hr.NDArray("int16", (2, 3))})
    assert np.array_equal(npy.decode(msgpack.unpackb((tmp_path / "y.msgpack").read_bytes())["a"]), array)


def test_as_deep_as_the_package_goes(tmp_path: Path) -> None:
    value: list[Any] = []
    for _ in range(500):
        value = [value]
    hr.write(tmp_path / "x.msgpack", [(value,)], fields={"j": hr.Json()})
    assert hr.open(tmp_path / "x.msgpack")[0].j == value
