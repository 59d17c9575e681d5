"""Tables of headrace in pyarrow and in Hugging Face's datasets, and theirs in headrace."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from tests.unit.formats.arrow.tables import photo, samples, write

import headrace
from headrace.fields import Image, Int, NDArray, Text

if TYPE_CHECKING:
    from pathlib import Path

FIELDS = {"image": Image(), "label": Int(), "text": Text(), "box": NDArray("float32", (2, 2))}
ROWS = [(photo(i), i % 2, f"é{i}", np.full((2, 2), i, np.float32)) for i in range(12)]


@pytest.mark.parametrize("ending", ["parquet", "arrow", "feather"])
def test_pyarrow_reads_ours(ending: str, tmp_path: Path) -> None:
    path = write(tmp_path / f"x.{ending}", ROWS, fields=FIELDS, class_names={"label": ["a", "b"]})
    if ending == "parquet":
        table = pq.read_table(path)
    elif ending == "feather":
        table = feather.read_table(path)
    else:
        with pa.memory_map(str(path)) as file:
            table = pa.ipc.open_file(file).read_all()
    table.validate(full=True)
    assert table.column_names == [*FIELDS, "__key__"]
    assert [value["bytes"] for value in table["image"].to_pylist()] == [row[0] for row in ROWS]
    assert table["label"].to_pylist() == [row[1] for row in ROWS]
    assert table["text"].to_pylist() == [row[2] for row in ROWS]
    assert table["box"].to_pylist() == [row[3].tolist() for row in ROWS]
    features = json.loads(table.schema.metadata[b"huggingface"])["info"]["features"]
    assert features == {"image": {"_type": "Image"}, "label": {"names": ["a", "b"], "_type": "ClassLabel"}}


def test_pyarrow_reads_every_kind_of_field(tmp_path: Path) -> None:
    table = pq.read_table(write(tmp_path / "x.parquet", samples(10)))
    table.validate(full=True)
    assert json.loads(table["meta"][3].as_py()) == {"a": [3, None], "é": "ü"}


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "brotli", "zstd", "lz4"])
@pytest.mark.parametrize("version", ["1.0", "2.6"])
def test_ours_reads_what_pyarrow_compresses(compression: str, version: str, tmp_path: Path) -> None:
    table = pa.table({"n": list(range(1000)), "t": [f"word {i % 7}" for i in range(1000)]})
    options = {"data_page_version": "1.0" if version == "1.0" else "2.0", "version": version}
    pq.write_table(table, tmp_path / "x.parquet", compression=compression, row_group_size=300, **options)
    dataset = headrace.open(tmp_path / "x.parquet")
    order = np.random.default_rng(0).permutation(1000)
    assert dataset.read_values(order, "n").tolist() == order.tolist()
    assert dataset.read_values(order, "t") == [f"word {i % 7}" for i in order]


def test_datasets_reads_ours_and_ours_reads_its_folder(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", exc_type=ImportError)
    path = write(tmp_path / "x.parquet", ROWS, fields=FIELDS, class_names={"label": ["a", "b"]})
    loaded = datasets.Dataset.from_parquet(str(path), cache_dir=str(tmp_path / "cache"))
    assert isinstance(loaded.features["image"], datasets.Image)
    assert loaded.features["label"].names == ["a", "b"]
    assert loaded[3]["image"].size == headrace.open(path)[3].image.shape[1::-1]
    loaded.save_to_disk(str(tmp_path / "saved"), num_shards=3)
    again = headrace.open(tmp_path / "saved")
    assert again.class_names["label"] == ["a", "b"]
    assert again.read_bytes(range(12), "image") == [row[0] for row in ROWS]
    assert again.read_values(np.arange(12), "text") == [row[2] for row in ROWS]
    assert again.keys == [f"dir/{i:03d}.jpg" for i in range(12)]
