"""Columns as fields: by their types, by what Hugging Face says, and by what the caller says."""

from __future__ import annotations

import datetime
import decimal
import json
import logging
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.formats.arrow.tables import photo, save

import headrace
from headrace.errors import CorruptSampleError, FormatError
from headrace.fields import Bytes, Float, Image, Int, Json, NDArray, Text
from headrace.formats.description import Description

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("x.parquet", "x.arrow", "stream.arrow")
PICTURE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def opened(path: Path, columns: dict[str, Any], about: dict[str, str] | None = None, **options: Any) -> Any:
    return headrace.open(save(path, pa.table(columns).replace_schema_metadata(about)), **options)


@pytest.mark.parametrize("name", NAMES)
def test_every_type_has_its_field(name: str, tmp_path: Path) -> None:
    many = range(10)
    columns = {
        "i8": pa.array(many, pa.int8()),
        "u64": pa.array(many, pa.uint64()),
        "bool": pa.array([i % 2 == 0 for i in many]),
        "f32": pa.array([i / 2 for i in many], pa.float32()),
        "long_text": pa.array([f"t{i}" for i in many], pa.large_string()),
        "bytes": pa.array([bytes(i) for i in many]),
        "long_bytes": pa.array([bytes(i) for i in many], pa.large_binary()),
        "fixed": pa.array([bytes([i, i]) for i in many], pa.binary(2)),
        "grid": pa.array([[[i, 1], [2, 3], [4, 5]] for i in many], pa.list_(pa.list_(pa.int16(), 2), 3)),
        "flags": pa.array([[i % 2 == 0, True] for i in many], pa.list_(pa.bool_(), 2)),
        "list": pa.array([list(range(i)) for i in many], pa.list_(pa.int64())),
        "struct": pa.array([{"a": i, "b": [str(i)]} for i in many]),
        "map": pa.array([[("a", i)] for i in many], pa.map_(pa.string(), pa.int64())),
        "words": pa.array(["a" if i % 3 else "b" for i in many]).dictionary_encode(),
    }
    dataset = opened(tmp_path / name, columns)
    kinds = [field.kind for field in dataset.schema.values()]
    assert kinds == ["int"] * 3 + ["float", "text"] + ["bytes"] * 3 + ["ndarray"] * 2 + ["json"] * 3 + ["text"]
    assert dataset.schema["grid"] == NDArray("int16", (3, 2))
    assert dataset.schema["flags"] == NDArray("bool", (2,))
    assert dataset.left_out == []
    assert list(dataset.class_names["words"]) == ["b", "a"]
    for i in (9, 0, 5):
        sample = dataset[i]
        assert (sample.i8, sample.u64, sample.bool, sample.f32) == (i, i, int(i % 2 == 0), i / 2)
        assert (sample.long_text, sample.bytes, sample.long_bytes) == (f"t{i}", bytes(i), bytes(i))
        assert sample.fixed == bytes([i, i])
        assert sample.grid.tolist() == [[i, 1], [2, 3], [4, 5]]
        assert sample.flags.tolist() == [i % 2 == 0, True]
        assert (sample.list, sample.struct) == (list(range(i)), {"a": i, "b": [str(i)]})
        assert sample.map == [("a", i)]
        assert sample.words == ("a" if i % 3 else "b")
    assert dataset.verify(decode=True).ok


@pytest.mark.parametrize("name", NAMES)
def test_times_and_decimals_are_texts(name: str, tmp_path: Path) -> None:
    moment = datetime.datetime(2024, 5, 17, 12, 30, 1, 250_000)
    columns = {
        "plain": pa.array([moment], pa.timestamp("us")),
        "zoned": pa.array([moment], pa.timestamp("us", "Europe/Berlin")),
        "date": pa.array([moment.date()]),
        "time": pa.array([moment.time()]),
        "decimal": pa.array([decimal.Decimal("12.50")]),
    }
    sample = opened(tmp_path / name, columns)[0]
    assert sample.plain == "2024-05-17T12:30:01.250000"
    assert sample.zoned == "2024-05-17T12:30:01.250000Z"
    assert (sample.date, sample.time, sample.decimal) == ("2024-05-17", "12:30:01.250000", "12.50")


def test_what_cannot_be_a_field_is_noted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    columns = {
        "n": pa.array([1]),
        "nothing": pa.nulls(1),
        "lasts": pa.array([1], pa.duration("s")),
        "a//b": pa.array([1]),
    }
    with caplog.at_level(logging.WARNING, "headrace"):
        dataset = opened(tmp_path / "x.arrow", columns)
    assert list(dataset.schema) == ["n"]
    assert [line.split()[1] for line in dataset.left_out] == ["'nothing'", "'lasts'", "'a//b'"]
    assert "duration[s]" in caplog.text
    with pytest.raises(FormatError, match="no column of it can be a field"):
        opened(tmp_path / "y.arrow", {"nothing": pa.nulls(1)})
    double = pa.table([pa.array([1]), pa.array([2])], names=["n", "n"])
    assert "another one has that name" in headrace.open(save(tmp_path / "z.arrow", double)).left_out[0]


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_value_is_told_with_its_sample_and_field(name: str, tmp_path: Path) -> None:
    gap = [None, 2] if name == "x.parquet" else None  # older pyarrow writes no other into Parquet
    columns = {
        "n": pa.array([1, 2, None, 4, None]),
        "t": pa.array(["a", None, "", "b", "c"]),
        "v": pa.array([[1, 2], gap, [3, 4], [5, None], [6, 7]], pa.list_(pa.int32(), 2)),
        "j": pa.array([[1], None, [], [2], [3]], pa.list_(pa.int32())),
    }
    dataset = opened(tmp_path / name, columns)
    assert (dataset.read_values(np.array([3, 0]), "n").tolist(), dataset[[0]][0].t) == ([4, 1], "a")
    for field, sample in (("n", 2), ("t", 1), ("v", 3)):
        with pytest.raises(CorruptSampleError, match=rf"sample {sample}, field '{field}': the value is missing"):
            dataset.read_values(np.array([0, sample]), field)
    assert dataset.read_values(np.arange(5), "j") == [[1], None, [], [2], [3]]
    report = dataset.verify()
    assert {(problem.sample, problem.field) for problem in report.problems} == {
        (2, "n"),
        (4, "n"),
        (1, "t"),
        (1, "v"),
        (3, "v"),
    }
    as_json = headrace.open(tmp_path / name, fields={"n": Json()})
    assert as_json.read_values(np.arange(5), "n") == [1, 2, None, 4, None]


def test_numbers_that_do_not_fit(tmp_path: Path) -> None:
    for name in NAMES:
        dataset = opened(tmp_path / name, {"n": pa.array([1, 2**63], pa.uint64())})
        assert dataset[0].n == 1
        with pytest.raises(CorruptSampleError, match="sample 1, field 'n': 9223372036854775808 does not fit"):
            _ = dataset[1]
        assert headrace.open(tmp_path / name, fields={"n": Float()})[1].n == 2.0**63


def test_pictures_and_classes_of_hugging_face(tmp_path: Path) -> None:
    features = {
        "image": {"_type": "Image"},
        "plain": {"_type": "Image"},
        "label": {"_type": "ClassLabel", "names": ["cat", "dog"]},
        "grid": {"_type": "Array2D", "shape": [2, 3], "dtype": "float32"},
        "loose": {"_type": "Array2D", "shape": [None, 3], "dtype": "float32"},
        "gone": {"_type": "Image"},
    }
    grid = pa.array([[[1, 2, 3], [4, 5, 6]]] * 2, pa.list_(pa.list_(pa.float32())))
    columns = {
        "image": pa.array([{"bytes": photo(0), "path": "a.jpg"}, {"bytes": None, "path": "/etc/passwd"}], PICTURE),
        "plain": pa.array([photo(1), photo(2)]),
        "label": pa.array([0, 1], pa.int32()),
        "grid": grid,
        "loose": grid,
        "sound": pa.array([{"bytes": b"x", "path": "a.wav"}] * 2, PICTURE),
    }
    about = {"huggingface": json.dumps({"info": {"features": features}})}
    for name in NAMES:
        dataset = opened(tmp_path / name, columns, about)
        assert [dataset.schema[one] for one in ("image", "plain", "sound")] == [Image(), Image(), Bytes()]
        assert dataset.class_names == {"label": ["cat", "dog"]}
        assert dataset.schema["grid"] == NDArray("float32", (2, 3))
        assert dataset[0].grid.tolist() == dataset[0].loose == [[1, 2, 3], [4, 5, 6]]
        assert dataset.read_bytes([0], "image") == [photo(0)]
        assert dataset[0].sound == b"x"
        with pytest.raises(CorruptSampleError, match="sample 1, field 'image': the picture is missing"):
            dataset.read_bytes([1], "image")


@pytest.mark.parametrize("text", ["{", "[]", '{"info": {"features": 3}}', '{"info": 1}', "[" * 100_000])
def test_what_hugging_face_never_wrote_is_not_used(text: str, tmp_path: Path) -> None:
    dataset = opened(tmp_path / "x.arrow", {"image": pa.array([b"x"])}, {"huggingface": text})
    assert dataset.schema["image"] == Bytes()


def test_a_description_serves_those_columns_that_are_left(tmp_path: Path) -> None:
    fields = {"gone": Int(), "meta": Json(), "n": Text()}
    about = {"headrace": Description(fields=fields, class_names={"gone": ["a"]}, metadata=3).to_text()}
    dataset = opened(tmp_path / "x.arrow", {"meta": pa.array(['{"a": 1}']), "n": pa.array([1])}, about)
    assert dict(dataset.schema) == {"meta": Json(), "n": Int()}
    assert dataset[0].meta == {"a": 1}
    assert dataset.metadata == 3
    with pytest.raises(FormatError, match="description of its fields"):
        opened(tmp_path / "y.arrow", {"n": pa.array([1])}, {"headrace": "{"})


@pytest.mark.parametrize("name", NAMES)
def test_the_caller_knows_better(name: str, tmp_path: Path) -> None:
    columns = {
        "image": pa.array([photo(0), photo(1)]),
        "text": pa.array(["[1]", None]),
        "list": pa.array([[1, 2], [3, 4]], pa.list_(pa.float32())),
        "pixels": pa.array([[[[1, 2, 3]] * 2] * 4] * 2, pa.list_(pa.list_(pa.list_(pa.uint8(), 3), 2), 4)),
    }
    fields = {"text": Json(), "list": NDArray("float64", (2,)), "pixels": Image()}
    dataset = opened(tmp_path / name, columns, decode="image", fields=fields)
    assert dataset.schema["image"] == Image()
    assert dataset[0].image.ndim == 3
    assert dataset.read_values(np.arange(2), "text") == [[1], None]
    assert dataset[1].list.tolist() == [3.0, 4.0]
    spans = dataset.image_spans(np.arange(2), "pixels")
    assert (spans.widths.tolist(), spans.modes.tolist()) == ([2, 2], [1, 1])
    with pytest.raises(ValueError, match="cannot be read as Int"):
        headrace.open(tmp_path / name, fields={"image": Int()})
    with pytest.raises(ValueError, match="cannot be read as"):
        headrace.open(tmp_path / name, fields={"pixels": NDArray("uint8", (5,))})
    with pytest.raises(ValueError, match="no field other"):
        headrace.open(tmp_path / name, fields={"other": Int()})
    with pytest.raises(ValueError, match="allow_pickle"):
        headrace.open(tmp_path / name, decode="pickle")
    with pytest.raises(FormatError, match="row 0 has a list of 2, and 3 are expected"):
        _ = headrace.open(tmp_path / name, fields={"list": NDArray("float32", (3,))})[0]


def test_text_that_is_no_text_is_one_bad_sample(tmp_path: Path) -> None:
    buffers = [None, pa.py_buffer(np.array([0, 1, 2], np.int32)), pa.py_buffer(b"a\xff")]
    broken = pa.Array.from_buffers(pa.string(), 2, buffers)
    dataset = opened(tmp_path / "x.arrow", {"text": broken})
    assert dataset[0].text == "a"
    with pytest.raises(CorruptSampleError, match="sample 1, field 'text'"):
        _ = dataset[1]


def test_views_and_tensors_of_newer_arrow(tmp_path: Path) -> None:
    tensor = pa.fixed_shape_tensor(pa.int32(), (2, 3))
    storage = pa.array([list(range(6))] * 2, pa.list_(pa.int32(), 6))
    columns = {"tensor": pa.ExtensionArray.from_storage(tensor, storage)}
    if hasattr(pa, "string_view"):
        columns["view"] = pa.array(["a", "a text that is longer than twelve bytes"], pa.string_view())
    dataset = opened(tmp_path / "x.arrow", columns)
    assert dataset.schema["tensor"] == NDArray("int32", (2, 3))
    assert dataset[1].tensor.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert "view" not in columns or dataset[1].view == "a text that is longer than twelve bytes"
