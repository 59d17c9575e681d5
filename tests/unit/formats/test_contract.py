"""Format is the extension point: a made-up format of another package works with every verb."""

from __future__ import annotations

import json
import shutil
import tarfile
from dataclasses import MISSING, fields
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.helpers import picture

import headrace as hr
from headrace.codecs import jpeg
from headrace.formats import open as opening
from headrace.formats.contract import Format
from headrace.registry import PluginTable
from headrace.types import missing_members

if TYPE_CHECKING:
    from collections.abc import Callable

PLUGIN = Path(__file__).parents[2] / "plugins" / "mini_format.py"
ENTRY_POINTS = "[headrace.formats]\nmini = mini_format:FORMAT\nhalf = mini_format:HALF\ncrate = mini_format:CRATE\n"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a folder of pictures, where a package with the format is installed."""
    site = tmp_path / "site"
    about = site / "mini_format-1.0.dist-info"
    about.mkdir(parents=True)
    shutil.copy(PLUGIN, site)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: mini-format\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(str(site))
    table: PluginTable[Format] = PluginTable("headrace.formats", kind="format", type=Format)
    monkeypatch.setattr(opening, "FORMATS", table)
    work = tmp_path / "work"
    for i, name in enumerate(["cat/a.jpg", "cat/b.jpg", "dog/c.jpg"]):
        (work / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (work / "in" / name).write_bytes(jpeg.encode(picture(i, 20, 30)))
    monkeypatch.chdir(work)
    return work


@pytest.fixture
def said(capfd: pytest.CaptureFixture[str]) -> Callable[..., str]:
    from headrace.cli.main import main

    def run(*args: str, code: int = 0) -> str:
        capfd.readouterr()
        assert main(list(args)) == code, capfd.readouterr()
        captured = capfd.readouterr()
        return captured.err if code == 2 else captured.out

    return run


def test_the_verbs_of_the_command(place: Path, said: Callable[..., str]) -> None:
    assert "3 samples" in said("create", "x.mini", "in")
    assert "exists; give --force" in said("create", "x.mini", "in", code=2)
    assert "does not take page_size" in said("create", "y.mini", "in", "--page-size", "2M", code=2)
    text = said("info", "x.mini")
    assert "3 samples" in text
    assert "image" in text
    assert json.loads(said("info", "x.mini", "--json"))["format"] == "mini"
    assert said("ls", "x.mini").splitlines() == ["0  cat/a.jpg", "1  cat/b.jpg", "2  dog/c.jpg"]
    assert "image=30x20  label=1" in said("ls", "-l", "x.mini", "dog/c.jpg")
    assert said("cat", "x.mini", "2", "label") == "1\n"
    assert "label=0" in said("cat", "x.mini", "cat/a.jpg")
    assert "3 samples" in said("extract", "x.mini", "-C", "out")
    for name in ("cat/a.jpg", "cat/b.jpg", "dog/c.jpg"):
        assert (place / "out" / name).read_bytes() == (place / "in" / name).read_bytes()
    assert "ok (3 samples" in said("verify", "x.mini", "--decode")
    assert "x.mini is a mini, and only .barecat, .beton, " in said("index", "x.mini", code=2)
    assert "cat/a.jpg" in said("completion", "names", "x.mini", "cat/")
    for verb in ("tree", "find", "du", "shell"):
        told = said(verb, "x.mini", code=2)
        assert "x.mini is a dataset of samples (.mini), and this verb is for archives of files" in told
        assert "(.barecat, .crate). Look at it with: headrace ls x.mini" in told
        assert told.endswith("headrace convert x.mini x.barecat\n")
    assert "holds samples, and merge joins files" in said("merge", "x.mini", "-o", "y.barecat", code=2)


@pytest.mark.parametrize("other", ["y.beton", "y.barecat", "y.ffr", "y.tar", "y.tar.gz", "y.zip", "y"])
def test_convert_both_ways(place: Path, said: Callable[..., str], other: str) -> None:
    said("create", "x.mini", "in")
    said("convert", "x.mini", other, *(["--field", "image"] if other == "y.ffr" else []))
    assert "3 samples" in said("convert", other, "z.mini")
    back = hr.open("z.mini")
    assert list(back.keys or ()) == ["cat/a.jpg", "cat/b.jpg", "dog/c.jpg"]
    stored = back.read_bytes([0, 1, 2], "image")
    assert stored == [(place / "in" / name).read_bytes() for name in back.keys or ()]


def test_an_archive_of_another_package_is_one_everywhere(place: Path, said: Callable[..., str]) -> None:
    said("create", "x.crate", "in")
    assert "in/cat/a.jpg" in said("find", "x.crate")
    said("convert", "x.crate", "x.tar")
    said("convert", "x.tar", "y.crate")
    said("merge", "x.crate", "-o", "z.crate", "--as-subdirs")
    assert "z.crate: 3 files" in said("info", "z.crate")
    said("sync", "in/", "s.crate")
    with tarfile.open("x.tar") as tar, hr.Archive("y.crate") as archive, hr.Archive("s.crate") as synced:
        assert {"in/cat/a.jpg", "in/cat/b.jpg", "in/dog/c.jpg"} <= set(tar.getnames())
        assert archive["in/dog/c.jpg"] == synced["dog/c.jpg"] == (place / "in" / "dog" / "c.jpg").read_bytes()


def test_from_python(place: Path) -> None:
    schema = {"x": hr.NDArray("float32", (2,)), "n": hr.Int(), "t": hr.Text()}
    values = [(np.array([i, -i], np.float32), i, f"number {i}") for i in range(10)]
    hr.write("x.mini", values, fields=schema, names=[f"s{i}" for i in range(10)])
    with hr.open("x.mini") as dataset:
        assert (len(dataset), dataset[3].t, dataset[-1].n) == (10, "number 3", 9)
        assert isinstance(dataset, hr.Dataset)
    shutil.copy("x.mini", "nameless")
    assert len(hr.open("nameless")) == 10, "found by its content"
    assert hr.verify("x.mini").ok
    result = hr.convert("x.mini", "y.beton", page_size=2 << 20)
    assert (result.samples, hr.open("y.beton").page_size) == (10, 2 << 20)
    hr.pack("p.mini", "in", image=hr.Image(max_side=10))
    assert hr.open("p.mini")[0].image.shape == (6, 10, 3)
    with pytest.raises(ValueError, match="is a mini, and only"):
        hr.index("x.mini")
    batches = list(hr.Loader("x.mini", 4, order="random", seed=1, drop_last=False))
    assert sorted(n for batch in batches for n in batch.n.tolist()) == list(range(10))
    assert batches[0].x.shape == (4, 2)
    pictures = hr.Loader("p.mini", 3, pipelines={"image": [hr.ops.CenterCrop(5)]})
    assert next(iter(pictures)).image.shape == (3, 5, 5, 3)


def test_what_lacks_a_part_of_the_contract_says_which(place: Path) -> None:
    Path("x.half").write_bytes(b"")
    with pytest.raises(
        TypeError, match=r"'half' opens \(_Half\) is not a whole Dataset: it lacks .*image_spans.*verify"
    ):
        hr.open("x.half")
    with pytest.raises(TypeError, match=r"'half' creates .* is not a whole Writer: it lacks .*abort.*BaseWriter"):
        hr.write("y.half", [1], fields={"n": hr.Int()})
    with pytest.raises(TypeError, match=r"what the loader got .* it lacks"):
        hr.Loader([1, 2, 3], 2)  # type: ignore[arg-type]


def test_what_is_not_a_format_is_told(place: Path) -> None:
    entry_points = place.parent / "site" / "mini_format-1.0.dist-info" / "entry_points.txt"
    entry_points.write_text("[headrace.formats]\nbad = mini_format:MiniDataset\n")
    with pytest.raises(TypeError, match=r"format 'bad' of mini-format \(mini_format:MiniDataset\) must be a .*Format"):
        hr.open("in")


def test_only_four_things_are_needed() -> None:
    needed = [field.name for field in fields(Format) if field.default is MISSING]
    assert needed == ["name", "suffixes", "matches", "open"]


def test_the_formats_of_the_house_are_whole(tmp_path: Path) -> None:
    for path in ("x.beton", "x.ffr", "x.barecat"):
        hr.write(tmp_path / path, [b"abc"], fields={"data": hr.Bytes()})
        assert missing_members(hr.open(tmp_path / path), hr.Dataset) == []


def test_a_tar_that_is_not_compressed_is_read_in_place(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tarfile.open("x.tar", "w") as tar:
        tar.add("in")

    def refuse(folder: str) -> None:
        raise AssertionError("a temporary file was opened")

    hr.convert("in", "x.zip")
    monkeypatch.setattr("headrace.transfer.file_samples.temporary_file", refuse)
    assert hr.convert("x.tar", "x.beton").samples == 3
    assert hr.convert("x.zip", "y.beton").samples == 3


@pytest.mark.parametrize("ending", ["beton", "ffr", "barecat", ""])
def test_a_sample_by_its_name(place: Path, ending: str) -> None:
    path = f"x.{ending}" if ending else "in"
    if ending:
        hr.pack(path, "in")
    with hr.open(path) as dataset:
        assert np.array_equal(dataset["cat/b.jpg"][0], dataset[1][0])
        field = next(iter(dataset.schema))
        with pytest.raises(KeyError, match=rf"'{field}' is a field.*dataset\[0\]\['{field}'\]"):
            dataset[field]
        with pytest.raises(KeyError, match=r"no sample is called 'cat/x\.jpg'; dataset\.keys has all names"):
            dataset["cat/x.jpg"]


def test_a_sample_by_a_name_where_there_are_none(place: Path) -> None:
    hr.write("x.beton", [1, 2], fields={"label": hr.Int()})
    with hr.open("x.beton") as dataset, pytest.raises(KeyError, match="have no names, only numbers up to 1"):
        dataset["a"]
