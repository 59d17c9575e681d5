"""Where data are: the native call for a batch says what the slow way says."""

from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.helpers import picture

pytest.importorskip("torch")

from tests.unit.compat.ffcv.tools import write

from headrace.compat.ffcv import Loader
from headrace.compat.ffcv.fields import BytesField, IntField, NDArrayField, RGBImageField
from headrace.compat.ffcv.reader import Reader
from headrace.compat.ffcv.storage import locate_images
from headrace.errors import CorruptSampleError

if TYPE_CHECKING:
    from pathlib import Path

FIELDS = {
    "label": IntField(),
    "blob": BytesField(),
    "image": RGBImageField("jpg"),
    "array": NDArrayField(np.dtype("<f4"), (7,)),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    def sample(i: int) -> tuple[Any, ...]:
        return i, np.full(i % 3, i, np.uint8), picture(i, 8, 16), np.full(7, i, "<f4")

    return write(tmp_path / "x.beton", FIELDS, 30, sample)


def test_both_ways_find_the_same(path: Path) -> None:
    loader = Loader(path, 4, 2)
    state, samples = loader.memory_manager.state, np.array([7, 0, 29, 7])
    column, metadata = loader.reader.handlers["image"].column, loader.reader.metadata["f2"]
    assert column.pictures(samples) is not None
    fast, slow = locate_images(metadata, samples, state, None, column), locate_images(metadata, samples, state)
    for name in ("offsets", "sizes", "modes", "widths", "heights"):
        assert getattr(fast, name).tolist() == getattr(slow, name).tolist()
    pointers = loader.reader.handlers["array"].column.arrays(samples, 28)
    assert pointers.tolist() == loader.reader.metadata["f3"][samples].tolist()
    assert loader.reader.handlers["label"].column is None


def test_fields_of_a_file_can_be_copied(path: Path) -> None:
    for field in Reader(path).handlers.values():
        for again in (copy.deepcopy(field), pickle.loads(pickle.dumps(field))):
            assert type(again) is type(field)
            assert again.column is None
            assert again.metadata_type == field.metadata_type


def test_a_column_of_other_metadata_is_not_used(path: Path) -> None:
    loader = Loader(path, 4, 2, pipelines={"label": None, "blob": None, "array": None})
    decoder = loader.pipeline_specs["image"].decoder
    other = decoder.metadata.copy()
    other["data_ptr"][3] = 1 << 60
    code = decoder.generate_code()
    memory, state = np.zeros((1, 8, 16, 3), np.uint8), loader.memory_manager.state
    assert code(np.array([3]), memory, decoder.metadata, state).any()
    with pytest.raises(CorruptSampleError, match="sample 3"):
        code(np.array([3]), memory, other, state)
