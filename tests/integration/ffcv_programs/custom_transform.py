"""Transforms of one's own: memory, parallel loops, tensors, indices."""

import sys
from dataclasses import replace

import numpy as np
import torch as ch
from ffcv import DatasetWriter, Loader
from ffcv.fields import FloatField, IntField, RGBImageField
from ffcv.fields.decoders import FloatDecoder, IntDecoder, SimpleRGBImageDecoder
from ffcv.pipeline.allocation_query import AllocationQuery
from ffcv.pipeline.compiler import Compiler
from ffcv.pipeline.operation import Operation
from ffcv.pipeline.state import State
from ffcv.transforms import ToTensor

path = f"{sys.argv[1]}/numbers.beton"


class Numbers:
    def __len__(self):
        return 33

    def __getitem__(self, index):
        return np.full((6, 4, 3), index, np.uint8), index, np.sin(index)


fields = {"image": RGBImageField(), "label": IntField(), "value": FloatField()}
DatasetWriter(path, fields, num_workers=1).from_indexed_dataset(Numbers())


class Doubler(Operation):
    """Into memory of the loader."""

    def generate_code(self):
        def double(values, dst):
            dst[:] = values * 2
            return dst

        return double

    def declare_state_and_memory(self, previous_state):
        return previous_state, AllocationQuery(previous_state.shape, previous_state.dtype, previous_state.device)


class PickACorner(Operation):
    """Another shape, in a loop that may run in parallel."""

    def generate_code(self):
        parallel_range = Compiler.get_iterator()

        def pick(images, dst):
            for i in parallel_range(images.shape[0]):
                dst[i] = images[i, :2, :2]
            return dst

        pick.is_parallel = True
        return pick

    def declare_state_and_memory(self, previous_state: State):
        shape = (2, 2, previous_state.shape[2])
        return replace(previous_state, shape=shape), AllocationQuery(shape, previous_state.dtype)


class CorruptFixedLabels(Operation):
    """Some samples get another label, by their indices."""

    def generate_code(self):
        parallel_range = Compiler.get_iterator()

        def corrupt(labels, temp_array, indices):
            for i in parallel_range(labels.shape[0]):
                if indices[i] < 3:
                    labels[i] = 100 + indices[i]
            return labels

        corrupt.is_parallel = True
        corrupt.with_indices = True
        return corrupt

    def declare_state_and_memory(self, previous_state):
        return replace(previous_state, jit_mode=True), None


class TwoBuffers(Operation):
    """Several pieces of memory at once."""

    def generate_code(self):
        def both(values, dst):
            first, second = dst
            first[:] = values
            second[:] = values + 1
            return first * second

        return both

    def declare_state_and_memory(self, previous_state):
        query = AllocationQuery(previous_state.shape, previous_state.dtype)
        return previous_state, (query, query)


class OnTensors(Operation):
    """After ToTensor(), outside compiled code."""

    def generate_code(self):
        def negate(tensor, dst):
            return ch.neg(tensor, out=dst)

        return negate

    def declare_state_and_memory(self, previous_state):
        assert not previous_state.jit_mode
        return previous_state, AllocationQuery(previous_state.shape, previous_state.dtype, previous_state.device)


def run():
    loader = Loader(
        path,
        batch_size=10,
        num_workers=2,
        drop_last=False,
        pipelines={
            "image": [SimpleRGBImageDecoder(), Doubler(), PickACorner(), ToTensor()],
            "label": [IntDecoder(), CorruptFixedLabels(), ToTensor()],
            "value": [FloatDecoder(), TwoBuffers(), ToTensor(), OnTensors(), ch.nn.Identity()],
        },
    )
    kept = list(loader)
    indices = np.arange(33)
    images, labels, values = (ch.cat(column).numpy() for column in zip(*kept, strict=True))
    assert images.shape == (33, 2, 2, 3)
    assert (images == 2 * indices[:, None, None, None]).all()
    assert (labels[:, 0] == np.where(indices < 3, 100 + indices, indices)).all()
    assert np.allclose(values[:, 0], -np.sin(indices) * (np.sin(indices) + 1))


run()
Compiler.set_enabled(False)
run()
print("own transforms, compiled and plain: 33 samples each")
