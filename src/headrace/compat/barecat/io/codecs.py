"""Values instead of bytes: codecs by the endings of names.

A pickle that names a class or a function runs code when it is read. So only plain values are read from one: numbers,
text, bytes, arrays of them, and tuples, lists, dicts and sets of all these. ``DecodedView(store, allow_pickle=True)``,
the environment variable ``HEADRACE_ALLOW_PICKLE=1`` and ``register_codec`` with ``pickle.loads`` allow everything.

MessagePack holds arrays as the package msgpack-numpy writes them: maps with ``nd``, ``type``, ``kind``, ``shape`` and
``data``, whose keys are bytes. Arrays of objects, which are pickles inside, are refused.
"""

from __future__ import annotations

import os
import pickle
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from headrace.codecs import decoded, jpeg
from headrace.codecs.decoded import Codec, known_codecs, picture_encoder
from headrace.codecs.image import open_picture
from headrace.codecs.pickle_values import RefusedPickleError, load_values
from headrace.compat.barecat.util.misc import delegate
from headrace.registry import require

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, MutableMapping

__all__ = ["CodecRegistry", "DecodedView"]


def _decode_pickle(data: bytes) -> Any:
    if os.environ.get("HEADRACE_ALLOW_PICKLE") == "1":
        return pickle.loads(data)
    try:
        return load_values(data)
    except RefusedPickleError as error:
        hint = "if you trust the archive, use DecodedView(store, allow_pickle=True) or set HEADRACE_ALLOW_PICKLE=1"
        raise RefusedPickleError(f"{error}; {hint}") from None


def _decode_picture(data: bytes) -> Any:
    """The pixels of a picture file; gray ones have no axis for colours."""
    with open_picture(data) as picture:
        return np.array(picture)


def _encode_jpeg(data: Any) -> bytes:
    pixels = np.asarray(data)
    if pixels.ndim == 3 and pixels.shape[2] == 4:
        pixels = pixels[:, :, :3]  # a JPEG has no alpha channel
    return picture_encoder("JPEG", quality=95)(pixels)


def _decode_jpeg(data: bytes) -> Any:
    if jpeg.is_jpeg(data) and jpeg.read_info(data).color_space == "ycbcr":
        return jpeg.decode(data)
    return _decode_picture(data)


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


_KNOWN = dict(known_codecs())
_SAME = (".json", ".gz", ".gzip", ".xz", ".lzma", ".bz2", ".npy", ".npz")
_CODECS: dict[str, Codec] = {
    **{ending: _KNOWN[ending] for ending in _SAME},
    **{ending: Codec(_KNOWN[ending].encode, _decode_picture) for ending in (".png", ".bmp", ".tiff", ".tif")},
    **{f".{kind.lower()}": Codec(picture_encoder(kind), _decode_picture) for kind in ("GIF", "WEBP")},
    **dict.fromkeys((".jpg", ".jpeg"), Codec(_encode_jpeg, _decode_jpeg)),
    **dict.fromkeys((".pkl", ".pickle"), Codec(pickle.dumps, _decode_pickle)),
    ".exr": Codec(
        lambda data: require("imageio.v3", ".exr").imwrite("<bytes>", data, extension=".exr"),
        lambda data: require("imageio.v3", ".exr").imread(data, extension=".exr"),
    ),
    ".msgpack": Codec(
        lambda data: require("msgpack", ".msgpack").packb(data, default=_to_map),
        lambda data: require("msgpack", ".msgpack").unpackb(data, object_hook=_from_map, strict_map_key=False),
    ),
}


class CodecRegistry:
    """Codecs by endings; begins with all that are known, or with none.

    A name without a codec keeps its bytes or, if it ``is_strict``, is an error.
    """

    def __init__(self, auto_codec: bool = True, *, is_strict: bool = False) -> None:
        self.codecs: dict[str, Codec] = dict(_CODECS) if auto_codec else {}
        self._is_strict = is_strict

    def register_codec(
        self, exts: list[str], encoder: Callable[[Any], bytes], decoder: Callable[[bytes], Any], nonfinal: bool = False
    ) -> None:
        """Add a codec for endings, or replace one; one that is not final has another inside (``.json.gz``)."""
        self.codecs |= dict.fromkeys(exts, Codec(encoder, decoder, nonfinal))

    def _find(self, path: str) -> tuple[str, Codec | None]:
        stem, ending = os.path.splitext(path) if self.codecs or self._is_strict else (path, "")
        codec = self.codecs.get(ending.lower())
        if codec is None and self._is_strict:
            raise ValueError(f"No codec registered for '{ending.lower()}'. Use the store directly for raw bytes.")
        return stem, codec

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


class DecodedView(decoded.DecodedView):
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
        super().__init__(store)
        self._store = store
        self._registry = CodecRegistry(auto_codec=False, is_strict=True)
        self.codecs = self._registry.codecs
        self.codecs |= self.ALL_CODECS
        if allow_pickle:
            self.register_codec([".pkl", ".pickle"], pickle.dumps, pickle.loads)

    register_codec = delegate("_registry", CodecRegistry.register_codec)

    def clear_codecs(self) -> None:
        """Forget all codecs."""
        self.codecs.clear()

    def __getitem__(self, path: str) -> Any:
        return self._registry.decode(path, self.store[path])

    def __setitem__(self, path: str, value: Any) -> None:
        self.store[path] = self._registry.encode(path, value)

    def keys(self) -> Any:
        """The names of the store."""
        return self.store.keys()

    def items(self) -> Iterator[tuple[str, Any]]:  # type: ignore[override]  # an iterator, as it was
        """Names and values."""
        return ((path, self._registry.decode(path, data)) for path, data in self.store.items())

    def values(self) -> Iterator[Any]:  # type: ignore[override]
        """Values."""
        return (value for _, value in self.items())
