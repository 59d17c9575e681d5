from __future__ import annotations

import os
import threading

import numpy as np
import pytest

from headrace._native import BufferPool, NativeError

MB = 1_000_000


def take(pool: BufferPool, *sizes: int, offset: int = 0) -> list[np.ndarray]:
    numbers = np.array(sizes, np.uint64)
    return [np.frombuffer(buffer, np.uint8) for buffer in pool.take(numbers, np.full_like(numbers, offset))]


def test_memory_is_used_again_and_never_shared() -> None:
    pool = BufferPool(64 << 20)
    for size in (10_000, MB):
        first, second = take(pool, size, size, offset=7)
        assert not np.shares_memory(first, second)
        address = first.ctypes.data
        view = first[10:20]
        del first
        (third,) = take(pool, size, offset=7)
        assert third.ctypes.data != address  # a view of it is still in use
        del view
        assert take(pool, size, offset=7)[0].ctypes.data == address


def test_arrays_are_plain() -> None:
    for array, size in zip(take(BufferPool(0), 0, 1, 65_535, 65_536, MB), (0, 1, 65_535, 65_536, MB), strict=True):
        assert (array.dtype, array.shape, array.flags.writeable) == (np.uint8, (size,), True)
        array[:] = 5
    assert take(BufferPool(0), MB, offset=5000)[0].ctypes.data % 4096 == 904


def test_little_is_kept() -> None:
    pool = BufferPool(4 * MB)
    for size in np.random.default_rng(0).integers(0, 3 * MB, 200).tolist():
        take(pool, size, size // 2)
        assert pool.free_bytes <= 4 * MB
    assert pool.free_bytes > 0


def test_wrong_arguments() -> None:
    pool = BufferPool(0)
    with pytest.raises(MemoryError):
        take(pool, 2**63)
    with pytest.raises(NativeError, match="2 sizes, but 1 offsets"):
        pool.take(np.zeros(2, np.uint64), np.zeros(1, np.uint64))
    with pytest.raises(TypeError):
        BufferPool(-1)


def test_many_threads_and_a_child() -> None:
    pool = BufferPool(8 * MB)

    def work() -> None:
        for i in range(200):
            arrays = take(pool, *[50_000 + 10_000 * (i % 9)] * 3)
            for k, array in enumerate(arrays):
                array[:] = k
            assert [int(array[0]) + int(array[-1]) for array in arrays] == [0, 2, 4]

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (array,) = take(pool, MB)
    array[:] = 1
    if (child := os.fork()) == 0:
        take(pool, MB)[0][:] = 2
        os._exit(0 if int(array[0]) == 1 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
