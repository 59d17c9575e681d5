"""A dataset with several readers and a __getitem__ of its own, plain and without workers."""

import sys
from pathlib import Path

import numpy as np
import torch
from ffrecord import FileReader, FileWriter
from ffrecord.torch import ConcatDataset, DataLoader, Dataset, ReaderRegistry

FOLDER = Path(sys.argv[1])


class Meta(ReaderRegistry):
    def __init__(self, folder):
        self.names = FileReader(folder / "names.ffr")


class Pairs(Dataset):
    def __init__(self, folder, transform=None):
        self.images = FileReader(folder / "images.ffr")
        self.labels = FileReader(folder / "labels.ffr", check_data=False)
        self.meta = Meta(folder)
        self.transform = transform

    def __len__(self):
        return self.images.n

    def __getitem__(self, indices):
        images = [array.view(np.float32) for array in self.images.read(indices)]
        labels = [int(array.view(np.int64)[0]) for array in self.labels.read(indices)]
        names = [array.tobytes().decode() for array in self.meta.names.read(indices)]
        if self.transform:
            images = [self.transform(image) for image in images]
        return list(zip(images, labels, names, strict=True))


def write(name, values):
    with FileWriter(FOLDER / name, len(values)) as writer:
        for value in values:
            writer.write_one(value)


if __name__ == "__main__":
    write("images.ffr", [np.full(6, i, np.float32) for i in range(30)])
    write("labels.ffr", [np.array([i * i]) for i in range(30)])
    write("names.ffr", [f"n{i}".encode() for i in range(30)])
    pairs = Pairs(FOLDER, transform=lambda image: image + 1)
    assert len(pairs.ffreaders()) == 3
    for num_workers in (0, 3):
        for skip in (0, 2):
            loader = DataLoader(pairs, batch_size=8, num_workers=num_workers)
            loader.set_step(skip)
            seen = []
            for images, labels, names in loader:
                assert images.shape == (len(labels), 6)
                assert images.dtype == torch.float32
                assert (images[:, 0] == torch.tensor([int(name[1:]) + 1 for name in names])).all()
                seen += labels.tolist()
            assert seen == [i * i for i in range(8 * skip, 30)]
    twice = pairs + pairs
    assert isinstance(twice, ConcatDataset)
    assert [sample[2] for sample in twice[[0, 30, 59, 0, -1]]] == ["n0", "n0", "n29", "n0", "n29"]
    single = DataLoader(pairs, batch_size=None, skippable=False)
    assert [value[0][1] for value in single][:3] == [0, 1, 4]
    print("own style:", len(twice))
