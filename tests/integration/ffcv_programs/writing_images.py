"""Pictures and labels into a file, in every mode, and what the reader finds there."""

import sys

import numpy as np
from ffcv.fields import IntField, RGBImageField
from ffcv.reader import Reader
from ffcv.writer import DatasetWriter
from PIL import Image

folder = sys.argv[1]


class Photos:
    """Pictures of several sizes; every third one is a Pillow image."""

    def __len__(self):
        return 30

    def __getitem__(self, index):
        rng = np.random.default_rng(index)
        pixels = rng.integers(0, 255, (20 + index, 40, 3), dtype=np.uint8)
        return (Image.fromarray(pixels) if index % 3 == 0 else pixels), index % 10


def write(mode, **options):
    path = f"{folder}/{mode}.beton"
    fields = {"image": RGBImageField(write_mode=mode, **options), "label": IntField()}
    writer = DatasetWriter(path, fields, num_workers=2)
    writer.from_indexed_dataset(Photos(), chunksize=4)
    reader = Reader(path)
    assert reader.num_samples == 30
    assert reader.field_names == ["image", "label"]
    assert isinstance(reader.handlers["image"], RGBImageField)
    assert (reader.metadata["f1"] == np.arange(30) % 10).all()
    return reader.metadata["f0"], reader.alloc_table


raw, table = write("raw")
assert (raw["mode"] == 1).all()
sizes = raw["width"].astype(int) * raw["height"] * 3
assert (table["size"][np.argsort(table["sample_id"])] == sizes).all()
jpg, table = write("jpg", jpeg_quality=50)
assert (jpg["mode"] == 0).all()
assert (jpg["height"] == np.arange(20, 50)).all()
small = table["size"].sum()
jpg, table = write("jpg", jpeg_quality=95)
assert table["size"].sum() > small
smart, _ = write("smart", smart_threshold=40 * 30 * 3)
assert ((smart["mode"] == 0) == (smart["height"] > 30)).all()
assert (write("smart")[0]["mode"] == 1).all()
mixed, _ = write("proportion", compress_probability=0.5)
assert 3 < (mixed["mode"] == 0).sum() < 27
limited, _ = write("raw", max_resolution=20)
assert (np.maximum(limited["width"], limited["height"]) == 20).all()
print("written in all modes:", len(raw), "pictures")

chosen = DatasetWriter(f"{folder}/chosen.beton", {"image": RGBImageField(), "label": IntField()}, page_size=1 << 21)
chosen.from_indexed_dataset(Photos(), indices=[29, 3, 3, 11])
assert Reader(f"{folder}/chosen.beton").metadata["f1"].tolist() == [9, 3, 3, 1]
np.random.seed(0)
order = np.arange(30)
np.random.shuffle(order)
np.random.seed(0)
chosen.from_indexed_dataset(Photos(), shuffle_indices=True)
assert Reader(f"{folder}/chosen.beton").metadata["f1"].tolist() == (order % 10).tolist()
print("chosen and shuffled samples are in their places")
