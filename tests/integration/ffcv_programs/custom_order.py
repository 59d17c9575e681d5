"""An order of one's own, with arguments."""

import sys

import numpy as np
from ffcv import DatasetWriter, Loader
from ffcv.fields import IntField
from ffcv.loader.loader import ORDER_MAP, ORDER_TYPE, OrderOption
from ffcv.traversal_order import Random
from ffcv.traversal_order.base import TraversalOrder

path = f"{sys.argv[1]}/numbers.beton"


class Range:
    def __len__(self):
        return 40

    def __getitem__(self, index):
        return (index * 10,)


DatasetWriter(path, {"number": IntField()}).from_indexed_dataset(Range())


class EveryNth(TraversalOrder):
    def __init__(self, loader, step, backwards=False):
        super().__init__(loader)
        self.step = step
        self.backwards = backwards

    def sample_order(self, epoch):
        chosen = self.indices[epoch :: self.step]
        return chosen[::-1] if self.backwards else chosen


class TwiceRandom(Random):
    def sample_order(self, epoch):
        return np.concatenate([super().sample_order(epoch), super().sample_order(epoch + 1000)])


def numbers(loader):
    return [int(value) // 10 for (batch,) in loader for value in batch]


loader = Loader(path, 5, order=EveryNth, order_kwargs={"step": 4})
assert len(loader) == 2
assert numbers(loader) == list(range(0, 40, 4))
assert numbers(loader) == list(range(1, 40, 4))
backwards = Loader(path, 5, order=EveryNth, order_kwargs={"step": 8, "backwards": True}, indices=range(20, 40))
assert numbers(backwards) == []  # three samples make no batch of five
twice = numbers(Loader(path, 16, order=TwiceRandom, seed=5))
assert sorted(twice) == sorted(2 * list(range(40)))
assert ORDER_MAP[OrderOption.RANDOM] is Random
assert ORDER_TYPE
print("own orders:", twice[:4])
