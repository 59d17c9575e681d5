"""One operation in two pipelines draws once for a batch: picture and mask are cut at the same place."""

import sys
from dataclasses import replace

import numpy as np
from ffcv import DatasetWriter, Loader
from ffcv.fields import NDArrayField, RGBImageField
from ffcv.fields.decoders import NDArrayDecoder, SimpleRGBImageDecoder
from ffcv.pipeline.allocation_query import AllocationQuery
from ffcv.pipeline.operation import Operation
from ffcv.transforms import ToTensor

path = f"{sys.argv[1]}/masks.beton"
SIDE = 16


class PicturesAndMasks:
    def __len__(self):
        return 32

    def __getitem__(self, index):
        mask = np.random.default_rng(index).integers(0, 255, (SIDE, SIDE, 3), dtype=np.uint8)
        return mask, mask


fields = {"image": RGBImageField(), "mask": NDArrayField(np.dtype("uint8"), (SIDE, SIDE, 3))}
DatasetWriter(path, fields).from_indexed_dataset(PicturesAndMasks())


class SameCrop(Operation):
    def __init__(self, size):
        super().__init__()
        self.size = size

    def declare_shared_memory(self, previous_state):
        return AllocationQuery((2,), np.dtype("int32"))

    def generate_code_for_shared_state(self):
        span = SIDE - self.size + 1

        def draw(places):
            for i in range(places.shape[0]):
                places[i, 0] = np.random.randint(0, span)
                places[i, 1] = np.random.randint(0, span)

        return draw

    def generate_code(self):
        size = self.size

        def crop(images, dst, places):
            for i in range(images.shape[0]):
                top, left = places[i, 0], places[i, 1]
                dst[i] = images[i, top : top + size, left : left + size]
            return dst

        return crop

    def declare_state_and_memory(self, previous_state):
        shape = (self.size, self.size, previous_state.shape[2])
        return replace(previous_state, shape=shape), AllocationQuery(shape, previous_state.dtype)


crop = SameCrop(5)
pipelines = {"image": [SimpleRGBImageDecoder(), crop, ToTensor()], "mask": [NDArrayDecoder(), crop, ToTensor()]}
corners = set()
for image, mask in Loader(path, batch_size=8, num_workers=1, pipelines=pipelines):
    assert image.shape == (8, 5, 5, 3)
    assert (image == mask).all()
    corners.update(image[:, 0, 0].flatten().tolist())
assert len(corners) > 10
print("pictures and masks are cut at the same places")
