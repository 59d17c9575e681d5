"""FFCV's side of load_photos: RandomResizedCrop(224), with or without a flip, quasi-random, one worker.

usage: PYTHON-WITH-FFCV ffcv_load.py FILE.beton FLIP EPOCHS
Prints one JSON line: seconds of each epoch after a warm-up, and images of an epoch.
"""

import json
import sys
import time

from ffcv.fields.decoders import RandomResizedCropRGBImageDecoder
from ffcv.loader import Loader, OrderOption
from ffcv.transforms import RandomHorizontalFlip, ToTensor, ToTorchImage


def main() -> None:
    path, flip, epochs = sys.argv[1], sys.argv[2] == "1", int(sys.argv[3])
    pipeline = [RandomResizedCropRGBImageDecoder((224, 224))]
    pipeline += [RandomHorizontalFlip()] if flip else []
    pipeline += [ToTensor(), ToTorchImage(convert_back_int16=False)]
    loader = Loader(
        path,
        batch_size=64,
        num_workers=1,
        order=OrderOption.QUASI_RANDOM,
        drop_last=False,
        pipelines={"image": pipeline},
    )
    seconds = []
    for _ in range(epochs + 1):
        images = 0
        start_s = time.perf_counter()
        for batch in loader:
            images += len(batch[0])
        seconds.append(time.perf_counter() - start_s)
    print(json.dumps({"seconds": seconds[1:], "images": images}))


if __name__ == "__main__":
    main()
