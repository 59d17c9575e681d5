"""RecordIO files: headers of MXNet, keys, split records, what is damaged, what is hostile."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import shutil
import struct
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import headrace as hr
from headrace.errors import CorruptSampleError, FormatError, HeadraceError, WriteError
from headrace.types import Dataset, missing_members

if TYPE_CHECKING:
    from headrace.formats.recordio import RecordioDataset

GOLDEN = Path(__file__).parents[2] / "golden" / "formats"
TRUTH = [json.loads(str(text)) for text in np.load(GOLDEN / "truth.npy")]
JPEGS = [(GOLDEN / "truth" / f"{one['key']}.jpg").read_bytes() for one in TRUTH]
MAGIC = struct.pack("<I", 0xCED7230A)


def part(data: bytes, flag: int = 0) -> bytes:
    return MAGIC + struct.pack("<I", flag << 29 | len(data)) + data + bytes(-len(data) % 4)


def header(label: float | list[float], number: int = 0, id2: int = 0) -> bytes:
    if isinstance(label, list):
        return struct.pack("<IfQQ", len(label), 0, number, id2) + struct.pack(f"<{len(label)}f", *label)
    return struct.pack("<IfQQ", 0, label, number, id2)


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    for name in ("images.rec", "images.idx"):
        shutil.copy(GOLDEN / name, tmp_path / name)
    return tmp_path / "images.rec"


@pytest.mark.parametrize("has_keys", [True, False])
def test_golden(golden: Path, has_keys: bool) -> None:
    if not has_keys:
        (golden.parent / "images.idx").unlink()
    dataset = hr.open(golden)
    assert not missing_members(dataset, Dataset)
    assert [one.kind for one in dataset.schema.values()] == ["image", "json", "int"]
    assert dataset.keys is None
    for i, (sample, truth) in enumerate(zip(dataset, TRUTH, strict=True)):
        (stored,) = dataset.read_bytes([i], "image")
        assert stored == JPEGS[i] if i != 3 else stored.startswith(JPEGS[3]) and stored.endswith(MAGIC + b"tail")
        assert sample.label == (truth["box"] if i in (5, 11, 17) else truth["label"])
        assert sample.id == i
    assert dataset.image_spans(np.array([2, 3, 4]), "image").widths.all()
    assert dataset.read_ragged(np.array([3]), "image").values.tobytes() == dataset.read_bytes([3], "image")[0]
    report = dataset.verify(decode=True)
    assert (report.ok, report.images_decoded) == (True, 20)


@pytest.mark.parametrize(
    ("label", "values"),
    [
        (hr.Int(), [3, -1, 2**24]),
        (hr.Float(), [0.5, 1.0, -2.0]),
        (hr.NDArray("float32", (2, 2)), [np.float32([[1, 2], [3, 4]])] * 3),
        (hr.Json(), [1.0, [1.0, 2.0], 3.0]),
    ],
)
def test_round_trip(tmp_path: Path, label: Any, values: list[Any]) -> None:
    path = tmp_path / "x.rec"
    rows = [(JPEGS[i] + MAGIC * (i % 2) * 4, value, 100 + i) for i, value in enumerate(values)]
    fields = {"picture": hr.Image(), "label": label, "id": hr.Int()}
    hr.write(path, rows, fields=fields, names=["p", "q", "r"], class_names={"label": ["a"]}, metadata=[1])
    assert sorted(os.listdir(tmp_path)) == ["x.idx", "x.rec", "x.rec.annex"]
    dataset = hr.open(path)
    assert dict(dataset.schema) == fields
    assert (list(dataset.keys or ()), dataset.class_names) == (["p", "q", "r"], {"label": ["a"]})
    assert dataset.metadata == [1]  # type: ignore[attr-defined]
    assert dataset.read_bytes([0, 1, 2], "picture") == [row[0] for row in rows]
    for sample, (_, value, number) in zip(dataset, rows, strict=True):
        assert np.array_equal(sample.label, value)
        assert sample.id == number
    assert dataset.verify(decode=True).ok
    alone = hr.open(path, annex=False)
    assert list(alone.schema) == ["image", "label", "id"]
    assert np.array_equal(np.ravel(alone[2].label), np.ravel(values[2]))


def test_bytes_alone_have_no_header(tmp_path: Path) -> None:
    values = [b"", bytes(40), b"abc" + MAGIC, MAGIC, MAGIC * 3 + b"x", b"1234" + MAGIC + b"56"]
    hr.write(tmp_path / "x.rec", [(value,) for value in values], fields={"data": hr.Bytes()})
    for dataset in (hr.open(tmp_path / "x.rec"), hr.open(tmp_path / "x.rec", annex=False, headers=False)):
        assert [sample.data for sample in dataset] == values
    assert list(hr.open(tmp_path / "x.rec", annex=False).schema) == ["data"]
    texts = [(f'{{"a": {i}}}', i) for i in range(3)]
    hr.write(tmp_path / "t.rec", texts, fields={"text": hr.Text(), "label": hr.Int()})
    assert [tuple(sample) for sample in hr.open(tmp_path / "t.rec")] == texts
    assert hr.open(tmp_path / "t.rec", annex=False, decode="json")[1].data == {"a": 1}


def test_empty(tmp_path: Path) -> None:
    hr.write(tmp_path / "x.rec", [], fields={"image": hr.Image(), "label": hr.Int()})
    dataset = hr.open(tmp_path / "x.rec")
    assert (len(dataset), list(dataset.schema)) == (0, ["image", "label"])
    assert dataset[:] == []
    assert len(hr.open(tmp_path / "x.rec", annex=False)) == 0


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"a": hr.Image(), "b": hr.Bytes()}, "holds one field of bytes"),
        ({"label": hr.Int()}, "holds one field of bytes"),
        ({"x": hr.Json()}, "holds one field of bytes"),
        ({"image": hr.Image(), "label": hr.NDArray("int64", (2,))}, "an Int, a Float or float32"),
        ({"image": hr.Image(), "id": hr.Float()}, "the id of a .rec is an Int"),
    ],
)
def test_fields_that_have_no_place(tmp_path: Path, fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        hr.write(tmp_path / "x.rec", [], fields=fields)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("label", "value"),
    [(hr.Int(), 2**24 + 1), (hr.Float(), 1e300), (hr.Json(), []), (hr.Json(), "a"), (hr.Json(), [[1]])],
)
def test_labels_that_float32_cannot_hold(tmp_path: Path, label: Any, value: Any) -> None:
    with pytest.raises(WriteError, match="sample 0"):
        hr.write(tmp_path / "x.rec", [(b"x", value)], fields={"data": hr.Bytes(), "label": label})
    with pytest.raises(WriteError, match="id must be from 0"):
        hr.write(tmp_path / "x.rec", [(b"x", -1)], fields={"data": hr.Bytes(), "id": hr.Int()})
    assert os.listdir(tmp_path) == []


def test_keys_give_order_and_names(golden: Path) -> None:
    lines = (golden.parent / "images.idx").read_text().splitlines()
    chosen = [f"{100 + i}\t{lines[i].split()[1]}" for i in (7, 3, 19)]
    (golden.parent / "images.idx").write_text("\n".join(chosen))
    dataset = hr.open(golden)
    assert list(dataset.keys or ()) == ["107", "103", "119"]
    assert dataset["103"].id == 3
    assert [sample.id for sample in dataset] == [7, 3, 19]
    hr.index(golden)
    assert [sample.id for sample in hr.open(golden)] == [7, 3, 19]
    (golden.parent / "images.idx").write_text(chosen[2])  # the annex is of other keys
    assert [sample.id for sample in hr.open(golden)] == [19]
    assert [sample.id for sample in hr.open(golden, keys=False)] == list(range(20))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("0\t4", "no record begins at byte 4, though line 1 says so"),
        ("0\t99999999999", "no record begins"),
        ("0\t0\n0\t1816", "a key stands there twice"),
        ("nothing", "line 1 is not a key"),
        ("0\t-5", "line 1 is not a key"),
        ("0\t99999999999999999999999", "line 1 is not a key"),
    ],
)
def test_keys_that_do_not_fit_are_not_used(golden: Path, text: str, problem: str) -> None:
    (golden.parent / "images.idx").write_text(text)
    with pytest.warns(RuntimeWarning, match=f"images.idx is not used: .*{problem}"):
        dataset = hr.open(golden)
    assert len(dataset) == 20


def test_a_link_in_place_of_the_keys_is_followed_only_if_asked_for(golden: Path) -> None:
    keys = golden.parent / "images.idx"
    (golden.parent / "elsewhere").write_text(keys.read_text().splitlines()[4])
    keys.unlink()
    keys.symlink_to("elsewhere")
    with pytest.warns(RuntimeWarning, match="symbolic link"):
        assert len(hr.open(golden)) == 20
    assert [sample.id for sample in hr.open(golden, follow_links=True)] == [4]


def test_fields_and_labels(tmp_path: Path) -> None:
    path = tmp_path / "x.rec"
    path.write_bytes(part(header(2) + b"[1]") + part(header(3) + b"[2]"))
    assert hr.open(path)[1].label == 3
    sample = hr.open(path, fields={"label": hr.Float(), "data": hr.Json()})[1]
    assert (sample.label, sample.data) == (3.0, [2])
    assert hr.open(path, fields={"label": hr.Json()})[1].label == 3
    with pytest.raises(ValueError, match="the label cannot be Text"):
        hr.open(path, fields={"label": hr.Text()})
    path.write_bytes(part(header([1, 2, 3, 4]) + b"x") * 2)
    assert hr.open(path)[0].label.tolist() == [1, 2, 3, 4]
    assert hr.open(path, fields={"label": hr.NDArray("float32", (2, 2))})[0].label.shape == (2, 2)
    assert hr.open(path, fields={"label": hr.Json()})[0].label == [1, 2, 3, 4]
    path.write_bytes(part(header(0.5) + b"x"))
    assert hr.open(path)[0].label == 0.5
    path.write_bytes(part(header(1, 2**64 - 1) + b"x"))
    with pytest.raises(CorruptSampleError, match="more than 63 bits"):
        _ = hr.open(path)[0]


def test_split_records_of_any_shape(tmp_path: Path) -> None:
    number = int.from_bytes(MAGIC * 2, "little")  # the header itself holds the magic number
    data = header(1, number % 2**63) + b"content"
    path = tmp_path / "x.rec"
    at = data.index(MAGIC)
    second = data.index(MAGIC, at + 4) if MAGIC in data[at + 4 :] else None
    pieces = [data[:at], *([data[at + 4 : second], data[second + 4 :]] if second else [data[at + 4 :]])]
    flags = [1, *[2] * (len(pieces) - 2), 3]
    path.write_bytes(b"".join(map(part, pieces, flags)) + part(header(2, 5) + b"more"))
    dataset = hr.open(path)
    assert [(s.data, s.label, s.id) for s in dataset] == [(b"content", 1, number % 2**63), (b"more", 2, 5)]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"\x0a\x23", "begins with 8 bytes"),
        (part(b"abc")[:9], "a part of 3 bytes is announced"),
        (MAGIC + struct.pack("<I", 2**29 - 1), "is announced"),
        (b"nothing at all", "begins with 0xced7230a"),
        (part(b"abc", 2), "a later part of a record"),
        (part(b"abc", 1) + part(b"abc", 0), "before the last part"),
        (part(b"abc", 1), "begins with 8 bytes"),
        (part(b"abc", 5), "a later part of a record"),
    ],
)
def test_damage(tmp_path: Path, data: bytes, problem: str) -> None:
    (tmp_path / "x.rec").write_bytes(part(b"good") + data)
    with pytest.raises(FormatError, match=rf"(?i){problem}.*\(at byte"):
        hr.open(tmp_path / "x.rec")


def test_annex_finds_damage(golden: Path) -> None:
    hr.index(golden)
    dataset = hr.open(golden)
    assert dataset.has_checksums
    assert dataset.image_spans(np.array([4, 1]), "image").tile_indices is not None
    with open(golden, "r+b") as file:
        file.seek(int(dataset.indexed.index.offsets[9, 1]) + 200)  # type: ignore[attr-defined]
        file.write(b"XX")
    with pytest.raises(CorruptSampleError, match="sample 9, field 'image'"):
        _ = dataset[9]
    assert dataset.verify().bad_samples == (9,)


def test_headers_of_records_that_have_none(tmp_path: Path) -> None:
    (tmp_path / "x.rec").write_bytes(part(b"short"))
    with pytest.raises(FormatError, match="do not begin as MXNet's do"):
        hr.open(tmp_path / "x.rec", headers=True)
    (tmp_path / "x.rec").write_bytes(part(header(1, 2, 3) + b"x"))
    assert list(hr.open(tmp_path / "x.rec").schema) == ["data"]
    assert list(hr.open(tmp_path / "x.rec", headers=True).schema) == ["data", "label", "id"]


def _label(dataset: RecordioDataset) -> Any:
    return dataset[3].label


def test_threads_and_processes(golden: Path) -> None:
    dataset = hr.open(golden)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda i: dataset[i % 20].id, range(100))) == [i % 20 for i in range(100)]
    assert pickle.loads(pickle.dumps(dataset))[3].label == TRUTH[3]["label"]
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(_label, (dataset,)) == TRUTH[3]["label"]


def test_no_mutation_brings_anything_but_an_error(tmp_path: Path) -> None:
    good = b"".join(part(header([1, 2] if i == 1 else i, i) + JPEGS[i][:300]) for i in range(3))
    good += part(b"ab", 1) + part(b"cd", 2) + part(b"ef", 3)
    rng = np.random.default_rng(0)
    path = tmp_path / "x.rec"
    keys = tmp_path / "x.idx"
    warnings.simplefilter("ignore", RuntimeWarning)
    for turn in range(300):
        data = bytearray(good)
        for _ in range(rng.integers(1, 4)):
            at = rng.integers(len(data)) if turn % 3 else rng.choice([0, 4, 7, 8, 9, 11])
            data[at] = rng.integers(256)
        path.write_bytes(data[: rng.integers(len(data))] if turn % 4 == 0 else data)
        line = bytearray(b"0\t0\n1\t344\n")
        line[rng.integers(len(line))] = rng.integers(256)
        keys.write_bytes(line)
        try:
            dataset = hr.open(path, headers=[None, False, True][turn % 3])
            dataset.verify(decode=True)
            _ = dataset[:]
        except HeadraceError:
            pass
