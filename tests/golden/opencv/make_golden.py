"""Record what OpenCV's INTER_AREA makes of crops of one picture.

Usage: python make_golden.py OUT.json
Needs: opencv, numpy.
"""
import json
import sys
import zlib

import cv2
import numpy as np

SIDE = 700
SIZES = [
    (h, w, oh, ow)
    for h, w in [(1, 1), (2, 3), (49, 49), (98, 49), (224, 224), (375, 500), (448, 448), (301, 299), (700, 700), (90, 33)]
    for oh, ow in [(1, 1), (2, 2), (7, 5), (49, 7), (112, 112), (224, 224), (150, 250), (300, 31), (224, 500)]
]


def picture():
    """The same on any machine: no floats."""
    y, x, c = np.ogrid[:SIDE, :SIDE, :3]
    mixed = (y * 2654435761 + x * 40503 + c * 2246822519 + x * y * 97) & 0xFFFFFFFF
    return ((mixed >> 13) & 0xFF).astype(np.uint8)


def main():
    pixels = picture()
    cases = []
    for i, (h, w, oh, ow) in enumerate(SIZES):
        top, left = (i * 37) % (SIDE - h + 1), (i * 53) % (SIDE - w + 1)
        part = pixels[top : top + h, left : left + w]
        out = cv2.resize(part, (ow, oh), interpolation=cv2.INTER_AREA)
        cases.append({"crop": [top, left, h, w], "size": [oh, ow], "crc32": zlib.crc32(np.ascontiguousarray(out))})
    facts = {"opencv": cv2.__version__, "picture_crc32": zlib.crc32(pixels), "cases": cases}
    text = json.dumps(facts).replace('{"crop"', '\n{"crop"')
    with open(sys.argv[1], "w") as out:
        out.write(text + "\n")


if __name__ == "__main__":
    main()
