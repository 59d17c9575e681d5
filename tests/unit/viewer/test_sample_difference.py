from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.helpers import Surgeon, image_file, patch_jpeg_frame, picture, write_all_fields

import headrace as hr
from headrace.viewer import sample_difference, value_difference
from headrace.viewer.field_pairs import FieldPair, pair_fields
from headrace.viewer.sample_difference import compare_field, differing_samples
from headrace.viewer.value_difference import Parts, differing_parts, fit_pixels, is_same_value

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from headrace.types import Dataset


def written(path: Path, values: Sequence[Any], field: Any, name: str = "x") -> Dataset:
    hr.write(path, [(value,) for value in values], fields={name: field}, force=True)
    return hr.open(path)


def both(tmp_path: Path, old: Any, new: Any, field: Any, other: Any = None) -> dict[str, Any]:
    """Two samples that were written, compared; the quick way must say the same."""
    a = written(tmp_path / "a.beton", [old], field)
    b = written(tmp_path / "b.beton", [new], field if other is None else other)
    return compared(a, 0, b, 0)


def compared(a: Dataset, i: int, b: Dataset, j: int) -> dict[str, Any]:
    (pair,) = pair_fields(a.schema, b.schema)
    found = compare_field(a, i, b, j, pair)
    differs, _ = differing_samples(a, np.array([i]), b, np.array([j]), pair)
    assert differs.tolist() == [found["state"] != "same"]
    json.dumps(found)
    return found


@pytest.mark.parametrize(
    ("field", "value", "other"),
    [
        (hr.Int(), 3, 4),
        (hr.Float(), float("nan"), 1.5),
        (hr.Float(), 0.5, 0.25),
        (hr.Text(), "the cat", "the dog"),
        (hr.Json(), {"a": [1, float("nan")], "b": 2}, {"a": [1, 2], "b": 2}),
        (hr.Bytes(), b"\0\1\2", b"\0\1\3"),
        (hr.NDArray("<f4", (2, 2)), np.ones((2, 2), "<f4"), np.zeros((2, 2), "<f4")),
        (hr.Image(mode="raw"), picture(1, 9, 9), picture(2, 9, 9)),
    ],
)
def test_values_of_every_kind(tmp_path: Path, field: Any, value: Any, other: Any) -> None:
    assert both(tmp_path, value, value, field)["state"] == "same"
    assert both(tmp_path, value, other, field)["state"] == "differs"
    assert both(tmp_path, other, value, field)["state"] == "differs"


def test_where_texts_differ(tmp_path: Path) -> None:
    found = both(tmp_path, "a" * 500 + "cat" + "z" * 500, "a" * 500 + "dog" + "z" * 500, hr.Text())
    first, second = found["texts"]
    assert (first["middle"], second["middle"]) == ("cat", "dog")
    assert first["before"] == "…" + "a" * 60
    assert len(json.dumps(found)) < 1000


@pytest.mark.parametrize(("a", "b"), [("", ""), ("a", ""), ("aa", "aaa"), ("abab", "ab"), ("x" * 9999, "y" * 9999)])
def test_parts_of_odd_texts(a: str, b: str) -> None:
    first, second = differing_parts(a, b)
    for text, parts in ((a, first), (b, second)):
        assert isinstance(parts, Parts)
        assert len("".join(parts)) <= 600
        if len(text) < 100:
            assert "".join(parts) == text


def test_arrays_say_how_much_differs(tmp_path: Path) -> None:
    old = np.arange(6, dtype="<f4").reshape(2, 3)
    new = old.copy()
    new[1, 2] += 0.5
    found = both(tmp_path, old, new, hr.NDArray("<f4", (2, 3)))
    assert found["note"] == "1 of 6 numbers differ, the first at [1, 2]; by at most 0.5"
    other = both(tmp_path, old, old.reshape(3, 2), hr.NDArray("<f4", (2, 3)), hr.NDArray("<f4", (3, 2)))
    assert (other["state"], other["note"]) == ("differs", "float32 2 x 3 and float32 3 x 2")


def test_a_picture_in_other_bytes_with_the_same_pixels(tmp_path: Path) -> None:
    pixels = picture(1, 20, 30)
    path = tmp_path / "pngs.tar"
    hr.write(path, [(image_file(pixels, "PNG"),)], fields={"x": hr.Image()})
    found = compared(hr.open(path), 0, written(tmp_path / "a.beton", [pixels], hr.Image(mode="raw")), 0)
    assert (found["state"], found["note"]) == ("same", "the same pixels, stored in other bytes")
    again = compared(hr.open(path), 0, hr.open(path), 0)
    assert (again["state"], again["note"]) == ("same", "the stored bytes are the same")


def test_raw_pixels_of_other_sides_are_not_the_same(tmp_path: Path) -> None:
    pixels = np.full((8, 4, 3), 7, np.uint8)
    found = both(tmp_path, pixels, pixels.reshape(4, 8, 3), hr.Image(mode="raw"))
    assert (found["state"], found["sizes"], found["pixels"]) == ("differs", [[4, 8], [8, 4]], None)
    assert found["note"] == "4 x 8 and 8 x 4 pixels cannot be laid over each other"


def test_numbers_of_pictures(tmp_path: Path) -> None:
    old = picture(1, 20, 30)
    new = old.copy()
    new[3, 4] ^= 2
    found = both(tmp_path, old, new, hr.Image(mode="raw"))
    assert found["pixels"]["differing"] == 1
    assert found["pixels"]["max_difference"] == 2
    assert found["pixels"]["share"] == pytest.approx(1 / 600)
    assert found["pixels"]["psnr_db"] > 60


def test_the_larger_picture_is_shrunk(tmp_path: Path) -> None:
    found = both(tmp_path, picture(1, 40, 60), picture(1, 40, 60), hr.Image(mode="raw"), hr.Image(max_side=30))
    assert (found["state"], found["sizes"]) == ("differs", [[60, 40], [30, 20]])
    assert found["note"] == "the first was shrunk to 30 x 20 for this"
    assert found["pixels"]["psnr_db"] > 15
    with pytest.raises(ValueError, match="cannot be laid over"):
        fit_pixels(picture(1, 4, 9), picture(1, 9, 4))


def test_a_gigantic_picture_is_compared_by_its_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_difference, "MOST_PIXELS", 100)
    found = both(tmp_path, picture(1, 40, 60), picture(2, 40, 60), hr.Image(mode="jpg"))
    assert found["state"] == "differs"
    assert found["note"] == "the picture has 60 x 40 pixels; pixels are compared up to 100"
    assert both(tmp_path, picture(1, 40, 60), picture(1, 40, 60), hr.Image(mode="raw"))["state"] == "same"


def test_a_header_that_claims_too_much_is_not_decoded(tmp_path: Path) -> None:
    jpeg = image_file(picture(1, 16, 16), "JPEG")
    path = tmp_path / "x.tar"
    names = ["a", "b"]
    files = [patch_jpeg_frame(jpeg, height=60000, width=60000), jpeg]
    hr.write(path, [(file,) for file in files], fields={"x": hr.Bytes()}, names=names)
    dataset = hr.open(path, decode={"x": "image"}) if "x" in hr.open(path).schema else hr.open(path, decode="image")
    found = compared(dataset, 0, dataset, 1)
    assert found["state"] == "differs"
    assert "60000 x 60000" in found["note"]


def test_large_values_are_compared_by_their_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_difference, "MOST_BYTES", 10)
    found = both(tmp_path, {"a": "x" * 100}, {"a": "x" * 99 + "y"}, hr.Json())
    assert found["state"] == "differs"
    assert "stored, the first difference is at byte" in found["note"]
    assert both(tmp_path, "x" * 100, "x" * 100, hr.Text())["state"] == "same"


def test_damaged_values_are_named(tmp_path: Path) -> None:
    path = tmp_path / "x.beton"
    hr.write(path, [bytes([i]) * 50 for i in range(6)], fields={"x": hr.Bytes()})
    surgeon = Surgeon(path)
    bad = surgeon.flip(int(surgeon.table[2][1]) + 5).save()
    (pair,) = pair_fields(hr.open(path).schema, hr.open(bad).schema)
    found = compare_field(hr.open(path), 2, hr.open(bad), 2, pair)
    assert found["state"] == "damaged"
    assert "checksum" in found["note"]
    rows = np.arange(6)
    differs, size_bytes = differing_samples(hr.open(path), rows, hr.open(bad), rows, pair)
    assert np.flatnonzero(differs).tolist() == [2]
    assert size_bytes == 5 * 100


def test_a_json_bomb(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    deep = b"[" * 100_000 + b"]" * 100_000
    hr.write(path, [(deep,), (b"[1]",)], fields={"json": hr.Bytes()}, names=["a", "b"])
    dataset = hr.open(path)
    (name,) = dataset.schema
    pair = FieldPair(name, name, dataset.schema[name].kind, True)
    assert compare_field(dataset, 0, dataset, 1, pair)["state"] in ("damaged", "differs")
    assert differing_samples(dataset, np.array([0, 1]), dataset, np.array([1, 1]), pair)[0].tolist() == [True, False]


def test_all_fields_of_a_file_with_itself(tmp_path: Path) -> None:
    write_all_fields(tmp_path / "x.beton")
    with hr.open(tmp_path / "x.beton") as dataset:
        rows = np.arange(len(dataset))
        for pair in pair_fields(dataset.schema, dataset.schema):
            assert pair.first == pair.second
            assert not differing_samples(dataset, rows, dataset, rows, pair)[0].any()
            assert compare_field(dataset, 3, dataset, 3, pair)["state"] == "same"


def test_fields_that_only_one_has() -> None:
    a = {"image": hr.Image(), "n": hr.Int(), "t1": hr.Text(), "t2": hr.Text()}
    b = {"jpg": hr.Image(), "n": hr.Int(), "t3": hr.Text(), "extra": hr.Float()}
    pairs = [(pair.first, pair.second) for pair in pair_fields(a, b)]
    assert pairs == [("image", "jpg"), ("n", "n"), ("t1", None), ("t2", None), (None, "t3"), (None, "extra")]


def test_same_values() -> None:
    assert is_same_value(np.array([1], ">i4"), np.array([1], "<i4"))
    assert not is_same_value(np.array([1], "<i8"), np.array([1], "<i4"))
    assert is_same_value(memoryview(b"a"), b"a")
