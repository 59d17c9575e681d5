from __future__ import annotations

import io
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import PIL.Image
import pytest
from tests.helpers import image_file, picture, png_by_hand

import headrace as hr
from headrace.codecs.small_picture import NotShownError
from headrace.errors import HeadraceError, ImageError
from headrace.formats.thumbnails import Thumbnail, picture_fields, small_picture, thumbnail, thumbnails

if TYPE_CHECKING:
    from pathlib import Path


def pixels_of(small: Thumbnail) -> np.ndarray:
    with PIL.Image.open(io.BytesIO(small.data)) as image:
        assert small.media_type == f"image/{str(image.format).lower()}"
        return np.asarray(image)


def distance(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(a.astype(float) - b.astype(float)).mean())


def written(path: Path, values: list[Any], field: Any) -> hr.Dataset:
    hr.write(path, [(value,) for value in values], fields={"x": field})
    return hr.open(path)


@pytest.mark.parametrize("ending", ["beton", "tar", "zip", "parquet", "h5", "barecat"])
def test_pictures_of_a_format(tmp_path: Path, ending: str) -> None:
    files = [image_file(picture(i, 200, 300 - 50 * i), "JPEG") for i in range(3)]
    hr.write(tmp_path / f"x.{ending}", [(file, i) for i, file in enumerate(files)], fields=FIELDS)
    with hr.open(tmp_path / f"x.{ending}") as dataset:
        (field,) = picture_fields(dataset)
        for i, small in enumerate(thumbnails(dataset, range(3), field, 64)):
            assert isinstance(small, Thumbnail)
            assert small == thumbnail(dataset, i, field, 64)
            assert (small.media_type, small.width, small.height) == ("image/jpeg", 300 - 50 * i, 200)
            shown = pixels_of(small)
            assert max(shown.shape) == 64
            whole = PIL.Image.fromarray(picture(i, 200, 300 - 50 * i))
            wanted = whole.resize(shown.shape[1::-1], PIL.Image.Resampling.BOX)
            assert distance(small_picture(dataset, i, field, (64, 64)).pixels, np.asarray(wanted)) < 5
            assert distance(shown, np.asarray(wanted)) < 15  # at half of the colours' resolution


FIELDS = {"image": hr.Image(), "label": hr.Int()}


def test_raw_pixels(tmp_path: Path) -> None:
    pixels = picture(1, 200, 100)
    with written(tmp_path / "x.beton", [pixels], hr.Image(mode="raw")) as dataset:
        small = thumbnail(dataset, 0, "x", 64)
        assert (small.width, small.height, pixels_of(small).shape) == (100, 200, (64, 32, 3))


def test_a_tiny_picture_is_exact(tmp_path: Path) -> None:
    pixels = picture(1, 28, 28)
    with written(tmp_path / "x.beton", [pixels], hr.Image(mode="raw")) as dataset:
        small = thumbnail(dataset, 0, "x", 64)
        assert small.media_type == "image/png"
        assert (pixels_of(small) == pixels).all()


def test_arrays_and_bytes(tmp_path: Path) -> None:
    hr.write(
        tmp_path / "x.beton",
        [(np.full((3, 16, 16), 0.5, np.float32), image_file(picture(1, 90, 90), "PNG"), np.zeros(4, np.int8), b"no")],
        fields={
            "a": hr.NDArray("float32", (3, 16, 16)),
            "b": hr.Bytes(),
            "v": hr.NDArray("int8", (4,)),
            "c": hr.Bytes(),
        },
    )
    with hr.open(tmp_path / "x.beton") as dataset:
        assert picture_fields(dataset) == ["a", "b"]
        assert (pixels_of(thumbnail(dataset, 0, "a", 64)) == 128).all()
        assert pixels_of(thumbnail(dataset, 0, "b", 30)).shape == (30, 30, 3)
        with pytest.raises(ImageError, match=r"x\.beton: sample 0, field 'v': an array of int8"):
            thumbnail(dataset, 0, "v", 64)
        with pytest.raises(ImageError, match=r"what is stored \(2 bytes\) does not begin as a picture does"):
            thumbnail(dataset, 0, "c", 64)


def test_bytes_are_looked_at_to_find_pictures(tmp_path: Path) -> None:
    files = [b"", image_file(picture(1, 30, 40), "JPEG"), b"text"]
    with written(tmp_path / "x.beton", files, hr.Bytes()) as dataset:
        assert picture_fields(dataset) == ["x"]
        assert isinstance(list(thumbnails(dataset, [0, 1, 2], "x", 64))[2], NotShownError)
    with written(tmp_path / "y.beton", [b"a", b""], hr.Bytes()) as dataset:
        assert picture_fields(dataset) == []
    with written(tmp_path / "z.ffr", [image_file(picture(1, 30, 40), "JPEG")], hr.Bytes()) as dataset:
        (field,) = picture_fields(dataset)
        assert thumbnail(dataset, 0, field, 20).width == 40


def test_too_many_pixels_are_no_damage(tmp_path: Path) -> None:
    large = np.zeros((9000, 9000, 3), np.uint8)
    with written(tmp_path / "x.tar", [image_file(large, "JPEG", quality=10)], hr.Image()) as dataset:
        (field,) = picture_fields(dataset)
        (found,) = thumbnails(dataset, [0], field, 64)
        assert isinstance(found, NotShownError)
        assert "9000 x 9000 pixels" in str(found)


def test_numbers_are_no_pictures(tmp_path: Path) -> None:
    with written(tmp_path / "x.beton", [3], hr.Int()) as dataset:
        assert picture_fields(dataset) == []
        with pytest.raises(ImageError, match="int64 is no picture"):
            thumbnail(dataset, 0, "x", 64)


def test_transparent_and_deep_pictures_of_a_folder_and_of_parts_of_it(tmp_path: Path) -> None:
    folder = tmp_path / "pictures" / "a"
    folder.mkdir(parents=True)
    clear = np.dstack([picture(3, 40, 40), np.zeros((40, 40), np.uint8)])
    (folder / "0.png").write_bytes(image_file(PIL.Image.fromarray(clear), "PNG"))
    (folder / "1.png").write_bytes(png_by_hand(np.arange(1600, dtype=np.uint16).reshape(40, 40), 0))
    (folder / "2.jpg").write_bytes(image_file(picture(3, 40, 40), "JPEG"))
    with hr.open(folder.parent) as dataset:
        for part in (dataset, hr.concat([dataset, dataset])):
            first, second, third = thumbnails(part, [0, 1, 2], "image", 20)
            assert isinstance(first, Thumbnail)
            assert isinstance(second, Thumbnail)
            assert isinstance(third, Thumbnail)
            assert pixels_of(first).shape == (20, 20, 4)
            assert (pixels_of(second)[[0, -1], [0, -1]] // 32 == [[0] * 3, [7] * 3]).all()
            assert (first.media_type, second.media_type, third.media_type) == ("image/png", *["image/jpeg"] * 2)


def test_damage_of_one_leaves_the_others(tmp_path: Path) -> None:
    files = [image_file(picture(i, 100, 100), "JPEG") for i in range(3)]
    with written(tmp_path / "x.beton", files, hr.Image()) as dataset:
        at = (tmp_path / "x.beton").read_bytes().index(files[1])
    with (tmp_path / "x.beton").open("r+b") as file:
        file.seek(at + len(files[1]) // 2)
        file.write(bytes(64))
    with hr.open(tmp_path / "x.beton") as dataset:
        first, second, third = thumbnails(dataset, [0, 1, 2], "x", 32)
        assert isinstance(first, Thumbnail)
        assert isinstance(third, Thumbnail)
        assert isinstance(second, HeadraceError)
        assert "sample 1" in str(second)
        with pytest.raises(HeadraceError, match="sample 1"):
            thumbnail(dataset, 1, "x", 32)


def test_a_broken_header_leaves_the_others(tmp_path: Path) -> None:
    folder = tmp_path / "pictures" / "a"
    folder.mkdir(parents=True)
    (folder / "0.jpg").write_bytes(b"\xff\xd8\xff\xe0 nothing of this is a JPEG")
    (folder / "1.jpg").write_bytes(image_file(picture(1, 40, 40), "JPEG"))
    with hr.open(folder.parent) as dataset:
        for part in (dataset, hr.concat([dataset, dataset])):
            first, second = thumbnails(part, [0, 1], "image", 20)
            assert isinstance(first, HeadraceError)
            assert isinstance(second, Thumbnail)


def test_wrong_arguments(tmp_path: Path) -> None:
    with written(tmp_path / "x.beton", [picture(1, 20, 20)], hr.Image()) as dataset:
        with pytest.raises(ValueError, match="no field 'y'; its fields are x"):
            thumbnail(dataset, 0, "y", 32)
        for index in (-1, 1):
            with pytest.raises(IndexError, match=f"sample {index} is out of range"):
                thumbnail(dataset, index, "x", 32)
        with pytest.raises(ValueError, match="must be 1 to"):
            thumbnail(dataset, 0, "x", 0)
        assert small_picture(dataset, 0, "x", (10, 5)).pixels.shape == (5, 5, 3)


def test_a_screen_of_thumbnails_takes_little_of_a_core(tmp_path: Path) -> None:
    """60 of pictures of 500 pixels: 150 ms of CPU are allowed, and 50 are usual."""
    files = [image_file(picture(i, 375, 500), "JPEG", quality=90) for i in range(6)] * 10
    with written(tmp_path / "x.beton", files, hr.Image()) as dataset:
        seconds = []
        for _ in range(5):
            start_s = time.process_time()
            assert sum(isinstance(one, Thumbnail) for one in thumbnails(dataset, range(60), "x", 160)) == 60
            seconds.append(time.process_time() - start_s)
        assert min(seconds) < 0.15
