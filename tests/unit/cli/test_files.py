"""Values as files that other programs open."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image as Pillow
from tests.helpers import picture

import headrace as hr
from headrace.cli.files import value_as_file

if TYPE_CHECKING:
    from pathlib import Path


def test_every_kind_of_field(tmp_path: Path) -> None:
    fields = {
        "jpg": hr.Image(),
        "raw": hr.Image(mode="raw"),
        "array": hr.NDArray("int16", (2,)),
        "json": hr.Json(),
        "text": hr.Text(),
        "bytes": hr.Bytes(),
        "n": hr.Int(),
    }
    sample = (picture(0, 9, 7), picture(1, 9, 7), np.array([1, 2], np.int16), {"a": 1}, "größe", b"\0\1", 7)
    hr.write(tmp_path / "x.beton", [sample], fields=fields)
    dataset = hr.open(tmp_path / "x.beton")
    files = {name: value_as_file(dataset, 0, name) for name in fields}
    endings = [file.suffix for file in files.values()]
    assert endings == [".jpg", ".png", ".npy", ".json", ".txt", ".bin", ".txt"]
    np.testing.assert_array_equal(np.asarray(Pillow.open(io.BytesIO(files["raw"].data))), picture(1, 9, 7))
    np.testing.assert_array_equal(np.load(io.BytesIO(files["array"].data)), [1, 2])
    assert json.loads(files["json"].data) == {"a": 1}
    assert (files["text"].data.decode(), files["bytes"].data, files["n"].data) == ("größe", b"\0\1", b"7\n")
    stored = value_as_file(dataset, 0, "text", stored=True)
    assert (stored.data, stored.suffix) == (dataset.read_bytes([0], "text")[0], ".bin")
