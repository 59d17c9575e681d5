"""What users choose: instruction set, slices, and fast instead of exact."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.helpers import image_file, picture
from tests.unit.loader.jpegs import (
    CROPS,
    LEVELS,
    NCHW,
    OTHER_KINDS,
    WINDOWED,
    Files,
    TileIndex,
    counts,
    loader,
    write,
)
from tests.unit.loader.tools import contents

import headrace as hr
from headrace import ops

if TYPE_CHECKING:
    from pathlib import Path


# -- instruction sets and slices by choice --------------------------------------------------------------------


def test_slices_by_choice(large: Files) -> None:
    cut, expected = loader(large.indexed, CROPS["random"], jpeg="slice"), contents(loader(large.raw, CROPS["random"]))
    assert contents(cut) == expected
    assert counts(cut) == {"window": len(WINDOWED), "libjpeg_by_kind": len(OTHER_KINDS)}
    plain = loader(large.plain, CROPS["random"], jpeg="slice")
    assert contents(plain) == expected
    assert counts(plain) == {"libjpeg_by_options": len(WINDOWED), "libjpeg_by_kind": len(OTHER_KINDS)}


def level_of(value: str) -> subprocess.CompletedProcess[str]:
    code = "from headrace._native import simd_level; print(simd_level())"
    environment = os.environ | {"HEADRACE_SIMD": value}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", LEVELS)
def test_the_environment_chooses_the_instruction_set(name: str) -> None:
    assert level_of(name).stdout.strip() == name


def test_a_wrong_instruction_set_is_told() -> None:
    expected = "ValueError: the environment variable HEADRACE_SIMD is wrong: unknown SIMD level 'mmx'; known are scalar"
    assert expected in level_of("mmx").stderr


# -- fast, not exact ---------------------------------------------------------------------------------------------

SMOOTH = [image_file(picture(i, 90 + 7 * i, 120 - 3 * i), "JPEG", quality=90, subsampling=i % 3) for i in range(9)]
FAST_OPS: dict[str, list[Any]] = {
    "area": [ops.RandomResizedCrop(40)],
    "bilinear, mirrored": [ops.RandomResizedCrop(40, interpolation="bilinear"), ops.RandomHorizontalFlip()],
    "planes": [ops.RandomResizedCrop(40), NCHW],
    "padded": [ops.RandomCrop((110, 130), padding=20, fill=99), ops.RandomHorizontalFlip()],
    "steps": [ops.RandomResizedCrop(40), ops.RandomBrightness(0.3, 1.0), ops.Cutout(8)],
    "float": [ops.RandomResizedCrop(40), ops.Normalize((1.0, 2.0, 3.0), (1.0, 1.0, 1.0), dtype="float32")],
}


@pytest.mark.skipif("avx512" not in LEVELS, reason="elsewhere the exact way is faster")
@pytest.mark.parametrize("name", FAST_OPS)
@pytest.mark.parametrize("has_index", [True, False])
def test_fast_is_close_to_exact(tmp_path: Path, name: str, has_index: bool) -> None:
    path = write(tmp_path / "x.beton", SMOOTH, jpeg_index=has_index)
    fast, exact = (hr.Loader(path, 9, pipelines={"image": FAST_OPS[name]}, precision=p) for p in ("fast", "exact"))
    found, expected = fast[0].image.astype(np.float64), exact[0].image.astype(np.float64)
    off = np.abs(found - expected)
    assert 0 < off.mean() < 1
    assert 20 * np.log10(255 / np.sqrt((off**2).mean())) > 44
    assert counts(fast) == counts(exact) == {"window" if has_index else "window_without_index": 9}


@pytest.mark.parametrize("name", ["bicubic", "lanczos", "nearest"])
def test_fast_leaves_sharp_filters_exact(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "x.beton", SMOOTH)
    crop = [ops.RandomResizedCrop(40, interpolation=name)]
    assert contents(loader(path, crop, precision="fast")) == contents(loader(path, crop))


def test_fast_is_the_same_for_any_number_of_workers_and_tile_size(tmp_path: Path) -> None:
    path = write(tmp_path / "x.beton", SMOOTH)
    crop = CROPS["random"]
    expected = contents(loader(path, crop, precision="fast", workers=1))
    assert contents(loader(path, crop, precision="fast", workers=5)) == expected


def test_fast_is_exact_without_avx512(tmp_path: Path, level: str) -> None:
    path = write(tmp_path / "x.beton", SMOOTH)
    crop = CROPS["random"]
    is_same = contents(loader(path, crop, precision="fast")) == contents(loader(path, crop))
    assert is_same == (level != "avx512")


def test_damage_does_not_stop_the_fast_way(tmp_path: Path) -> None:
    path = write(tmp_path / "x.beton", [*SMOOTH, *OTHER_KINDS.values()])
    tiles = TileIndex(path, len(SMOOTH) + len(OTHER_KINDS))
    tiles.surgeon.flip(tiles.first + 40)
    found = loader(tiles.save(tmp_path / "y.beton"), CROPS["random"], precision="fast")
    with pytest.warns(RuntimeWarning, match="sample 0, field 'image': the index of the JPEG is not used"):
        list(found)
    assert counts(found)["indices_rejected"] == 1
    assert counts(found)["libjpeg_by_kind"] == len(OTHER_KINDS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"precision": "half"}, "precision must be 'exact' or 'fast', got 'half'"),
        ({"precision": "fast", "jpeg": "libjpeg"}, "precision='fast' needs jpeg='window', got jpeg='libjpeg'"),
    ],
)
def test_wrong_precision_is_refused(large: Files, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        loader(large.indexed, CROPS["random"], **options)


def test_the_plan_tells_how_jpegs_are_decoded(large: Files, level: str) -> None:
    def told(**options: Any) -> str:
        lines: list[str] = loader(large.indexed, CROPS["random"], **options).plan().splitlines()
        return next(line for line in lines if line.startswith("JPEGs: "))

    assert told(jpeg="libjpeg") == "JPEGs: by libjpeg-turbo; exact"
    assert "cut out by the index for libjpeg-turbo" in told(jpeg="slice")
    assert told().endswith("; exact")
    expected = {"avx512": "; fast: close to exact, for area and bilinear", "avx2": "'fast' needs AVX-512"}
    assert told(precision="fast").endswith(expected.get(level, "; exact"))
