"""What the loader gives out can be exported by DLPack, and its memory stays while a consumer holds it."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.helpers import write_all_fields

import headrace as hr
from headrace import ops
from headrace.loader.slots import SlotPool

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SHAPE = (8, 64, 64, 3)
KINDS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "as it is": lambda array: array,
    "axes in another order": lambda array: array.transpose(0, 3, 1, 2),
    "a part": lambda array: array[2:, ::2],
    "read-only": lambda array: _read_only(array),
}


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array[:]
    view.flags.writeable = False
    return view


def imported(array: np.ndarray, consumer: str) -> Any:
    return np.from_dlpack(array) if consumer == "numpy" else pytest.importorskip("torch").from_dlpack(array)


@pytest.mark.parametrize(
    ("kind", "consumer"),
    [
        (kind, consumer)
        for kind in KINDS
        for consumer in ("numpy", "torch")
        if (kind, consumer) != ("read-only", "torch")
    ],
)
def test_memory_stays_while_a_consumer_holds_it(kind: str, consumer: str) -> None:
    pool = SlotPool(keep=1)
    array = pool.take(SHAPE, "uint8")
    array[:] = np.arange(array.size, dtype=np.uint64).reshape(SHAPE) % 251
    address, expected = array.ctypes.data, KINDS[kind](array).copy()
    held = imported(KINDS[kind](array), consumer)
    del array
    gc.collect()
    other = pool.take(SHAPE, "uint8")
    assert other.ctypes.data != address
    other[:] = 99
    np.testing.assert_array_equal(np.asarray(held), expected)
    del held
    assert pool.take(SHAPE, "uint8").ctypes.data == address


@pytest.mark.parametrize("layout", ["NHWC", "NCHW", "channels_last"])
@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_batches_have_dlpack(tmp_path: Path, framework: str, layout: Any) -> None:
    if framework == "torch":
        pytest.importorskip("torch")
    write_all_fields(tmp_path / "all.beton")
    pipelines = {"raw": [ops.Resize(4), ops.ToLayout(layout)], "jpg": [ops.Resize(4)]}
    for collate in ("pad", "offsets"):
        loader = hr.Loader(tmp_path / "all.beton", 4, framework=framework, pipelines=pipelines, collate=collate)
        arrays = [part for value in loader[0] for part in (value if isinstance(value, tuple) else (value,))]
        assert len(arrays) >= len(loader[0])
        for array in arrays:
            assert array.__dlpack_device__() == (1, 0)
            np.testing.assert_array_equal(np.from_dlpack(array), np.asarray(array))
