"""What is written is read back, with its exact fields, classes, metadata and names."""

from __future__ import annotations

import gc
import os
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.unit.formats.arrow.tables import ENDINGS, FIELDS, photo, samples, write

import headrace
from headrace.errors import WriteError
from headrace.fields import Bytes, Image, Int, Text
from headrace.formats.arrow import ParquetWriter, writer
from headrace.formats.decodes import Coded
from headrace.formats.open import find_format

if TYPE_CHECKING:
    from pathlib import Path

ROWS = samples(50)


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_kind_of_field_comes_back(ending: str, tmp_path: Path) -> None:
    options = {"row_group_size": 7} if ending == "parquet" else {}
    classes, about = {"label": ["x", "y"]}, {"who": ["me", 3]}
    path = write(tmp_path / f"x.{ending}", ROWS, class_names=classes, metadata=about, **options)
    assert os.listdir(tmp_path) == [path.name]
    dataset = headrace.open(path)
    assert dict(dataset.schema) == FIELDS
    assert list(dataset.schema) == list(FIELDS)
    assert dataset.class_names == classes
    assert dataset.metadata == about
    assert dataset.keys == [f"dir/{i:03d}.jpg" for i in range(50)]
    assert dataset["dir/007.jpg"].score == 1.0
    assert dataset.read_bytes(range(50), "image") == [row[0] for row in ROWS]
    for i in np.random.default_rng(0).permutation(50).tolist():
        for name, expected in list(zip(FIELDS, ROWS[i], strict=True))[1:]:
            value = dataset[i][name]
            np.testing.assert_array_equal(value, expected)
            assert getattr(value, "dtype", None) == getattr(expected, "dtype", None)
    assert dataset.verify(decode=True).ok


@pytest.mark.parametrize("ending", ENDINGS)
def test_nothing_is_a_dataset_too(ending: str, tmp_path: Path) -> None:
    dataset = headrace.open(write(tmp_path / f"x.{ending}", []))
    assert len(dataset) == 0
    assert dict(dataset.schema) == FIELDS
    assert dataset[:] == []
    assert dataset.verify().ok


def test_row_groups_are_as_large_as_asked_for_and_pictures_are_not_compressed(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", ROWS, row_group_size=20)
    about = pq.ParquetFile(path).metadata
    assert [about.row_group(i).num_rows for i in range(3)] == [20, 20, 10]
    columns = {(one := about.row_group(0).column(i)).path_in_schema: one for i in range(about.num_columns)}
    assert columns["image.bytes"].compression == "UNCOMPRESSED"
    assert {columns[name].compression for name in ("label", "box.list.element.list.element", "__key__")} == {"ZSTD"}
    assert columns["image.bytes"].statistics is None


def test_row_groups_are_by_bytes_unless_asked_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "_GROUP_BYTES", 1000)
    fields = {"data": Bytes()}
    path = write(tmp_path / "x.parquet", [(bytes(300),)] * 10, fields=fields, names=False)
    about = pq.ParquetFile(path).metadata
    assert [about.row_group(i).num_rows for i in range(about.num_row_groups)] == [4, 4, 2]


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_interrupted_write_leaves_nothing(ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / f"x.{ending}"
    monkeypatch.setattr(writer, "_MAX_GROUP_ROWS", 3)  # some of it is written already
    new = find_format(path, must_exist=False).create_checked(path, {"n": Int()})
    for i in range(10):
        new.append((i,))
    new.abort()
    del new
    gc.collect()  # warnings are errors
    assert os.listdir(tmp_path) == []
    new = find_format(path, must_exist=False).create_checked(path, {"n": Int()})
    new.append((1,))
    with pytest.raises(WriteError, match="sample 1, field 'n'"):
        new.append(("one",))
    assert not path.exists()
    new.close()
    new.close()
    assert len(headrace.open(path)) == 1


def test_what_cannot_be_stored_is_told_before_anything_is_written(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    with pytest.raises(ValueError, match="__key__"):
        ParquetWriter(path, {"__key__": Text()})
    with pytest.raises(ValueError, match=r"fields\['x'\] \(coded\)"):
        ParquetWriter(path, {"x": Coded("npy")})
    with pytest.raises(ValueError, match="one field at least"):
        ParquetWriter(path, {})
    with pytest.raises(ValueError, match="row_group_size"):
        ParquetWriter(path, {"x": Int()}, row_group_size=0)
    with pytest.raises(ValueError, match="compression"):
        ParquetWriter(path, {"x": Int()}, compression="lzma")
    with pytest.raises(TypeError, match="must be a field"):
        ParquetWriter(path, {"x": Int})  # type: ignore[dict-item]
    assert os.listdir(tmp_path) == []


def test_all_samples_have_a_name_or_none_has(tmp_path: Path) -> None:
    new = ParquetWriter(tmp_path / "x.parquet", {"n": Int()})
    new.append((1,), name="a")
    with pytest.raises(ValueError, match="all samples"):
        new.append((2,))
    new.abort()
    new = ParquetWriter(tmp_path / "x.parquet", {"n": Int()})
    new.append((1,), name="\udcff")
    with pytest.raises(WriteError, match="a name or a value"):
        new.close()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_the_verbs_write_it_with_workers(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"x.{ending}"
    headrace.write(path, [(photo(i), i) for i in range(20)], fields={"image": Image(), "n": Int()}, workers=2)
    back = tmp_path / "y.beton"
    headrace.convert(path, back)
    assert headrace.open(back).read_bytes(range(20), "image") == [photo(i) for i in range(20)]
    again = tmp_path / f"z.{ending}"
    headrace.convert(back, again)
    assert [sample.n for sample in headrace.open(again)] == list(range(20))
