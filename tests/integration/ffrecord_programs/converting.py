"""A dataset dumped into the parts of a folder with a table beside it, as converters do it."""

import pickle
import sys
import warnings
from pathlib import Path

import numpy as np
from ffrecord.fileio import FileReader
from ffrecord.utils import dump

folder = Path(sys.argv[1]) / "train.ffr"


class Pictures:
    def __init__(self, length):
        self.length = length
        self.rng = lambda index: np.random.default_rng(index)  # no pickle takes this

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return pickle.dumps((self.rng(index).integers(0, 256, (8, 8, 3), dtype=np.uint8), index % 10))


if __name__ == "__main__":
    pictures = Pictures(203)
    dump(pictures, folder, nfiles=8, verbose=True)
    with open(folder / "meta.pkl", "wb") as file:
        pickle.dump({"classes": list("abcdefghij")}, file)
    assert [path.name for path in sorted(folder.glob("*.ffr"))] == [f"PART_{i:05d}.ffr" for i in range(8)]

    reader = FileReader(folder)
    assert (reader.n, len(reader.fnames)) == (203, 8)
    for indices in ([202, 0, 101], range(0, 203, 7), np.arange(203)[::-1]):
        for index, data in zip(indices, reader.read(indices), strict=True):
            picture, label = pickle.loads(data)
            expected, _ = pickle.loads(pictures[int(index)])
            assert label == index % 10
            assert (picture == expected).all()
    sizes = [len(reader.get_offsets(i)) - 1 for i in range(8)]
    assert sum(sizes) == 203

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dump([b"x"] * 5, folder.parent / "few", 16)
    print("warned:", len(caught))
    dump([b"x"] * 5, folder.parent / "one.ffr", 1)
    assert FileReader(str(folder.parent / "one.ffr")).n == 5
    print("dumped:", sizes)
