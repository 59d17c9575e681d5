from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from tests.helpers import picture

from headrace.codecs import jpeg, npy
from headrace.errors import FormatError, ImageError
from headrace.fields import Bytes, Image, Json, NDArray, Text
from headrace.formats.members import field_for, grouped_members, labels_of, ungrouped_members
from headrace.formats.values import decode_value


def rows(*names: str) -> list[Any]:
    return [(name, position) for position, name in enumerate(names)]


@pytest.mark.parametrize(
    ("names", "kinds"),
    [
        (["a.jpg", "b.PNG"], {"image": "image"}),
        (["a.jpg", "notes.txt"], {"image": "image"}),  # pictures are the samples, what lies beside them is not
        (["a.txt", "b.txt"], {"text": "text"}),
        (["a.npy"], {"array": "npy"}),
        (["a.txt", "b.json"], {"bytes": "bytes"}),
        (["a.unknown"], {"bytes": "bytes"}),
    ],
)
def test_endings_decide_what_the_samples_are(names: list[str], kinds: dict[str, str]) -> None:
    assert ungrouped_members(rows(*names), as_bytes=False).kinds == kinds


def test_pictures_leave_other_files_out_unless_all_are_bytes() -> None:
    assert ungrouped_members(rows("a.jpg", "b.txt"), as_bytes=False).keys == ["a.jpg"]
    assert ungrouped_members(rows("a.jpg", "b.txt"), as_bytes=True).keys == ["a.jpg", "b.txt"]


def test_groups_share_what_stands_before_the_first_dot() -> None:
    members = grouped_members("x.barecat", rows("d/1.jpg", "d/1.cls.txt", "d/2.cls.txt", "d/2.jpg"))
    assert members.keys == ["d/1", "d/2"]
    assert members.kinds == {"jpg": "image", "cls.txt": "text"}
    assert members.names == {"jpg": ["d/1.jpg", "d/2.jpg"], "cls.txt": ["d/1.cls.txt", "d/2.cls.txt"]}


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (["a.jpg", "b.jpg", "b.txt"], "sample a has no txt"),
        (["a.jpg", "a.JPG"], "a.jpg and a.JPG would be the same field"),
    ],
)
def test_groups_that_do_not_fit_together_are_named(names: list[str], problem: str) -> None:
    with pytest.raises(FormatError, match=problem):
        grouped_members("x.barecat", rows(*names))


def test_labels_come_from_first_directories_if_every_file_has_one() -> None:
    classes, labels = labels_of(["dog/1", "cat/x/2", "dog/3"])
    assert labels is not None
    assert (classes, labels.tolist()) == (["cat", "dog"], [1, 0, 1])
    assert labels_of(["dog/1", "2"]) == ([], None)


@pytest.mark.parametrize(
    ("kind", "field"), [("image", Image()), ("text", Text()), ("json", Json()), ("bytes", Bytes())]
)
def test_fields_that_need_no_look_at_a_file(kind: str, field: Any) -> None:
    assert field_for(kind, lambda: pytest.fail("no file is needed")) == field


def test_the_first_array_says_dtype_and_shape() -> None:
    assert field_for("npy", lambda: npy.encode(np.zeros((2, 3), np.float32))) == NDArray(np.dtype("<f4"), (2, 3))
    assert field_for("npy", lambda: b"no array") == Bytes()
    assert field_for("npy", lambda: npy.encode(np.float64(1))) == Bytes()


def test_values_of_files() -> None:
    pixels = picture(1, 8, 12)
    assert decode_value(Image(), jpeg.encode(pixels)).shape == (8, 12, 3)
    assert decode_value(Json(), json.dumps({"a": [1]}).encode()) == {"a": [1]}
    assert decode_value(Text(), "é".encode()) == "é"
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    assert decode_value(NDArray(array.dtype, array.shape), npy.encode(array)).tolist() == array.tolist()


def test_files_that_are_not_what_the_field_says() -> None:
    field = NDArray(np.dtype("<i2"), (2, 3))
    with pytest.raises(ImageError):
        decode_value(Image(), b"no picture")
    with pytest.raises(ValueError, match="not an array that numpy has saved"):
        decode_value(field, b"no array")
    with pytest.raises(ValueError, match=r"int16 \(3,\), and the first is int16 \(2, 3\)"):
        decode_value(field, npy.encode(np.zeros(3, np.int16)))
