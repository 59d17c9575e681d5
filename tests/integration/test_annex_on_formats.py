"""``headrace index`` on every format that can be written: checksums, and tile indices of every field with pictures."""

from __future__ import annotations

import json
import pickle
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.helpers import image_file, picture

import headrace as hr
from headrace.cli.main import main
from headrace.errors import CorruptSampleError, FormatError, MissingExtraError
from headrace.formats.open import FORMATS
from headrace.formats.tile_index import write_tile_index

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.formats.contract import Format

COUNT, BAD = 6, 3
LARGE = [image_file(picture(i, 96, 128), "JPEG", quality=90) for i in range(COUNT)]
SMALL = [image_file(picture(50 + i, 72, 88), "JPEG", quality=90) for i in range(COUNT)]
ROWS = list(zip(LARGE, SMALL, [f"text {i}" for i in range(COUNT)], range(COUNT), strict=True))
SHAPES: tuple[tuple[dict[str, Any], list[Any]], ...] = (
    ({"image": hr.Image(), "other": hr.Image(), "text": hr.Text(), "n": hr.Int()}, ROWS),
    ({"image": hr.Image(), "label": hr.Int()}, [(row[0], row[3]) for row in ROWS]),
    ({"image": hr.Image()}, [row[:1] for row in ROWS]),
    ({"x": hr.NDArray("float32", (5,))}, [(np.arange(5, dtype="f4") + i,) for i in range(COUNT)]),
)
WRITABLE = [FORMATS.load(name) for name in FORMATS.names() if FORMATS.load(name).create is not None]
BY_VALUE = {"arrow", "csv", "hdf5", "jsonl", "npy", "npz", "parquet"}
"""Their annexes name a damaged sample however small the file is."""
every_format = pytest.mark.parametrize("format_", WRITABLE, ids=lambda format_: format_.name)


def write(format_: Format, path: Path) -> tuple[dict[str, Any], list[Any]]:
    """As many fields as the format holds, without an annex of the writer."""
    options = {"annex": False} if "annex" in format_.writer_options else {}
    for fields, rows in SHAPES:
        try:
            hr.write(path, rows, fields=fields, workers=1, force=True, **options)
        except MissingExtraError as error:
            pytest.skip(str(error))
        except ValueError:
            continue
        return fields, rows
    raise AssertionError(f"{format_.name} holds none of them")


def open_pictures(path: Path) -> Any:
    dataset = hr.open(path)
    return hr.open(path, decode="image") if dataset.schema.keys() == {"data"} else dataset


@every_format
def test_windows_of_every_picture(format_: Format, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / f"x{format_.suffixes[0]}"
    fields, _ = write(format_, path)
    if "image" not in fields:
        assert format_.name == "npy"
        return
    assert main(["index", str(path), "--quiet"]) == 0
    dataset = open_pictures(path)
    pictures = [name for name, field in dataset.schema.items() if field.kind == "image"]
    count = sum(name in ("image", "other") for name in fields)
    assert dataset.jpegs_indexed == count * COUNT
    assert main(["info", str(path), "--json"]) == 0
    about = json.loads(capsys.readouterr().out)
    assert (about.get("jpeg_index") or about)["jpegs_indexed"] == count * COUNT
    for name in pictures:
        spans = dataset.image_spans(np.arange(len(dataset)), name)
        assert spans.tile_indices is not None
        assert spans.tile_indices[2].all()
    pipelines: Any = {name: [hr.ops.RandomResizedCrop(24)] if name in pictures else None for name in dataset.schema}
    loader = hr.Loader(dataset, len(dataset), pipelines=pipelines, seed=3)
    whole = hr.Loader(dataset, len(dataset), pipelines=pipelines, seed=3, jpeg="libjpeg")
    for name in pictures:
        np.testing.assert_array_equal(loader[0][name], whole[0][name])
    stats = loader.stats.jpegs
    assert stats["window"] in (count * COUNT, 2 * count * COUNT)  # once for each batch that was drawn
    assert stats["indices_rejected"] == stats["window_without_index"] == 0
    assert f"JPEGs: {count * COUNT} tile indices" in loader.plan().splitlines()


def damage(folder: Path, value: bytes) -> bool:
    """Flip a bit of a value, wherever that lies as it is."""
    for file in sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".annex"):
        data = bytearray(file.read_bytes())
        place = data.find(value)
        if place >= 0:
            data[place + len(value) * 2 // 3] ^= 4
            file.write_bytes(data)
            return True
    return False


@every_format
def test_damage_is_named(format_: Format, tmp_path: Path) -> None:
    path = tmp_path / f"x{format_.suffixes[0]}"
    fields, rows = write(format_, path)
    hr.index(path)
    assert hr.verify(path).ok
    in_files = sum(field.kind == "image" for field in fields.values())
    values = 1 + in_files if format_.name in ("csv", "jsonl") else len(fields) if format_.name in BY_VALUE else 1
    assert hr.verify(path).checksums_checked >= COUNT * values
    assert hr.open(path).has_checksums or format_.open_archive is not None  # an archive has its own
    value = rows[BAD][0]
    if format_.name != "parquet":
        assert damage(tmp_path, value if isinstance(value, bytes) else value.tobytes())
    else:  # whose pages have checksums of their own: the value is written again
        changed = (image_file(picture(9, 96, 128), "JPEG"), *rows[BAD][1:])
        hr.write(path, [*rows[:BAD], changed, *rows[BAD + 1 :]], fields=fields, workers=1, force=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # that the annex does not fit any more
        report = hr.verify(path)
    if format_.name in BY_VALUE:
        with pytest.raises(FormatError, match="do not fit 1 sample"):  # that would hide it
            hr.index(path)
        assert report.bad_samples == (BAD,)
        assert {problem.field for problem in report.problems if problem.sample == BAD} == {
            "data" if format_.name == "npy" else "image"
        }
    else:
        is_named = report.bad_samples == (BAD,) or format_.open_archive is not None
        assert is_named or any("annex is not used" in problem.message for problem in report.problems)
        assert not report.ok


@pytest.mark.parametrize("name", ["csv", "jsonl"])
def test_a_replaced_picture_is_decoded_without_its_index(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"x.{name}"
    write(FORMATS.load(name), path)
    hr.index(path)
    file = next(file for file in tmp_path.rglob("*") if file.is_file() and file.read_bytes() == LARGE[BAD])
    other = bytearray(LARGE[BAD])  # of the same size and the same header: only the checksum tells
    other[len(other) * 2 // 3] ^= 4
    file.write_bytes(other)
    pipelines: Any = {"image": [hr.ops.CenterCrop(24)], "other": None, "text": None, "n": None}
    loader = hr.Loader(path, COUNT, pipelines=pipelines)
    with pytest.warns(RuntimeWarning, match=f"sample {BAD}, field 'image': the index of the JPEG is not used"):
        found = loader[0].image
    assert loader.stats.jpegs["indices_rejected"] == 1
    np.testing.assert_array_equal(found, hr.Loader(path, COUNT, pipelines=pipelines, jpeg="libjpeg")[0].image)
    (problem,) = hr.verify(path).problems
    assert (problem.sample, problem.field) == (BAD, "image")
    assert "is not the one that the annex describes" in problem.message
    assert "headrace index --fresh" in problem.message
    with pytest.raises(CorruptSampleError, match="is not the one that the annex describes"):
        hr.Loader(path, COUNT, pipelines=pipelines, verify=True)[0]
    with pytest.raises(FormatError, match="do not fit 1 sample"):
        hr.index(path)
    hr.index(path, fresh=True)
    assert hr.verify(path).ok
    assert pickle.loads(pickle.dumps(hr.open(path).with_checksums(True)))[BAD].n == BAD


@pytest.mark.parametrize("name", ["arrow", "hdf5", "npz"])
def test_checksums_follow_into_other_processes(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"x.{FORMATS.load(name).suffixes[0][1:]}"
    write(FORMATS.load(name), path)
    hr.index(path)
    dataset = pickle.loads(pickle.dumps(hr.open(path).with_checksums(True)))
    assert dataset.with_checksums(True) is dataset
    assert [sample.text for sample in dataset] == [row[2] for row in ROWS]
    numbers = np.arange(COUNT)
    assert dataset.read_ragged(numbers, "text").values.tobytes() == b"".join(row[2].encode() for row in ROWS)
    assert dataset.read_bytes(numbers, "other") == SMALL


def test_an_annex_of_tile_indices_alone_is_still_used(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    write(FORMATS.load("npz"), path)
    with hr.open(path) as dataset:
        facts, files = dataset.side_facts, {"image": LARGE}
    write_tile_index(facts, lambda start, stop: files["image"][start:stop])
    with hr.open(path) as dataset:
        assert not dataset.has_checksums
        assert dataset.jpegs_indexed == COUNT
        assert dataset.image_spans(np.arange(COUNT), "image").tile_indices is not None
        assert dataset.image_spans(np.arange(COUNT), "other").tile_indices is None
        assert dataset.verify().ok


def test_without_tile_indices(tmp_path: Path) -> None:
    for name in ("npz", "jsonl"):
        path = tmp_path / f"x.{name}"
        write(FORMATS.load(name), path)
        hr.index(path, jpeg_index=False)
        with hr.open(path) as dataset:
            assert (dataset.has_checksums, dataset.jpegs_indexed) == (True, 0)


@pytest.mark.parametrize("name", sorted(BY_VALUE))
def test_a_loader_compares_what_it_reads(name: str, tmp_path: Path) -> None:
    format_ = FORMATS.load(name)
    path = tmp_path / f"x{format_.suffixes[0]}"
    fields, _ = write(format_, path)
    with pytest.raises(ValueError, match="has no checksums"):
        hr.Loader(path, 2, verify=True)
    hr.index(path)
    pipelines: Any = {field: [hr.ops.Resize(8)] for field, kind in fields.items() if kind.kind == "image"}
    batches = list(hr.Loader(path, 2, verify=True, pipelines=pipelines))
    assert len(batches) == COUNT // 2
    plain = list(hr.Loader(path, 2, verify=False, pipelines=pipelines))
    for checked, other in zip(batches, plain, strict=True):
        for field in checked.keys():  # noqa: SIM118  # a batch is a row of values
            np.testing.assert_array_equal(checked[field], other[field])
