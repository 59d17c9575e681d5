from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.unit.ops.tools import COUNT, draws

import headrace as hr
from headrace import Loader
from headrace.ops import OneHot, ReplaceLabel, Squeeze, ToDtype

if TYPE_CHECKING:
    from pathlib import Path


def test_replace_label_counts_by_the_dataset_not_by_the_batch(path: Path) -> None:
    pipelines = {"image": None, "label": [ReplaceLabel([3, 20, -5, 3], 99)]}
    loader = Loader(path, 5, order="random", indices=range(2, COUNT), drop_last=False, pipelines=pipelines)
    plain = Loader(path, 5, order="random", indices=range(2, COUNT), drop_last=False, pipelines={"image": None})
    found = [i for batch in loader for i in batch.label.tolist()]
    expected = [99 if i in (3, 20) else i for batch in plain for i in batch.label.tolist()]
    assert found == expected
    assert found.count(99) == 2


def test_replace_label_leaves_its_input_alone() -> None:
    given = np.arange(4)
    assert ReplaceLabel([1], 7).apply(given, draws(4)).tolist() == [0, 7, 2, 3]
    assert given.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8", "bool"])
def test_one_hot(path: Path, dtype: str) -> None:
    (batch,) = Loader(path, COUNT, pipelines={"image": None, "label": [OneHot(COUNT + 2, dtype)]})
    np.testing.assert_array_equal(batch.label, np.eye(COUNT, COUNT + 2, dtype=dtype))
    assert batch.label.dtype == dtype


def test_one_hot_of_labels_in_an_axis_of_their_own() -> None:
    np.testing.assert_array_equal(OneHot(3).apply(np.array([[2], [0]]), draws(2)), [[0, 0, 1], [1, 0, 0]])


def test_one_hot_names_the_sample_whose_label_is_outside(path: Path) -> None:
    loader = Loader(path, 4, pipelines={"image": None, "label": [OneHot(6)]})
    batches = iter(loader)
    next(batches)
    message = r"OneHot\(num_classes=6, dtype='float32'\): the label of sample 6 is 6, outside 0 to 5"
    with pytest.raises(ValueError, match=message) as caught:
        next(batches)
    assert caught.value.__notes__ == ["in the loader's op OneHot, for the samples [4, 5, 6, 7]"]


def test_one_hot_refuses_negative_labels_and_fractions() -> None:
    with pytest.raises(ValueError, match="the label of sample 1 is -1, outside 0 to 2"):
        OneHot(3).apply(np.array([0, -1]), draws(2))
    with pytest.raises(ValueError, match="takes whole numbers, and gets float64"):
        OneHot(3).apply(np.array([0.5, 1]), draws(2))


@pytest.mark.parametrize(
    ("op", "shape", "left"),
    [
        (Squeeze(), (1, 3, 1), (3,)),
        (Squeeze(0), (1, 3, 1), (3, 1)),
        (Squeeze(-1), (1, 3, 1), (1, 3)),
        (Squeeze(0, 2), (1, 3, 1), (3,)),
        (Squeeze(), (1,), ()),
        (Squeeze(), (2, 3), (2, 3)),
    ],
)
def test_squeeze_leaves_the_batch_axis(tmp_path: Path, op: Any, shape: tuple[int, ...], left: tuple[int, ...]) -> None:
    values = [np.full(shape, i, "<f4") for i in range(3)]
    hr.write(tmp_path / "a.beton", [(v,) for v in values], fields={"array": hr.NDArray("<f4", shape)})
    for batch_size in (1, 3):
        batch = next(iter(Loader(tmp_path / "a.beton", batch_size, pipelines={"array": [op]})))
        np.testing.assert_array_equal(batch.array, np.stack(values[:batch_size]).reshape(batch_size, *left))


def test_numbers_get_another_dtype(path: Path) -> None:
    (batch,) = Loader(path, COUNT, pipelines={"image": None, "label": [ToDtype(np.int32)]})
    assert batch.label.dtype == np.int32
    assert batch.label.tolist() == list(range(COUNT))
