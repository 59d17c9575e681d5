"""A training run in the manner of the CIFAR example: augmentations, labels, a small network."""

import sys

import numpy as np
import torch as ch
from ffcv.fields import IntField, RGBImageField
from ffcv.fields.decoders import IntDecoder, SimpleRGBImageDecoder
from ffcv.loader import Loader, OrderOption
from ffcv.pipeline.operation import Operation
from ffcv.transforms import (
    Convert,
    Cutout,
    RandomHorizontalFlip,
    RandomTranslate,
    Squeeze,
    ToDevice,
    ToTensor,
    ToTorchImage,
)
from ffcv.transforms.common import Squeeze as SqueezeAgain
from ffcv.writer import DatasetWriter
from torch import nn

folder = sys.argv[1]
MEAN, STD = [125.3, 123.0, 113.9], [51.6, 50.8, 51.3]
assert Squeeze is SqueezeAgain


class Shapes(ch.utils.data.Dataset):
    """Three classes: red, green or blue noise."""

    def __init__(self, count, seed):
        self.count, self.seed = count, seed

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        rng = np.random.default_rng((self.seed, index))
        label = index % 3
        pixels = rng.integers(0, 160, (32, 32, 3), dtype=np.uint8)
        pixels[:, :, label] += 60
        return pixels, label


for name, dataset in {"train": Shapes(360, 0), "test": Shapes(90, 1)}.items():
    writer = DatasetWriter(f"{folder}/{name}.beton", {"image": RGBImageField(), "label": IntField()})
    writer.from_indexed_dataset(dataset)

loaders = {}
for name in ("train", "test"):
    label_pipeline: list[Operation] = [IntDecoder(), ToTensor(), ToDevice(ch.device("cpu")), Squeeze()]
    image_pipeline: list[Operation] = [SimpleRGBImageDecoder()]
    if name == "train":
        image_pipeline.extend(
            [
                RandomHorizontalFlip(),
                RandomTranslate(padding=2, fill=tuple(map(int, MEAN))),
                Cutout(4, tuple(map(int, MEAN))),
            ]
        )
    image_pipeline.extend(
        [
            ToTensor(),
            ToDevice(ch.device("cpu"), non_blocking=True),
            ToTorchImage(),
            Convert(ch.float32),
            nn.BatchNorm2d(3, affine=False, momentum=None).eval(),
        ]
    )
    loaders[name] = Loader(
        f"{folder}/{name}.beton",
        batch_size=60,
        num_workers=2,
        order=OrderOption.RANDOM if name == "train" else OrderOption.SEQUENTIAL,
        drop_last=(name == "train"),
        pipelines={"image": image_pipeline, "label": label_pipeline},
    )

ch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3))
model = model.to(memory_format=ch.channels_last)
optimizer = ch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
scale = ch.tensor(STD)[:, None, None]
shift = ch.tensor(MEAN)[:, None, None]
for _ in range(6):
    for images, labels in loaders["train"]:
        assert images.shape == (60, 3, 32, 32)
        assert labels.shape == (60,)
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(model((images - shift) / scale), labels)
        loss.backward()
        optimizer.step()
assert loaders["train"].next_epoch == 6

correct = total = 0
with ch.no_grad():
    for images, labels in loaders["test"]:
        correct += (model((images - shift) / scale).argmax(1) == labels).sum().item()
        total += len(labels)
assert total == 90
assert correct >= 85, correct
print(f"trained: {total} test pictures, nearly all right")
