"""FFCV's process, the same questions and answers as in ``serve``; it needs nothing of this package.

usage: PYTHON-WITH-FFCV ffcv_script.py FACTS
It reads the .beton that this package wrote: the same file.
"""

import json
import os
import sys
import time
from typing import Any

import numpy as np
from ffcv.fields.decoders import CenterCropRGBImageDecoder, RandomResizedCropRGBImageDecoder
from ffcv.loader import Loader, OrderOption
from ffcv.transforms import RandomHorizontalFlip, ToTensor, ToTorchImage


def make_loader(facts: dict[str, Any], decoder: Any, order: Any) -> Any:
    """A loader of pictures alone."""
    flips = [RandomHorizontalFlip()] if facts["options"].get("flip") else []
    pipeline = [decoder, *flips, ToTensor(), ToTorchImage(convert_back_int16=False)]
    return Loader(
        os.path.join(facts["folder"], facts["options"].get("file", "x.beton")),
        batch_size=facts["batch"],
        num_workers=facts["workers"],
        order=order,
        drop_last=False,
        pipelines={"image": pipeline, "label": None},
    )


def make_decoder(facts: dict[str, Any]) -> Any:
    """Random crops, or the middle as for validation."""
    size = (facts["side"], facts["side"])
    if facts["options"].get("crop") == "center":
        return CenterCropRGBImageDecoder(size, ratio=224 / 256)
    return RandomResizedCropRGBImageDecoder(size)


def run_epoch(loader: Any) -> dict[str, Any]:
    """One epoch, and its seconds."""
    start_s, images = time.perf_counter(), 0
    for batch in loader:
        images += len(batch[0])
    return {
        "seconds": time.perf_counter() - start_s,
        "images": images,
        "dtype": str(batch[0].dtype).replace("torch.", ""),
        "stages": {},
    }


def check(facts: dict[str, Any], count: int, out: str) -> dict[str, Any]:
    """The middle square of the first pictures, as for validation: FFCV does not scale a whole picture."""
    side = facts["side"]
    loader = make_loader(facts, CenterCropRGBImageDecoder((side, side), ratio=1.0), OrderOption.SEQUENTIAL)
    found = []
    for batch in loader:
        found += [one.permute(1, 2, 0).numpy().copy() for one in batch[0]]
        if len(found) >= count:
            break
    np.save(out, np.stack(found[:count]))
    return {"is_square": True}


def main() -> None:
    """Answer until there are no more questions."""
    facts, loader = json.loads(sys.argv[1]), None
    for line in sys.stdin:
        told = json.loads(line)
        if told["do"] == "check":
            answer = check(facts, told["count"], told["out"])
        else:
            if loader is None:
                loader = make_loader(facts, make_decoder(facts), OrderOption.QUASI_RANDOM)
            answer = run_epoch(loader)
        print("\n" + json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
