"""What ``convert`` chooses by what the two sides can hold, and what it refuses."""

from __future__ import annotations

import io
import os
import tarfile
import zipfile
from typing import TYPE_CHECKING, Any

import pytest
from tests.helpers import picture

import headrace as hr
from headrace.codecs import jpeg

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Here are pictures in a folder, and the same as an archive, a tar, a zip and a dataset."""
    monkeypatch.chdir(tmp_path)
    for i, name in enumerate(["cat/a.jpg", "dog/b.jpg", "dog/c.jpg"]):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_bytes(jpeg.encode(picture(i, 16, 24)))
    for name in ("x.barecat", "x.tar", "x.zip"):
        hr.convert("in", name)
    hr.pack("x.beton", "in")
    return tmp_path


@pytest.mark.parametrize("source", ["in", "x.barecat", "x.tar", "x.zip"])
@pytest.mark.parametrize("target", ["y.barecat", "y.tar.gz", "y.zip", "out"])
def test_files_stay_files(place: Path, source: str, target: str) -> None:
    carried = hr.convert(source, target)
    assert (carried.files, carried.samples, carried.skipped) == (3, None, [])
    hr.convert(target, "back")
    for name in ("cat/a.jpg", "dog/c.jpg"):
        assert (place / "back" / name).read_bytes() == (place / "in" / name).read_bytes()


@pytest.mark.parametrize("source", ["in", "x.barecat", "x.tar", "x.zip"])
@pytest.mark.parametrize("target", ["y.beton", "y.ffr"])
def test_files_become_samples(place: Path, source: str, target: str) -> None:
    assert hr.convert(source, target).samples == 3
    dataset: Any = hr.open(target)
    assert list(dataset.keys) == ["cat/a.jpg", "dog/b.jpg", "dog/c.jpg"]
    (first, *_) = dataset.schema
    assert dataset.read_bytes([2], first) == [(place / "in" / "dog" / "c.jpg").read_bytes()]
    assert sorted(os.listdir()) == sorted(
        {"in", "x.barecat", "x.barecat-shard-00000", "x.tar", "x.zip", "x.beton", target}
    )


@pytest.mark.parametrize("target", ["y.tar", "y.zip", "out/", "y.barecat"])
def test_samples_become_files(place: Path, target: str) -> None:
    carried = hr.convert("x.beton", target)
    assert carried.samples is None or target == "y.barecat"
    hr.convert(target, "back")
    assert (place / "back" / "dog" / "c.jpg").read_bytes() == (place / "in" / "dog" / "c.jpg").read_bytes()


def test_streams(place: Path) -> None:
    out = io.BytesIO()
    assert hr.convert("x.beton", out, target_kind="tar").files >= 3
    out.seek(0)
    assert hr.convert(out, "y.beton", source_kind="tar", field="image").samples == 3
    with pytest.raises(ValueError, match="give a kind"):
        hr.convert(io.BytesIO(), "z.barecat")


@pytest.mark.parametrize(
    ("source", "target", "options", "problem"),
    [
        ("missing.tar", "y.beton", {}, "missing.tar does not exist"),
        ("x.tar", "x.beton", {}, "x.beton exists; give --force"),
        ("x.beton", "x.beton", {"force": True}, "x.beton is the source itself"),
        ("in", "in/y.tar", {}, "lies in in, which is read"),
        ("x.tar", "y.zip", {"field": "image"}, "is for samples, and these are files"),
        ("x.tar", "y.zip", {"shard_size": 9}, "is for what is written to a .barecat, or to many"),
        ("x.beton", "y.tar", {"max_bytes": 9}, "is for what is read from tar and zip"),
        ("x.beton", "y.nothing", {}, r"no format is known for this ending. Known are .*\.beton, .*\.ffr, .*\.barecat"),
    ],
)
def test_what_is_refused_leaves_nothing(
    place: Path, source: str, target: str, options: dict[str, Any], problem: str
) -> None:
    before = sorted(os.listdir())
    with pytest.raises((ValueError, OSError), match=problem):
        hr.convert(source, target, **options)
    assert sorted(os.listdir()) == before


@pytest.mark.parametrize("name", ["bomb.tar", "bomb.zip"])
def test_more_content_than_allowed_is_refused(place: Path, name: str) -> None:
    data = bytes(100_000)
    if name.endswith("tar"):
        with tarfile.open(name, "w") as tar:
            about = tarfile.TarInfo("a.bin")
            about.size = len(data)
            tar.addfile(about, io.BytesIO(data))
    else:
        with zipfile.ZipFile(name, "w") as file:
            file.writestr("a.bin", data)
    with pytest.raises(hr.errors.FormatError, match="--max-size"):
        hr.convert(name, "y.ffr", max_bytes=1000)
    assert not os.path.exists("y.ffr")


@pytest.mark.parametrize("target", ["y.beton", "y.tar", "y.npz", "y.tfrecord"])
def test_words_of_a_dictionary_are_texts(tmp_path: Path, target: str) -> None:
    pa = pytest.importorskip("pyarrow")
    words = ["cat", "dog", "cat"]
    table = pa.table({"n": range(3), "word": pa.array(words).dictionary_encode()})
    pytest.importorskip("pyarrow.parquet").write_table(table, tmp_path / "x.parquet")
    hr.convert(tmp_path / "x.parquet", tmp_path / target)
    assert [sample.word for sample in hr.open(tmp_path / target)] == words
