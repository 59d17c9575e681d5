"""An archive as a dataset."""

from __future__ import annotations

import io
import json
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.helpers import picture

import headrace as hr
from headrace.codecs import jpeg
from headrace.errors import CorruptSampleError, FormatError
from headrace.formats.barecat import Archive, BarecatDataset, DecodedView

if TYPE_CHECKING:
    from pathlib import Path


def photo(seed: int) -> bytes:
    return jpeg.encode(picture(seed, 40, 48).astype(np.uint8))


def npy(array: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    path = tmp_path / "photos.barecat"
    with Archive(path, "x", shard_size=30_000) as archive:
        archive["README.txt"] = b"not a picture"
        for i in range(30):
            archive[f"{'cat' if i % 3 else 'dog'}/{i:02}.jpg"] = photo(i)
    return path


def test_pictures_with_labels(photos: Path) -> None:
    dataset = hr.open(photos)
    assert isinstance(dataset, BarecatDataset)
    assert (len(dataset), list(dataset.schema), dataset.class_names) == (
        30,
        ["image", "label"],
        {"label": ["cat", "dog"]},
    )
    assert dataset.keys[0] == "cat/01.jpg"
    for i, key in enumerate(dataset.keys):
        stored = Archive(photos)[key]
        assert dataset.read_bytes([i], "image") == [stored]
        assert np.array_equal(dataset[i].image, jpeg.decode(stored))
        assert dataset[i].label == (0 if key.startswith("cat") else 1)
    again = pickle.loads(pickle.dumps(dataset))
    assert again.fingerprint == dataset.fingerprint
    with pytest.raises(ValueError, match="no stored bytes"):
        dataset.read_bytes([0], "label")
    with pytest.raises(KeyError, match="the fields are"):
        dataset.read_bytes([0], "nope")


def test_the_loader_gives_the_same_batches_as_from_a_beton(photos: Path, tmp_path: Path) -> None:
    dataset = hr.open(photos)
    hr.write(tmp_path / "x.beton", dataset)
    options: dict[str, Any] = {
        "batch_size": 8,
        "order": "random",
        "seed": 1,
        "pipelines": {"image": [hr.ops.RandomResizedCrop(24)]},
    }
    for checksums in (True, False):
        ours = hr.Loader(dataset.with_checksums(checksums), **options)
        theirs = hr.Loader(hr.open(tmp_path / "x.beton"), **options)
        for mine, other in zip(ours, theirs, strict=True):
            assert np.array_equal(mine.image, other.image)
            assert np.array_equal(mine.label, other.label)


def test_other_kinds(tmp_path: Path) -> None:
    cases: dict[str, tuple[bytes, str, Any]] = {
        "a.txt": ("grün".encode(), "text", "grün"),
        "b.json": (b'{"x": 1}', "json", {"x": 1}),
        "c.npy": (npy(np.arange(6.0).reshape(2, 3)), "array", np.arange(6.0).reshape(2, 3)),
        "d.bin": (b"\x00\x01", "bytes", b"\x00\x01"),
    }
    for name, (data, field, value) in cases.items():
        path = tmp_path / f"{name}.barecat"
        with Archive(path, "x") as archive:
            archive[name] = data
        dataset = hr.open(path)
        assert list(dataset.schema) == [field]
        assert np.array_equal(dataset[0][field], value)
    with Archive(tmp_path / "all.barecat", "x") as archive:
        archive.update({name: data for name, (data, _, _) in cases.items()})
    mixed = hr.open(tmp_path / "all.barecat")
    assert list(mixed.schema) == ["bytes"]
    assert len(mixed) == 4
    with Archive(tmp_path / "none.barecat", "x"):
        pass
    with pytest.raises(FormatError, match="no files"):
        hr.open(tmp_path / "none.barecat")


def test_groups(tmp_path: Path) -> None:
    path = tmp_path / "g.barecat"
    with Archive(path, "x") as archive:
        for i in range(6):
            archive[f"s/{i}.jpg"] = photo(i)
            archive[f"s/{i}.json"] = json.dumps({"i": i}).encode()
            archive[f"s/{i}.mask.npy"] = npy(np.full((2, 2), i))
    dataset = hr.open(path, group=True)
    assert list(dataset.schema) == ["jpg", "json", "mask.npy", "label"]
    assert dataset.keys[3] == "s/3"
    assert dataset[3].json == {"i": 3}
    assert dataset[[4]][0]["mask.npy"].tolist() == [[4, 4], [4, 4]]
    assert dataset.read_values(np.array([1, 2]), "mask.npy").shape == (2, 2, 2)
    with Archive(path, "r+") as archive:
        del archive["s/5.json"]
    with pytest.raises(FormatError, match="sample s/5 has no json"):
        hr.open(path, group=True)


def test_damage_is_reported_by_sample(photos: Path) -> None:
    dataset = hr.open(photos)
    info = Archive(photos).stat(dataset.keys[7])
    with open(f"{photos}-shard-{info.shard:05d}", "r+b") as shard:
        shard.seek(info.offset + info.size // 2)
        shard.write(bytes(8))
    dataset = hr.open(photos)
    report = dataset.verify(decode=True)
    assert report.bad_samples == (7,)
    assert report.images_decoded == 29
    with pytest.raises(CorruptSampleError, match="checksum") as caught:
        dataset[[6, 7]]
    assert caught.value.sample == 7
    loader = hr.Loader(
        dataset, batch_size=5, order="sequential", on_error="skip", pipelines={"image": [hr.ops.Resize(8)]}
    )
    assert sum(len(batch.label) for batch in loader) >= 25
    assert [error.sample for error in loader.errors] == [7]


def test_groups_do_not_lose_files(tmp_path: Path) -> None:
    path = tmp_path / "x.barecat"
    with Archive(path, "x") as archive:
        archive.update({"a/1.txt": b"1", "a/1.TXT": b"2"})
    with pytest.raises(FormatError, match=r"a/1\.TXT and a/1\.txt would be the same field"):
        BarecatDataset(path, group=True)


def test_a_file_called_label_is_the_label(tmp_path: Path) -> None:
    path = tmp_path / "x.barecat"
    with Archive(path, "x") as archive:
        archive.update({"cat/1.label": b"7", "cat/1.txt": b"meow"})
    sample = BarecatDataset(path, group=True)[0]
    assert (sample.label, sample.txt) == (b"7", "meow")


def test_arrays_of_other_shapes_say_so(tmp_path: Path) -> None:
    path = tmp_path / "x.barecat"
    with Archive(path, "x") as archive:
        DecodedView(archive).update({"1.npy": np.zeros(3), "2.npy": np.zeros(4)})
    with pytest.raises(CorruptSampleError, match=r"float64 \(4,\), and the first is float64 \(3,\); open with decode"):
        BarecatDataset(path)[1]
