"""PNG and WebP in the loader: decoded by its own threads, with the pixels that the dataset gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import PIL.Image
import pytest
from tests.helpers import image_file, picture

import headrace as hr
from headrace.codecs import image, png, webp
from headrace.errors import CorruptSampleError

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(not (png.is_native() and webp.is_native()), reason="this build has not both libraries")

CROP = {"image": [hr.ops.RandomResizedCrop(32)]}


def write_pictures(folder: Path, count: int = 24) -> list[np.ndarray]:
    """PNG, WebP, JPEG, grey and palette PNG, BMP: everything that a folder may hold."""
    pixels = []
    for i in range(count):
        source = PIL.Image.fromarray(picture(i, 40 + i, 50))
        kind, mode, options = [
            ("PNG", "RGB", {}),
            ("WEBP", "RGB", {"quality": 80}),
            ("PNG", "P", {}),
            ("JPEG", "RGB", {}),
            ("PNG", "L", {}),
            ("WEBP", "RGBA", {"lossless": True}),
            ("BMP", "RGB", {}),
            ("PNG", "RGBA", {}),
        ][i % 8]
        data = image_file(source.convert(mode), kind, **options)
        (folder / "a").mkdir(parents=True, exist_ok=True)
        (folder / "a" / f"{i:03}.{kind.lower()}").write_bytes(data)
        pixels.append(image.decode_any(data))
    return pixels


def batches(path: Path, **options: object) -> list[np.ndarray]:
    with hr.open(path) as dataset:
        loader = hr.Loader(dataset, 5, seed=3, order="random", drop_last=False, pipelines=CROP, **options)
        return [np.array(batch["image"]) for batch in loader]


def test_the_same_batches_as_through_raw_pixels(tmp_path: Path) -> None:
    pixels = write_pictures(tmp_path / "folder")
    fields = {"image": hr.Image(mode="raw"), "label": hr.Int()}
    hr.write(tmp_path / "raw.beton", [(one, 0) for one in pixels], fields=fields)
    expected = batches(tmp_path / "raw.beton")
    for workers in (1, 3):
        for one, other in zip(expected, batches(tmp_path / "folder", workers=workers), strict=True):
            np.testing.assert_array_equal(one, other)


def test_archives(tmp_path: Path) -> None:
    pixels = write_pictures(tmp_path / "folder")
    with hr.open(tmp_path / "folder") as folder:
        hr.convert(tmp_path / "folder", tmp_path / "all.barecat")
        spans = folder.image_spans(np.arange(24), "image")
    assert np.bincount(spans.modes).tolist() == [3, 3, 12, 6]
    for one, other in zip(batches(tmp_path / "folder"), batches(tmp_path / "all.barecat"), strict=True):
        np.testing.assert_array_equal(one, other)
    with hr.open(tmp_path / "all.barecat") as archive:
        modes = archive.image_spans(np.array([0, 1, 2, 3, 8]), "image").modes
        assert modes.tolist() == [2, 3, 2, 0, 2]
        np.testing.assert_array_equal(archive[1].image, pixels[1])


def test_headers_of_many_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = picture(1, 10, 12), picture(2, 30, 40)
    files = [
        image_file(small, "PNG"),
        image_file(small, "WEBP"),
        image_file(small, "JPEG"),
        image_file(small, "BMP"),
        image_file(small, "PNG")[:30],
        image_file(large, "PNG"),
        image_file(large, "WEBP"),
        b"",
    ]
    sizes = np.array(list(map(len, files)), np.uint64)
    offsets = np.cumsum(sizes, dtype=np.uint64) - sizes
    spans = (np.frombuffer(b"".join(files), np.uint8), offsets, sizes)
    sides = [12, 12, 12, 0, 0, 40, 40, 0]
    for limit, expected in [(1200, sides), (None, sides), (1199, [12, 12, 12, 0, 0, 0, 0, 0])]:
        monkeypatch.setattr(PIL.Image, "MAX_IMAGE_PIXELS", limit)
        modes, widths, heights = image.find_native_spans(*spans)
        assert widths.tolist() == expected
        assert (heights > 0).tolist() == (widths > 0).tolist()
        assert modes[widths > 0].tolist() == [2, 3, 0, 2, 3][: np.count_nonzero(widths)]
        for data, mode, width in zip(files, modes.tolist(), widths.tolist(), strict=True):
            found = image.find_native(data)
            assert (found and found[:2]) == ((mode, width) if width else None)


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
def test_what_is_wrong_names_the_sample(kind: str, tmp_path: Path) -> None:
    write_pictures(tmp_path / "folder", 8)
    (tmp_path / "folder" / "a" / "005.webp").unlink()
    data = image_file(picture(1, 40, 50), kind)
    (tmp_path / "folder" / "a" / f"005.{kind.lower()}").write_bytes(data[: len(data) // 2])
    with pytest.raises(CorruptSampleError, match=r"sample 5.*cannot be decoded \(\w+: .*ends too early") as caught:
        batches(tmp_path / "folder")
    assert caught.value.sample == 5


def test_transparent_ones_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for i in range(3):
        (tmp_path / "a" / f"{i}.png").write_bytes(image_file(np.full((8, 8, 4), 255 - i // 2, np.uint8), "PNG"))
    with pytest.raises(CorruptSampleError, match=r"sample 2.*transparent in places") as caught:
        batches(tmp_path)
    assert caught.value.sample == 2
