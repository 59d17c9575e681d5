"""Resizes crops of a picture with the real OpenCV, in its own environment.

usage: PYTHON-WITH-OPENCV resize_with_opencv.py CASES.npz OUT.npz
CASES: `pixels` (height, width, 3) and `cases`, rows of top, left, height, width, new height, new width. Keys of OUT:
the number of the case.
"""

import sys

import cv2
import numpy as np


def main() -> None:
    with np.load(sys.argv[1]) as given:
        pixels, cases = given["pixels"], given["cases"]
    found = {}
    for i, (top, left, height, width, new_height, new_width) in enumerate(cases.tolist()):
        part = pixels[top : top + height, left : left + width]
        found[str(i)] = cv2.resize(part, (new_width, new_height), interpolation=cv2.INTER_AREA)
    np.savez(sys.argv[2], **found)


if __name__ == "__main__":
    main()
