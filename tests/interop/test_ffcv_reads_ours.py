"""The real FFCV reads what headrace writes, with and without annex, and sees the same values.

Needs an environment with FFCV; name its interpreter in HEADRACE_FFCV_PYTHON. Skipped otherwise.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.conftest import picture

import headrace as hr
from headrace.codecs import jpeg

FFCV_PYTHON = os.environ.get("HEADRACE_FFCV_PYTHON", "")

pytestmark = [
    pytest.mark.skipif(not FFCV_PYTHON, reason="HEADRACE_FFCV_PYTHON does not name a Python with ffcv"),
    pytest.mark.timeout(600),
]

COUNT = 23
FIELDS = {
    "label": hr.Int(),
    "raw": hr.Image(mode="raw"),
    "jpg": hr.Image(mode="jpg"),
    "score": hr.Float(),
    "blob": hr.Bytes(),
    "doc": hr.Json(),
    "text": hr.Text(),
    "array": hr.NDArray("<f4", (2, 3)),
    "tensor": hr.Tensor("int64", (5,)),
}


def samples() -> list[tuple[object, ...]]:
    rng = np.random.default_rng(5)
    rows: list[tuple[object, ...]] = []
    for i in range(COUNT):
        grey = jpeg.encode(picture(i, 20, 31)) if i % 2 else picture(i, 33, 18 + i)
        rows.append(
            (
                i - 7,
                picture(i, 11 + i, 17),
                grey,
                i / 3,
                bytes(rng.integers(0, 256, 1000 * (i % 4), dtype=np.uint8)),
                {"i": i, "ü": [None, True]},
                "täxt" * i,
                rng.normal(size=(2, 3)).astype("<f4"),
                rng.integers(-9, 9, 5),
            )
        )
    return rows


def read_with_ffcv(path: Path, cache: str) -> dict[str, np.ndarray]:
    out = path.with_suffix(".npz")
    script = Path(__file__).with_name("read_with_ffcv.py")
    command = [FFCV_PYTHON, str(script), str(path), str(out), cache]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stderr[-3000:]
    with np.load(out) as archive:
        return {key: archive[key] for key in archive.files}


@pytest.mark.parametrize("cache", ["os_cache", "process_cache"])
@pytest.mark.parametrize("has_annex", [True, False])
@pytest.mark.parametrize("page_size", [1 << 21, None])
def test_ffcv_sees_the_same_values(tmp_path: Path, has_annex: bool, cache: str, page_size: int | None) -> None:
    path = tmp_path / "x.beton"
    rows = samples()
    hr.write(path, rows, fields=FIELDS, page_size=page_size, annex=has_annex)
    seen = read_with_ffcv(path, cache)
    ours = hr.open(path)
    for i, row in enumerate(rows):
        value = dict(zip(FIELDS, row, strict=True))
        assert seen[f"label/{i}"].tolist() == [value["label"]]
        assert seen[f"score/{i}"].tolist() == [value["score"]]
        np.testing.assert_array_equal(seen[f"raw/{i}"], value["raw"])
        stored = ours.read_bytes([i], "jpg")[0]
        np.testing.assert_array_equal(seen[f"jpg/{i}"], jpeg.decode(stored, dct="fast"))
        assert seen[f"blob/{i}"].tobytes() == value["blob"]
        assert json.loads(seen[f"doc/{i}"].tobytes().partition(b"\0")[0]) == value["doc"]
        assert seen[f"text/{i}"].tobytes().decode() == value["text"]
        np.testing.assert_array_equal(seen[f"array/{i}"], value["array"])
        np.testing.assert_array_equal(seen[f"tensor/{i}"], value["tensor"])


def test_a_file_whose_pages_grew(tmp_path: Path) -> None:
    path = tmp_path / "x.beton"
    sizes = [100, 9 << 20, 0, 5, 17 << 20, 7]
    hr.write(path, ((bytes([n % 251]) * n, n) for n in sizes), fields={"b": hr.Bytes(), "n": hr.Int()})
    seen = read_with_ffcv(path, "os_cache")
    assert [len(seen[f"b/{i}"]) for i in range(len(sizes))] == sizes
    assert [int(seen[f"n/{i}"][0]) for i in range(len(sizes))] == sizes


def test_grey_jpeg_is_readable(tmp_path: Path) -> None:
    from io import BytesIO

    from PIL import Image

    data = BytesIO()
    Image.fromarray(picture(1, 24, 30)[:, :, 0]).save(data, "JPEG")
    path = tmp_path / "x.beton"
    hr.write(path, [(data.getvalue(), 1)], fields={"image": hr.Image(), "label": hr.Int()})
    assert hr.open(path).read_bytes([0], "image") == [data.getvalue()]
    np.testing.assert_array_equal(read_with_ffcv(path, "os_cache")["image/0"], jpeg.decode(data.getvalue(), dct="fast"))
