"""Values instead of bytes: codecs by the endings of names.

A pickle that names a class or a function runs code when it is read. So only plain values are read from one: numbers,
text, bytes, arrays of them, and tuples, lists, dicts and sets of all these. ``DecodedView(store, allow_pickle=True)``,
the environment variable ``HEADRACE_ALLOW_PICKLE=1`` and ``register_codec`` with ``pickle.loads`` allow everything.

MessagePack holds arrays as the package msgpack-numpy writes them: maps with ``nd``, ``type``, ``kind``, ``shape`` and
``data``, whose keys are bytes. Arrays of objects, which are pickles inside, are refused.
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
from typing import Any, ClassVar, TypeAlias

import numpy as np

from headrace.codecs import jpeg, npy
from headrace.codecs.pickle_values import RefusedPickleError, load_values
from headrace.formats.barecat.decoded import require, unpack

__all__ = ["CodecRegistry", "DecodedView"]

Codec: TypeAlias = tuple[Callable[[Any], bytes], Callable[[bytes], Any], bool]


def _decode_pickle(data: bytes) -> Any:
    if os.environ.get("HEADRACE_ALLOW_PICKLE") == "1":
        return pickle.loads(data)
    try:
        return load_values(data)
    except RefusedPickleError as error:
        hint = "if you trust the archive, use DecodedView(store, allow_pickle=True) or set HEADRACE_ALLOW_PICKLE=1"
        raise RefusedPickleError(f"{error}; {hint}") from None


def _encode_picture(data: Any, kind: str, **options: Any) -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(np.asarray(data)).save(out, kind, **options)
    return out.getvalue()


def _decode_picture(data: bytes) -> Any:
    """The pixels of a picture file; gray ones have no axis for colours."""
    from PIL import Image

    with Image.open(io.BytesIO(data)) as image:
        return np.array(image)


def _encode_jpeg(data: Any) -> bytes:
    pixels = np.asarray(data)
    if pixels.ndim == 3 and pixels.shape[2] == 4:
        pixels = pixels[:, :, :3]  # a JPEG has no alpha channel
    return _encode_picture(pixels, "JPEG", quality=95)


def _decode_jpeg(data: bytes) -> Any:
    if jpeg.is_jpeg(data) and jpeg.read_info(data).color_space == "ycbcr":
        return jpeg.decode(data)
    return _decode_picture(data)


def _encode_exr(data: Any) -> bytes:
    written: bytes = require("imageio.v3", ".exr").imwrite("<bytes>", data, extension=".exr")
    return written


def _encode_msgpack(data: Any) -> bytes:
    packed: bytes = require("msgpack", ".msgpack").packb(data, default=_to_map)
    return packed


def _to_map(value: Any) -> Any:
    if isinstance(value, complex) and not isinstance(value, np.generic):
        return {b"complex": True, b"data": repr(value)}
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            raise TypeError("an array of objects cannot be stored as msgpack")
        kind = b"V" if value.dtype.kind == "V" else b""
        described: Any = value.dtype.descr if kind else value.dtype.str
        return {b"nd": True, b"type": described, b"kind": kind, b"shape": value.shape, b"data": value.tobytes()}
    if isinstance(value, np.bool_ | np.number):
        return {b"nd": False, b"type": value.dtype.str, b"data": value.tobytes()}
    raise TypeError(f"{type(value).__name__} cannot be stored as msgpack")


def _from_map(found: dict[Any, Any]) -> Any:
    if b"complex" in found:
        return complex(found[b"data"])
    if b"nd" not in found:
        return found
    described = found[b"type"]
    fields: Any = [tuple(field) for field in described] if isinstance(described, list) else described
    if found.get(b"kind") == b"O" or np.dtype(fields).hasobject:
        raise ValueError("an array of objects is a pickle inside, and reading it could run any code")
    array = np.frombuffer(found[b"data"], np.dtype(fields))
    return array.reshape(found[b"shape"]) if found[b"nd"] else array[0]


_PICKLE: Codec = (pickle.dumps, _decode_pickle, False)
_GZIP: Codec = (partial(gzip.compress, mtime=0), partial(unpack, kind="gzip"), True)
_LZMA: Codec = (lzma.compress, partial(unpack, kind="lzma"), True)
_JPEG: Codec = (_encode_jpeg, _decode_jpeg, False)
_CODECS: dict[str, Codec] = {
    ".json": (lambda data: json.dumps(data).encode(), json.loads, False),
    **{".pkl": _PICKLE, ".pickle": _PICKLE, ".gz": _GZIP, ".gzip": _GZIP, ".xz": _LZMA, ".lzma": _LZMA},
    ".bz2": (bz2.compress, partial(unpack, kind="bz2"), True),
    **{".jpg": _JPEG, ".jpeg": _JPEG},
    **{
        f".{ending}": (partial(_encode_picture, kind=kind), _decode_picture, False)
        for ending, kind in (("png", "PNG"), ("bmp", "BMP"), ("gif", "GIF"), ("tiff", "TIFF"), ("tif", "TIFF"))
    },
    ".webp": (partial(_encode_picture, kind="WEBP"), _decode_picture, False),
    ".exr": (_encode_exr, lambda data: require("imageio.v3", ".exr").imread(data, extension=".exr"), False),
    ".npy": (npy.encode, npy.decode, False),
    ".npz": (npy.encode_npz, npy.decode_npz, False),
    ".msgpack": (
        _encode_msgpack,
        lambda data: require("msgpack", ".msgpack").unpackb(data, object_hook=_from_map, strict_map_key=False),
        False,
    ),
}


class CodecRegistry:
    """Codecs by endings, where a name without one keeps its bytes."""

    def __init__(self, auto_codec: bool = True) -> None:
        self.codecs: dict[str, Codec] = dict(_CODECS) if auto_codec else {}

    def register_codec(
        self, exts: list[str], encoder: Callable[[Any], bytes], decoder: Callable[[bytes], Any], nonfinal: bool = False
    ) -> None:
        """Add a codec for endings, or replace one; one that is not final has another inside (``.json.gz``)."""
        self.codecs |= dict.fromkeys(exts, (encoder, decoder, nonfinal))

    def _find(self, path: str) -> tuple[str, Codec | None]:
        stem, ending = os.path.splitext(path) if self.codecs else (path, "")
        return stem, self.codecs.get(ending.lower())

    def encode(self, path: str, data: Any) -> Any:
        """The bytes of a value."""
        stem, codec = self._find(path)
        if codec is None:
            return data
        if codec[0] is None:
            raise ValueError(f"No encoder available for {path} (read-only format)")
        return codec[0](self.encode(stem, data) if codec[2] else data)

    def decode(self, path: str, data: bytes) -> Any:
        """The value of bytes."""
        stem, codec = self._find(path)
        if codec is None:
            return data
        value = codec[1](data)
        return self.decode(stem, value) if codec[2] else value


class _StrictRegistry(CodecRegistry):
    """Where a name without a codec is an error."""

    def _find(self, path: str) -> tuple[str, Codec | None]:
        stem, ending = os.path.splitext(path)
        codec = self.codecs.get(ending.lower())
        if codec is None:
            raise ValueError(f"No codec registered for '{ending.lower()}'. Use the store directly for raw bytes.")
        return stem, codec


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
        self._registry = _StrictRegistry(auto_codec=False)
        self.codecs = self._registry.codecs
        self.codecs |= self.ALL_CODECS
        if allow_pickle:
            self.register_codec([".pkl", ".pickle"], pickle.dumps, pickle.loads)

    def register_codec(
        self, exts: list[str], encoder: Callable[[Any], bytes], decoder: Callable[[bytes], Any], nonfinal: bool = False
    ) -> None:
        """Add a codec for endings, or replace one; one that is not final has another inside (``.json.gz``)."""
        self._registry.register_codec(exts, encoder, decoder, nonfinal)

    def clear_codecs(self) -> None:
        """Forget all codecs."""
        self.codecs.clear()

    def __getitem__(self, path: str) -> Any:
        return self._registry.decode(path, self._store[path])

    def __setitem__(self, path: str, value: Any) -> None:
        self._store[path] = self._registry.encode(path, value)

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
        return ((path, self._registry.decode(path, data)) for path, data in self._store.items())

    def values(self) -> Iterator[Any]:  # type: ignore[override]
        """Values."""
        return (value for _, value in self.items())
