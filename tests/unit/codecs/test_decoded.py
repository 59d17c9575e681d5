"""Values instead of bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.helpers import picture

from headrace.formats.barecat import Codec, DecodedView


def test_decoded_view() -> None:
    view = DecodedView({})
    pixels = picture(1, 8, 9).astype(np.uint8)
    values: dict[str, Any] = {
        "a.json": {"x": [1]},
        "a.txt": "text",
        "b.json.gz": [1, 2],
        "c.txt.xz": "x",
        "d.txt.bz2.gz": "y",
        "e.gz": b"raw",
    }
    view.update(values)
    assert dict(view) == values
    view["p.png"], view["p.webp"], view["n.npy"] = pixels, pixels, pixels
    for name in ("p.png", "p.webp", "n.npy"):
        assert np.array_equal(view[name], pixels)
    view["n.npz"] = {"x": np.arange(3)}
    assert view["n.npz"]["x"].tolist() == [0, 1, 2]
    view["p.JPG"] = pixels
    assert view["p.JPG"].shape == pixels.shape
    for name in ("x.unknown", "x.pkl"):
        with pytest.raises(ValueError, match="no codec"):
            view[name] = 1
    view.store["bad.json.gz"] = b"no gzip"
    with pytest.raises(ValueError, match="cannot be decoded"):
        view["bad.json.gz"]
    trusting = DecodedView({}, allow_pickle=True)
    trusting["x.pkl"] = {1, 2}
    assert trusting["x.pkl"] == {1, 2}
    view.register([".up"], Codec(lambda v: v.upper().encode(), lambda d: d.decode().lower()))
    view["s.up"] = "shout"
    assert (view.store["s.up"], view["s.up"]) == (b"SHOUT", "shout")


def test_damaged_values_name_their_file() -> None:
    view = DecodedView({"a.json": b"{", "a.npz": b"PK", "a.png": b"x", "a.json.gz": b"x", "deep.json": b"[" * 100_000})
    for name in view:
        with pytest.raises(ValueError, match=rf"^{name} cannot be decoded \("):
            view[name]


def test_zstd_is_complete_or_an_error() -> None:
    pytest.importorskip("zstandard")
    view = DecodedView({})
    view["a.txt.zst"] = "hello " * 10_000
    packed = view.store["a.txt.zst"]
    view.store["b.txt.zstd"] = packed + packed
    assert view["b.txt.zstd"] == "hello " * 20_000
    for damaged in (packed[:-1], packed[: len(packed) // 2], packed + b"rest", b"x"):
        view.store["c.txt.zst"] = damaged
        with pytest.raises(ValueError, match=r"c\.txt\.zst cannot be decoded"):
            view["c.txt.zst"]


def test_endings_have_a_dot() -> None:
    with pytest.raises(ValueError, match="begins with its only dot, got 'foo'"):
        DecodedView({}).register(["foo"], Codec(str.encode, bytes.decode))
