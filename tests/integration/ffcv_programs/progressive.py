"""Pictures grow from epoch to epoch, as in the ImageNet example; one's own transform follows."""

import sys
from dataclasses import replace

import numpy as np
from ffcv import DatasetWriter, Loader
from ffcv.fields import IntField, RGBImageField
from ffcv.fields.decoders import RandomResizedCropRGBImageDecoder
from ffcv.loader import OrderOption
from ffcv.pipeline.allocation_query import AllocationQuery
from ffcv.pipeline.operation import Operation
from ffcv.transforms import RandomHorizontalFlip, ToTensor, ToTorchImage

path = f"{sys.argv[1]}/growing.beton"


class Pictures:
    def __len__(self):
        return 40

    def __getitem__(self, index):
        return np.full((50, 60, 3), index, np.uint8), index


DatasetWriter(path, {"image": RGBImageField("jpg"), "label": IntField()}).from_indexed_dataset(Pictures())


class Invert(Operation):
    def generate_code(self):
        def invert(images, dst):
            dst[:] = 255 - images
            return dst

        return invert

    def declare_state_and_memory(self, previous_state):
        return replace(previous_state, jit_mode=True), AllocationQuery(previous_state.shape, previous_state.dtype)


decoder = RandomResizedCropRGBImageDecoder((16, 16))
pipelines = {"image": [decoder, RandomHorizontalFlip(), Invert(), ToTensor(), ToTorchImage()]}
loader = Loader(path, 8, num_workers=2, order=OrderOption.QUASI_RANDOM, pipelines=pipelines, os_cache=False)
assert loader.pipeline_specs["image"].decoder is decoder
for side in (16, 24, 40):
    decoder.output_size = (side, side)
    for images, labels in loader:
        assert images.shape == (8, 3, side, side)
        assert (np.abs(255 - images.numpy().astype(int) - labels.numpy()[:, :, None, None]) <= 1).all()
print("grew to", side)
