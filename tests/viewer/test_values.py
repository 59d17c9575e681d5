"""Values of any kind as what a page draws."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from headrace import ops
from headrace.viewer.arrays import can_be_picture, show_array, to_picture
from headrace.viewer.values import show_brief, show_bytes, show_value


def plain(value: Any) -> Any:
    """What a page gets: it must be JSON, strictly."""
    return json.loads(json.dumps(value, allow_nan=False))


def test_numbers_are_texts() -> None:
    assert plain(show_value(2**60, "int")) == {"as": "number", "text": str(2**60)}
    assert plain(show_value(float("nan"), "float"))["text"] == "nan"
    assert plain(show_value(np.int64(1), "int", ["cat", "dog"])) == {"as": "number", "text": "1", "class": "dog"}
    assert "class" not in show_value(-1, "int", ["cat"])
    assert show_value(1 << 100_000, "int")["text"] == "a whole number of 100,001 bits"


def test_texts_are_cut_and_say_so() -> None:
    shown = plain(show_value("x" * 100_000, "text"))
    assert shown["length"] == 100_000
    assert len(shown["text"]) < 20_100
    assert "100,000 characters" in shown["text"]
    assert plain(show_value("a\udc80\u202eb<script>", "text"))["text"] == "a\\udc80\\u202eb<script>"


def test_bytes_are_rows_of_hexadecimal_numbers() -> None:
    shown = plain(show_bytes(bytes(range(32, 50))))
    assert shown["rows"][1] == ["30 31", "01"]
    assert shown["length"] == 18
    long = show_bytes(bytes(1 << 20))
    assert (len(long["rows"]), long["is_cut"], long["text"]) == (256, True, None)
    assert show_bytes(b"plain text\n")["text"] == "plain text\n"
    assert show_bytes(b"")["rows"] == []


def nodes(tree: Any) -> int:
    return 1 + sum(nodes(child) for _, child in tree.get("items", ()))


def deep(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        list(range(1_000_000)),
        {str(i): {str(k): k for k in range(300)} for i in range(300)},
        deep(900),
        [[[0] * 100] * 100] * 100,
        {"k" * 10_000: "v" * 1_000_000},
        [1 << 50_000] * 10,
    ],
)
def test_json_of_any_size_is_a_bounded_tree(value: Any) -> None:
    tree = plain(show_value(value, "json"))["tree"]
    assert nodes(tree) <= 2001
    assert len(json.dumps(tree)) < 1_000_000


def test_a_tree_says_how_much_there_is() -> None:
    tree = show_value({"a": [1.5, None, True, "x", b"ab", np.zeros(3)], "b": {}}, "json")["tree"]
    assert (tree["kind"], tree["length"]) == ("map", 2)
    (_, items), (_, empty) = tree["items"]
    assert [child["text"] for _, child in items["items"]] == [
        "1.5",
        "null",
        "true",
        "x",
        "2 bytes: 61 62",
        "array of float64, 3",
    ]
    assert empty == {"kind": "map", "length": 0, "items": []}


def test_objects_of_any_class_are_shown() -> None:
    class Nasty:
        def __str__(self) -> str:
            raise RuntimeError("no")

    assert "cannot be made" in show_value(Nasty(), "")["tree"]["text"]


@pytest.mark.parametrize(
    ("array", "picture", "curves"),
    [
        (np.zeros((20, 30), np.uint8), True, False),
        (np.zeros((3, 20, 30), np.float32), True, False),
        (np.zeros((20, 30, 4), np.uint8), True, False),
        (np.zeros((20, 30, 5)), False, False),
        (np.arange(100.0), False, True),
        (np.zeros((2, 50)), False, True),
        (np.zeros((50, 2)), False, True),
        (np.zeros((2, 3)), False, False),
        (np.zeros(0), False, False),
        (np.array(["a", "b", "c", "d"]), False, False),
        (np.zeros((0, 5, 3)), False, False),
        (np.float64(3).reshape(()), False, False),
    ],
)
def test_what_can_be_drawn_of_an_array(array: Any, picture: bool, curves: bool) -> None:
    shown = plain(show_array(array))
    assert (shown["can_be_picture"], shown["curves"] is not None) == (picture, curves)
    assert shown["shape"] == list(array.shape)


def test_a_long_curve_keeps_its_extremes() -> None:
    values = np.zeros(1_000_000)
    values[123_456], values[777_777], values[5] = 9.0, -7.0, np.nan
    shown = plain(show_array(values))
    points = [y for _, y in shown["curves"]["lines"][0]]
    assert len(points) <= 1000
    assert (max(points), min(points)) == (9.0, -7.0)
    assert shown["facts"] == {"not finite": "1", "smallest": "-7", "largest": "9", "mean": "2e-06"}
    assert plain(show_array(np.array([1.0, np.inf, np.nan])))["curves"]["lines"][0][1] == [1.0, None]


def test_a_table_is_cut() -> None:
    table = plain(show_array(np.arange(10_000).reshape(100, 100)))["table"]
    assert (len(table["rows"]), len(table["rows"][0]), table["is_cut"]) == (24, 16, True)
    assert table["rows"][1][2] == "102"
    assert plain(show_array(np.zeros((4, 3, 2), "<f4")))["table"]["shape"] == [3, 2]


def test_pictures_of_arrays() -> None:
    bytes_ = np.arange(300, dtype=np.uint8).reshape(10, 10, 3)
    assert np.array_equal(to_picture(bytes_).pixels, bytes_)
    assert np.array_equal(to_picture(bytes_.transpose(2, 0, 1)).pixels, bytes_)
    assert to_picture(np.ones((8, 8, 1), bool)).pixels.tolist() == [[255] * 8] * 8
    normalize = ops.Normalize((10, 20, 30), (2, 3, 4), "float32")
    floats = (bytes_ - np.array([10, 20, 30])) / np.array([2, 3, 4])
    shown = to_picture(floats.astype(np.float32), normalize)
    assert (np.array_equal(shown.pixels, bytes_), shown.note) == (True, "normalization undone")
    assert to_picture(np.full((8, 8), 0.5)).pixels[0, 0] == 128
    stretched = to_picture(np.linspace(-1, 3, 64).reshape(8, 8))
    assert (stretched.pixels.min(), stretched.pixels.max(), stretched.note) == (0, 255, "-1 to 3 stretched to 0 to 255")
    with np.errstate(all="raise"):
        assert to_picture(np.full((8, 8), np.nan)).pixels.max() == 0
    assert to_picture(np.zeros((100, 50), np.uint8), most_side=30).pixels.shape == (25, 13)
    assert not can_be_picture((2, 2), "uint8")


def test_values_in_a_few_words() -> None:
    assert show_brief(1, ["cat", "dog"]) == "1 (dog)"
    assert show_brief(np.arange(20)) == "int64, 20: 0, 1, 2, 3, 4, 5, 6, 7, …"
    assert show_brief(np.zeros((2, 3), np.float16)) == "float16, 2 x 3"
    assert show_brief(b"abc") == "3 bytes"
    assert len(show_brief({"a": list(range(100_000))})) < 250
    assert len(show_brief("x" * 1000)) < 250
