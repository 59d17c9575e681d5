from __future__ import annotations

import os
import signal
import sys
import types
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image as Pillow

torch = pytest.importorskip("torch")

from tests.unit.compat.ffcv.tools import Made, flat, write  # noqa: E402

import headrace as hr  # noqa: E402
from headrace.compat.ffcv import DatasetWriter, Loader  # noqa: E402
from headrace.compat.ffcv.fields import (  # noqa: E402
    BytesField,
    FloatField,
    IntField,
    JSONField,
    NDArrayField,
    RGBImageField,
    TorchTensorField,
)
from headrace.compat.ffcv.reader import Reader  # noqa: E402
from headrace.errors import MissingExtraError, SampleTooLargeError, WorkerDiedError, WriteError  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class OwnBytes(BytesField):
    """A field of a user's own, so that the file is written field by field."""

    @staticmethod
    def from_binary(binary: Any) -> OwnBytes:
        return OwnBytes()


BYTES_FIELDS = pytest.mark.parametrize("kind", [BytesField, OwnBytes])
WORKERS = pytest.mark.parametrize("workers", [1, 2])


def values_of(path: Path, name: str = "v", **custom: Any) -> list[Any]:
    """What a loader gives, sample by sample."""
    reader = Reader(path, custom)
    others = {other: None for other in reader.field_names if other != name}
    loader = Loader(path, 4, 1, drop_last=False, pipelines=others, custom_fields=custom)
    return [value.numpy() for (batch,) in loader for value in batch]


# -- files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["x.beton", "x.BETON", "x", "x.data", "x.beton.tmp"])
def test_any_name_will_do(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"what was there before")
    writer = DatasetWriter(path, {"n": IntField()}, num_workers=1)
    writer.from_indexed_dataset(Made(5, lambda i: (i,)))
    assert writer.num_samples == 5
    assert os.listdir(tmp_path) == [name]
    assert Reader(path).metadata["f0"].tolist() == [0, 1, 2, 3, 4]


def test_headrace_finds_checksums_in_it(tmp_path: Path) -> None:
    path = write(
        tmp_path / "x.beton", {"image": RGBImageField("jpg"), "doc": JSONField()}, 5, lambda i: (flat(i), {"i": i})
    )
    report = hr.verify(path)
    assert report.ok
    assert hr.open(path)[3].doc == {"i": 3}
    data = bytearray(path.read_bytes())
    data[Reader(path).alloc_table["ptr"][2]] ^= 1
    path.write_bytes(data)
    assert not hr.verify(path).ok


def test_the_number_of_workers_changes_nothing(tmp_path: Path) -> None:
    fields = {"image": RGBImageField("proportion"), "blob": BytesField(), "n": IntField()}

    def sample(i: int) -> tuple[Any, ...]:
        return flat(i, 30 + i), np.full(1000 * i, i, np.uint8), i

    one, three = (write(tmp_path / str(workers), fields, 60, sample, num_workers=workers) for workers in (1, 3))
    assert one.read_bytes() == three.read_bytes()


@BYTES_FIELDS
@WORKERS
def test_no_samples(tmp_path: Path, kind: Any, workers: int) -> None:
    fields = {"image": RGBImageField(), "v": kind(), "n": IntField()}
    path = write(tmp_path / "x.beton", fields, 0, lambda i: (i,), num_workers=workers)
    reader = Reader(path, {"v": kind})
    assert reader.num_samples == len(reader.metadata) == len(reader.alloc_table) == 0
    loader = Loader(path, 4, custom_fields={"v": kind}, drop_last=False)
    assert len(loader) == 0
    assert list(loader) == []


def test_no_samples_of_a_choice(tmp_path: Path) -> None:
    writer = DatasetWriter(tmp_path / "x", {"n": IntField()})
    writer.from_indexed_dataset(Made(5, lambda i: (i,)), indices=[])
    assert writer.num_samples == 0


@BYTES_FIELDS
@WORKERS
def test_samples_are_read_back_from_many_pages(tmp_path: Path, kind: Any, workers: int) -> None:
    fields = {"n": IntField(), "v": kind(), "image": RGBImageField()}

    def sample(i: int) -> tuple[Any, ...]:
        return i, np.random.default_rng(i).integers(0, 255, 30_000 * (i % 9), dtype=np.uint8), flat(i)

    path = write(tmp_path / "x.beton", fields, 50, sample, num_workers=workers)
    reader = Reader(path, {"v": kind})
    pages = reader.alloc_table["ptr"] >> 21
    assert len(np.unique(pages)) >= 3
    ends = reader.alloc_table["ptr"] + reader.alloc_table["size"]
    assert ((ends - 1) >> 21 == pages)[reader.alloc_table["size"] > 0].all()
    assert len({(int(s), int(p)) for s, p in zip(reader.alloc_table["sample_id"], pages, strict=True)}) <= 50 + 6
    for i, value in enumerate(values_of(path, v=kind)):
        expected = sample(i)[1]
        assert (value[: len(expected)] == expected).all()
        assert not value[len(expected) :].any()
    assert [int(value[0, 0, 0]) for value in values_of(path, "image", v=kind)] == list(range(50))


# -- failures -------------------------------------------------------------------------------------------------


@BYTES_FIELDS
@WORKERS
@pytest.mark.timeout(60)
def test_an_exception_in_the_dataset_is_raised(tmp_path: Path, kind: Any, workers: int) -> None:
    def sample(i: int) -> tuple[Any, ...]:
        if i == 37:
            raise ZeroDivisionError("no such thing")
        return (np.zeros(10, np.uint8),)

    with pytest.raises(WriteError, match="sample 37 could not be fetched: ZeroDivisionError: no such thing") as caught:
        write(tmp_path / "x", {"v": kind()}, 100, sample, num_workers=workers)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert os.listdir(tmp_path) == []


@BYTES_FIELDS
@pytest.mark.timeout(60)
def test_a_worker_that_is_killed(tmp_path: Path, kind: Any) -> None:
    def sample(i: int) -> tuple[Any, ...]:
        if i == 37:
            os.kill(os.getpid(), signal.SIGKILL)
        return (np.zeros(10, np.uint8),)

    with pytest.raises(WorkerDiedError, match=r"Nothing was written\. Try a smaller num_workers\.$"):
        write(tmp_path / "x", {"v": kind()}, 100, sample, num_workers=2)
    assert os.listdir(tmp_path) == []


@BYTES_FIELDS
@WORKERS
@pytest.mark.timeout(60)
def test_an_exception_of_a_field_is_raised(tmp_path: Path, kind: Any, workers: int) -> None:
    def sample(i: int) -> tuple[Any, ...]:
        return (np.zeros((2, 2) if i == 5 else 4, np.uint8),)

    with pytest.raises(WriteError, match="sample 5") as caught:
        write(tmp_path / "x", {"v": kind()}, 8, sample, num_workers=workers)
    assert caught.value.sample == 5
    assert os.listdir(tmp_path) == []


@WORKERS
@pytest.mark.timeout(60)
def test_a_sample_larger_than_a_page(tmp_path: Path, workers: int) -> None:
    def sample(i: int) -> tuple[Any, ...]:
        half = np.zeros((1 << 20) + (i == 3), np.uint8)
        return half, half

    with pytest.raises(SampleTooLargeError) as caught:
        write(tmp_path / "x", {"a": BytesField(), "b": BytesField()}, 5, sample, num_workers=workers)
    assert isinstance(caught.value, ValueError)
    assert (caught.value.sample, caught.value.page_size) == (3, 1 << 21)
    with pytest.raises(WriteError, match=r"sample 3 does not fit into a page of 2097152 bytes; .*larger page_size"):
        write(tmp_path / "x", {"a": OwnBytes(), "b": BytesField()}, 5, sample, num_workers=workers)
    one = lambda i: (np.zeros((1 << 21) + 1, np.uint8),)  # noqa: E731
    with pytest.raises(WriteError, match="Tried allocating 2097153 but page size is 2097152"):
        write(tmp_path / "x", {"a": OwnBytes()}, 5, one, num_workers=workers)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("image", "error"),
    [
        ("text", TypeError),
        (torch.zeros(4, 4, 3, dtype=torch.uint8), TypeError),
        (np.zeros((4, 4, 3)), ValueError),
        (np.zeros((4, 4, 4), np.uint8), ValueError),
        (np.zeros((4, 4), np.uint8), IndexError),
        (Pillow.fromarray(np.zeros((4, 4), np.uint8)), IndexError),
        (Pillow.fromarray(np.zeros((4, 4, 4), np.uint8)), ValueError),
    ],
)
def test_what_is_no_rgb_picture(tmp_path: Path, image: Any, error: type[Exception]) -> None:
    with pytest.raises(WriteError) as caught:
        write(tmp_path / "x", {"image": RGBImageField()}, 1, lambda i: (image,))
    assert isinstance(caught.value.__cause__, error)
    with pytest.raises(error):
        RGBImageField().encode(np.zeros(1, RGBImageField().metadata_type), image, None)


@pytest.mark.timeout(60)
def test_unknown_write_mode(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Unsupported write mode webp"):
        write(tmp_path / "x", {"image": RGBImageField("webp")}, 3, lambda i: (flat(i),))


@pytest.mark.parametrize("size", [0, 3 << 20, 1 << 20, 1 << 32, 1 << 33])
def test_page_sizes_that_cannot_be(tmp_path: Path, size: int) -> None:
    with pytest.raises(ValueError, match="page_size"):
        DatasetWriter(tmp_path / "x", {"n": IntField()}, page_size=size)


def test_a_chunk_has_at_least_one_sample(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="chunksize must be at least 1, got 0"):
        DatasetWriter(tmp_path / "x", {"n": IntField()}).from_indexed_dataset(Made(3, lambda i: (i,)), chunksize=0)


@BYTES_FIELDS
def test_a_sample_with_too_few_values(tmp_path: Path, kind: Any) -> None:
    fields = {"n": IntField(), "v": kind()}
    with pytest.raises(WriteError, match="the sample has 1 values, and there are 2 fields"):
        write(tmp_path / "x", fields, 2, lambda i: (i,))
    path = write(tmp_path / "x", fields, 2, lambda i: (i, np.full(1, i, np.uint8), "one more than there are fields"))
    assert [value.tolist() for value in values_of(path, v=kind)] == [[0], [1]]


# -- values ---------------------------------------------------------------------------------------------------


def test_numbers_are_cast_as_numpy_does(tmp_path: Path) -> None:
    numbers = [3, 3.9, np.int32(4), np.float64(-2.5), torch.tensor(7), True, np.array(9), "12"]
    path = write(tmp_path / "x", {"v": IntField(), "f": FloatField()}, len(numbers), lambda i: (numbers[i], i / 7))
    assert [value.tolist() for value in values_of(path)] == [[3], [3], [4], [-2], [7], [1], [9], [12]]
    assert [value.tolist() for value in values_of(path, "f")] == [[i / 7] for i in range(len(numbers))]


def test_bytes_in_many_forms(tmp_path: Path) -> None:
    forms = [
        b"abc",
        bytearray(b"de"),
        memoryview(b"f"),
        np.array([1, 2], np.uint8),
        np.array([7.0, 8.0]),
        np.arange(6)[::2],
    ]
    forms.append(np.zeros(0, np.uint8))
    path = write(tmp_path / "x", {"v": BytesField()}, len(forms), lambda i: (forms[i],))
    stored = [b"abc", b"de\0", b"f\0\0", b"\1\2\0", b"\7\x08\0", b"\0\2\4", b"\0\0\0"]
    assert [value.tobytes() for value in values_of(path)] == stored
    assert Reader(path).metadata["f0"]["size"].tolist() == [3, 2, 1, 2, 2, 3, 0]


def test_arrays_are_taken_by_their_bytes(tmp_path: Path) -> None:
    fields = {"v": NDArrayField(np.dtype("<i2"), (2, 3))}
    arrays = [
        np.arange(6, dtype="<i2").reshape(2, 3),
        np.arange(6, dtype="<u2").reshape(2, 3) + 65_530,
        np.arange(6, dtype="<i2"),
        np.arange(6, dtype="<i2").reshape(3, 2).T,
        np.arange(3, dtype="<i4").reshape(3, 1),
    ]
    path = write(tmp_path / "x", fields, len(arrays), lambda i: (arrays[i],))
    for value, array in zip(values_of(path), arrays, strict=True):
        assert value.tobytes() == array.tobytes()
        assert value.shape == (2, 3)
    for bad in (np.zeros(6), np.zeros((2, 2), "<i2")):
        with pytest.raises(WriteError, match="has 12 bytes, got"):
            write(tmp_path / "x", fields, 1, lambda i, bad=bad: (bad,))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "uint8", "int8", "int16", "int32", "int64", "bool"])
def test_tensors_of_all_types(tmp_path: Path, dtype: str) -> None:
    values = torch.arange(12).reshape(3, 4).to(getattr(torch, dtype))
    field = TorchTensorField(getattr(torch, dtype), (4,))
    path = write(tmp_path / "x", {"v": field}, 3, lambda i: (values[i],))
    assert type(Reader(path).handlers["v"]) is NDArrayField
    for found, value in zip(values_of(path), values, strict=True):
        assert (found == value.numpy()).all()
        assert found.dtype == value.numpy().dtype


@pytest.mark.parametrize("dtype", [">i4", "<f8", "|b1", "<c8"])
def test_byte_order_is_kept(tmp_path: Path, dtype: str) -> None:
    field = NDArrayField(np.dtype(dtype), (2,))
    path = write(tmp_path / "x", {"v": field}, 2, lambda i: (np.array([i, 1], dtype),))
    handler = Reader(path).handlers["v"]
    assert (handler.dtype, handler.shape) == (np.dtype(dtype), (2,))


def test_arrays_of_uint16_are_warned_about() -> None:
    with pytest.warns(UserWarning, match="uint16"):
        NDArrayField(np.dtype("uint16"), (2,))


@pytest.mark.parametrize("shape", [(), (0,), (3, 0)])
def test_shapes_that_cannot_be_stored(tmp_path: Path, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="shape must have 1 to 32 sides of at least 1"):
        write(tmp_path / "x", {"v": NDArrayField(np.dtype("<f4"), shape)}, 1, lambda i: (np.zeros(shape, "<f4"),))


def test_json_goes_through(tmp_path: Path) -> None:
    values = [{"a": [1, None, "ü"]}, {}, [], "text", 3.5, {"deep": {"deeper": [True]}}]
    path = write(tmp_path / "x", {"v": JSONField()}, len(values), lambda i: (values[i],))
    (batch,) = next(iter(Loader(path, len(values), 1)))
    assert JSONField.unpack(batch) == values
    assert JSONField.unpack(batch.numpy()) == values
    assert JSONField.unpack(batch[0]) == values[0]
    assert isinstance(Reader(path).handlers["v"], JSONField)


@pytest.mark.parametrize("quality", [0, 1, 100, 101])
def test_any_quality(tmp_path: Path, quality: int) -> None:
    path = write(tmp_path / "x", {"v": RGBImageField("jpg", jpeg_quality=quality)}, 1, lambda i: (flat(100, 16, 16),))
    assert abs(int(values_of(path)[0].mean()) - 100) < 10


@pytest.mark.parametrize("resolution", [16, 16.0, 1 << 20])
def test_resolution_is_a_limit(tmp_path: Path, resolution: float) -> None:
    path = write(tmp_path / "x", {"v": RGBImageField(max_resolution=resolution)}, 1, lambda i: (flat(9, 31, 62),))
    assert values_of(path)[0].shape == ((8, 16, 3) if resolution == 16 else (31, 62, 3))


# -- order ----------------------------------------------------------------------------------------------------


def test_indices_choose_and_order(tmp_path: Path) -> None:
    dataset = [(i * 10,) for i in range(10)]
    writer = DatasetWriter(tmp_path / "x", {"v": IntField()}, num_workers=1)
    for indices in ([3, 3, 9, 0], np.array([3, 3, 9, 0]), (3, 3, -1, 0), torch.tensor([3, 3, 9, 0])):
        writer.from_indexed_dataset(dataset, indices=indices)
        assert [value.item() for value in values_of(tmp_path / "x")] == [30, 30, 90, 0]


def test_indices_may_be_keys(tmp_path: Path) -> None:
    writer = DatasetWriter(tmp_path / "x", {"v": IntField()}, num_workers=1)
    writer.from_indexed_dataset({"a": (1,), "b": (2,)}, indices=["b", "a", "b"])
    assert [value.item() for value in values_of(tmp_path / "x")] == [2, 1, 2]


def test_shuffling_is_numpys_and_leaves_the_list_alone(tmp_path: Path) -> None:
    indices = list(range(20, 0, -1))
    np.random.seed(3)
    DatasetWriter(tmp_path / "x", {"v": IntField()}, num_workers=1).from_indexed_dataset(
        Made(30, lambda i: (i,)), indices=indices, shuffle_indices=True
    )
    assert indices == list(range(20, 0, -1))
    expected = np.array(indices)
    np.random.seed(3)
    np.random.shuffle(expected)
    assert [value.item() for value in values_of(tmp_path / "x")] == expected.tolist()


# -- names ----------------------------------------------------------------------------------------------------


@BYTES_FIELDS
def test_names_are_cut_to_sixteen_characters(tmp_path: Path, kind: Any) -> None:
    path = write(
        tmp_path / "x",
        {"sixteen_letters_": kind(), "seventeen_letters": IntField()},
        1,
        lambda i: (b"a", 5) if kind is BytesField else (np.zeros(1, np.uint8), 5),
    )
    assert Reader(path, {"sixteen_letters_": kind}).field_names == ["sixteen_letters_", "seventeen_letter"]
    with pytest.raises(ValueError, match="cut to 16 characters, and then two are the same"):
        write(tmp_path / "x", {"a" * 16: kind(), "a" * 17: IntField()}, 1, lambda i: (b"a", 5))
    with pytest.raises(ValueError, match=r"(?i)ascii"):
        write(tmp_path / "x", {"ü": kind()}, 1, lambda i: (b"a",))


# -- webdataset -----------------------------------------------------------------------------------------------


class FakeWebDataset:
    """Stands for the class of the webdataset package: a shard is the number of its samples."""

    def __init__(self, shard: str, shardshuffle: bool) -> None:
        assert shardshuffle is False
        self.shard = shard

    def __iter__(self) -> Iterator[dict[str, int]]:
        return iter({"n": int(self.shard) * 100 + i} for i in range(int(self.shard)))


@pytest.fixture
def webdataset(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = types.ModuleType("webdataset")
    module.WebDataset = FakeWebDataset
    monkeypatch.setitem(sys.modules, "webdataset", module)


@BYTES_FIELDS
@pytest.mark.usefixtures("webdataset")
def test_shards_come_one_after_the_other(tmp_path: Path, kind: Any) -> None:
    def pipeline(shard: FakeWebDataset) -> Iterator[tuple[int, np.ndarray]]:
        return ((sample["n"], np.full(3, sample["n"] % 256, np.uint8)) for sample in shard)

    writer = DatasetWriter(tmp_path / "x", {"n": IntField(), "v": kind()}, num_workers=2)
    writer.from_webdataset(["3", "1", "200"], pipeline)
    numbers = [300, 301, 302, 100, *range(20_000, 20_200)]
    assert writer.num_samples == 204
    assert [value.item() for value in values_of(tmp_path / "x", "n", v=kind)] == numbers
    assert [value.tolist() for value in values_of(tmp_path / "x", v=kind)] == [[n % 256] * 3 for n in numbers]


def test_webdataset_is_asked_for_when_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "webdataset", None)
    with pytest.raises((MissingExtraError, WriteError), match="webdataset"):
        DatasetWriter(tmp_path / "x", {"n": IntField()}).from_webdataset(["a.tar"], iter)


def test_a_file_that_exists_is_replaced_as_ffcv_does(tmp_path: Path) -> None:
    path = tmp_path / "x.beton"
    for count in (3, 5):
        DatasetWriter(str(path), {"n": IntField()}, num_workers=1).from_indexed_dataset([(i,) for i in range(count)])
        assert len(hr.open(path)) == count
