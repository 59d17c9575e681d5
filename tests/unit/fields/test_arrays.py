from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headrace import NDArray, Tensor

DTYPES = ["bool", "u1", "i1", "<u2", ">u2", "<i4", ">i4", "<u8", "<f2", "<f4", ">f8", "<c8", "<c16"]


class FakeTensor:
    """Enough of a torch tensor: it has to be detached and brought to the CPU first."""

    def __init__(self, array: np.ndarray, steps: tuple[str, ...] = ()) -> None:
        self.array, self.steps = array, steps

    def detach(self) -> FakeTensor:
        return FakeTensor(self.array, (*self.steps, "detach"))

    def cpu(self) -> FakeTensor:
        return FakeTensor(self.array, (*self.steps, "cpu"))

    def numpy(self) -> np.ndarray:
        assert self.steps == ("detach", "cpu")
        return self.array


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1,), (3, 2), (2, 1, 3)])
def test_round_trip_keeps_bits_and_byte_order(dtype: str, shape: tuple[int, ...]) -> None:
    field = NDArray(dtype, shape)
    rng = np.random.default_rng(1)
    value = np.frombuffer(rng.bytes(field.size_bytes), field.dtype).reshape(shape)
    value = value & True if dtype == "bool" else value
    encoded = field.encode(value, 0)
    assert encoded.payload == value.tobytes()
    found = field.decode((), memoryview(encoded.payload))
    assert (found.dtype, found.shape, found.tobytes()) == (field.dtype, shape, value.tobytes())
    assert found.flags.owndata
    assert found.flags.writeable


def test_values_that_convert_without_loss_are_taken() -> None:
    field = NDArray("float64", (2,))
    assert field.encode(np.array([1, 2], np.int32), 0).payload == np.array([1.0, 2.0]).tobytes()
    assert field.encode([1.5, 2.5], 0).payload == np.array([1.5, 2.5]).tobytes()
    assert NDArray(">i4", (2,)).encode(np.array([1, 2], "<i2"), 0).payload == b"\0\0\0\1\0\0\0\2"


def test_arrays_in_any_memory_order_are_taken() -> None:
    value = np.arange(12, dtype="<i8").reshape(3, 4)
    assert NDArray("<i8", (4, 3)).encode(value.T, 0).payload == np.ascontiguousarray(value.T).tobytes()


@pytest.mark.parametrize(
    ("dtype", "value"), [("float32", np.float64), ("uint8", np.int64), ("int32", np.uint32), ("bool", np.uint8)]
)
def test_values_that_lose_something_are_refused(dtype: str, value: Any) -> None:
    with pytest.raises(TypeError, match="does not convert to it without loss"):
        NDArray(dtype, (2,)).encode(np.zeros(2, value), 0)


@pytest.mark.parametrize("shape", [(3,), (2, 1), (1, 2), ()])
def test_wrong_shapes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"arrays of shape \(2,\), got"):
        NDArray("float32", (2,)).encode(np.zeros(shape, np.float32), 0)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (-1,), (1,) * 33])
def test_fields_without_a_size_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="shape must have 1 to 32 sides of at least 1"):
        NDArray("float32", shape)


def test_a_single_number_gets_advice() -> None:
    with pytest.raises(ValueError, match=r"use shape \(1,\)"):
        NDArray("float32", ())


@pytest.mark.parametrize("dtype", ["O", [("a", "f4"), ("b", "i4")], "(2,)f4", "S0", "V0"])
def test_dtypes_that_are_not_plain_are_refused(dtype: Any) -> None:
    with pytest.raises(ValueError, match="one plain dtype"):
        NDArray(dtype, (2,))


def test_a_view_copies_nothing() -> None:
    stored = np.arange(8, dtype=np.uint8)
    view = NDArray("<u2", (2, 2)).view((), stored)
    assert np.shares_memory(view, stored)
    assert view.tolist() == [[0x100, 0x302], [0x504, 0x706]]


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("torch.float32", "<f4"), ("torch.uint8", "|u1"), ("torch.bool", "|b1"), ("int64", "<i8"), (np.float16, "<f2")],
)
def test_tensor_dtypes_by_torch_name(name: Any, dtype: str) -> None:
    field = Tensor(name, [3])
    assert (field.kind, field.dtype.str, field.shape) == ("tensor", dtype, (3,))


def test_bfloat16_is_refused_with_advice() -> None:
    with pytest.raises(ValueError, match="no bfloat16; store float32"):
        Tensor("torch.bfloat16", (1,))


def test_tensors_are_brought_to_the_cpu() -> None:
    value = np.arange(3.0)
    assert Tensor("torch.float64", (3,)).encode(FakeTensor(value), 0).payload == value.tobytes()


def test_equal_fields_are_equal() -> None:
    assert NDArray("<f4", (2,)) == NDArray(np.float32, [2])
    assert hash(NDArray("<f4", (2,))) == hash(NDArray(np.float32, [2]))
    assert NDArray("<f4", (2,)) != Tensor("<f4", (2,))
    assert NDArray("<f4", (2,)) != NDArray(">f4", (2,))
