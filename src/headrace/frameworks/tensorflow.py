"""A loader as a ``tf.data.Dataset``.

Contract. TensorFlow asks for batches in a thread of its own, one after the other, and is one batch ahead of the
consumer. It takes arrays at multiples of 64 bytes without a copy, which those of the loader's pool are, and keeps them
until its tensors are gone. When the consumer leaves a loop early, TensorFlow closes the loader's iterator. An exception
of the loader arrives as an error of TensorFlow whose text has the exception's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from headrace.loader.collate import collate
from headrace.registry import require
from headrace.types import Padded, Ragged

if TYPE_CHECKING:
    from collections.abc import Iterator

    import tensorflow as tf

    from headrace.loader import Loader
    from headrace.ops import Form

__all__ = ["to_tf_dataset"]


def to_tf_dataset(loader: Loader, *, elements: Literal["tuple", "dict"] = "tuple") -> tf.data.Dataset:
    """The batches of a loader as a dataset of TensorFlow; each pass over it is the loader's next epoch.

    Arrays become tensors, text and bytes string tensors, values of different lengths ragged tensors, and with
    ``collate="pad"`` a ``Padded`` of two tensors. The loader makes its first batch now, to see what its outputs are.

    Args:
        loader: one that gives numpy arrays.
        elements: ``"tuple"``, in the order of the outputs, as Keras takes them, or ``"dict"``, by name.
    """
    tensorflow = require("tensorflow", "to_tf_dataset()")
    options = loader.options
    if options.framework != "numpy":
        raise ValueError(f"to_tf_dataset() takes a loader of numpy arrays, and its framework is {options.framework!r}")
    if elements not in ("tuple", "dict"):
        raise ValueError(f"elements must be 'tuple' or 'dict', got {elements!r}")
    if not len(loader):
        raise ValueError(f"an epoch of {loader!r} has no batches, so nothing is known of their types")
    first, forms, rows = loader[0], loader.forms(), options.batch_size if options.drop_last else None
    columns = {name: _column(name, value, forms[name], rows) for name, value in zip(first.keys(), first, strict=True)}

    def generate() -> Iterator[tuple[Any, ...]]:
        for batch in loader:
            parts = [column.parts(value) for column, value in zip(columns.values(), batch, strict=True)]
            del batch
            yield tuple(part for several in parts for part in several)
            del parts

    @tensorflow.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def assemble(*parts: tf.Tensor) -> Any:
        left = iter(parts)
        values = {name: column.assembled(tensorflow, left) for name, column in columns.items()}
        return values if elements == "dict" else tuple(values.values())

    specs = [spec for column in columns.values() for spec in column.specs]
    signature = tuple(tensorflow.TensorSpec(shape, tensorflow.as_dtype(dtype)) for shape, dtype in specs)
    dataset = tensorflow.data.Dataset.from_generator(generate, output_signature=signature).map(assemble)
    if not loader.state_dict()["samples_used"]:  # of an epoch that was begun, the first pass gives the rest
        dataset = dataset.apply(tensorflow.data.experimental.assert_cardinality(len(loader)))
    return dataset.prefetch(1)


class _Column(NamedTuple):
    """How an output travels: as one array, or as two (Padded, Ragged, a list of arrays), or as text."""

    kind: type
    specs: tuple[tuple[tuple[int | None, ...], str], ...]

    def parts(self, value: Any) -> tuple[Any, ...]:
        """The arrays of a value, C-contiguous for TensorFlow by itself."""
        if self.kind is list:
            return (np.array(value, object),)
        if self.kind is Ragged and isinstance(value, list):
            (_, *shape), dtype = self.specs[0]
            value = collate(value, "offsets") if value else Ragged(np.empty((0, *shape), dtype), np.zeros(1, np.int64))
        return (value,) if self.kind is np.ndarray else tuple(value)

    def assembled(self, tensorflow: Any, parts: Iterator[tf.Tensor]) -> Any:
        """The value of TensorFlow, of its parts."""
        if self.kind is Ragged:
            return tensorflow.RaggedTensor.from_row_splits(next(parts), next(parts), validate=False)
        return Padded(next(parts), next(parts)) if self.kind is Padded else next(parts)


def _column(name: str, value: Any, form: Form, rows: int | None) -> _Column:
    """How an output travels whose first value is this."""
    if isinstance(value, list) and all(isinstance(item, str | bytes) for item in value):
        return _Column(list, (((rows,), "string"),))
    if isinstance(value, list) and all(isinstance(item, np.ndarray) for item in value):
        try:
            value = collate(value, "offsets")
        except ValueError as error:
            raise ValueError(f"the output {name!r}: {error}; write collate={{{name!r}: 'pad'}}") from error
    if isinstance(value, Ragged):
        splits = None if rows is None else rows + 1
        return _Column(Ragged, (_spec(value.values, None, value.values.shape[1:]), _spec(value.offsets, splits, ())))
    if isinstance(value, Padded):
        sides = (None,) * (value.values.ndim - 1)
        return _Column(Padded, (_spec(value.values, rows, sides), _spec(value.lengths, rows, value.lengths.shape[1:])))
    if not isinstance(value, np.ndarray):
        raise ValueError(
            f"TensorFlow has no type for the output {name!r}, values of Python such as {_brief(value)}; leave the "
            f"field out by pipelines={{{name!r}: None}}, or write collate={{{name!r}: 'offsets'}} for JSON as bytes"
        )
    if value.dtype.kind in "SUO":
        return _Column(list, (((rows, *value.shape[1:]), "string"),))
    # A side that differs from sample to sample may differ from batch to batch.
    known = form.shape if form.is_known and form.shape is not None and len(form.shape) == value.ndim - 1 else None
    return _Column(np.ndarray, (_spec(value, rows, value.shape[1:] if known is None else known),))


def _spec(array: Any, rows: int | None, sides: tuple[int | None, ...]) -> tuple[tuple[int | None, ...], str]:
    return (rows, *sides), array.dtype.name


def _brief(value: Any) -> str:
    shown = repr(value[0] if isinstance(value, list) and value else value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
