"""FFCV's side of small_pictures, and the drop-in's when it is started by headrace's launcher; one worker.

usage: PYTHON-WITH-FFCV small_ffcv.py FILE.beton KIND ORDER EPOCHS
KIND is plain, moved (flip, translate, cutout), array or number; ORDER is sequential or random.
Prints one JSON line: seconds and CPU seconds of each epoch after a warm-up, and samples of an epoch.
"""

import json
import sys
import time

from ffcv.fields.decoders import FloatDecoder, IntDecoder, NDArrayDecoder, SimpleRGBImageDecoder
from ffcv.loader import Loader, OrderOption
from ffcv.transforms import Cutout, RandomHorizontalFlip, RandomTranslate, Squeeze, ToTensor, ToTorchImage

MOVES = [RandomHorizontalFlip(), RandomTranslate(2), Cutout(8)]


def pipelines(kind: str) -> dict:
    label = [IntDecoder(), ToTensor(), Squeeze()]
    if kind == "array":
        return {"array": [NDArrayDecoder(), ToTensor()], "label": label}
    if kind == "number":
        return {"label": label, "weight": [FloatDecoder(), ToTensor(), Squeeze()]}
    moves = MOVES if kind == "moved" else []
    return {"image": [SimpleRGBImageDecoder(), *moves, ToTensor(), ToTorchImage()], "label": label}


def main() -> None:
    path, kind, order, epochs = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    loader = Loader(
        path,
        batch_size=512,
        num_workers=1,
        order=OrderOption[order.upper()],
        os_cache=True,
        drop_last=False,
        pipelines=pipelines(kind),
    )
    seconds, cpu_seconds = [], []
    for _ in range(epochs + 1):
        samples = 0
        start_s, start_cpu_s = time.perf_counter(), time.process_time()
        for batch in loader:
            samples += len(batch[0])
        seconds.append(time.perf_counter() - start_s)
        cpu_seconds.append(time.process_time() - start_cpu_s)
    print(json.dumps({"seconds": seconds[1:], "cpu_seconds": cpu_seconds[1:], "samples": samples}))


if __name__ == "__main__":
    main()
