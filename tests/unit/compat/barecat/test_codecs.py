"""Values instead of bytes."""

from __future__ import annotations

import io
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from headrace.compat.barecat import Barecat, DecodedView
from headrace.compat.barecat.io.codecs import CodecRegistry

if TYPE_CHECKING:
    from pathlib import Path

PIXELS = np.random.default_rng(0).integers(0, 256, (8, 9, 3), dtype=np.uint8)


@pytest.mark.parametrize("ending", ["json", "json.gz", "JSON.gzip", "json.xz", "json.lzma", "json.bz2.gz"])
def test_json_and_what_is_around_it(ending: str) -> None:
    store: dict[str, bytes] = {}
    view = DecodedView(store)
    view[f"a.b/x.{ending}"] = {"k": [1, None, "\u00e9"]}
    assert view[f"a.b/x.{ending}"] == {"k": [1, None, "\u00e9"]}
    assert isinstance(store[f"a.b/x.{ending}"], bytes)


def test_arrays() -> None:
    view = DecodedView({})
    view["x.npy"] = PIXELS
    view["x.npz"] = {"a": PIXELS, "b": np.arange(3)}
    np.testing.assert_array_equal(view["x.npy"], PIXELS)
    assert sorted(view["x.npz"]) == ["a", "b"]
    with pytest.raises(ValueError, match="Python objects"):
        view["o.npy"] = np.array([{}], dtype=object)


@pytest.mark.parametrize("ending", ["png", "bmp", "tiff", "tif", "webp", "gif", "jpg", "jpeg"])
@pytest.mark.parametrize("kind", ["colour", "gray"])
def test_pictures(ending: str, kind: str) -> None:
    pixels = np.full((8, 9, 3), 130, np.uint8) if kind == "colour" else np.full((8, 9), 130, np.uint8)
    view = DecodedView({})
    view[f"x.{ending}"] = pixels
    got = view[f"x.{ending}"]
    if ending == "gif":
        assert got.shape[:2] == (8, 9)
    elif ending == "webp":
        assert abs(got.reshape(8, 9, -1)[..., 0].astype(int) - 130).max() <= 2
    else:
        assert got.shape == pixels.shape
        assert abs(got.astype(int) - 130).max() <= (2 if ending.startswith("jp") else 0)


def test_pictures_keep_their_pixels() -> None:
    view = DecodedView({})
    for ending in ("png", "bmp", "tiff"):
        view[f"x.{ending}"] = PIXELS
        np.testing.assert_array_equal(view[f"x.{ending}"], PIXELS)
    view["x.jpg"] = np.dstack([PIXELS, PIXELS[..., :1]])
    assert view["x.jpg"].shape == (8, 9, 3)


class Harmful:
    def __reduce__(self) -> Any:
        return (open, ("/dev/null",))


def test_pickles_give_plain_values_only(monkeypatch: pytest.MonkeyPatch) -> None:
    view = DecodedView({})
    value = {"a": [1, 2.5, "x", b"y", None, (1,), {3}, frozenset({4}), 1j], "b": {True: False}}
    view["x.pkl"] = value
    assert view["x.pkl"] == value
    view["bad.pickle"] = Harmful()
    view["slice.pkl"] = slice(1, 2)
    for name in ("bad.pickle", "slice.pkl"):
        with pytest.raises(pickle.UnpicklingError, match="allow_pickle=True"):
            view[name]
    assert DecodedView(view._store, allow_pickle=True)["slice.pkl"] == slice(1, 2)
    monkeypatch.setenv("HEADRACE_ALLOW_PICKLE", "1")
    assert view["slice.pkl"] == slice(1, 2)


def test_msgpack_with_arrays() -> None:
    msgpack = pytest.importorskip("msgpack")
    view = DecodedView({})
    value = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "n": np.int16(-3), "c": 1 + 2j, 5: [1, "x"]}
    view["x.msgpack"] = value
    got = view["x.msgpack"]
    np.testing.assert_array_equal(got["a"], value["a"])
    assert got["a"].dtype == np.float32
    assert (got["n"], got["n"].dtype, got["c"], got[5]) == (-3, np.int16, 1 + 2j, [1, "x"])
    # What the package msgpack-numpy writes.
    store = {
        "y.msgpack": msgpack.packb({b"nd": True, b"type": "<i2", b"kind": b"", b"shape": [2], b"data": b"\1\0\2\0"})
    }
    np.testing.assert_array_equal(DecodedView(store)["y.msgpack"], [1, 2])
    hostile = {b"nd": True, b"type": "O", b"kind": b"O", b"shape": [1], b"data": pickle.dumps([1])}
    with pytest.raises(ValueError, match="pickle"):
        DecodedView({"z.msgpack": msgpack.packb(hostile)})["z.msgpack"]
    with pytest.raises(TypeError):
        view["o.msgpack"] = np.array([{}], dtype=object)


def test_codecs_of_ones_own() -> None:
    view = DecodedView({})
    with pytest.raises(ValueError, match=r"No codec registered for '\.txt'"):
        view["x.txt"] = "text"
    view.register_codec([".txt", ".md"], str.encode, bytes.decode)
    view.register_codec([".rev"], lambda data: data[::-1], lambda data: data[::-1], nonfinal=True)
    view["x.txt.rev"] = "abc"
    assert view._store["x.txt.rev"] == b"cba"
    assert view["x.txt.rev"] == "abc"
    assert ".txt" not in DecodedView.ALL_CODECS
    view.clear_codecs()
    with pytest.raises(ValueError, match="No codec"):
        view["x.json"] = {}


def test_views_are_mappings(path: str) -> None:
    with Barecat(path, readonly=False) as bc:
        view = DecodedView(bc)
        view.update({"a.json": [1], "b/c.json": {"x": 2}})
        assert len(view) == 2
        assert "a.json" in view
        assert sorted(view) == sorted(view.keys()) == ["a.json", "b/c.json"]
        assert dict(view.items()) == {"a.json": [1], "b/c.json": {"x": 2}}
        assert len(list(view.values())) == 2
        del view["a.json"]
        assert "a.json" not in bc


def test_automatic_codecs(path: str) -> None:
    with pytest.warns(DeprecationWarning, match="auto_codec"):
        bc = Barecat(path, readonly=False, auto_codec=True)
    with bc:
        bc["x.json"] = {"a": 1}
        bc["x.txt"] = b"as it is"
        assert bc["x.json"] == {"a": 1}
        assert dict(bc.items()) == {"x.json": {"a": 1}, "x.txt": b"as it is"}
        assert bc.read("x.json") == b'{"a": 1}'
    with Barecat(path) as bc:
        with pytest.warns(DeprecationWarning, match="register_codec"):
            bc.register_codec([".txt"], str.encode, bytes.decode)
        assert bc["x.txt"] == "as it is"
        assert bc["x.json"] == b'{"a": 1}'
    registry = CodecRegistry(auto_codec=False)
    registry.register_codec([".ro"], None, bytes.decode)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="read-only format"):
        registry.encode("x.ro", "text")


def test_bombs_are_not_unpacked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import gzip

    monkeypatch.setattr("headrace.codecs.decoded._MAX_UNPACKED", 1000)
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb") as file:
        file.write(b"[" + b" " * 5000 + b"]")
    with pytest.raises(ValueError, match="unpacks to more"):
        DecodedView({"x.json.gz": packed.getvalue()})["x.json.gz"]
