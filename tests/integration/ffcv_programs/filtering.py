"""Loaders over the samples that fulfil a condition."""

import sys

import numpy as np
from ffcv import DatasetWriter, Loader
from ffcv.fields import BytesField, FloatField, IntField
from ffcv.fields.decoders import FloatDecoder
from ffcv.loader import OrderOption
from ffcv.pipeline import PipelineSpec
from ffcv.transforms import ToTensor

path = f"{sys.argv[1]}/values.beton"


class Values:
    def __len__(self):
        return 200

    def __getitem__(self, index):
        return index, np.sin(index), np.full(index % 3, 7, np.uint8)


DatasetWriter(path, {"index": IntField(), "value": FloatField(), "blob": BytesField()}).from_indexed_dataset(Values())
wanted = [i for i in range(200) if 0.25 <= np.sin(i) < 0.5]


def condition(value):
    return 0.25 <= value[0] < 0.5


def indices(loader):
    return [int(i) for batch in loader for i in batch[0]]


loader = Loader(path, 8, num_workers=2, pipelines={"value": [FloatDecoder(), ToTensor()]})
filtered = loader.filter("value", condition)
assert len(filtered) == len(wanted) // 8
assert indices(filtered) == wanted[: len(wanted) // 8 * 8]
assert indices(loader) == list(range(200))

some = Loader(path, 4, indices=[3, 5, 7, 9, 11, 60, 31], drop_last=False, order=OrderOption.RANDOM, seed=1)
assert sorted(indices(some.filter("index", lambda value: value[0] > 4))) == [5, 7, 9, 11, 31, 60]
again = some.filter("index", lambda value: value[0] > 4).filter("value", lambda value: value[0] < 0)
assert sorted(indices(again)) == [i for i in (5, 7, 9, 11, 31, 60) if np.sin(i) < 0]
assert indices(some.filter("index", lambda value: False)) == []
assert some.filter("blob", lambda value: value[1] == 7).indices.tolist() == [5, 11]
extra = Loader(path, 50, pipelines={"half": PipelineSpec("value", FloatDecoder(), [ToTensor()])})
assert extra.filter("half", condition).indices.tolist() == wanted
print("filtered:", len(wanted), "of 200")
