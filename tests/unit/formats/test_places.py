"""Where values lie: what is read there is what is stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.helpers import image_file, picture

import headrace as hr
from headrace.types import Place, Placed

COUNT = 5
JPEGS = [image_file(picture(i, 20, 30), "JPEG") for i in range(COUNT)]
TEXTS = [f"text number {i}" for i in range(COUNT)]


def write(path: Path, **options: Any) -> Any:
    fields = {"image": hr.Image(), "label": hr.Int(), "note": hr.Text()}
    hr.write(path, list(zip(JPEGS, range(COUNT), TEXTS, strict=True)), fields=fields, **options)
    return hr.open(path)


def there(place: Place | None) -> bytes:
    assert place is not None
    data = Path(place.path).read_bytes()
    assert 0 <= place.offset <= place.offset + place.size_bytes <= len(data)
    return data[place.offset : place.offset + place.size_bytes]


@pytest.mark.parametrize("ending", ["beton", "tar", "zip", "tfrecord", "msgpack"])
def test_pictures_lie_where_the_dataset_says(tmp_path: Path, ending: str) -> None:
    with write(tmp_path / f"x.{ending}") as dataset:
        assert isinstance(dataset, Placed)
        field = next(name for name, kind in dataset.schema.items() if kind.kind == "image")
        for i in range(COUNT):
            assert JPEGS[i] in there(dataset.place_of(i, field))


def test_a_beton_says_the_page_and_where_numbers_are(tmp_path: Path) -> None:
    with write(tmp_path / "x.beton") as dataset:
        place = dataset.place_of(3, "image")
        assert place.page == place.offset // dataset.page_size == dataset.page_numbers()[3]
        assert there(place) == JPEGS[3]
        assert there(dataset.place_of(3, "note")).rstrip(b"\0") == TEXTS[3].encode()
        number = dataset.place_of(3, "label")
        assert number.page is None
        assert int.from_bytes(there(number), "little") == 3


def test_files_of_an_archive_lie_in_shards(tmp_path: Path) -> None:
    path = tmp_path / "x.barecat"
    fields = {"image": hr.Image(), "label": hr.Int()}
    hr.write(path, list(zip(JPEGS, range(COUNT), strict=True)), fields=fields, class_names={"label": list("abcde")})
    with hr.open(path) as dataset:
        place = dataset.place_of(1, "image")
        assert place is not None
        assert place.path.endswith("-shard-00000")
        assert there(place) == dataset.read_bytes([1], "image")[0]
        assert dataset.place_of(1, "label") is None
        with pytest.raises(KeyError, match="no field 'none'"):
            dataset.place_of(1, "none")


def test_pictures_of_a_folder_are_files(tmp_path: Path) -> None:
    for i, data in enumerate(JPEGS):
        (tmp_path / "a").mkdir(exist_ok=True)
        (tmp_path / "a" / f"{i}.jpg").write_bytes(data)
    with hr.open(tmp_path) as dataset:
        assert dataset.place_of(2, "image") == (str(tmp_path / "a" / "2.jpg"), 0, len(JPEGS[2]), None)
        assert dataset.place_of(2, "label") is None


def test_files_that_a_manifest_names(tmp_path: Path) -> None:
    with write(tmp_path / "x.jsonl") as dataset:
        place = dataset.place_of(2, "image")
        assert place is not None
        assert place.path != str(tmp_path / "x.jsonl")
        assert there(place) == dataset.read_bytes([2], "image")[0]
        assert TEXTS[2].encode() in there(dataset.place_of(2, "note"))  # in the record
        Path(place.path).unlink()
        with pytest.raises(ValueError, match="cannot be read"):
            dataset.place_of(2, "image")


def test_samples_of_an_ffr(tmp_path: Path) -> None:
    hr.write(tmp_path / "x.ffr", [(text.encode(),) for text in TEXTS], fields={"data": hr.Bytes()})
    with hr.open(tmp_path / "x.ffr") as dataset:
        assert there(dataset.place_of(4, "data")) == TEXTS[4].encode()


def test_what_is_made_of_parts_says_the_file_of_the_part(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a.beton"), write(tmp_path / "b.beton")
    both = hr.concat([first, second])
    assert both.place_of(COUNT + 1, "image") == second.place_of(1, "image")
    assert hr.subset(second, [4, 2]).place_of(1, "note") == second.place_of(2, "note")
    zipped = hr.zip_fields({"one": first, "two": second})
    assert zipped.place_of(3, "two_image") == second.place_of(3, "image")


def test_formats_that_do_not_know_say_so(tmp_path: Path) -> None:
    hr.write(tmp_path / "x.npz", [(np.arange(3.0),)] * 4, fields={"a": hr.NDArray("<f8", (3,))})
    with hr.open(tmp_path / "x.npz") as dataset:
        assert dataset.place_of(1, "a") is None
    tar = tmp_path / "x.tar.gz"
    hr.write(tmp_path / "x.tar", [(text,) for text in TEXTS], fields={"txt": hr.Text()})
    import gzip

    tar.write_bytes(gzip.compress((tmp_path / "x.tar").read_bytes()))
    with hr.open(tar) as dataset:
        assert dataset.place_of(1, "txt") is None
