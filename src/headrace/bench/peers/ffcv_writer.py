"""FFCV's writer, for the suite ``convert``: a folder of JPEG files by its DatasetWriter.

usage: PYTHON-WITH-FFCV ffcv_writer.py FOLDER OUT.beton MAX_RESOLUTION WORKERS
Prints one line of JSON: its seconds, without imports and the start of the process.
"""

import glob
import json
import os
import sys
import time
from typing import Any

import numpy as np
from ffcv.fields import IntField, RGBImageField
from ffcv.writer import DatasetWriter
from PIL import Image


class Photographs:
    """Decodes with Pillow, as the datasets of FFCV's users do."""

    def __init__(self, files: list[str]) -> None:
        self.files = files

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, i: int) -> tuple[Any, int]:
        with Image.open(self.files[i]) as picture:
            return np.asarray(picture.convert("RGB")), i


def main() -> None:
    """Write once."""
    folder, out, max_resolution = sys.argv[1], sys.argv[2], int(sys.argv[3])
    files = sorted(glob.glob(os.path.join(folder, "*.jpg")))
    fields = {"image": RGBImageField("jpg", max_resolution=max_resolution), "label": IntField()}
    writer = DatasetWriter(out, fields, num_workers=int(sys.argv[4]))
    start_s = time.perf_counter()
    writer.from_indexed_dataset(Photographs(files), chunksize=20)
    print(json.dumps({"seconds": time.perf_counter() - start_s}))


if __name__ == "__main__":
    main()
