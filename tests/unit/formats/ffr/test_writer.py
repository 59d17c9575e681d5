from __future__ import annotations

import array
import os
import struct
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import headrace as hr
from headrace.errors import ClosedError, WriteError
from headrace.formats.ffr import FfrReader, FfrWriter
from headrace.formats.ffr import writer as writing

if TYPE_CHECKING:
    from pathlib import Path


def plain_ffr(samples: list[bytes]) -> bytes:
    """The format, written down once more."""
    n = len(samples)
    offsets = [12 + 12 * n + sum(map(len, samples[:i])) for i in range(n)]
    tables = struct.pack(f"<q{n}I{n}q", n, *map(zlib.crc32, samples), *offsets)
    return struct.pack("<I", zlib.crc32(tables)) + tables + b"".join(samples)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.ffr"


@pytest.fixture(params=["held", "moved"])
def limits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small limits, so that a small test goes every way."""
    if request.param == "moved":
        monkeypatch.setattr(writing, "_HELD_BYTES", 5000)
        monkeypatch.setattr(writing, "_CHUNK_BYTES", 2000)
        monkeypatch.setattr("headrace.storage.atomic._MOVE_BYTES", 999)


@pytest.mark.usefixtures("limits")
@pytest.mark.parametrize("n", [None, 300])
@pytest.mark.parametrize("many", [True, False])
def test_exact_bytes(path: Path, n: int | None, many: bool) -> None:
    rng = np.random.default_rng(0)
    samples = [rng.bytes(int(size)) for size in rng.integers(0, 200, 300)]
    with FfrWriter(path, n) as writer:
        if many:
            writer.append_many(iter(samples[:100]))
            writer.append(samples[100])
            writer.append_many(samples[101:])
        else:
            for sample in samples:
                writer.append(sample)
        assert len(writer) == 300
        assert writer.size_bytes == sum(map(len, samples))
        assert not path.exists()
    assert path.read_bytes() == plain_ffr(samples)


def test_buffers_of_any_kind(path: Path) -> None:
    numbers = np.arange(24, dtype=np.int64).reshape(2, 3, 4)
    values: list[Any] = [
        b"abc",
        bytearray(b"abc"),
        memoryview(b"abcdef")[::2],
        array.array("d", [1.5, 2.5]),
        numbers,
        numbers[:, ::2],
        numbers.T,
        np.asfortranarray(numbers),
        np.array(7, np.int32),
        np.float64(1.5),
        np.zeros((0, 5)),
        np.array([True, False]),
        np.array([1, 2], ">i4"),
        np.zeros(3, [("a", "i1"), ("b", "f8")]),
    ]
    expected = [value.tobytes() if hasattr(value, "tobytes") else bytes(value) for value in values]
    for many in (True, False):
        with FfrWriter(path) as writer:
            if many:
                writer.append_many(values)
            else:
                for value in values:
                    writer.append(value)
        assert FfrReader(path).read_bytes(range(len(values))) == expected


@pytest.mark.parametrize("value", ["text", 5, None, [1, 2], np.array([object()]), np.array(["x"], object)])
def test_what_has_no_bytes(path: Path, value: Any) -> None:
    with FfrWriter(path) as writer:
        writer.append(b"good")
        for call in (writer.append, lambda v: writer.append_many([b"x", v])):
            with pytest.raises(TypeError, match=r"a sample of an \.ffr is|no bytes to store"):
                call(value)
        writer.append(b"still good")
    assert FfrReader(path).read_bytes(range(2)) == [b"good", b"still good"]


@pytest.mark.usefixtures("limits")
def test_a_buffer_may_be_used_again(path: Path) -> None:
    buffer = np.zeros(100, np.uint8)
    with FfrWriter(path) as writer:
        for i in range(200):
            buffer[:] = i
            if i % 2:
                writer.append(buffer)
            else:
                writer.append_many([buffer])
    assert [int(s[0]) for s in FfrReader(path).read(range(200))] == list(range(200))


def test_incomplete(path: Path) -> None:
    writer = FfrWriter(path, 3)
    writer.append(b"one")
    with pytest.raises(WriteError, match="announced with 3 samples, and 1 were written; no file was made"):
        writer.close()
    assert os.listdir(path.parent) == []
    with pytest.raises(ClosedError):
        writer.append(b"two")
    writer.close()
    with pytest.raises(KeyError), FfrWriter(path, 3) as writer:  # the user's own error, not ours
        raise KeyError("x")
    assert os.listdir(path.parent) == []


def test_too_many(path: Path) -> None:
    with FfrWriter(path, 2) as writer:
        writer.append(b"one")
        with pytest.raises(WriteError, match="announced with 2 samples, and this is one more"):
            writer.append_many([b"two", b"three"])
        writer.append(b"two")
        with pytest.raises(WriteError, match="this is one more"):
            writer.append(b"three")
    assert FfrReader(path).read_bytes(range(2)) == [b"one", b"two"]
    with pytest.raises(ValueError, match="n must not be negative, got -1"):
        FfrWriter(path, -1)


def test_nothing_under_the_name_until_it_is_complete(path: Path) -> None:
    path.write_bytes(b"before")
    with FfrWriter(path) as writer:
        writer.append(b"x")
        assert path.read_bytes() == b"before"
        writer.abort()
    assert path.read_bytes() == b"before"
    assert os.listdir(path.parent) == ["x.ffr"]


# -- headrace.write ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 3])
def test_write(path: Path, workers: int) -> None:
    samples = [bytes([i % 256]) * i for i in range(500)]
    hr.write(path, samples, fields={"data": hr.Bytes()}, workers=workers)
    assert path.read_bytes() == plain_ffr(samples)
    hr.write(path, iter(samples), fields={"data": hr.Bytes()}, workers=workers, force=True)
    assert path.read_bytes() == plain_ffr(samples)
    hr.write(
        path, [{"data": s} for s in samples[:3]] + [(s,) for s in samples[3:]], fields={"data": hr.Bytes()}, force=True
    )
    assert path.read_bytes() == plain_ffr(samples)


def test_write_values(path: Path) -> None:
    hr.write(path, [{"data": {"a": 1}}, [2]], fields={"data": hr.Json()})
    assert FfrReader(path).read_bytes([0, 1]) == [b'{"a": 1}', b"[2]"]
    assert [s.data for s in hr.open(path, decode="json")] == [{"a": 1}, [2]]
    hr.write(path, ["ä", ""], fields={"data": hr.Text()}, force=True)
    assert [s.data for s in hr.open(path, decode="text")] == ["ä", ""]
    hr.write(path, [np.full((2, 2), i) for i in range(3)], fields={"data": hr.NDArray("int64", (2, 2))}, force=True)
    assert [s.data.tolist() for s in hr.open(path, decode="npy")] == [[[i, i], [i, i]] for i in range(3)]
    hr.write(path, [np.zeros((8, 9, 3), np.uint8)], fields={"image": hr.Image()}, force=True)
    assert hr.open(path, decode="jpeg")[0].image.shape == (8, 9, 3)


def test_write_refuses_what_does_not_fit(path: Path) -> None:
    with pytest.raises(ValueError, match="holds one value for each sample"):
        hr.write(path, [(1, b"")], fields={"a": hr.Int(), "b": hr.Bytes()})
    with pytest.raises(ValueError, match="is a number"):
        hr.write(path, [1], fields={"a": hr.Int()})
    with pytest.raises(WriteError, match="raw pixels would lose their size"):
        hr.write(path, [np.zeros((8, 9, 3), np.uint8)], fields={"image": hr.Image(mode="raw")})
    with pytest.raises(WriteError, match="sample 1, field 'data': TypeError"):
        hr.write(path, [b"x", "text"], fields={"data": hr.Bytes()})
    assert os.listdir(path.parent) == []


def test_write_with_names_makes_a_packed_folder(path: Path) -> None:
    hr.write(path, [b"one", b"two"], fields={"data": hr.Bytes()}, names=["a/b", "c"])
    dataset = hr.open(path)
    assert dataset.keys == ["a/b", "c"]
    assert [s.data for s in dataset] == [b"one", b"two"]
    for names, problem in (
        (["a", "a"], "another sample"),
        (["a", "a/b"], "is a file already"),
        (["..", "x"], r"'\.\.'"),
    ):
        with pytest.raises(ValueError, match=problem):
            hr.write(path, [b"one", b"two"], fields={"data": hr.Bytes()}, names=names, force=True)
    assert hr.open(path).keys == ["a/b", "c"]
