"""Many files by one name: lists, patterns and folders, for every format."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.helpers import image_file, picture

import headrace as hr
from headrace.errors import FormatError, UnknownFormatError
from headrace.formats.file_lists import MAX_FILES, expand_braces, find_files, natural_key
from headrace.formats.open import locate
from headrace.formats.summary import summarize

if TYPE_CHECKING:
    from pathlib import Path

FIELDS = {"b": hr.Bytes()}


@pytest.fixture(params=["beton", "ffr", "barecat"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def fill(folder: Path, kind: str, names: list[str]) -> None:
    folder.mkdir(exist_ok=True)
    for name in names:
        hr.write(folder / f"{name}.{kind}", [f"{name}/{i}".encode() for i in range(2)], fields=FIELDS)


def values(dataset: Any) -> list[str]:
    (field,) = dataset.schema
    return [value.decode() for value in dataset.read_bytes(range(len(dataset)), field)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.tar", ["a.tar"]),
        ("{a,b}.tar", ["a.tar", "b.tar"]),
        ("{08..11}", ["08", "09", "10", "11"]),
        ("{0..2}", ["0", "1", "2"]),
        ("{2..0}", ["2", "1", "0"]),
        ("{00..10..5}", ["00", "05", "10"]),
        ("{-1..1}", ["-1", "0", "1"]),
        ("{a..c}x", ["ax", "bx", "cx"]),
        ("{a,b{1..2}}/{x,y}", ["a/x", "a/y", "b1/x", "b1/y", "b2/x", "b2/y"]),
        ("{a,}b", ["ab", "b"]),
        ("{a}", ["{a}"]),
        ("{}", ["{}"]),
        ("{a", ["{a"]),
        ("a}", ["a}"]),
        ("{x{a,b}", ["{xa", "{xb"]),
        ("{{a,b}}", ["{a}", "{b}"]),
    ],
)
def test_braces_are_those_of_the_shell(text: str, expected: list[str]) -> None:
    assert expand_braces(text) == expected


def test_expansion_is_bounded() -> None:
    for text in ("{0..99999999999}", "{a,b}" * 40, "{0..9999}{0..9999}"):
        with pytest.raises(ValueError, match=f"more than {MAX_FILES:,} files"):
            expand_braces(text)
    with pytest.raises(ValueError, match="nested too deeply"):
        expand_braces("{a," * 60 + "}" * 60)


def test_numbers_in_names_count_as_numbers() -> None:
    assert sorted(["a10b", "a9b", "a9a", "b1", "a"], key=natural_key) == ["a", "a9a", "a9b", "a10b", "b1"]


def test_lists_patterns_and_braces_open_every_format(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "in"
    fill(folder, kind, ["s-1", "s-2", "s-10"])
    whole = [f"s-{n}/{i}" for n in (1, 2, 10) for i in range(2)]
    assert values(hr.open(folder / f"s-*.{kind}")) == whole
    assert values(hr.open(str(folder / f"s-{{1,2,10}}.{kind}"))) == whole
    assert values(hr.open(folder / f"s-{{10,1}}.{kind}")) == whole[4:] + whole[:2]
    assert values(hr.open([folder / f"s-{n}.{kind}" for n in (2, 1)])) == whole[2:4] + whole[:2]
    assert values(hr.open([folder / f"s-1*.{kind}", folder / f"s-2.{kind}"])) == whole[:2] + whole[4:] + whole[2:4]
    assert values(hr.open(folder / f"s-?.{kind}")) == whole[:4]
    assert values(hr.open(folder / "s-*", format=kind)) == whole
    assert len(hr.open(folder)) == 6
    assert hr.open(folder / f"s-[2].{kind}").path == str(folder / f"s-2.{kind}")
    batches = [batch for batch in hr.Loader(folder / f"s-*.{kind}", 2)]
    assert len(batches) == 3
    assert len(hr.Loader([folder / f"s-{n}.{kind}" for n in (2, 1)], 2)) == 2


def test_the_verbs_take_patterns(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "in"
    fill(folder, kind, ["s-1", "s-2"])
    pattern = str(folder / f"s-*.{kind}")
    report = hr.verify(pattern)
    assert (report.ok, report.samples_checked, report.path) == (True, 4, pattern)
    summary = summarize(pattern)
    assert summary.headline.startswith("4 samples, ")
    assert list(summary.details) == [("files", "2 files"), ("checksums", "yes")]
    assert summary.values["files"] == [str(folder / f"s-{n}.{kind}") for n in (1, 2)]


def test_index_gives_each_file_its_own(tmp_path: Path) -> None:
    for n in (1, 2):
        hr.write(tmp_path / f"x-{n}.ffr", [image_file(picture(n, 64, 64), "JPEG")] * 2, fields={"image": hr.Image()})
    assert hr.index(tmp_path / "x-*.ffr").endswith("x-2.ffr.annex")
    assert sorted(os.listdir(tmp_path)) == ["x-1.ffr", "x-1.ffr.annex", "x-2.ffr", "x-2.ffr.annex"]
    assert hr.open(tmp_path / "x-*", decode="image").image_spans(np.array([0, 3]), "image").tile_indices is not None
    with pytest.raises(ValueError, match="are 2 files; give names to each"):
        hr.index(tmp_path / "x-*.ffr", names=["a"])


def test_verify_tells_of_all_files(tmp_path: Path) -> None:
    fill(tmp_path, "beton", ["a", "b", "c"])
    data = bytearray((tmp_path / "b.beton").read_bytes())
    data[data.find(b"b/1")] ^= 1
    (tmp_path / "b.beton").write_bytes(data)
    (tmp_path / "c.beton").write_bytes(b"short")
    report = hr.verify(tmp_path / "*.beton")
    assert [problem.sample for problem in report.problems] == [3, None]
    assert "b.beton, sample 1: " in report.problems[0].message
    assert "c.beton" in report.problems[1].message
    hr.write(tmp_path / "c.beton", [1], fields={"n": hr.Int()}, force=True)
    fill(tmp_path, "beton", [])
    hr.write(tmp_path / "b.beton", [b"x"], fields=FIELDS, force=True)
    (problem,) = hr.verify(tmp_path / "*.beton").problems
    assert "c.beton: field 'b' is not there" in problem.message
    with pytest.raises(FormatError, match="field 'b' is not there"):
        hr.open(tmp_path / "*.beton")


def test_a_file_of_that_name_is_meant_itself(tmp_path: Path, kind: str) -> None:
    for name in ("x-*", "x-{a,b}", "x-[1]"):
        fill(tmp_path, kind, [name, "x-a", "x-b", "x-1"])
        assert values(hr.open(tmp_path / f"{name}.{kind}")) == [f"{name}/0", f"{name}/1"]
        for file in tmp_path.iterdir():
            file.unlink()


def test_nothing_matches(tmp_path: Path) -> None:
    fill(tmp_path, "beton", ["a"])
    with pytest.raises(FileNotFoundError, match=r"z\*\.beton: no file matches this pattern"):
        hr.open(tmp_path / "z*.beton")
    with pytest.raises(FileNotFoundError, match=r"of 6 files there is no .*b\.beton, .*d\.beton and 2 more"):
        hr.open(tmp_path / "{a..f}.beton")
    with pytest.raises(FileNotFoundError, match=r"b\.beton does not exist"):
        hr.open([tmp_path / "a.beton", tmp_path / "b.beton"])
    with pytest.raises(ValueError, match="empty list"):
        hr.open([])
    with pytest.raises(ValueError, match="path is empty"):
        hr.open("")


def test_files_of_two_formats(tmp_path: Path) -> None:
    fill(tmp_path, "beton", ["a"])
    fill(tmp_path, "ffr", ["b"])
    for path in (tmp_path / "*", [tmp_path / "a.beton", tmp_path / "b.ffr"]):
        with pytest.raises(UnknownFormatError, match=r"a\.beton is a beton and .*b\.ffr a ffr"):
            hr.open(path)  # type: ignore[arg-type]


def test_what_lies_beside_is_no_dataset(tmp_path: Path) -> None:
    fill(tmp_path, "barecat", ["a", "b"])
    assert len(hr.open(tmp_path / "*")) == 4
    assert len(hr.open(tmp_path)) == 4


def test_a_folder_of_files_is_one_dataset_if_nothing_else_claims_it(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    fill(folder, "beton", ["a-2", "a-10"])
    (folder / ".hidden").write_bytes(b"")
    (folder / "a-2.beton.annex.old").write_bytes(b"")
    assert values(hr.open(folder))[0] == "a-2/0"
    assert values(hr.open(folder, format="beton"))[0] == "a-2/0"
    assert locate(folder).is_set
    (folder / "cat.jpg").write_bytes(image_file(picture(1, 8, 8), "JPEG"))
    assert list(hr.open(folder).schema) == ["image"]
    (folder / "cat.jpg").rename(folder / "a-2.jpg")
    assert list(hr.open(folder).schema) == ["image"]
    (folder / "a-2.jpg").unlink()
    (folder / "notes").write_text("other things")
    with pytest.raises(FormatError, match="no pictures are below this folder"):
        hr.open(folder)


def test_lists_of_ffr_are_read_by_the_format_itself(tmp_path: Path) -> None:
    fill(tmp_path, "ffr", ["a", "b"])
    opened = hr.open([tmp_path / "a.ffr", tmp_path / "b.ffr"])
    assert type(opened).__name__ == "FfrDataset"
    assert hr.verify([tmp_path / "a.ffr", tmp_path / "b.ffr"]).samples_checked == 4


def test_two_levels_of_folders(tmp_path: Path) -> None:
    for name in ("x", "y/z"):
        (tmp_path / name).mkdir(parents=True)
        fill(tmp_path / name, "beton", ["a"])
    assert len(find_files(str(tmp_path / "**" / "*.beton"))) == 2
    assert len(hr.open(tmp_path / "**" / "*.beton")) == 4


def test_convert_reads_and_writes_sets(tmp_path: Path, kind: str) -> None:
    fill(tmp_path, kind, ["s-1", "s-2", "s-10"])
    whole = [f"s-{n}/{i}" for n in (1, 2, 10) for i in range(2)]
    result = hr.convert(tmp_path / f"s-*.{kind}", tmp_path / "one.ffr", names=False)
    assert (result.samples, values(hr.open(tmp_path / "one.ffr"))) == (6, whole)
    result = hr.convert(tmp_path / f"s-{{2,1}}.{kind}", tmp_path / f"t-%02d.{kind}", shard_size=10, names=False)
    assert [path.name for path in sorted(tmp_path.glob(f"t-*.{kind}"))] == [f"t-{n:02d}.{kind}" for n in range(2)]
    assert result.size_bytes > 0
    assert values(hr.open(tmp_path / f"t-*.{kind}")) == whole[2:4] + whole[:2]
    hr.convert(tmp_path / f"s-*.{kind}", tmp_path / "out", names=False)
    with pytest.raises(FileExistsError, match="exists; give force=True"):
        hr.convert(tmp_path / f"s-*.{kind}", tmp_path / f"t-%02d.{kind}", shard_size=10, names=False)
    with pytest.raises(ValueError, match="is the source itself"):
        hr.convert(tmp_path / f"s-*.{kind}", tmp_path / f"s-2.{kind}", force=True)
    with pytest.raises(FileNotFoundError, match="no file matches"):
        hr.convert(tmp_path / f"q-*.{kind}", tmp_path / "two.ffr")
