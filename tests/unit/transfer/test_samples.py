from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image as Pillow
from tests.helpers import picture

import headrace as hr
from headrace.codecs import jpeg
from headrace.formats.ffr import PackedFolder, pack_folder
from headrace.transfer.convert import convert

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "pictures"
    for i, name in enumerate(["cat/a.jpg", "cat/b.JPEG", "dog/c.jpg", "dog/deep/d.jpg"]):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(jpeg.encode(picture(i, 40 + i, 60)))
    return root


def test_a_folder_of_pictures_there_and_back(folder: Path, tmp_path: Path) -> None:
    first, middle, last = (tmp_path / name for name in ("a.ffr", "b.beton", "c.ffr"))
    pack_folder(folder, first)
    convert(first, middle)
    dataset = hr.open(middle)
    assert list(dataset.schema) == ["image"]
    assert list(dataset.keys) == ["cat/a.jpg", "cat/b.JPEG", "dog/c.jpg", "dog/deep/d.jpg"]
    assert dataset.verify(decode=True).ok
    convert(middle, last)
    assert last.read_bytes() == first.read_bytes()
    convert(first, tmp_path / "d.ffr")
    assert (tmp_path / "d.ffr").read_bytes() == first.read_bytes()


def test_other_pictures_become_jpeg_unless_bytes_are_asked_for(folder: Path, tmp_path: Path) -> None:
    Pillow.fromarray(picture(9, 30, 20)).save(folder / "e.png")
    pack_folder(folder, tmp_path / "a.ffr")
    convert(tmp_path / "a.ffr", tmp_path / "b.beton")
    assert hr.open(tmp_path / "b.beton")[4].image.shape == (30, 20, 3)
    convert(tmp_path / "a.ffr", tmp_path / "c.beton", decode="bytes")
    convert(tmp_path / "c.beton", tmp_path / "d.ffr")
    assert (tmp_path / "d.ffr").read_bytes() == (tmp_path / "a.ffr").read_bytes()


def test_bytes_there_and_back(tmp_path: Path) -> None:
    samples = [bytes([i]) * i for i in range(50)]
    hr.write(tmp_path / "a.ffr", samples, fields={"data": hr.Bytes()})
    convert(tmp_path / "a.ffr", tmp_path / "b.beton")
    assert [s.data for s in hr.open(tmp_path / "b.beton")] == samples
    convert(tmp_path / "b.beton", tmp_path / "c.ffr")
    assert (tmp_path / "c.ffr").read_bytes() == (tmp_path / "a.ffr").read_bytes()
    convert(tmp_path / "a.ffr", tmp_path / "s.ffr", shuffle_seed=1)
    assert sorted(s.data for s in hr.open(tmp_path / "s.ffr")) == sorted(samples)


def test_one_of_several_fields(tmp_path: Path) -> None:
    fields = {"image": hr.Image(mode="raw"), "label": hr.Int(), "note": hr.Json()}
    values = [(picture(i, 16, 16), i, {"i": i}) for i in range(3)]
    hr.write(tmp_path / "a.beton", values, fields=fields, names=["x", "y", "z"])
    lost = (
        r"b\.ffr can hold one field, and .*a\.beton has image, label, note\. Leave the others out: headrace convert "
        r"\S+/a\.beton \S+/b\.ffr --field image\. Or keep all of them: headrace convert \S+/a\.beton \S+/b\.beton$"
    )
    with pytest.raises(ValueError, match=lost):
        convert(tmp_path / "a.beton", tmp_path / "b.ffr")
    with pytest.raises(KeyError, match="no field 'nothing'"):
        convert(tmp_path / "a.beton", tmp_path / "b.ffr", field="nothing")
    convert(tmp_path / "a.beton", tmp_path / "b.ffr", field="note", names=False)
    assert [s.data for s in hr.open(tmp_path / "b.ffr", decode="json")] == [{"i": i} for i in range(3)]
    convert(tmp_path / "a.beton", tmp_path / "c.ffr", field="image")
    folder = PackedFolder(tmp_path / "c.ffr")
    assert folder.list() == ["x", "y", "z"]
    assert np.abs(jpeg.decode(folder.read_one("x")).astype(int) - values[0][0]).mean() < 20
    convert(tmp_path / "a.beton", tmp_path / "d.beton", field="label")
    assert [s.label for s in hr.open(tmp_path / "d.beton")] == [0, 1, 2]


def test_refused(folder: Path, tmp_path: Path) -> None:
    pack_folder(folder, tmp_path / "a.ffr")
    with pytest.raises(ValueError, match="is the source itself"):
        convert(tmp_path / "a.ffr", tmp_path / "a.ffr")
    with pytest.raises(FileNotFoundError):
        convert(tmp_path / "nothing.ffr", tmp_path / "b.beton")
    data = bytearray((tmp_path / "a.ffr").read_bytes())
    data[500] ^= 1
    (tmp_path / "a.ffr").write_bytes(data)
    with pytest.raises(hr.errors.WriteError, match="checksum"):
        convert(tmp_path / "a.ffr", tmp_path / "b.beton")
    assert sorted(os.listdir(tmp_path)) == ["a.ffr", "pictures"]
