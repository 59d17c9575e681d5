"""FFCV's side of write_photos: writes a folder of JPEG files with its DatasetWriter.

usage: PYTHON-WITH-FFCV ffcv_write.py FOLDER OUT.beton MAX_RESOLUTION WORKERS
Prints one JSON line; imports and process start are not counted.
"""

import glob
import json
import os
import sys
import time

import numpy as np
from ffcv.fields import IntField, RGBImageField
from ffcv.writer import DatasetWriter
from PIL import Image


class Photographs:
    """Decodes with Pillow, as the datasets of FFCV's users do."""

    def __init__(self, files: list) -> None:
        self.files = files

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, i: int) -> tuple:
        with Image.open(self.files[i]) as picture:
            return np.asarray(picture.convert("RGB")), i


def main() -> None:
    folder, out, max_resolution = sys.argv[1], sys.argv[2], int(sys.argv[3])
    files = sorted(f for f in glob.glob(os.path.join(folder, "*")) if f.lower().endswith((".jpg", ".jpeg")))
    fields = {"image": RGBImageField("jpg", max_resolution=max_resolution), "label": IntField()}
    writer = DatasetWriter(out, fields, num_workers=int(sys.argv[4]))
    start_s = time.perf_counter()
    writer.from_indexed_dataset(Photographs(files), chunksize=20)
    print(json.dumps({"seconds": time.perf_counter() - start_s, "images": len(files)}))


if __name__ == "__main__":
    main()
