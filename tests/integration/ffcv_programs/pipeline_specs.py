"""Two outputs of one field, and a branch that shares what comes before it."""

import sys

import numpy as np
from ffcv import DatasetWriter, Loader
from ffcv.fields import IntField, RGBImageField
from ffcv.fields.decoders import CenterCropRGBImageDecoder, IntDecoder, RandomResizedCropRGBImageDecoder
from ffcv.pipeline import PipelineSpec
from ffcv.transforms import Cutout, RandomHorizontalFlip, ToTensor, ToTorchImage

path = f"{sys.argv[1]}/pictures.beton"


class Pictures:
    def __len__(self):
        return 24

    def __getitem__(self, index):
        return np.random.default_rng(index).integers(1, 255, (32, 32, 3), dtype=np.uint8), index


DatasetWriter(path, {"image": RGBImageField(), "label": IntField()}).from_indexed_dataset(Pictures())

views = Loader(
    path,
    batch_size=6,
    num_workers=2,
    pipelines={
        "image": PipelineSpec("image", CenterCropRGBImageDecoder((32, 32), 1), [ToTensor(), ToTorchImage()]),
        "small": PipelineSpec("image", RandomResizedCropRGBImageDecoder((8, 8)), [RandomHorizontalFlip(), ToTensor()]),
        "name": PipelineSpec("label", transforms=[IntDecoder(), ToTensor()]),
    },
)
for image, label, small, name in views:
    assert image.shape == (6, 3, 32, 32)
    assert small.shape == (6, 8, 8, 3)
    assert (label == name).all()
    for row, i in enumerate(label.flatten().tolist()):
        assert (image[row].permute(1, 2, 0).numpy() == Pictures()[i][0]).all()
print("two views of one field")

shared = CenterCropRGBImageDecoder((32, 32), 1)
flip = RandomHorizontalFlip(1.0)
branches = Loader(
    path,
    batch_size=6,
    pipelines={
        "image": [shared, flip, ToTensor()],
        "label": None,
        "holes": PipelineSpec(flip, transforms=[Cutout(8), ToTensor()]),
        "straight": PipelineSpec(shared, transforms=[ToTensor()]),
    },
)
for image, holes, straight in branches:
    assert (straight.flip(2) == image).all()
    cut = (holes == 0).all(dim=3)
    assert (cut.sum(dim=(1, 2)) == 64).all()
    assert (holes[~cut] == image[~cut]).all()
print("branches begin where they say")
try:
    Loader(path, 6, pipelines={"other": PipelineSpec(flip, decoder=shared)})
except ValueError as error:
    print("refused:", error)
else:
    raise SystemExit("a branch with a decoder of its own was accepted")
