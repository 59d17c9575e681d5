"""Values instead of bytes: a mapping whose codecs follow from the endings of names."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import zlib
from collections.abc import Callable, Iterator, MutableMapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from headrace.codecs import image as image_codec
from headrace.codecs import jpeg, npy
from headrace.codecs.zstd import zst_pieces
from headrace.errors import MissingExtraError
from headrace.registry import require

__all__ = ["Codec", "DecodedView", "known_codecs", "picture_encoder", "unpack"]

_MAX_UNPACKED = 4 << 30


class Codec(NamedTuple):
    """How values become bytes and back; a wrapper has another codec inside (``.json.gz``)."""

    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]
    is_wrapper: bool = False


class DecodedView(MutableMapping[str, Any]):
    """Values of a mapping of names to bytes, such as an ``Archive``.

    Known are ``.json``, ``.txt``, ``.npy``, ``.npz`` (a dict of arrays), ``.msgpack``, pictures (RGB arrays), and
    around them ``.gz``, ``.xz``, ``.bz2`` and ``.zst``. Pickles run code when they are read, so ``.pkl`` needs
    ``allow_pickle``.

    Args:
        store: names to bytes.
        allow_pickle: also read and write ``.pkl`` and ``.pickle``; only for files you trust.

    Example:
        >>> view = DecodedView({})
        >>> view["a.json.gz"] = {"x": [1, 2]}
        >>> view["a.json.gz"]
        {'x': [1, 2]}
    """

    def __init__(self, store: MutableMapping[str, bytes], *, allow_pickle: bool = False) -> None:
        self.store = store
        self._codecs: dict[str, Codec] = dict(known_codecs())
        if allow_pickle:
            self._codecs |= dict.fromkeys((".pkl", ".pickle"), _pickle_codec())

    def register(self, endings: list[str], codec: Codec) -> None:
        """Add a codec for endings such as ``.foo``, or replace one."""
        for ending in endings:
            if not ending.startswith(".") or "." in ending[1:]:
                raise ValueError(f"an ending begins with its only dot, got {ending!r}")
        self._codecs |= dict.fromkeys((ending.lower() for ending in endings), codec)

    def _chain(self, name: str) -> list[Codec]:
        """The codecs of a name, the outermost first."""
        chain: list[Codec] = []
        rest = name.rpartition("/")[2].lower()
        while not chain or chain[-1].is_wrapper:
            rest, dot, ending = rest.rpartition(".")
            codec = self._codecs.get(dot + ending)
            if codec is None:
                if chain:
                    break  # x.gz alone: bytes inside
                hint = "; pass allow_pickle=True if you trust the file" if ending in ("pkl", "pickle") else ""
                raise ValueError(f"{name}: no codec is known for this ending{hint}")
            chain.append(codec)
        return chain

    def __getitem__(self, name: str) -> Any:
        chain = self._chain(name)
        value: Any = self.store[name]
        try:
            for codec in chain:
                value = codec.decode(value)
        except MissingExtraError:
            raise
        except (ValueError, EOFError, lzma.LZMAError, zlib.error, OSError, RecursionError, MemoryError) as error:
            raise ValueError(f"{name} cannot be decoded ({error})") from error
        return value

    def __setitem__(self, name: str, value: Any) -> None:
        for codec in reversed(self._chain(name)):
            value = codec.encode(value)
        self.store[name] = value

    def __delitem__(self, name: str) -> None:
        del self.store[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.store)

    def __len__(self) -> int:
        return len(self.store)

    def __contains__(self, name: object) -> bool:
        return name in self.store


def known_codecs() -> Iterator[tuple[str, Codec]]:
    """Endings and their codecs."""
    yield ".json", Codec(lambda value: json.dumps(value).encode(), json.loads)
    yield ".txt", Codec(lambda value: str(value).encode(), lambda data: data.decode())
    yield ".npy", Codec(npy.encode, npy.decode)
    yield ".npz", Codec(npy.encode_npz, npy.decode_npz)
    yield ".msgpack", Codec(_encode_msgpack, _decode_msgpack)
    for ending in (".jpg", ".jpeg"):
        yield ending, Codec(lambda value: jpeg.encode(value), image_codec.decode_any)
    yield ".webp", Codec(picture_encoder("WEBP", lossless=True), image_codec.decode_any)
    for ending, kind in ((".png", "PNG"), (".bmp", "BMP"), (".tif", "TIFF"), (".tiff", "TIFF")):
        yield ending, Codec(picture_encoder(kind), image_codec.decode_any)
    for ending in (".gz", ".gzip"):
        yield ending, Codec(lambda data: gzip.compress(data, mtime=0), partial(unpack, kind="gzip"), is_wrapper=True)
    for ending in (".xz", ".lzma"):
        yield ending, Codec(lzma.compress, partial(unpack, kind="lzma"), is_wrapper=True)
    yield ".bz2", Codec(bz2.compress, partial(unpack, kind="bz2"), is_wrapper=True)
    for ending in (".zst", ".zstd"):
        yield ending, Codec(_encode_zst, _decode_zst, is_wrapper=True)


def unpack(data: bytes, kind: str) -> bytes:
    """Decompress gzip, lzma (xz) or bz2, but never to more than memory can be expected to hold."""
    stream = io.BytesIO(data)
    openers: dict[str, Any] = {"gzip": _gunzip, "lzma": lzma.LZMAFile, "bz2": bz2.BZ2File}
    with openers[kind](stream) as file:
        return _checked_size(file.read(_MAX_UNPACKED + 1))


def _gunzip(stream: io.BytesIO) -> gzip.GzipFile:
    return gzip.GzipFile(fileobj=stream)


def _checked_size(value: bytes) -> bytes:
    if len(value) > _MAX_UNPACKED:
        raise ValueError(f"it unpacks to more than {_MAX_UNPACKED} bytes")
    return value


def picture_encoder(kind: str, **options: Any) -> Callable[[Any], bytes]:
    """What writes pixels as a picture of a kind that Pillow knows, with Pillow's options."""

    def encode(value: Any) -> bytes:
        from PIL import Image

        out = io.BytesIO()
        Image.fromarray(np.asarray(value)).save(out, kind, **options)
        return out.getvalue()

    return encode


def _encode_msgpack(value: Any) -> bytes:
    packed: bytes = require("msgpack", ".msgpack").packb(value)
    return packed


def _decode_msgpack(data: bytes) -> Any:
    return require("msgpack", ".msgpack").unpackb(data)


def _encode_zst(data: bytes) -> bytes:
    packed: bytes = require("zstandard", ".zst").ZstdCompressor().compress(data)
    return packed


def _decode_zst(data: bytes) -> bytes:
    parts: list[bytes] = []
    size = 0
    for part in zst_pieces(require("zstandard", ".zst"), io.BytesIO(data).read):
        parts.append(part)
        size += len(part)
        if size > _MAX_UNPACKED:
            raise ValueError(f"it unpacks to more than {_MAX_UNPACKED} bytes")
    return b"".join(parts)


def _pickle_codec() -> Codec:
    import pickle

    return Codec(pickle.dumps, pickle.loads)
