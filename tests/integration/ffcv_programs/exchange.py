"""Writes a file with every field, one of them our own, or reads what another library has written.

usage: exchange.py write|read FILE [WORKERS]
"""

import sys

import numpy as np
import torch as ch
from ffcv.fields import BytesField, FloatField, IntField, JSONField, NDArrayField, RGBImageField, TorchTensorField
from ffcv.fields.decoders import CenterCropRGBImageDecoder
from ffcv.loader import Loader, OrderOption
from ffcv.transforms import ToTensor
from ffcv.writer import DatasetWriter

COUNT = 80


class OwnField(NDArrayField):
    """Three numbers, stored backwards."""

    def __init__(self):
        super().__init__(np.dtype("<i4"), (3,))

    @staticmethod
    def from_binary(binary):
        field = NDArrayField.from_binary(binary)
        assert (field.dtype, field.shape) == (np.dtype("<i4"), (3,))
        return OwnField()

    def encode(self, destination, field, malloc):
        return super().encode(destination, np.array(field[::-1], "<i4"), malloc)


class Samples:
    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        i = int(index)
        picture = np.full((20 + i % 5, 30, 3), 3 * i, np.uint8)
        blob = np.random.default_rng(i).integers(0, 255, 1 + 1000 * (i % 7) ** 2, dtype=np.uint8)
        return (
            i - 5,
            i / 3,
            picture,
            picture,
            blob,
            {"i": i},
            np.full((2, 2), i, ">f8"),
            ch.full((5,), i),
            [i, 2 * i, -i],
        )


FIELDS = {
    "number": IntField(),
    "ratio": FloatField(),
    "raw": RGBImageField("raw"),
    "jpg": RGBImageField("jpg"),
    "blob": BytesField(),
    "document": JSONField(),
    "array": NDArrayField(np.dtype("<f8"), (2, 2)),
    "tensor": TorchTensorField(ch.int64, (5,)),
    "own": OwnField(),
}


def read(path, order, os_cache):
    crop = [CenterCropRGBImageDecoder((8, 8), 1.0), ToTensor()]
    pipelines = {"raw": crop, "jpg": crop}
    settings = {"order": order, "os_cache": os_cache, "drop_last": False}
    loader = Loader(path, 16, num_workers=1, custom_fields={"own": OwnField}, pipelines=pipelines, **settings)
    seen = []
    for number, ratio, raw, jpg, blob, documents, array, tensor, own in loader:
        for row, i in enumerate((number.flatten() + 5).tolist()):
            expected = Samples()[i]
            assert ratio[row].item() == expected[1]
            assert (raw[row] == 3 * i).all()
            assert ((jpg[row].int() - 3 * i).abs() <= 1).all()
            assert (blob[row, : len(expected[4])].numpy() == expected[4]).all()
            assert JSONField.unpack(documents[row]) == expected[5]
            assert array[row].numpy().tobytes() == np.full((2, 2), i, ">f8").tobytes()
            assert (tensor[row] == i).all()
            assert own[row].tolist() == [-i, 2 * i, i]
            seen.append(i)
    assert sorted(seen) == list(range(COUNT))


if sys.argv[1] == "write":
    writer = DatasetWriter(sys.argv[2], FIELDS, page_size=1 << 21, num_workers=int(sys.argv[3]))
    writer.from_indexed_dataset(Samples())
else:
    for order in (OrderOption.SEQUENTIAL, OrderOption.QUASI_RANDOM):
        for os_cache in (True, False):
            read(sys.argv[2], order, os_cache)
    print("read:", COUNT)
