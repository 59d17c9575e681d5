from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest

from headrace.loader.slots import SlotPool
from headrace.storage import allocate_pages

SHAPE = (4, 65_536)


class CountingPool(SlotPool):
    """Knows how often it asked for memory."""

    def __init__(self, keep: int) -> None:
        self.allocated = 0
        super().__init__(keep, self._count)

    def _count(self, size_bytes: int) -> np.ndarray:
        self.allocated += 1
        return allocate_pages(size_bytes)


def address(array: np.ndarray) -> int:
    return array.ctypes.data


def test_a_slot_is_used_again_when_its_array_is_gone() -> None:
    pool = CountingPool(keep=2)
    array = pool.take(SHAPE, "uint8")
    first = address(array)
    del array
    assert address(pool.take(SHAPE, "uint8")) == first
    assert pool.allocated == 1


@pytest.mark.parametrize("view", [lambda a: a[1:2], lambda a: a.T, lambda a: a.view("float32")[0], np.asarray, iter])
def test_a_slot_is_not_used_again_while_a_view_lives(view: object) -> None:
    pool = CountingPool(keep=2)
    array = pool.take(SHAPE, "uint8")
    first, kept = address(array), view(array)  # type: ignore[operator]
    del array
    other = pool.take(SHAPE, "uint8")
    assert address(other) != first
    del kept
    assert address(pool.take(SHAPE, "uint8")) == first


def test_two_slots_never_overlap() -> None:
    pool = SlotPool(keep=3)
    arrays = [pool.take(SHAPE, "uint8") for _ in range(5)]
    for i, array in enumerate(arrays):
        array[:] = i
    assert all((array == i).all() for i, array in enumerate(arrays))


def test_slots_of_equal_size_serve_all_shapes_and_dtypes() -> None:
    pool = CountingPool(keep=2)
    for shape, dtype in (((65_536,), "uint8"), ((2, 128, 128), "float16"), ((16_384,), "float32")):
        array = pool.take(shape, dtype)
        assert (array.shape, array.dtype) == (shape, np.dtype(dtype))
        assert array.flags.writeable
        assert array.flags.c_contiguous
        del array
    assert pool.allocated == 1


def test_no_more_than_some_are_kept() -> None:
    pool = CountingPool(keep=2)
    arrays = [pool.take(SHAPE, "uint8") for _ in range(6)]
    del arrays
    again = [pool.take(SHAPE, "uint8") for _ in range(6)]
    assert pool.allocated == 6 + 4
    assert len({address(array) for array in again}) == 6


def test_sizes_that_do_not_come_again_take_no_memory() -> None:
    pool = CountingPool(keep=2)
    for size in range(100_000, 100_200):
        usual = pool.take(SHAPE, "uint8")
        other = pool.take((size,), "uint8")
        assert other.nbytes == size
        del usual, other
    assert pool.allocated == 201  # the usual size is remembered
    assert len(pool._free.counts()) <= 16


def test_a_size_that_is_not_asked_for_any_more_takes_no_memory() -> None:
    pool = SlotPool(keep=4)
    arrays = [pool.take(SHAPE, "uint8") for _ in range(4)]
    slots = [weakref.ref(memory) for memory in (array.base.base for array in arrays)]
    del arrays
    for _ in range(70):  # the pictures have grown
        pool.take((4, 131_072), "uint8")
    assert [slot() for slot in slots] == [None] * 4
    assert pool._free.counts() == {4 * 131_072: 1}


def test_small_arrays_are_ordinary() -> None:
    pool = CountingPool(keep=2)
    assert pool.take((3, 0, 2), "float32").shape == (3, 0, 2)
    assert pool.take((), "int64").shape == ()
    assert pool.allocated == 0


def test_arrays_outlive_their_pool() -> None:
    pool = SlotPool(keep=2)
    array = pool.take(SHAPE, "uint8")
    array[:] = 7
    del pool
    gc.collect()
    assert (array == 7).all()


def test_slots_come_back_from_any_thread() -> None:
    pool, failures = CountingPool(keep=8), []

    def use(number: int) -> None:
        for _ in range(200):
            array = pool.take(SHAPE, "uint8")
            array[0, :64] = number
            if (array[0, :64] != number).any():
                failures.append(number)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert pool.allocated <= 4
