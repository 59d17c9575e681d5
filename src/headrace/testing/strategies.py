"""Fields and samples for hypothesis, which is imported when one of these is called."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from headrace.fields import Bytes, Float, Image, Int, Json, NDArray, Tensor, Text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hypothesis.strategies import SearchStrategy

    from headrace.types import Field

__all__ = ["KINDS", "field_names", "fields", "samples", "values"]

KINDS = ("int", "float", "image", "bytes", "json", "text", "ndarray", "tensor")
"""What ``fields`` makes."""
_DTYPES = ("|b1", "|u1", "<i2", ">i4", "<i8", "<f2", ">f4", "<f8", "<c8")
_PLAIN: dict[str, Field] = {
    "int": Int(),
    "float": Float(),
    "image": Image(mode="raw"),
    "bytes": Bytes(),
    "json": Json(),
    "text": Text(),
}


def field_names() -> SearchStrategy[str]:
    """Names that a field can have."""
    from hypothesis import strategies as st

    letters = st.characters(min_codepoint=97, max_codepoint=122)
    return st.text(letters, min_size=1, max_size=12)


def fields(kinds: Sequence[str] = KINDS) -> SearchStrategy[Field]:
    """A field of one of the kinds.

    Args:
        kinds: names of kinds, such as ``"int"``.
    """
    from hypothesis import strategies as st

    return st.sampled_from(list(kinds)).flatmap(_field)


def _field(kind: str) -> SearchStrategy[Field]:
    from hypothesis import strategies as st

    if kind not in ("ndarray", "tensor"):
        return st.just(_PLAIN[kind])
    dtypes = st.sampled_from(_DTYPES if kind == "ndarray" else ["<i2", "<i8", "<f4", "|u1"])
    shapes = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple)
    return st.builds(NDArray if kind == "ndarray" else Tensor, dtypes, shapes)


def values(field: Field, *, float_bits: Literal[32, 64] = 64) -> SearchStrategy[Any]:
    """Values that a field takes, any of them.

    Args:
        field: one of the kinds that ``fields`` makes.
        float_bits: 32 where a format keeps no more of a Float.
    """
    from hypothesis import strategies as st

    if isinstance(field, NDArray):
        return _arrays(field.dtype, field.shape)
    plain: dict[str, SearchStrategy[Any]] = {
        "int": st.integers(-(2**63), 2**63 - 1),
        "float": st.floats(width=float_bits),
        "bytes": st.binary(max_size=64),
        "text": st.text(st.characters(codec="utf-8"), max_size=24),
        "json": _jsons(),
        "image": st.tuples(st.integers(1, 6), st.integers(1, 6)).flatmap(
            lambda sides: _arrays(np.dtype("u1"), (*sides, 3))
        ),
    }
    return plain[field.kind]


def _jsons() -> SearchStrategy[Any]:
    from hypothesis import strategies as st

    numbers = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
    texts = st.text(st.characters(codec="utf-8"), max_size=6)
    leaves = st.none() | st.booleans() | numbers | texts
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
        max_leaves=5,
    )


def _arrays(dtype: np.dtype[Any], shape: tuple[int, ...]) -> SearchStrategy[Any]:
    """Arrays of any bits at all, NaN included."""
    from hypothesis import strategies as st

    def build(data: bytes) -> Any:
        raw = np.frombuffer(data, np.uint8)
        return ((raw & 1).view(dtype) if dtype.kind == "b" else raw.view(dtype)).reshape(shape)

    size = dtype.itemsize * math.prod(shape)
    return st.binary(min_size=size, max_size=size).map(build)


def samples(
    fields: Mapping[str, Field], *, min_size: int = 0, max_size: int = 6, float_bits: Literal[32, 64] = 64
) -> SearchStrategy[list[tuple[Any, ...]]]:
    """Lists of samples, each a tuple in field order.

    Args:
        fields: name to field.
        min_size: the least number of samples.
        max_size: the largest.
        float_bits: 32 where a format keeps no more of a Float.
    """
    from hypothesis import strategies as st

    rows: SearchStrategy[tuple[Any, ...]] = st.tuples(
        *(values(field, float_bits=float_bits) for field in fields.values())
    )
    return st.lists(rows, min_size=min_size, max_size=max_size)
