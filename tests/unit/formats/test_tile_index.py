"""Indices of JPEGs beside an .ffr and a .barecat: made by ``index``, used by the loader, bound to what they are of."""

from __future__ import annotations

import json
import pickle
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.helpers import image_file, picture

import headrace as hr
from headrace import ops
from headrace.cli.main import main
from headrace.formats.barecat import Archive
from headrace.formats.ffr import FfrWriter

if TYPE_CHECKING:
    from pathlib import Path

JPEGS = [image_file(picture(i, 60 + 9 * i, 150 - 7 * i), "JPEG", subsampling=i % 3) for i in range(8)]
PROGRESSIVE = image_file(picture(1, 50, 60), "JPEG", progressive=True)
FILES = [*JPEGS, PROGRESSIVE]
CROP = [ops.RandomResizedCrop(24)]


def write_ffr(path: Path, files: list[bytes]) -> Path:
    with FfrWriter(path, len(files)) as writer:
        writer.append_many(files)
    return path


def write_barecat(path: Path, files: list[bytes]) -> Path:
    with Archive(path, "w") as archive:
        for i, file in enumerate(files):
            archive[f"c{i % 2}/{i}.jpg"] = file
            archive[f"c{i % 2}/{i}.json"] = b"{}"
    return path


KINDS: dict[str, Any] = {"ffr": (write_ffr, {"decode": "image"}), "barecat": (write_barecat, {})}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def make(kind: str, folder: Path, files: list[bytes] = FILES) -> Path:
    path: Path = KINDS[kind][0](folder / f"x.{kind}", files)
    return path


def load(path: Path, kind: str, **options: Any) -> tuple[np.ndarray, dict[str, int]]:
    options = {"pipelines": {"image": CROP}} | options
    with hr.open(path, **KINDS[kind][1]) as dataset:
        loader = hr.Loader(dataset, len(dataset), **options)
        return loader[0].image, {name: count for name, count in loader.stats.jpegs.items() if count}


def test_the_loader_uses_them(kind: str, tmp_path: Path) -> None:
    path = make(kind, tmp_path)
    expected, before = load(path, kind)
    assert "window" not in before
    assert hr.index(path) == f"{path}.annex"
    found, counts = load(path, kind)
    np.testing.assert_array_equal(found, expected)
    assert counts == {"window": len(JPEGS), "libjpeg_by_kind": 1}
    with hr.open(path, **KINDS[kind][1]) as dataset:
        assert dataset.tile_index.count == len(JPEGS)
        assert pickle.loads(pickle.dumps(dataset)).tile_index.count == len(JPEGS)
    assert hr.verify(path).ok


def test_a_dataset_that_changed_is_loaded_without_them(kind: str, tmp_path: Path) -> None:
    path = make(kind, tmp_path)
    hr.index(path)
    if kind == "ffr":
        write_ffr(path, FILES[::-1])
    else:
        with Archive(path, "a") as archive:
            del archive["c0/0.jpg"]
            archive["c0/0.jpg"] = JPEGS[5]
    with pytest.warns(RuntimeWarning, match=r"x\.\w+\.annex: .*headrace index "):
        _, counts = load(path, kind)
    assert "window" not in counts
    (problem,) = hr.verify(path).problems
    assert "belongs to another dataset" in problem.message
    hr.index(path)
    assert load(path, kind)[1]["window"] == len(JPEGS)


@pytest.mark.parametrize("damage", ["cut", "flip", "nothing"])
def test_a_damaged_annex_is_warned_of(kind: str, tmp_path: Path, damage: str) -> None:
    path = make(kind, tmp_path)
    side = tmp_path / f"x.{kind}.annex"
    hr.index(path)
    data = bytearray(side.read_bytes())
    if damage == "flip":
        data[-30] ^= 1
    side.write_bytes({"cut": data[:-1], "flip": data, "nothing": b""}[damage])
    with pytest.warns(RuntimeWarning, match="without their indices"):
        _, counts = load(path, kind)
    assert "window" not in counts
    assert not hr.verify(path).ok


def test_a_damaged_index_is_found(kind: str, tmp_path: Path) -> None:
    path = make(kind, tmp_path)
    side = tmp_path / f"x.{kind}.annex"
    hr.index(path)
    data = bytearray(side.read_bytes())
    data[data.index(b"PJT\1") + 30] ^= 1
    side.write_bytes(data)
    with pytest.warns(RuntimeWarning, match="sample 0, field 'image': the index of the JPEG is not used"):
        _, counts = load(path, kind)
    assert counts["indices_rejected"] == 1
    assert hr.verify(path).bad_samples == (0,)


def test_groups_find_their_pictures(tmp_path: Path) -> None:
    path = make("barecat", tmp_path)
    with Archive(path, "a") as archive:
        for i, file in enumerate(JPEGS):
            archive[f"c{i % 2}/{i}.small.jpg"] = JPEGS[-1 - i] if i else file
        archive["c0/8.small.jpg"] = JPEGS[0]
    hr.index(path)
    with hr.open(path, group=True) as dataset:
        pipelines: dict[str, Any] = {"jpg": CROP, "small.jpg": CROP, "json": None}
        loader = hr.Loader(dataset, len(dataset), pipelines=pipelines)
        batch = loader[0]
        assert loader.stats.jpegs["indices_rejected"] == 0
        assert loader.stats.jpegs["window"] == len(JPEGS) + len(FILES)
        plain = hr.Loader(
            dataset, len(dataset), pipelines={"jpg": CROP, "small.jpg": CROP, "json": None}, jpeg="libjpeg"
        )
        np.testing.assert_array_equal(batch.jpg, plain[0].jpg)


def test_moving_bytes_keeps_them(tmp_path: Path) -> None:
    path = make("barecat", tmp_path)
    hr.index(path)
    with Archive(path, "a") as archive:
        archive["notes.txt"] = b"not a picture"
    assert main(["defrag", str(path), "--quiet"]) == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load(path, "barecat")[1]["window"] == len(JPEGS)


def test_a_folder_of_parts(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    write_ffr(folder / "a.ffr", FILES[:4])
    write_ffr(folder / "b.ffr", FILES[4:])
    assert hr.index(f"{folder}/") == f"{folder}.annex"
    assert load(folder, "ffr")[1]["window"] == len(JPEGS)
    with hr.open([folder / "a.ffr", folder / "b.ffr"], decode="image") as files:
        assert files.tile_index is None
        with pytest.raises(ValueError, match="a list of files has no place"):
            files.index_jpegs()


@pytest.mark.parametrize("option", [{"embed": True}, {"names": ["a"]}, {"metadata": {}}, {"jpeg_index": False}])
def test_what_only_a_beton_has_is_refused(kind: str, tmp_path: Path, option: dict[str, Any]) -> None:
    path = make(kind, tmp_path)
    with pytest.raises(ValueError, match=f"is for .beton files; a .{kind} gets tile indices alone"):
        hr.index(path, **option)


def test_other_formats_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(JPEGS[0])
    with pytest.raises(ValueError, match=r"is a folder, and only .*\.barecat, \.beton, .* have an annex"):
        hr.index(tmp_path)


def test_a_beton_under_another_name(tmp_path: Path) -> None:
    hr.write(tmp_path / "x.beton", [(JPEGS[0],)], fields={"image": hr.Image()}, page_size=1 << 21, annex=False)
    path = (tmp_path / "x.beton").rename(tmp_path / "x.data")
    assert hr.index(path) == f"{path}.annex"


def test_nothing_to_index(kind: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nothing to index"):
        hr.index(make(kind, tmp_path, [PROGRESSIVE]))


def test_the_command(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = make(kind, tmp_path)
    assert main(["index", str(path), "--quiet"]) == 0
    capsys.readouterr()
    assert main(["info", str(path)]) == 0
    assert f"{len(JPEGS)} of {len(FILES)} " in capsys.readouterr().out
    assert main(["info", str(path), "--json"]) == 0
    about = json.loads(capsys.readouterr().out)
    assert (about.get("jpeg_index") or about)["jpegs_indexed"] == len(JPEGS)
    assert main(["verify", str(path), "--quiet"]) == 0
