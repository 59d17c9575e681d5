"""What formats of spans share, on a made-up one: each sample is a line, its bytes up to the first space its name."""

from __future__ import annotations

import multiprocessing
import os
import pickle
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import headrace as hr
from headrace.codecs import jpeg
from headrace.errors import ClosedError, CorruptSampleError, FormatError
from headrace.fields import Bytes, Image
from headrace.formats.spans import IndexedFile, SampleIndex, SpanDataset, SpanFile, index_spans, indexed_file
from headrace.types import Dataset, missing_members

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.types import Field, Progress

SEPARATOR = b"\n--\n"


def scan(file: SpanFile, progress: Progress | None) -> SampleIndex:
    rows, names, at = [], [], 0
    for part in file.mapped.tobytes().split(SEPARATOR):
        name, _, value = part.partition(b" ")
        if not name:
            raise FormatError(file.path, offset=at, problem="a line has no name")
        rows.append((at + len(name) + 1, len(value)))
        names.append(name.decode())
        at += len(part) + len(SEPARATOR)
    table = np.array(rows, np.uint64)
    return SampleIndex(columns=("value",), offsets=table[:, :1], sizes=table[:, 1:], names=names, facts={"x": 1})


class Lines(SpanDataset):
    def __init__(
        self, path: Any, *, image: bool = False, checksums: bool = True, cold: bool | None = None, **options: Any
    ):
        indexed = IndexedFile(path, format_name="lines", scan=scan, cold=cold, **options)
        field: Field = Image() if image else Bytes()
        keep = {"image": image, "checksums": checksums, "cold": cold, **options}
        super().__init__(indexed, schema={"value": field}, options=keep)


def make(path: Path, values: list[bytes]) -> Path:
    path.write_bytes(SEPARATOR.join(b"n%d %s" % (i, value) for i, value in enumerate(values)))
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return make(tmp_path / "x.lines", [b"a" * i for i in range(50)])


@pytest.mark.parametrize("cold", [True, False, None])
def test_reads_by_number_and_name(path: Path, cold: bool | None) -> None:
    dataset = Lines(path, cold=cold)
    assert not missing_members(dataset, Dataset)
    assert [len(s.value) for s in dataset[[3, -1, 0]]] == [3, 49, 0]
    assert dataset["n7"].value == b"a" * 7
    ragged = dataset.read_ragged(np.array([2, 4]), "value")
    assert (ragged.values.tobytes(), ragged.offsets.tolist()) == (b"a" * 6, [0, 2, 6])
    assert dataset.rows(np.array([5])) == [{"value": "5B"}]


def test_an_annex_has_all(path: Path) -> None:
    assert not Lines(path).has_checksums
    index_spans(Lines, path)
    dataset = Lines(path)
    assert dataset.has_checksums
    assert list(dataset.keys or ()) == [f"n{i}" for i in range(50)]
    assert dataset.indexed.index.facts == {"x": 1}
    report = dataset.verify()
    assert (report.ok, report.checksums_checked) == (True, 50)
    assert dataset.with_checksums(False)[3].value == b"aaa"


def test_damage_is_found_by_the_checksum(path: Path) -> None:
    index_spans(Lines, path)
    dataset = Lines(path)
    with open(path, "r+b") as file:
        file.seek(int(dataset.indexed.index.offsets[9, 0]) + 2)
        file.write(b"X")
    with pytest.raises(CorruptSampleError, match=r"sample 9, field 'value'.*checksum"):
        _ = dataset[9]
    assert dataset.verify().bad_samples == (9,)


def test_an_annex_of_another_content_is_not_used(path: Path) -> None:
    index_spans(Lines, path)
    make(path, [b"b" * i for i in range(50)])
    with pytest.warns(RuntimeWarning, match=r"is not used.*headrace index --fresh"):
        dataset = Lines(path)
    assert dataset[3].value == b"bbb"
    index_spans(partial(Lines), path, fresh=True)
    assert Lines(path)[3].value == b"bbb"


def test_the_index_of_a_large_file_is_kept(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexed_file, "_WORTH_KEEPING_BYTES", 0)
    Lines(path, keep_index=False)
    Lines(path, annex=False)
    assert os.listdir(path.parent) == ["x.lines"]
    Lines(path)
    assert sorted(os.listdir(path.parent)) == ["x.lines", "x.lines.annex"]
    monkeypatch.setattr("tests.unit.formats.test_spans.scan", None, raising=False)
    assert Lines(path)["n4"].value == b"aaaa"


def test_a_folder_that_cannot_be_written_to(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexed_file, "_WORTH_KEEPING_BYTES", 0)

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "no")

    monkeypatch.setattr(indexed_file, "new_side", refuse)
    assert Lines(path)["n4"].value == b"aaaa"


@pytest.mark.parametrize("where", range(0, 700, 23))
def test_a_flipped_bit_of_the_annex_is_noticed_or_harmless(path: Path, where: int) -> None:
    annex = index_spans(Lines, path)
    with open(annex, "r+b") as file:
        at = where * os.path.getsize(annex) // 700
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 16]))
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            dataset = Lines(path)
            assert [len(s.value) for s in dataset] == list(range(50))
        except FormatError:  # checksums and names are read when they are asked for
            pass


def test_jpegs_are_loaded_by_their_tile_index(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    pictures = [jpeg.encode(rng.integers(0, 255, (150, 200, 3)).astype(np.uint8)) for _ in range(6)]
    path = make(tmp_path / "p.lines", pictures)
    index_spans(partial(Lines, image=True), path)
    dataset = Lines(path, image=True)
    spans = dataset.image_spans(np.array([4, 1]), "value")
    assert spans.tile_indices is not None
    assert spans.tile_indices[2].all()
    assert spans.widths.tolist() == [200, 200]
    hr.write(tmp_path / "p.beton", [(p,) for p in pictures], fields={"value": Image()})
    from headrace import ops

    batches = [
        next(iter(hr.Loader(d, 6, order="random", pipelines={"value": [ops.RandomResizedCrop(32)]}))).value
        for d in (dataset, hr.open(tmp_path / "p.beton"))
    ]
    assert np.array_equal(*batches)
    assert dataset.verify(decode=True).images_decoded == 6


def _third(dataset: Lines) -> bytes:
    return bytes(dataset[3].value)


def test_other_processes(path: Path) -> None:
    dataset = Lines(path)
    assert pickle.loads(pickle.dumps(dataset))[3].value == b"aaa"
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(_third, (dataset,)) == b"aaa"


def test_closed(path: Path) -> None:
    with Lines(path) as dataset:
        pass
    with pytest.raises(ClosedError):
        _ = dataset[0]


def test_what_has_no_annex_inside(path: Path) -> None:
    with pytest.raises(ValueError, match="lies beside"):
        index_spans(Lines, path, embed=True)
    with pytest.raises(ValueError, match="names has 1 entry"):
        index_spans(Lines, path, names=["a"])
