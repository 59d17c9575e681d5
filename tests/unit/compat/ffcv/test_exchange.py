"""The real FFCV reads what the drop-in writes, and the drop-in reads what it writes.

Needs an environment with FFCV; name its interpreter in HEADRACE_FFCV_PYTHON. Skipped otherwise, but for what the
drop-in does with its own files.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.conftest import picture

torch = pytest.importorskip("torch")

from tests.unit.compat.ffcv.tools import write  # noqa: E402

from headrace.codecs import jpeg  # noqa: E402
from headrace.compat.ffcv.fields import (  # noqa: E402
    BytesField,
    FloatField,
    IntField,
    JSONField,
    NDArrayField,
    RGBImageField,
    TorchTensorField,
)

ROOT = Path(__file__).parents[4]
PROGRAM = ROOT / "tests" / "integration" / "ffcv_programs" / "exchange.py"
FFCV_PYTHON = os.environ.get("HEADRACE_FFCV_PYTHON", "")
needs_ffcv = pytest.mark.skipif(not FFCV_PYTHON, reason="HEADRACE_FFCV_PYTHON does not name a Python with ffcv")

pytestmark = pytest.mark.timeout(600)


def run(*command: str | Path) -> str:
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stderr[-3000:]
    return result.stdout


OURS: tuple[Any, ...] = (sys.executable, "-m", "headrace.compat", "run", PROGRAM)
THEIRS: tuple[Any, ...] = (FFCV_PYTHON, PROGRAM)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 3])
def test_files_with_own_fields(tmp_path: Path, workers: int) -> None:
    path = tmp_path / "x.beton"
    run(*OURS, "write", path, workers)
    assert run(*OURS, "read", path) == "read: 80\n"


@needs_ffcv
@pytest.mark.parametrize("workers", [1, 3])
def test_ffcv_reads_files_with_own_fields(tmp_path: Path, workers: int) -> None:
    path = tmp_path / "x.beton"
    run(*OURS, "write", path, workers)
    assert run(*THEIRS, "read", path) == "read: 80\n"


@needs_ffcv
def test_files_of_ffcv_are_read(tmp_path: Path) -> None:
    path = tmp_path / "x.beton"
    run(*THEIRS, "write", path, 2)
    assert run(*OURS, "read", path) == "read: 80\n"


@needs_ffcv
@pytest.mark.parametrize("cache", ["os_cache", "process_cache"])
@pytest.mark.parametrize("page_size", [1 << 21, 1 << 23])
def test_ffcv_reads_files_of_its_own_fields(tmp_path: Path, cache: str, page_size: int) -> None:
    fields = {
        "label": IntField(),
        "raw": RGBImageField("raw"),
        "jpg": RGBImageField("jpg", max_resolution=30),
        "score": FloatField(),
        "blob": BytesField(),
        "doc": JSONField(),
        "array": NDArrayField(np.dtype("<f4"), (2, 3)),
        "tensor": TorchTensorField(torch.int64, (5,)),
    }

    def sample(i: int) -> tuple[Any, ...]:
        rng = np.random.default_rng(i)
        numbers = rng.normal(size=(2, 3)).astype("<f4")
        return (
            i - 7,
            picture(i, 11 + i, 17),
            picture(i, 40, 33),
            i / 3,
            rng.bytes(1000 * i),
            {"i": i},
            numbers,
            torch.full((5,), i),
        )

    path = write(tmp_path / "x.beton", fields, 23, sample, page_size=page_size, num_workers=2)
    out = tmp_path / "x.npz"
    run(FFCV_PYTHON, ROOT / "tests" / "interop" / "read_with_ffcv.py", path, out, cache)
    seen = np.load(out)
    for i in range(23):
        label, raw, pixels, score, blob, doc, array, tensor = sample(i)
        assert seen[f"label/{i}"].tolist() == [label]
        assert seen[f"score/{i}"].tolist() == [score]
        assert (seen[f"raw/{i}"] == raw).all()
        assert seen[f"jpg/{i}"].shape == (30, 24, 3)
        assert seen[f"blob/{i}"].tobytes() == blob
        assert json.loads(seen[f"doc/{i}"].tobytes().partition(b"\0")[0]) == doc
        assert (seen[f"array/{i}"] == array).all()
        assert (seen[f"tensor/{i}"] == tensor.numpy()).all()
        assert pixels.shape == (40, 33, 3)


@needs_ffcv
def test_ffcv_opens_a_file_without_samples(tmp_path: Path) -> None:
    path = write(tmp_path / "x.beton", {"image": RGBImageField(), "n": IntField()}, 0, lambda i: (i,))
    code = f"from ffcv.reader import Reader; r = Reader({str(path)!r}); print(len(r.metadata), len(r.alloc_table))"
    assert run(FFCV_PYTHON, "-c", code) == "0 0\n"


def test_pictures_are_encoded_as_headrace_does(tmp_path: Path) -> None:
    from headrace import open as open_dataset

    path = write(tmp_path / "x.beton", {"v": RGBImageField("jpg", jpeg_quality=80)}, 3, lambda i: (picture(i, 20, 30),))
    stored = open_dataset(path).read_bytes([0, 1, 2], "v")
    assert stored == [jpeg.encode(picture(i, 20, 30), quality=80) for i in range(3)]
