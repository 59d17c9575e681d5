"""simplejpeg and OpenCV in one thread: the same crops and flips as ffcv_load.py, resized without antialiasing.

usage: PYTHON-WITH-FFCV-AND-SIMPLEJPEG simplejpeg_load.py FILE.beton EPOCHS
Prints one JSON line: seconds of each epoch after a warm-up, and images of an epoch.
"""

import json
import sys
import time

import cv2
import numpy as np
import simplejpeg
import torch
from ffcv.fields.rgb_image import get_random_crop
from ffcv.reader import Reader

BATCH, SIZE = 64, 224
SCALE, RATIO = np.array([0.08, 1.0]), np.array([0.75, 4 / 3])


def main() -> None:
    path, epochs = sys.argv[1], int(sys.argv[2])
    cv2.setNumThreads(1)
    torch.set_num_threads(1)
    reader = Reader(path)
    mapped = np.memmap(path, np.uint8, mode="r")
    sizes = {int(row["ptr"]): int(row["size"]) for row in reader.alloc_table}
    pointers = [int(row["f0"]["data_ptr"]) for row in reader.metadata]
    rng = np.random.default_rng(0)
    seconds = []
    for _ in range(epochs + 1):
        start_s = time.perf_counter()
        images = 0
        order = rng.permutation(len(pointers))
        for first in range(0, len(order), BATCH):
            batch = np.empty((len(order[first : first + BATCH]), SIZE, SIZE, 3), np.uint8)
            for slot, i in zip(batch, order[first : first + BATCH], strict=True):
                data = mapped[pointers[i] : pointers[i] + sizes[pointers[i]]]
                pixels = simplejpeg.decode_jpeg(data, fastdct=True)
                top, left, height, width = get_random_crop(pixels.shape[0], pixels.shape[1], SCALE, RATIO)
                part = pixels[top : top + height, left : left + width]
                if rng.random() < 0.5:
                    part = part[:, ::-1]
                cv2.resize(part, (SIZE, SIZE), dst=slot, interpolation=cv2.INTER_LINEAR)
            images += len(torch.from_numpy(batch).permute(0, 3, 1, 2))
        seconds.append(time.perf_counter() - start_s)
    print(json.dumps({"seconds": seconds[1:], "images": images}))


if __name__ == "__main__":
    main()
