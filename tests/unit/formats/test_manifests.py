"""JSON Lines and CSV: what is read and written, files that they name, and what is refused."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace import ops
from headrace.codecs import jpeg
from headrace.errors import CorruptSampleError, FormatError, HeadraceError, WriteError
from headrace.fields import Bytes, Float, Image, Int, Json, NDArray, Text
from headrace.formats.manifests import writer as manifest_writer
from headrace.formats.manifests.files_folder import FilesFolder
from headrace.formats.manifests.path_files import PathFiles
from headrace.types import Dataset, missing_members

GOLDEN = Path(__file__).parents[2] / "golden" / "formats"
FIELDS = {"n": Int(), "x": Float(), "text": Text(), "data": Bytes(), "image": Image()}
JSON_FIELDS = {**FIELDS, "json": Json(), "array": NDArray("float32", (2, 2))}
TEXTS = ["", "a,b", 'say "hi"', "line\nbreak", "tab\there", "cr\r\nlf", "007", " blank ", "π\u2028", "\0"]
ENDINGS = ["jsonl", "ndjson", "csv", "tsv"]


def fields_of(ending: str) -> dict[str, Any]:
    return dict(JSON_FIELDS) if "json" in ending else dict(FIELDS)


def samples(count: int, ending: str) -> list[tuple[Any, ...]]:
    rng = np.random.default_rng(1)
    rows = []
    for i in range(count):
        picture = jpeg.encode(rng.integers(0, 255, (40, 50, 3)).astype(np.uint8))
        row: tuple[Any, ...] = (i - 3, i / 7, TEXTS[i % len(TEXTS)], bytes(range(i)), picture)
        rows.append((*row, {"a": [i, None]}, rng.random((2, 2)).astype(np.float32)) if "json" in ending else row)
    return rows


def written(folder: Path, ending: str, count: int = 12, **options: Any) -> Path:
    path = folder / f"x.{ending}"
    hr.write(path, samples(count, ending), fields=fields_of(ending), **options)
    return path


def text_file(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


@pytest.mark.parametrize("name", ["files.jsonl", "files.csv"])
def test_golden(name: str) -> None:
    dataset = hr.open(GOLDEN / name)
    assert not missing_members(dataset, Dataset)
    kinds = {"image": "image", "label": "int", "caption": "text", "meta": "json"}
    assert {name: field.kind for name, field in dataset.schema.items()}.items() <= kinds.items()
    for i, text in enumerate(np.load(GOLDEN / "truth.npy")):
        truth, sample = json.loads(text), dataset[i]
        assert all(sample[name] == truth[name] for name in dataset.schema if name != "image")
        assert dataset.read_bytes([i], "image") == [(GOLDEN / "truth" / f"{i:06d}.jpg").read_bytes()]
    assert dataset.verify(decode=True).images_decoded == 20
    batch = next(iter(hr.Loader(dataset, 4, pipelines={"image": [ops.RandomResizedCrop(16)]})))
    assert batch.image.shape == (4, 16, 16, 3)


@pytest.mark.parametrize("ending", ENDINGS)
def test_round_trip(tmp_path: Path, ending: str) -> None:
    names = [f"n{i}" for i in range(12)]
    path = written(tmp_path, ending, names=names, class_names={"n": ["a"]}, metadata=[1])
    assert sorted(os.listdir(tmp_path)) == [f"x.{ending}", f"x.{ending}-files", f"x.{ending}.annex"]
    dataset = hr.open(path)
    assert dict(dataset.schema) == fields_of(ending)
    assert (dataset.class_names, dataset.metadata, list(dataset.keys or ())) == ({"n": ["a"]}, [1], names)
    rows = samples(12, ending)
    for row, sample in zip(rows, dataset, strict=True):
        assert (sample.n, sample.x, sample.text, sample.data) == row[:4]
        if "json" in ending:
            assert sample.json == row[5]
            assert np.array_equal(sample.array, row[6])
    assert dataset.read_bytes(range(12), "image") == [row[4] for row in rows]
    report = dataset.verify(decode=True)
    assert (report.ok, report.checksums_checked, report.images_decoded) == (True, 36, 12)  # each record, and two files
    assert dataset.rows(np.array([1]))[0]["image"] == f"x.{ending}-files/image/n1.jpg"
    assert dataset["n4"].n == 1
    plain = hr.open(path, annex=False)  # guessed: the texts are no paths, the numbers are numbers
    assert {name: field.kind for name, field in plain.schema.items() if name != "array"} == {
        name: field.kind for name, field in fields_of(ending).items() if name != "array"
    }
    assert list(plain.keys or ()) == names


@pytest.mark.parametrize("ending", ENDINGS)
def test_values_are_handed_out_once(tmp_path: Path, ending: str) -> None:
    dataset = hr.open(written(tmp_path, ending))
    values = dataset.read_values(np.arange(3), "text")
    values[0] = "changed"
    if "json" in ending:
        dataset[1].json["a"] = "changed"
        assert dataset[1].json == {"a": [1, None]}
    assert dataset.read_values(np.arange(3), "text")[0] == ""


def test_a_line_is_parsed_once_for_a_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = hr.open(written(tmp_path, "jsonl"))
    calls: list[bytes] = []
    loads = json.loads
    monkeypatch.setattr(json, "loads", lambda text: (calls.append(text), loads(text))[1])
    for name in dataset.schema:
        dataset.read_values(np.array([2, 5, 2]), name)
    assert len(calls) == 3


def test_names_of_samples(tmp_path: Path) -> None:
    path = text_file(tmp_path / "x.jsonl", '{"__key__": "a", "n": 1, "id": 7}\n{"__key__": "b", "n": 2, "id": 8}\n')
    assert (list(hr.open(path).schema), hr.open(path).keys) == (["n", "id"], ["a", "b"])
    assert hr.open(path, key="id")["8"].n == 2
    with pytest.raises(ValueError, match="no column 'x'"):
        hr.open(path, key="x")
    text_file(path, '{"__key__": "a", "n": 1}\n{"n": 2}\n')
    with pytest.raises(CorruptSampleError, match=r"sample 1, field '__key__'.*name of the sample is missing"):
        _ = hr.open(path).keys


@pytest.mark.parametrize(
    ("cells", "field"),
    [
        (["1", "-2", "0"], Int()),
        (["1", "2.5", "1e3", "nan"], Float()),
        (["1", ""], Text()),
        (["007", "1"], Text()),
        (["12345678901234567890"], Text()),
        (["1_0"], Text()),
    ],
)
def test_types_of_cells(tmp_path: Path, cells: list[str], field: Any) -> None:
    path = text_file(tmp_path / "x.csv", "a,b\n" + "".join(f"{cell},z\n" for cell in cells))
    assert hr.open(path).schema["a"] == field
    assert [s.a for s in hr.open(path, fields={"a": Text()})] == cells


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ([1, 2], Int()),
        ([True, False], Int()),
        ([1, 2.5], Float()),
        (["a", "b"], Text()),
        ([1, None], Json()),
        ([2**70], Json()),
        ([True, 1], Json()),
        ([[1.5]], Json()),
    ],
)
def test_types_of_json(tmp_path: Path, values: list[Any], field: Any) -> None:
    path = text_file(tmp_path / "x.jsonl", "".join(json.dumps({"a": value}) + "\n" for value in values))
    dataset = hr.open(path)
    assert dataset.schema["a"] == field
    assert [s.a for s in dataset] == values


def test_lines(tmp_path: Path) -> None:
    path = text_file(tmp_path / "x.jsonl", '\ufeff{"a": 1}\r\n\r\n  \n {"a": 2} \n{"a": 3}')
    assert [s.a for s in hr.open(path)] == [1, 2, 3]
    path = text_file(tmp_path / "x.csv", '\ufeffa,b\r\n\r\n1,"x\r\ny"\r\n2,\n')
    assert [(s.a, s.b) for s in hr.open(path)] == [(1, "x\r\ny"), (2, "")]
    assert hr.open(text_file(tmp_path / "y.jsonl", "")).schema == {}
    assert len(hr.open(text_file(tmp_path / "y.csv", "a,b\n"))) == 0


def test_header_and_delimiter(tmp_path: Path) -> None:
    path = text_file(tmp_path / "x.csv", "1;x\n2;y\n")
    dataset = hr.open(path, header=["n", "t"], delimiter=";")
    assert [(s.n, s.t) for s in pickle.loads(pickle.dumps(dataset))] == [(1, "x"), (2, "y")]
    hr.index(path)  # of the same file, read in another way
    assert len(hr.open(path)) == 1
    assert len(hr.open(path, header=["n", "t"], delimiter=";")) == 2
    with pytest.raises(ValueError, match="delimiter must be"):
        hr.open(path, delimiter='"')
    large = text_file(tmp_path / "y.csv", 'a,b\n1,"' + "x" * 200_000 + '"\n')
    assert len(hr.open(large)[0].b) == 200_000


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.jsonl", '{"a": 1}\n[1]\n', r"line 2: .*does not begin with '\{'.*at byte 9"),
        ("x.jsonl", '{"a": 1}\n{"a": }\n', r"sample 1: the line is not JSON.*at byte 15"),
        ("x.jsonl", '{"a": ' + "[" * 200_000 + "\n", "sample 0: the line cannot be read"),
        ("x.jsonl", '{"a": ' + "9" * 10_000 + "}\n", "sample 0: the line cannot be read"),
        ("x.jsonl", '{"a//b": 1}\n', "no field can be called that"),
        ("x.jsonl", "{}\n{}\n", "its records have no values"),
        ("x.csv", "", "no header"),
        ("x.csv", "a,a\n", "'a' twice"),
        ("x.csv", "a,\n1,2\n", "'' is no name"),
        ("x.csv", 'a,b\n1,"x\n', r"line 2: a quote that is never closed.*at byte 6"),
        ("x.csv", "a,b\n1,2,3\n", r"sample 0: the record has 3 cells, and there are 2 columns.*at byte 4"),
        ("x.csv", 'a,b\n1,"x"y\n', "behind the closing quote"),
    ],
)
def test_refused(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        hr.open(text_file(tmp_path / name, text))


@pytest.mark.parametrize(
    ("name", "text", "fix"),
    [
        ("x.jsonl", '{"a": 1}\n{"a": }\n', 'Each line must be an object in UTF-8, such as {"label": 3}'),
        ("x.jsonl", "[1]\n", "Each line should be one JSON object"),
        ("x.jsonl", "{}\n{}\n", "Write one value for each"),
        ("x.csv", "a,b\n1,2,3\n", "Every record needs a cell for each column, in quotes if ',' is in it"),
        ("x.csv", 'a,b\n1,"x"y\n', "those inside are doubled"),
        ("x.csv", 'a,b\n1,"x\n', "Close the quote"),
        ("x.csv", '"a"b,c\n1,2\n', "those inside are doubled"),
    ],
)
def test_an_error_says_what_to_do(tmp_path: Path, name: str, text: str, fix: str) -> None:
    path = text_file(tmp_path / name, text)
    with pytest.raises(FormatError) as caught:
        hr.open(path)
    assert fix in caught.value.fix
    assert str(caught.value).startswith(f"{path}: ")


def test_an_error_about_a_value_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(samples(1, "csv")[0][4])
    lines = '{"image": "a.jpg", "x": [1]}\n' * 1000
    for bad, words in [
        ('{"x": [1]}', "the path of a file was expected, found nothing; open with fields="),
        ('{"image": 3, "x": [1]}', "the path of a file was expected, found a int; open with fields="),
        ('{"image": "b.jpg", "x": [1]}', "b.jpg is missing; put it there, or open the manifest with root="),
        ('{"image": "", "x": [1]}', "is no path of a file; open with fields= and Text()"),
    ]:
        path = text_file(tmp_path / "x.jsonl", lines + bad + "\n")
        with pytest.raises(CorruptSampleError, match="sample 1000, field 'image'") as caught:
            _ = hr.open(path)[1000]
        assert words in str(caught.value)
    dataset = hr.open(text_file(tmp_path / "y.jsonl", '{"x": [300]}\n'), fields={"x": NDArray("uint8", (1,))})
    with pytest.raises(CorruptSampleError, match=r"that uint8 can hold were expected, found 300; open with fields="):
        _ = dataset[0]


def test_what_comes_later_is_checked_when_it_is_read(tmp_path: Path) -> None:
    lines = '{"a": 1, "b": "x"}\n' * 1000
    for bad, message in [
        ('{"a": "x", "b": "x"}', r"sample 1000, field 'a'.*whole number was expected, found 'x'.*fields="),
        ('{"b": "x"}', r"sample 1000, field 'a'.*no such key"),
        ('{"a": 1, "b": "\\ud800"}', r"sample 1000, field 'b'.*a text was expected"),
        ('{"a": }', r"sample 1000, byte 19006: the line is not JSON"),
    ]:
        dataset = hr.open(text_file(tmp_path / "x.jsonl", lines + bad + "\n"))
        with pytest.raises(CorruptSampleError, match=message):
            _ = dataset[1000]
        assert dataset.verify().bad_samples == (1000,)
        assert dataset[999].a == 1
    dataset = hr.open(text_file(tmp_path / "x.csv", "a,b\n" + "1,x\n" * 1000 + "1,x,y\nz,x\n"))
    with pytest.raises(CorruptSampleError, match=r"sample 1000, byte \d+: the record has 3 cells"):
        _ = dataset[1000]
    with pytest.raises(CorruptSampleError, match=r"sample 1001, field 'a'"):
        _ = dataset[1001]
    assert hr.open(text_file(tmp_path / "y.jsonl", lines + '{"b": "x"}\n'), fields={"a": Json()})[1000].a is None


def pictures(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("a.jpg", "b.jpg"):
        (folder / name).write_bytes(jpeg.encode(np.zeros((8, 8, 3), np.uint8)))


@pytest.mark.parametrize("bad", ["../out/a.jpg", "in/../../out/a.jpg", "link/a.jpg", "file.jpg", "{out}/a.jpg"])
def test_paths_stay_in_the_folder(tmp_path: Path, bad: str) -> None:
    home, out = tmp_path / "home", tmp_path / "out"
    pictures(home / "in")
    pictures(out)
    (home / "link").symlink_to(out)
    (home / "file.jpg").symlink_to(out / "a.jpg")
    (home / "inner").symlink_to("in")
    bad = bad.format(out=out)
    lines = [{"image": "in/a.jpg"}] * 20 + [{"image": "inner/b.jpg"}, {"image": bad}]
    path = text_file(home / "x.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    dataset = hr.open(path)
    assert isinstance(dataset.schema["image"], Image)
    assert dataset[20].image.shape == (8, 8, 3)  # a link that stays inside
    with pytest.raises(CorruptSampleError, match=r"sample 21, field 'image'.*leads out of the folder"):
        _ = dataset[21]
    with pytest.raises(CorruptSampleError, match="leads out"):
        dataset.image_spans(np.array([21]), "image")
    assert hr.open(path, allow_outside=True)[21].image.shape == (8, 8, 3)
    only = text_file(home / "y.jsonl", json.dumps({"image": bad}) + "\n")
    assert isinstance(hr.open(only).schema["image"], Text)  # a manifest does not tell which files there are


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    pictures(tmp_path / "in")
    os.mkfifo(tmp_path / "pipe.jpg")
    bad = ["in/c.jpg", "pipe.jpg", "in", "in/a.jpg/x", "", "x" * 300, "a\0b"]
    lines = [{"image": "in/a.jpg"}] * 16 + [{"image": name} for name in bad]
    dataset = hr.open(text_file(tmp_path / "x.jsonl", "".join(json.dumps(line) + "\n" for line in lines)))
    for i in range(16, len(lines)):
        with pytest.raises(CorruptSampleError, match=f"sample {i}, field 'image'"):
            _ = dataset[i]
    with pytest.raises(CorruptSampleError, match=r"in/c\.jpg is missing"):
        _ = dataset[16]
    assert len(dataset.verify().bad_samples) == len(bad)


def test_root_fields_and_decode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pictures(tmp_path / "data")
    (tmp_path / "data" / "a.json").write_text('{"k": 1}')
    (tmp_path / "lists").mkdir()
    path = text_file(tmp_path / "lists" / "x.csv", "image,meta\na.jpg,a.json\nb.jpg,a.json\n")
    assert isinstance(hr.open(path).schema["image"], Text)
    dataset = hr.open(path, root=tmp_path / "data")
    assert [field.kind for field in dataset.schema.values()] == ["image", "bytes"]
    assert dataset[1].meta == b'{"k": 1}'
    assert hr.open(path, root=tmp_path / "data", decode={"meta": "json"})[1].meta == {"k": 1}
    assert hr.open(path, root=tmp_path / "data", fields={"image": Text()})[1].image == "b.jpg"
    with pytest.raises(CorruptSampleError, match="is missing"):
        _ = hr.open(path, fields={"image": Image()})[0]
    monkeypatch.chdir(tmp_path)
    state = pickle.dumps(hr.open("lists/x.csv", root="data"))
    monkeypatch.chdir("/")
    assert pickle.loads(state)[0].image.shape == (8, 8, 3)
    cells = text_file(tmp_path / "y.csv", 'a\n"[1, 2]"\n')
    assert hr.open(cells, fields={"a": NDArray("uint8", (2,))})[0].a.tolist() == [1, 2]
    assert hr.open(cells, fields={"a": Json()})[0].a == [1, 2]


@pytest.mark.parametrize("ending", ENDINGS)
def test_nothing_is_left_of_a_failed_write(tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = samples(3, ending)
    with pytest.raises(WriteError, match="sample 3"):
        hr.write(tmp_path / f"x.{ending}", [*rows, ("x",) * len(rows[0])], fields=fields_of(ending), workers=0)
    assert os.listdir(tmp_path) == []

    def fail(self: Any) -> None:
        raise OSError(28, "full")

    monkeypatch.setattr(manifest_writer.AtomicFile, "commit", fail)
    with pytest.raises(OSError, match="full"):
        hr.write(tmp_path / f"x.{ending}", rows, fields=fields_of(ending))
    assert os.listdir(tmp_path) == []


def test_folder_of_files(tmp_path: Path) -> None:
    row = (b"1", b"2")
    fields = {"a": Bytes(), "b": Bytes()}
    hr.write(tmp_path / "x.jsonl", [row], fields=fields, files_folder="mine", names=["k/../../x"])
    assert (tmp_path / "mine" / "a" / "sample-00000000.bin").read_bytes() == b"1"
    with pytest.raises(FileExistsError, match="files_folder="):
        hr.write(tmp_path / "y.jsonl", [row], fields=fields, files_folder="mine")
    with pytest.raises(ValueError, match="files_folder must be"):
        hr.write(tmp_path / "y.jsonl", [row], fields=fields, files_folder="../mine")
    same = [(b"1",), (b"2",), (b"3",)]
    hr.write(tmp_path / "y.jsonl", same, fields={"a": Bytes()}, names=["k", "k", "k.bin/x"])
    assert [s.a for s in hr.open(tmp_path / "y.jsonl")] == [b"1", b"2", b"3"]
    hr.write(tmp_path / "y.csv", same, fields={"a": Bytes()})
    assert (tmp_path / "y.csv-files" / "00000002.bin").read_bytes() == b"3"


def test_the_files_of_a_replaced_manifest_go(tmp_path: Path) -> None:
    path, fields = tmp_path / "x.jsonl", {"a": Bytes()}
    (tmp_path / "x.jsonl-files").mkdir()  # of somebody else
    for i in range(3):
        hr.write(path, [(b"%d" % i,)], fields=fields, force=True, annex=False)
        assert hr.open(path)[0].a == b"%d" % i
        assert len(os.listdir(tmp_path)) == 3
    hr.write(tmp_path / "x.csv", [(b"c",)], fields=fields, annex=False)
    hr.write(path, [(1,)], fields={"n": Int()}, force=True, annex=False)
    assert sorted(os.listdir(tmp_path)) == ["x.csv", "x.csv-files", "x.jsonl", "x.jsonl-files"]


def test_folders_of_dead_writers_go(tmp_path: Path) -> None:
    left = tmp_path / ".x-files.0123abcd.unfinished"
    left.mkdir()
    (left / "a").touch()
    alive = FilesFolder(str(tmp_path), "x-files", "x.csv")
    assert not left.exists()
    other = FilesFolder(str(tmp_path), "x-files", "x.csv")
    assert len(os.listdir(tmp_path)) == 2
    alive.abort()
    other.abort()
    assert os.listdir(tmp_path) == []


def test_writers_refuse(tmp_path: Path) -> None:
    for name, field in (("x.csv", Json()), ("x.tsv", NDArray("u1", (1,))), ("x.jsonl", NDArray("c8", (1,)))):
        with pytest.raises(ValueError, match=r"fields\['a'\]"):
            hr.write(tmp_path / name, [(1,)], fields={"a": field})
    with pytest.raises(ValueError, match="__key__"):
        hr.write(tmp_path / "x.csv", [(1,)], fields={"__key__": Int()})
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("ending", ENDINGS)
def test_empty(tmp_path: Path, ending: str) -> None:
    dataset = hr.open(written(tmp_path, ending, 0))
    assert (len(dataset), dict(dataset.schema)) == (0, fields_of(ending))
    assert len(dataset.read_values(np.empty(0, np.int64), "n")) == 0


def _third(dataset: Any) -> Any:
    return dataset[3].n


@pytest.mark.parametrize("ending", ENDINGS)
def test_other_processes_and_threads(tmp_path: Path, ending: str) -> None:
    dataset = hr.open(written(tmp_path, ending))
    assert pickle.loads(pickle.dumps(dataset))[3].n == 0
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(_third, (dataset,)) == 0
    with ThreadPoolExecutor(4) as threads:
        assert [s.n for s in threads.map(lambda i: dataset[i % 12], range(96))] == [i % 12 - 3 for i in range(96)]


@pytest.mark.parametrize("name", ["files.jsonl", "files.csv"])
def test_mutations(tmp_path: Path, name: str) -> None:
    whole, rng = (GOLDEN / name).read_bytes(), random.Random(5)
    (tmp_path / "files").symlink_to(GOLDEN / "files")
    path = tmp_path / name
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.choice((*b'"\n\r,{}[]:0/.\\', 0, 0xFF, rng.randrange(256)))
        path.write_bytes(data[: rng.randrange(len(data))] if rng.random() < 0.3 else data)
        try:
            dataset = hr.open(path, allow_outside=True)
            dataset.verify(decode=True)
            for i in range(len(dataset)):
                _ = dataset[i]
        except HeadraceError:
            pass


def test_huge_files_are_not_read(tmp_path: Path) -> None:
    with open(tmp_path / "x", "wb") as file:
        file.truncate(3 << 30)
    with pytest.raises(ValueError, match="at most"):
        PathFiles(tmp_path, allow_outside=False).read("x")


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
def test_raw_pictures_keep_their_pixels(tmp_path: Path, ending: str) -> None:
    pixels = np.random.default_rng(0).integers(0, 255, (3, 9, 7, 3)).astype(np.uint8)
    fields = {"image": Image(mode="raw")}
    hr.write(tmp_path / "x.beton", [(picture,) for picture in pixels], fields=fields)
    hr.convert(tmp_path / "x.beton", tmp_path / f"y.{ending}")
    hr.convert(tmp_path / f"y.{ending}", tmp_path / "z.msgpack")
    hr.convert(tmp_path / "z.msgpack", tmp_path / "z.beton")
    for name in (f"y.{ending}", "z.msgpack", "z.beton"):
        dataset = hr.open(tmp_path / name)
        assert dict(dataset.schema) == fields
        assert np.array_equal(np.stack([sample.image for sample in dataset]), pixels)
        batch = next(iter(hr.Loader(dataset, 3, pipelines={"image": [ops.CenterCrop(6)]})))
        assert batch.image.shape == (3, 6, 6, 3)


def test_checksums_of_records(tmp_path: Path) -> None:
    path = written(tmp_path, "jsonl")
    dataset = hr.open(path)
    unchecked = dataset.with_checksums(False)
    with open(path, "r+b") as file:
        file.seek(file.read().index(b"-1"))
        file.write(b"-2")
    with pytest.raises(CorruptSampleError, match=r"sample 2.*checksum"):
        _ = dataset[2]
    assert dataset.verify().bad_samples == (2,)
    assert unchecked[2].n == -2
