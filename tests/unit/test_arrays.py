from __future__ import annotations

import numpy as np
import pytest

from headrace.arrays import distinct


@pytest.mark.parametrize("numbers", [[], [7], [3, 1, 3, 2, 1], [-5, 5, -5], [2**62, 0, 2**62]])
def test_the_different_numbers_in_order(numbers: list[int]) -> None:
    assert distinct(np.array(numbers, np.int64)).tolist() == sorted(set(numbers))


def test_of_any_shape_and_any_stride() -> None:
    table = np.arange(24).reshape(4, 6) % 5
    assert distinct(table).tolist() == [0, 1, 2, 3, 4]
    assert distinct(table[:, 2]).tolist() == sorted(set(table[:, 2].tolist()))


def test_while_another_thread_imports_a_part_of_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The state in which ``np.unique`` raises RecursionError: imported, and not yet an attribute."""
    import numpy.ma  # noqa: F401

    monkeypatch.delattr(np, "ma")
    assert distinct(np.array([1, 1])).tolist() == [1]
