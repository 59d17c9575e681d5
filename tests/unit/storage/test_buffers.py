from __future__ import annotations

import gc
import os
import threading

import numpy as np

from penstock.storage import BufferPool

MB = 1_000_000


def test_memory_is_used_again_and_never_shared() -> None:
    pool = BufferPool()
    first = pool.take(MB, 7)
    second = pool.take(MB, 7)
    assert not np.shares_memory(first, second)
    address = first.ctypes.data
    view = first[10:20]
    del first
    third = pool.take(MB)
    assert third.ctypes.data != address - 7  # a view of it is still in use
    del view
    assert pool.take(MB + 1, 7).ctypes.data == address


def test_arrays_are_plain() -> None:
    for size in (0, 1, 65_535, 65_536, MB):
        array = BufferPool().take(size)
        assert (array.dtype, array.shape, array.flags.writeable) == (np.uint8, (size,), True)
        assert array.flags.c_contiguous
        array[:] = 5


def test_large_arrays_lie_as_asked() -> None:
    pool = BufferPool()
    shifts = [0, 1, 4095]
    for array, shift in zip(pool.take_each([MB, 70_000, 3 * MB], shifts), shifts, strict=True):
        assert array.ctypes.data % 4096 == shift
    assert [len(array) for array in pool.take_each([3, 0])] == [3, 0]
    assert pool.take_each([]) == []


def test_little_is_wasted_and_little_is_kept() -> None:
    pool = BufferPool(keep_bytes=4 * MB)
    for size in np.random.default_rng(0).integers(65_536, 3 * MB, 200).tolist():
        array = pool.take(size)
        assert array.base.nbytes <= size * 1.125 + 4096
        del array
        gc.collect()
        assert pool._free_bytes <= 4 * MB
        assert pool._free_bytes == sum(size * len(free) for size, free in pool._free.items())
    huge = pool.take(5 * MB)
    del huge
    assert pool._free_bytes <= 4 * MB


def test_threads_and_a_lock_that_is_held() -> None:
    pool = BufferPool()
    with pool._lock:  # as a forked child may find it
        array = pool.take(MB)
        del array
    assert pool._free_bytes == 0

    def work() -> None:
        for i in range(200):
            arrays = pool.take_each([100_000 + 1000 * (i % 9)] * 3)
            for k, array in enumerate(arrays):
                array[:] = k
            assert [int(array[0]) + int(array[-1]) for array in arrays] == [0, 2, 4]

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_a_child_process_has_its_own() -> None:
    pool = BufferPool()
    array = pool.take(MB)
    array[:] = 1
    if (child := os.fork()) == 0:
        other = pool.take(MB)
        other[:] = 2
        os._exit(0 if int(array[0]) == 1 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
