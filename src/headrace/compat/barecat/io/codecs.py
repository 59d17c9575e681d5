"""Values instead of bytes: codecs by the endings of names.

A pickle that names a class or a function runs code when it is read. So only plain values are read from one: numbers,
text, bytes, arrays of them, and tuples, lists, dicts and sets of all these. ``DecodedView(store, allow_pickle=True)``,
the environment variable ``HEADRACE_ALLOW_PICKLE=1`` and ``register_codec`` with ``pickle.loads`` allow everything.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import pickle
from collections.abc import Callable, Iterator, MutableMapping
from functools import partial
from typing import Any, ClassVar

import numpy as np

from headrace.codecs import jpeg, npy
from headrace.codecs.pickle_values import RefusedPickleError, load_values
from headrace.compat.barecat.io._msgpack import decode_msgpack, encode_msgpack
from headrace.formats.barecat.decoded import require, unpack

__all__ = ["CodecRegistry", "DecodedView"]

Codec = tuple[Callable[[Any], bytes], Callable[[bytes], Any], bool]


def encode_json(data: Any) -> bytes:
    """JSON in UTF-8."""
    return json.dumps(data).encode()


def decode_json(data: bytes) -> Any:
    """A value from JSON."""
    return json.loads(data)


def encode_pickle(data: Any) -> bytes:
    """A pickle of anything."""
    return pickle.dumps(data)


def decode_pickle(data: bytes) -> Any:
    """A plain value from a pickle; anything else only if HEADRACE_ALLOW_PICKLE is 1."""
    if os.environ.get("HEADRACE_ALLOW_PICKLE") == "1":
        return pickle.loads(data)
    try:
        return load_values(data)
    except RefusedPickleError as error:
        raise RefusedPickleError(
            f"{error}; if you trust the archive, use DecodedView(store, allow_pickle=True) or set "
            "HEADRACE_ALLOW_PICKLE=1"
        ) from None


def encode_gzip(data: bytes) -> bytes:
    """Compressed bytes; the same every time."""
    return gzip.compress(data, mtime=0)


def decode_gzip(data: bytes) -> bytes:
    """Bytes that were compressed."""
    return unpack(data, "gzip")


def encode_lzma(data: bytes) -> bytes:
    """Compressed bytes."""
    return lzma.compress(data)


def decode_lzma(data: bytes) -> bytes:
    """Bytes that were compressed."""
    return unpack(data, "lzma")


def encode_bz2(data: bytes) -> bytes:
    """Compressed bytes."""
    return bz2.compress(data)


def decode_bz2(data: bytes) -> bytes:
    """Bytes that were compressed."""
    return unpack(data, "bz2")


def encode_npy(data: Any) -> bytes:
    """An array as numpy saves it."""
    return npy.encode(data)


def decode_npy(data: bytes) -> Any:
    """An array that numpy has saved."""
    return npy.decode(data)


def encode_npz(data: Any) -> bytes:
    """A dict of arrays as numpy saves it."""
    return npy.encode_npz(data)


def decode_npz(data: bytes) -> dict[str, Any]:
    """A dict of arrays that numpy has saved."""
    return npy.decode_npz(data)


def encode_image(data: Any, fmt: str, **options: Any) -> bytes:
    """A picture file of a format that Pillow knows."""
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(np.asarray(data)).save(out, {"TIF": "TIFF", "JPG": "JPEG"}.get(fmt.upper(), fmt.upper()), **options)
    return out.getvalue()


def decode_image(data: bytes, fmt: str | None = None) -> Any:
    """The pixels of a picture file; gray ones have no axis for colours."""
    from PIL import Image

    with Image.open(io.BytesIO(data)) as image:
        return np.array(image)


def encode_jpeg(data: Any, quality: int = 95) -> bytes:
    """A JPEG file; an alpha channel is left out."""
    pixels = np.asarray(data)
    if pixels.ndim == 3 and pixels.shape[2] == 4:
        pixels = pixels[:, :, :3]
    return encode_image(pixels, "jpeg", quality=quality)


def decode_jpeg(data: bytes) -> Any:
    """The pixels of a JPEG file."""
    if jpeg.is_jpeg(data) and jpeg.read_info(data).color_space == "ycbcr":
        return jpeg.decode(data)
    return decode_image(data)


def encode_png(data: Any, compression: int | None = None) -> bytes:
    """A PNG file."""
    return encode_image(data, "png", **({} if compression is None else {"compress_level": compression}))


def encode_exr(data: Any) -> bytes:
    """An OpenEXR file; needs imageio."""
    written: bytes = require("imageio.v3", ".exr").imwrite("<bytes>", data, extension=".exr")
    return written


def decode_exr(data: bytes) -> Any:
    """The pixels of an OpenEXR file; needs imageio."""
    return require("imageio.v3", ".exr").imread(data, extension=".exr")


def _pictures() -> Iterator[tuple[str, Codec]]:
    for ending in (".jpg", ".jpeg"):
        yield ending, (encode_jpeg, decode_jpeg, False)
    yield ".png", (encode_png, decode_image, False)
    for fmt in ("bmp", "gif", "tiff", "tif", "webp"):
        yield f".{fmt}", (partial(encode_image, fmt=fmt), partial(decode_image, fmt=fmt), False)
    yield ".exr", (encode_exr, decode_exr, False)


_CODECS: dict[str, Codec] = {
    ".json": (encode_json, decode_json, False),
    ".pkl": (encode_pickle, decode_pickle, False),
    ".pickle": (encode_pickle, decode_pickle, False),
    ".gz": (encode_gzip, decode_gzip, True),
    ".gzip": (encode_gzip, decode_gzip, True),
    ".xz": (encode_lzma, decode_lzma, True),
    ".lzma": (encode_lzma, decode_lzma, True),
    ".bz2": (encode_bz2, decode_bz2, True),
    **dict(_pictures()),
    ".npy": (encode_npy, decode_npy, False),
    ".npz": (encode_npz, decode_npz, False),
    ".msgpack": (encode_msgpack, decode_msgpack, False),
}


class DecodedView(MutableMapping[str, Any]):
    """Values of a mapping of names to bytes, such as a ``Barecat``; a name without a codec is an error.

    Args:
        store: names to bytes.
        allow_pickle: read any pickle; only for archives you trust.

    Example:
        >>> view = DecodedView({})
        >>> view["a.json.gz"] = {"x": [1, 2]}
        >>> view["a.json.gz"]
        {'x': [1, 2]}
    """

    ALL_CODECS: ClassVar[dict[str, Codec]] = dict(_CODECS)

    def __init__(self, store: MutableMapping[str, bytes], *, allow_pickle: bool = False) -> None:
        self._store = store
        self.codecs: dict[str, Codec] = dict(self.ALL_CODECS)
        if allow_pickle:
            self.register_codec([".pkl", ".pickle"], encode_pickle, pickle.loads)

    def register_codec(
        self,
        exts: list[str],
        encoder: Callable[[Any], bytes],
        decoder: Callable[[bytes], Any],
        nonfinal: bool = False,
    ) -> None:
        """Add a codec for endings, or replace one; one that is not final has another inside (``.json.gz``)."""
        self.codecs |= dict.fromkeys(exts, (encoder, decoder, nonfinal))

    def clear_codecs(self) -> None:
        """Forget all codecs."""
        self.codecs.clear()

    def _codec(self, path: str) -> tuple[str, Codec]:
        stem, ending = os.path.splitext(path)
        codec = self.codecs.get(ending.lower())
        if codec is None:
            raise ValueError(f"No codec registered for '{ending.lower()}'. Use the store directly for raw bytes.")
        return stem, codec

    def _encode(self, path: str, data: Any) -> bytes:
        stem, (encode, _, nonfinal) = self._codec(path)
        return encode(self._encode(stem, data) if nonfinal else data)

    def _decode(self, path: str, data: bytes) -> Any:
        stem, (_, decode, nonfinal) = self._codec(path)
        value = decode(data)
        return self._decode(stem, value) if nonfinal else value

    def __getitem__(self, path: str) -> Any:
        return self._decode(path, self._store[path])

    def __setitem__(self, path: str, value: Any) -> None:
        self._store[path] = self._encode(path, value)

    def __delitem__(self, path: str) -> None:
        del self._store[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._store)

    def __len__(self) -> int:
        return len(self._store)

    def __contains__(self, path: object) -> bool:
        return path in self._store

    def keys(self) -> Any:
        """The names of the store."""
        return self._store.keys()

    def items(self) -> Iterator[tuple[str, Any]]:  # type: ignore[override]  # an iterator, as it was
        """Names and values."""
        return ((path, self._decode(path, data)) for path, data in self._store.items())

    def values(self) -> Iterator[Any]:  # type: ignore[override]
        """Values."""
        return (value for _, value in self.items())


class CodecRegistry:
    """Codecs by endings, where a name without one keeps its bytes.

    Args:
        auto_codec: begin with all codecs that are known, and not with none.
    """

    def __init__(self, auto_codec: bool = True) -> None:
        self.codecs: dict[str, Codec] = dict(_CODECS) if auto_codec else {}

    def register_codec(
        self,
        exts: list[str],
        encoder: Callable[[Any], bytes],
        decoder: Callable[[bytes], Any],
        nonfinal: bool = False,
    ) -> None:
        """Add a codec for endings, or replace one."""
        self.codecs |= dict.fromkeys(exts, (encoder, decoder, nonfinal))

    def encode(self, path: str, data: Any) -> Any:
        """The bytes of a value."""
        stem, ending = os.path.splitext(path) if self.codecs else (path, "")
        codec = self.codecs.get(ending.lower())
        if codec is None:
            return data
        if codec[0] is None:
            raise ValueError(f"No encoder available for {ending} (read-only format)")
        return codec[0](self.encode(stem, data) if codec[2] else data)

    def decode(self, path: str, data: bytes) -> Any:
        """The value of bytes."""
        if not self.codecs:
            return data
        stem, ending = os.path.splitext(path)
        codec = self.codecs.get(ending.lower())
        if codec is None:
            return data
        value = codec[1](data)
        return self.decode(stem, value) if codec[2] else value
