"""The peers' side of jpeg_windows: FFCV, or simplejpeg and OpenCV in one thread.

usage: PYTHON-WITH-FFCV jpeg_windows_peer.py ffcv|simplejpeg FILE.beton '{"size": 224, "op": "random", "epochs": 2}'
Prints one JSON line: seconds of each epoch after a warm-up, and how far the pixels of the decoder are from those of the
accurate one, both resized by the peer's own filter.
"""

import json
import sys
import time

import cv2
import numpy as np
import simplejpeg
import torch
from ffcv.fields.decoders import CenterCropRGBImageDecoder, RandomResizedCropRGBImageDecoder
from ffcv.fields.rgb_image import get_center_crop, get_random_crop
from ffcv.loader import Loader, OrderOption
from ffcv.reader import Reader
from ffcv.transforms import RandomHorizontalFlip, ToTensor, ToTorchImage

BATCH, COMPARED = 64, 64
SCALE, RATIO = np.array([0.08, 1.0]), np.array([0.75, 4 / 3])
VALIDATION = 224 / 256
FAST = {"fastdct": True, "fastupsample": False}  # FFCV's choice
ACCURATE = {"fastdct": False, "fastupsample": False}


def main() -> None:
    peer, path, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    cv2.setNumThreads(1)
    torch.set_num_threads(1)
    is_random = options["op"] == "random"
    one_epoch = (ffcv_epoch if peer == "ffcv" else simplejpeg_epoch)(path, options["size"], is_random)
    seconds, cpu_seconds = [], []
    for _ in range(options["epochs"] + 1):
        start_s, cpu_start_s = time.perf_counter(), time.process_time()
        images = one_epoch()
        seconds.append(time.perf_counter() - start_s)
        cpu_seconds.append(time.process_time() - cpu_start_s)
    mean, most = difference(peer, path, options["size"], is_random)
    result = {"seconds": seconds[1:], "cpu_seconds": cpu_seconds[1:], "images": images}
    result |= {"mean_difference": mean, "max_difference": most}
    print(json.dumps(result))


def ffcv_epoch(path: str, size: int, is_random: bool):
    decoder = RandomResizedCropRGBImageDecoder((size, size))
    pipeline = [decoder, RandomHorizontalFlip()]
    if not is_random:
        pipeline = [CenterCropRGBImageDecoder((size, size), ratio=VALIDATION)]
    pipeline += [ToTensor(), ToTorchImage(convert_back_int16=False)]
    loader = Loader(
        path,
        batch_size=BATCH,
        num_workers=1,
        order=OrderOption.QUASI_RANDOM,
        drop_last=False,
        pipelines={"image": pipeline, "label": None},
    )
    return lambda: sum(len(batch[0]) for batch in loader)


def jpegs_of(path: str) -> list:
    """The stored JPEGs, without a copy."""
    reader = Reader(path)
    mapped = np.memmap(path, np.uint8, mode="r")
    sizes = {int(row["ptr"]): int(row["size"]) for row in reader.alloc_table}
    pointers = [int(row["f0"]["data_ptr"]) for row in reader.metadata]
    return [mapped[pointer : pointer + sizes[pointer]] for pointer in pointers]


def part_of(pixels: np.ndarray, is_random: bool) -> np.ndarray:
    height, width = pixels.shape[:2]
    if is_random:
        top, left, h, w = get_random_crop(height, width, SCALE, RATIO)
    else:
        top, left, h, w = get_center_crop(height, width, 0.0, VALIDATION)
    return pixels[top : top + h, left : left + w]


def simplejpeg_epoch(path: str, size: int, is_random: bool):
    jpegs = jpegs_of(path)
    rng = np.random.default_rng(0)

    def one_epoch() -> int:
        images = 0
        order = rng.permutation(len(jpegs))
        for first in range(0, len(order), BATCH):
            chosen = order[first : first + BATCH]
            batch = np.empty((len(chosen), size, size, 3), np.uint8)
            for slot, i in zip(batch, chosen, strict=True):
                part = part_of(simplejpeg.decode_jpeg(jpegs[i], **FAST), is_random)
                if is_random and rng.random() < 0.5:
                    part = part[:, ::-1]
                cv2.resize(part, (size, size), dst=slot, interpolation=cv2.INTER_LINEAR)
            images += len(torch.from_numpy(batch).permute(0, 3, 1, 2))
        return images

    return one_epoch


def difference(peer: str, path: str, size: int, is_random: bool) -> tuple:
    """Of the decoder alone, by simplejpeg with the flags that FFCV gives to the same library."""
    filter_used = cv2.INTER_AREA if peer == "ffcv" else cv2.INTER_LINEAR
    total, most, count = 0.0, 0, 0
    for k, data in enumerate(jpegs_of(path)[:COMPARED]):
        versions = []
        for options in (FAST, ACCURATE):
            np.random.seed(k)
            part = part_of(simplejpeg.decode_jpeg(data, **options), is_random)
            versions.append(cv2.resize(part, (size, size), interpolation=filter_used).astype(np.int16))
        off = np.abs(versions[0] - versions[1])
        total, most, count = total + float(off.mean()), max(most, int(off.max())), count + 1
    return total / count, most


if __name__ == "__main__":
    main()
