"""Arrays, bytes, JSON, tensors and numbers through a file and back."""

import sys

import numpy as np
import torch as ch
from ffcv import DatasetWriter, Loader
from ffcv.fields import BytesField, FloatField, IntField, JSONField, NDArrayField, TorchTensorField

path = f"{sys.argv[1]}/arrays.data"  # any name will do
SHAPE = (2, 5)


class Measurements(ch.utils.data.Dataset):
    def __len__(self):
        return 50

    def __getitem__(self, index):
        np.random.seed(index)  # what a dataset does to the global generator is its own affair
        array = np.random.randn(*SHAPE).astype("<f4")
        blob = np.random.randint(0, 255, size=index % 7, dtype="u1")
        document = {"index": int(index), "words": ["ä", "b"] * (index % 4)}
        return index, index / 3, array, ch.full((4,), index), blob, document


dataset = Measurements()
writer = DatasetWriter(
    path,
    {
        "index": IntField(),
        "ratio": FloatField(),
        "array": NDArrayField(np.dtype("<f4"), SHAPE),
        "tensor": TorchTensorField(ch.int64, (4,)),
        "blob": BytesField(),
        "document": JSONField(),
    },
    num_workers=2,
)
writer.from_indexed_dataset(dataset)

seen = 0
for index, ratio, array, tensor, blob, document in Loader(path, batch_size=8, num_workers=2, drop_last=False):
    assert index.dtype == ch.int64
    assert ratio.dtype == ch.float64
    assert array.shape[1:] == SHAPE
    assert blob.shape[1] == 6
    documents = JSONField.unpack(document)
    for row in range(len(index)):
        i = int(index[row])
        expected = dataset[i]
        assert ratio[row].item() == expected[1]
        assert (array[row].numpy() == expected[2]).all()
        assert (tensor[row] == expected[3]).all()
        assert blob[row].numpy().tolist() == expected[4].tolist() + [0] * (6 - i % 7)
        assert documents[row] == expected[5] == JSONField.unpack(document[row])
        seen += 1
assert seen == 50
print("all fields came back:", seen)
