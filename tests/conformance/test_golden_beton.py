"""Every file that the real FFCV wrote is read exactly as its manifest says."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.conftest import GOLDEN, GOLDEN_NAMES, manifest

import headrace as hr
from headrace.codecs import jpeg

if TYPE_CHECKING:
    from pathlib import Path


def sha(data: Any) -> str:
    return hashlib.sha256(bytes(data)).hexdigest()


def samples_of(expected: dict[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    rows = expected["samples"]
    return [(int(i), row) for i, row in rows.items()] if isinstance(rows, dict) else list(enumerate(rows))


@pytest.mark.parametrize("name", GOLDEN_NAMES)
def test_every_value(name: str, golden_dir: Path) -> None:
    expected = manifest(name)
    dataset = hr.open(golden_dir / f"{name}.beton")
    assert len(dataset) == expected["num_samples"]
    assert dataset.layout.record.itemsize == expected["metadata_itemsize"]
    offsets = [dataset.layout.record.fields[c.member][1] for c in dataset.layout.columns]
    assert offsets == expected["metadata_offsets"]
    assert list(dataset.schema) == [spec["stored_name"] for spec in expected["fields"]]
    for i, row in samples_of(expected):
        sample = dataset[i]
        for spec in expected["fields"]:
            check_value(dataset, i, spec, row[spec["given_name"]], sample[spec["stored_name"]])


def check_value(dataset: Any, i: int, spec: dict[str, Any], want: dict[str, Any], value: Any) -> None:
    field = spec["stored_name"]
    match spec["kind"]:
        case "int":
            assert value == want["v"]
        case "float":
            assert value.hex() == want["hex"]
        case "bytes":
            assert (len(value), sha(value)) == (want["size"], want["sha256"])
            assert dataset.read_bytes([i], field) == [value]
        case "json":
            assert value == want["json"]
            assert sha(dataset.read_bytes([i], field)[0]) == want["sha256"]
        case "ndarray" | "torch":
            assert (value.dtype.str, list(value.shape)) == (spec["dtype"], spec["shape"])
            assert sha(value.tobytes()) == want["sha256"]
            assert dataset.view(i, field).tobytes() == value.tobytes()
        case "string":
            assert value.tobytes().rstrip(b"\0").decode() == want["text"]
        case "image":
            check_image(dataset, i, field, want, value)
        case other:
            pytest.fail(f"the manifest has an unknown kind {other}")


def check_image(dataset: Any, i: int, field: str, want: dict[str, Any], value: np.ndarray) -> None:
    assert value.shape == (want["height"], want["width"], 3)
    (stored,) = dataset.read_bytes([i], field)
    assert (len(stored), sha(stored)) == (want["size"], want["sha256"])
    if want["mode"] == 1:
        assert sha(value.tobytes()) == want["ffcv_pixels_sha256"]
    else:
        # FFCV decodes with the fast DCT; with the same one the pixels are the same, with ours they are close.
        fast = jpeg.decode(stored, dct="fast")
        assert sha(fast.tobytes()) == want["ffcv_pixels_sha256"]
        assert np.abs(fast.astype(int) - value.astype(int)).max() <= 8


@pytest.mark.parametrize("name", [n for n in GOLDEN_NAMES if (GOLDEN / f"{n}.pixels.npz").exists()])
def test_pixels_that_ffcv_decodes(name: str, golden_dir: Path) -> None:
    dataset = hr.open(golden_dir / f"{name}.beton")
    with np.load(GOLDEN / f"{name}.pixels.npz") as pixels:
        for key in pixels.files:
            field, _, i = key.partition("/")
            mode = int(dataset.image_facts(field)["mode"][int(i)])
            stored = dataset.read_bytes([int(i)], field)[0]
            found = dataset[int(i)][field] if mode == 1 else jpeg.decode(stored, dct="fast")
            np.testing.assert_array_equal(found, pixels[key])


def test_whole_columns(golden_dir: Path) -> None:
    expected = manifest("big_metadata")
    dataset = hr.open(golden_dir / "big_metadata.beton")
    for field, want in expected["columns"].items():
        if dataset.schema[field].kind == "int":
            data = dataset.column(field).tobytes()
        else:
            data = b"".join(dataset.read_bytes(range(len(dataset)), field))
        assert sha(data) == want["sha256_of_concatenated_values"]


@pytest.mark.parametrize("name", GOLDEN_NAMES)
def test_verify_finds_nothing(name: str, golden_dir: Path) -> None:
    report = hr.verify(golden_dir / f"{name}.beton", decode=True)
    assert report.ok, report.problems
    assert report.samples_checked == manifest(name)["num_samples"]
