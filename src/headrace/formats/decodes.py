"""What stored bytes mean: bytes, or values behind a codec that is named when a dataset is opened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, get_args

from headrace.codecs import npy
from headrace.errors import MissingExtraError
from headrace.fields import Bytes, Image, Json, Text
from headrace.registry import require
from headrace.types import Encoded

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from headrace.types import Facts, Field

__all__ = ["DECODES", "Coded", "Decode", "field_for", "override_schema"]

Decode: TypeAlias = Literal["bytes", "json", "text", "npy", "msgpack", "image", "jpeg", "pickle"]
"""Codecs by name; ``"jpeg"`` is another word for ``"image"``."""
DECODES: tuple[str, ...] = get_args(Decode)

_PLAIN: dict[str, type[Any]] = {"bytes": Bytes, "json": Json, "text": Text, "image": Image, "jpeg": Image}
_RISK = (
    "decode='pickle' runs code that the file contains: whoever wrote the file can do anything that you can. "
    "If you trust everyone who could have written it, say allow_pickle=True"
)


@dataclass(frozen=True, slots=True)
class Coded:
    """A value of any shape behind a codec: ``"npy"``, ``"msgpack"`` or ``"pickle"``.

    Example:
        >>> import numpy as np
        >>> field = Coded("npy")
        >>> field.decode((), memoryview(field.encode(np.arange(3), 0).payload))
        array([0, 1, 2])
    """

    codec: Literal["npy", "msgpack", "pickle"]
    kind: ClassVar[str] = "coded"
    has_payload: ClassVar[bool] = True

    def encode(self, value: Any, index: int) -> Encoded:
        """Serialize a value."""
        if self.codec == "npy":
            return Encoded((), npy.encode(value))
        if self.codec == "msgpack":
            return Encoded((), _msgpack().packb(value))
        import pickle

        return Encoded((), pickle.dumps(value))

    def decode(self, facts: Facts, payload: memoryview) -> Any:
        """Give the value; ValueError when the bytes are no such thing."""
        try:
            if self.codec == "npy":
                return npy.decode(payload)
            if self.codec == "msgpack":
                return _msgpack().unpackb(payload, strict_map_key=False)
            import pickle

            return pickle.loads(payload)
        except MissingExtraError:
            raise
        except Exception as error:  # a pickle may raise anything
            raise ValueError(f"{self.codec}: {type(error).__name__}: {error}") from error

    def view(self, facts: Facts, payload: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
        """Coded values cannot be looked at in place."""
        raise ValueError(f"values of {self.codec} have to be decoded; read them with dataset[i]")

    def max_size_bytes(self) -> int | None:
        """Any length is possible."""
        return None


def field_for(decode: Decode | None, *, allow_pickle: bool) -> tuple[str, Field]:
    """Name and type of the one field of a dataset."""
    if decode is not None and decode not in get_args(Decode):
        raise ValueError(f"decode must be one of {', '.join(get_args(Decode))} or None, got {decode!r}")
    if decode == "pickle" and not allow_pickle:
        raise ValueError(_RISK)
    if decode == "msgpack":
        _msgpack()  # a missing package is told now, not with the first sample
    if decode in ("npy", "msgpack", "pickle"):
        return "data", Coded(decode)
    field: Field = _PLAIN[decode or "bytes"]()
    return ("image" if field.kind == "image" else "data"), field


def override_schema(
    path: str,
    schema: Mapping[str, Field],
    *,
    fields: Mapping[str, Field] | None = None,
    decode: Decode | Mapping[str, Decode] | None = None,
    allow_pickle: bool = False,
) -> dict[str, Field]:
    """A schema that was found in a file, with what the caller knows better.

    Args:
        path: of the dataset, for errors.
        schema: the fields that were found, by name.
        fields: fields by name that replace those that were found.
        decode: what bytes are, see ``DECODES``: of all Bytes fields, or by name.
        allow_pickle: needed for ``"pickle"``.
    """
    found = dict(schema)
    by_name = decode if isinstance(decode, Mapping) else {}
    if unknown := sorted({*(fields or {}), *by_name} - set(found)):
        raise ValueError(f"{path} has no field {', '.join(unknown)}; its fields are {', '.join(found)}")
    if isinstance(decode, str):
        by_name = {name: decode for name, field in found.items() if isinstance(field, Bytes)}
        if not by_name:
            raise ValueError(f"{path}: decode={decode!r} says what bytes are, and no field of it is bytes")
    found |= {name: field_for(one, allow_pickle=allow_pickle)[1] for name, one in by_name.items()}
    return found | dict(fields or {})


def _msgpack() -> Any:
    return require("msgpack", "decode='msgpack'")
