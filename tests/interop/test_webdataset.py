"""The webdataset package reads our tars, and we read its."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import headrace as hr
from headrace.codecs import jpeg

if TYPE_CHECKING:
    from pathlib import Path

wds = pytest.importorskip("webdataset")
# The package leaves its files to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


def rows(count: int = 7) -> list[dict[str, Any]]:
    return [
        {
            "jpg": jpeg.encode(np.full((20, 30 + i, 3), i, np.uint8)),
            "cls": i - 2,
            "txt": f"é {i}",
            "json": {"i": i},
            "box.npy": np.arange(4, dtype=np.float32) + i,
            "bin": bytes([i]) * i,
        }
        for i in range(count)
    ]


FIELDS = {
    "jpg": hr.Image(),
    "cls": hr.Int(),
    "txt": hr.Text(),
    "json": hr.Json(),
    "box.npy": hr.NDArray("float32", (4,)),
    "bin": hr.Bytes(),
}


@pytest.mark.parametrize("ending", ["tar", "tar.gz"])
def test_webdataset_reads_ours(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"x.{ending}"
    hr.write(path, rows(), fields=FIELDS, names=[f"dir.x/{i:03d}" for i in range(7)])
    dataset = wds.WebDataset(str(path), shardshuffle=False).decode("rgb8")
    found = list(dataset)
    assert [sample["__key__"] for sample in found] == [f"dir.x/{i:03d}" for i in range(7)]
    for sample, row in zip(found, rows(), strict=True):
        for name in ("cls", "txt", "json"):
            assert sample[name] == row[name]
        assert bytes(sample["bin"]) == row["bin"]
        assert np.array_equal(sample["box.npy"], row["box.npy"])
        assert sample["jpg"].shape[:2] == (20, 30 + row["json"]["i"])
    raw = list(wds.WebDataset(str(path), shardshuffle=False))
    assert [sample["jpg"] for sample in raw] == [row["jpg"] for row in rows()]


@pytest.mark.parametrize("ending", ["tar", "tar.gz"])
def test_we_read_those_of_webdataset(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"x.{ending}"
    with wds.TarWriter(str(path)) as writer:
        for i, row in enumerate(rows()):
            writer.write({"__key__": f"a/{i:03d}", **row})
    dataset = hr.open(path)
    assert {name: dataset.schema[name] for name in FIELDS} == FIELDS
    assert list(dataset.keys or ()) == [f"a/{i:03d}" for i in range(7)]
    for sample, row in zip(dataset, rows(), strict=True):
        for name in ("cls", "txt", "json", "bin"):
            assert sample[name] == row[name]
        assert np.array_equal(sample["box.npy"], row["box.npy"])
    assert dataset.read_bytes(range(7), "jpg") == [row["jpg"] for row in rows()]
