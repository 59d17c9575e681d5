"""Reads a .beton with the real FFCV, in its own environment, and saves what it saw.

usage: PYTHON-WITH-FFCV read_with_ffcv.py FILE.beton OUT.npz [os_cache|process_cache]
Keys of OUT: FIELD/SAMPLE. Numbers, bytes, JSON text, arrays and pictures all become arrays.
"""

import sys

import numpy as np
from ffcv.libffcv import imdecode
from ffcv.loader import Loader, OrderOption
from ffcv.memory_managers import OSCacheManager
from ffcv.pipeline.compiler import Compiler
from ffcv.reader import Reader

IMAGE = 2
VARIABLE = (3, 5)


def main() -> None:
    path, out, cache = sys.argv[1], sys.argv[2], (sys.argv[3:] or ["os_cache"])[0]
    reader = Reader(path)
    type_ids = [int(d["type_id"]) for d in reader.field_descriptors]
    names = list(reader.field_names)
    found = read_payloads(reader, names, type_ids)
    # Numbers and arrays through the loader itself, which also tries the page arithmetic of both caches.
    simple = [n for n, t in zip(names, type_ids, strict=True) if t not in (IMAGE, *VARIABLE)]
    loader = Loader(
        path,
        batch_size=4,
        num_workers=1,
        order=OrderOption.SEQUENTIAL,
        os_cache=cache == "os_cache",
        drop_last=False,
        pipelines={n: None for n in names if n not in simple},
    )
    position = 0
    for batch in loader:
        for name, column in zip(simple, batch, strict=True):
            for k, value in enumerate(column.numpy()):
                found[f"{name}/{position + k}"] = value.copy()
        position += len(batch[0])
    assert position == reader.num_samples
    np.savez(out, **found)


def read_payloads(reader: Reader, names: list, type_ids: list) -> dict:
    Compiler.set_enabled(False)
    manager = OSCacheManager(reader)
    found = {}
    with manager.schedule_epoch(np.array([[0]])) as context:
        read = manager.compile_reader()
        for j, (name, type_id) in enumerate(zip(names, type_ids, strict=True)):
            column = reader.metadata[f"f{j}"]
            for i in range(int(reader.num_samples)):
                if type_id in VARIABLE:
                    found[f"{name}/{i}"] = np.array(read(column[i]["ptr"], context.state))
                elif type_id == IMAGE:
                    found[f"{name}/{i}"] = picture(column[i], read(column[i]["data_ptr"], context.state))
    Compiler.set_enabled(True)
    return found


def picture(record: np.void, stored: np.ndarray) -> np.ndarray:
    height, width = int(record["height"]), int(record["width"])
    if int(record["mode"]) == 1:
        return np.array(stored).reshape(height, width, 3)
    pixels = np.zeros((height, width, 3), np.uint8)
    assert imdecode(np.array(stored), pixels, height, width, height, width) == 0
    return pixels


if __name__ == "__main__":
    main()
