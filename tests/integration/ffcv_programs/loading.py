"""Loaders as the documentation makes them: decoders, transforms, orders, disabled fields."""

import sys

import numpy as np
import torch as ch
from ffcv.fields import IntField, RGBImageField
from ffcv.fields.decoders import (
    CenterCropRGBImageDecoder,
    IntDecoder,
    RandomResizedCropRGBImageDecoder,
    SimpleRGBImageDecoder,
)
from ffcv.loader import Loader, OrderOption
from ffcv.transforms import (
    Convert,
    NormalizeImage,
    RandomHorizontalFlip,
    Squeeze,
    ToDevice,
    ToTensor,
    ToTorchImage,
    View,
)
from ffcv.writer import DatasetWriter

path = f"{sys.argv[1]}/flat.beton"
COUNT = 100


class Flat:
    """Picture i has the level 2 * i everywhere."""

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        return np.full((40 + index % 7, 50, 3), 2 * index, np.uint8), index


DatasetWriter(path, {"image": RGBImageField(), "label": IntField()}).from_indexed_dataset(Flat())

device = ch.device("cpu")
labels = [IntDecoder(), ToTensor(), Squeeze(), ToDevice(device)]
pipelines = {
    "image": [
        RandomResizedCropRGBImageDecoder((24, 32)),
        RandomHorizontalFlip(),
        ToTensor(),
        ToDevice("cpu", non_blocking=True),
        ToTorchImage(),
        Convert(ch.float16),
    ],
    "label": labels,
}
loader = Loader(path, batch_size=16, num_workers=2, order=OrderOption.RANDOM, pipelines=pipelines, seed=3)
assert len(loader) == COUNT // 16
epochs = []
for _ in range(2):
    epoch = []
    for images, label in loader:
        assert images.shape == (16, 3, 24, 32)
        assert images.dtype == ch.float16
        assert images.is_contiguous(memory_format=ch.channels_last)
        assert (images == 2 * label[:, None, None, None]).all()
        epoch += label.tolist()
    assert epoch == np.random.default_rng(3 + len(epochs)).permutation(COUNT)[:96].tolist()
    epochs.append(epoch)
assert epochs[0] != epochs[1]
print("two epochs in random order:", len(epochs[0]), "samples each")

mean, std = np.array([0, 10, 20]), np.array([1, 2, 4])
normalize = NormalizeImage(mean, std, np.float16)
halves = [CenterCropRGBImageDecoder((16, 16), ratio=0.8), normalize, ToTensor(), ToTorchImage()]
for order in (OrderOption.SEQUENTIAL, OrderOption.QUASI_RANDOM):
    for os_cache in (True, False):
        found = []
        settings = {"order": order, "os_cache": os_cache, "drop_last": False}
        for images, label in Loader(path, 30, pipelines={"image": halves, "label": labels}, **settings):
            assert images.dtype == ch.float16
            expected = (2 * label[:, None] - ch.from_numpy(mean)) / ch.from_numpy(std)
            assert (images == expected.half()[:, :, None, None]).all()
            found += label.tolist()
        assert sorted(found) == list(range(COUNT))
        assert (found == list(range(COUNT))) == (order is OrderOption.SEQUENTIAL)
print("normalised to float16, in order and by pages, with both caches")

viewed = [CenterCropRGBImageDecoder((8, 8), 1), normalize, View(np.float16), ToTensor()]
(images,) = next(iter(Loader(path, 4, pipelines={"image": viewed, "label": None})))
assert images.dtype == ch.float16
assert images.shape == (4, 8, 8, 3)
(label,) = next(iter(Loader(path, 4, pipelines={"image": None}, indices=[5, 50, 7, 5])))
assert label.tolist() == [[5], [50], [7], [5]]
try:
    Loader(path, 4, pipelines={"image": [SimpleRGBImageDecoder(), ToTensor()]})
except TypeError as error:
    print("refused:", error)
else:
    raise SystemExit("pictures of several sizes went through SimpleRGBImageDecoder")
