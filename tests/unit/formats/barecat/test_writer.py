"""Samples into archives, and between .beton, .ffr and .barecat."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.helpers import Failing, picture

import headrace as hr
from headrace.codecs import jpeg
from headrace.errors import WriteError
from headrace.formats.barecat import Archive, BarecatWriter
from headrace.formats.barecat.archive import new_archive
from headrace.formats.ffr import pack_folder
from headrace.transfer.convert import convert

if TYPE_CHECKING:
    from pathlib import Path

PICTURES: dict[str, Any] = {"image": hr.Image(mode="raw"), "label": hr.Int()}


def test_pictures_with_labels_come_back(tmp_path: Path) -> None:
    images = [picture(i, 10 + i, 12) for i in range(6)]
    hr.write(tmp_path / "x.barecat", [(images[i], i % 3) for i in range(6)], fields=PICTURES, workers=2)
    dataset = hr.open(tmp_path / "x.barecat")
    assert dataset.keys[0] == "00000/sample-00000000.png"
    for name, sample in zip(dataset.keys, dataset, strict=True):
        number = int(name[-12:-4])
        assert np.array_equal(sample.image, images[number])
        assert sample.label == number % 3
    assert dataset.verify(decode=True).ok


def test_names_classes_and_jpegs_as_they_are(tmp_path: Path) -> None:
    files = [jpeg.encode(picture(i, 20, 20)) for i in range(3)]
    hr.write(
        tmp_path / "x.barecat",
        [(data, i % 2) for i, data in enumerate(files)],
        fields={"image": hr.Image(), "label": hr.Int()},
        names=["a.jpeg", "b.png", "cat/c"],
        class_names={"label": ["cat", "dog"]},
        shard_size=10_000,
    )
    archive = Archive(tmp_path / "x.barecat")
    assert dict(archive) == {"cat/a.jpeg": files[0], "dog/b.jpg": files[1], "cat/c.jpg": files[2]}
    assert archive.shard_size == 10_000


def test_several_fields_become_groups(tmp_path: Path) -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    fields: dict[str, Any] = {
        "left": hr.Image(),
        "right": hr.Image(),
        "meta": hr.Json(),
        "text": hr.Text(),
        "array": hr.NDArray(np.dtype("<f4"), (2, 3)),
        "blob": hr.Bytes(),
    }
    sample = {"left": picture(1, 8, 8), "right": picture(2, 8, 8), "meta": {"a": 1}, "text": "ü", "array": array}
    hr.write(tmp_path / "x.barecat", [sample | {"blob": b"1"}], fields=fields, names=["p/one"])
    names = ["blob", "json", "left.jpg", "npy", "right.jpg", "txt"]
    assert sorted(Archive(tmp_path / "x.barecat")) == [f"p/one.{ending}" for ending in names]
    (found,) = hr.open(tmp_path / "x.barecat", group=True)
    assert (found["json"], found["txt"], found["blob"]) == ({"a": 1}, "ü", b"1")
    assert np.array_equal(found["npy"], array)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"n": hr.Int()}, "is a number"),
        ({"label": hr.Int()}, "no field that could become a file"),
        ({"data": hr.Bytes}, "must be a field"),
    ],
)
def test_fields_that_are_no_files(tmp_path: Path, fields: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        BarecatWriter(tmp_path / "x.barecat", fields)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("samples", "options", "message"),
    [
        ([(b"a", 3)], {}, "would be read back as 0"),
        ([(b"a", 0), (b"b", 1)], {"names": ["d/1", "d/2"]}, "has the label 1, and others in d have 0"),
        ([(b"a", 2)], {"class_names": {"label": ["x", "y"]}}, "has no name"),
        ([(b"a", 0)], {"names": ["../x"]}, "leads out"),
        ([(b"a", 0), (b"b", 0)], {"names": ["x", "x"]}, "exists already"),
        ([(b"a", "zero")], {}, "sample 0, field 'label'"),
        ([(5, 0)], {}, "sample 0, field 'data'"),
    ],
)
def test_what_would_not_come_back_is_refused(
    tmp_path: Path, samples: Any, options: dict[str, Any], message: str
) -> None:
    path = tmp_path / "x.barecat"
    hr.write(path, [b"old"], fields={"data": hr.Bytes()})
    with pytest.raises((ValueError, WriteError, OSError), match=message) as caught:
        hr.write(path, samples, fields={"data": hr.Bytes(), "label": hr.Int()}, force=True, **options)
    assert "incomplete" not in str(caught.value)
    assert dict(Archive(path)) == {"sample-00000000.bin": b"old"}
    assert len(list(tmp_path.iterdir())) == 2


def test_a_failing_source_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(WriteError, match="no sample at 7"):
        hr.write(
            tmp_path / "x.barecat",
            Failing(20, 7),
            fields={"label": hr.Int(), "data": hr.Bytes()},
            worker_kind="thread",
        )
    assert list(tmp_path.iterdir()) == []


def test_writer_by_hand(tmp_path: Path) -> None:
    with BarecatWriter(tmp_path / "x.barecat", {"data": hr.Bytes()}) as writer:
        writer.append(b"1", name="a/README")
        writer.append({"data": b"22"}, name="b")
        assert (len(writer), writer.size_bytes) == (2, 3)
        assert not (tmp_path / "x.barecat").exists()
    assert dict(Archive(tmp_path / "x.barecat")) == {"a/README": b"1", "b": b"22"}
    with pytest.raises(IsADirectoryError), new_archive(tmp_path):
        pass


def test_a_larger_archive_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.barecat"
    with new_archive(path, shard_size=10) as archive:
        archive.update({str(i): bytes(10) for i in range(4)})
    assert len(list(tmp_path.iterdir())) == 5
    with new_archive(path) as archive:
        archive["a"] = b"1"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.barecat", "x.barecat-shard-00000"]
    with pytest.raises(KeyboardInterrupt), new_archive(path) as archive:
        raise KeyboardInterrupt
    assert dict(Archive(path)) == {"a": b"1"}
    assert len(list(tmp_path.iterdir())) == 2


def test_between_the_formats(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    for name in ("cat/1.jpg", "cat/2.jpg", "dog/3.jpg"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(jpeg.encode(picture(int(name[4]), 20, 30)))
    files = {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*.jpg")}
    hr.pack(tmp_path / "a.beton", folder)
    convert(tmp_path / "a.beton", tmp_path / "b.barecat")
    assert dict(Archive(tmp_path / "b.barecat")) == files
    assert [s.label for s in hr.open(tmp_path / "b.barecat")] == [0, 0, 1]
    convert(tmp_path / "b.barecat", tmp_path / "c.beton")
    back = hr.open(tmp_path / "c.beton")
    assert list(back.keys) == sorted(files)
    assert back.class_names == {"label": ["cat", "dog"]}
    assert back.read_bytes([0, 1, 2], "image") == [files[name] for name in sorted(files)]
    convert(tmp_path / "c.beton", tmp_path / "d.barecat", field="image", names=False)
    assert list(Archive(tmp_path / "d.barecat")) == [f"sample-0000000{i}.jpg" for i in range(3)]


def test_between_packed_folders_and_archives_every_file_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    (folder / "a").mkdir(parents=True)
    (folder / "a" / "README").write_bytes(b"text")
    (folder / "a" / "1.png").write_bytes(b"not really a picture")
    (folder / "empty.json").write_bytes(b"")
    pack_folder(folder, tmp_path / "x.ffr")
    convert(tmp_path / "x.ffr", tmp_path / "y.barecat")
    assert dict(Archive(tmp_path / "y.barecat")) == {
        "a/README": b"text",
        "a/1.png": b"not really a picture",
        "empty.json": b"",
    }
    convert(tmp_path / "y.barecat", tmp_path / "z.ffr")
    dataset = hr.open(tmp_path / "z.ffr")
    assert dict(zip(dataset.keys, dataset.read_bytes([0, 1, 2], next(iter(dataset.schema))), strict=True)) == dict(
        Archive(tmp_path / "y.barecat")
    )
    convert(tmp_path / "y.barecat", tmp_path / "all.beton", decode="bytes")
    assert len(hr.open(tmp_path / "all.beton")) == 3
    with pytest.raises(ValueError, match="decode is for"):
        convert(tmp_path / "all.beton", tmp_path / "w.ffr", decode="bytes")


def test_an_archive_outlives_a_change_of_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    hr.write("x.barecat", [b"1"], fields={"data": hr.Bytes()}, names=["a"])
    archive = Archive("x.barecat")
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(archive.__getitem__, "a").result() == b"1"
