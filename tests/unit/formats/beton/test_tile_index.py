"""Indices of JPEGs in the annex of a .beton: written with the file or added to it, and read back."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.conftest import GOLDEN_NAMES
from tests.helpers import Indexable, Surgeon, image_file, picture, sections_of

import headrace as hr
from headrace.annex import Annex, TileIndex, read_tile_index, tile_index_section, write_annex
from headrace.cli.main import main
from headrace.codecs import jpeg
from headrace.errors import AnnexError, ClosedError, ImageError
from headrace.formats.beton.index import _put_beside
from headrace.storage import LocalFile

if TYPE_CHECKING:
    from pathlib import Path

FIELDS = {"image": hr.Image(), "label": hr.Int()}
BASELINE = [image_file(picture(i, 40 + 9 * i, 150 - 7 * i), "JPEG", subsampling=i % 3) for i in range(9)]
PROGRESSIVE = image_file(picture(1, 50, 60), "JPEG", progressive=True)
NAMES = [f"n{i}" for i in range(9)]


def index_of(data: bytes) -> bytes:
    try:
        return jpeg.index(data)
    except ImageError:
        return b""


def write(path: Path, files: list[Any], **options: Any) -> Path:
    options = {"fields": FIELDS, "page_size": 1 << 21} | options
    hr.write(path, [(file, i) for i, file in enumerate(files)], **options)
    return path


def entries(path: Path, field: str = "image") -> list[bytes] | None:
    """The packed index of every sample, as the loader gets it."""
    with hr.open(path) as dataset:
        indices = np.arange(len(dataset), dtype=np.int64)
        located = dataset.image_spans(indices, field).tile_indices
    if located is None:
        return None
    packed, starts, sizes = located
    return [packed[a : a + n].tobytes() for a, n in zip(starts.tolist(), sizes.tolist(), strict=True)]


def stored_entries(path: Path, field: str = "image") -> list[bytes]:
    """What they must be: made anew from the stored bytes."""
    with hr.open(path) as dataset:
        return [index_of(data) for data in dataset.read_bytes(range(len(dataset)), field)]


# -- written with the file ---------------------------------------------------------------------------------------


def test_every_jpeg_has_the_index_of_its_bytes(tmp_path: Path) -> None:
    path = write(tmp_path / "x.beton", [*BASELINE[:4], PROGRESSIVE, *BASELINE[4:]])
    assert entries(path) == [index_of(data) for data in [*BASELINE[:4], PROGRESSIVE, *BASELINE[4:]]]
    assert (entries(path) or [])[4] == b""
    with hr.open(path) as dataset:
        assert dataset.tile_index is not None
        assert dataset.tile_index.count == 9
        assert dataset.verify(decode=True).ok


def test_bytes_of_the_section(tmp_path: Path) -> None:
    path = write(tmp_path / "x.beton", [BASELINE[0], PROGRESSIVE, BASELINE[1]])
    start, size = sections_of(path)["jpeg_tiles"]
    section = path.read_bytes()[start : start + size]
    one, two = jpeg.index(BASELINE[0]), jpeg.index(BASELINE[1])
    offsets = np.array([0, len(one), len(one), len(one) + len(two)], "<u8")
    assert section == bytes([1, 0, 0, 0, 0, 0, 0, 0]) + offsets.tobytes() + one + two


def test_an_index_is_small(tmp_path: Path) -> None:
    data = image_file(picture(1, 375, 500), "JPEG", quality=95, subsampling=0)
    assert len(jpeg.index(data)) < 0.02 * len(data)


def test_pictures_that_are_encoded_get_one(tmp_path: Path) -> None:
    field = hr.Image(max_side=40, quality=80)
    files = [*BASELINE[:3], PROGRESSIVE, picture(3, 50, 70), image_file(picture(4, 33, 44), "PNG")]
    path = write(tmp_path / "x.beton", files, fields={"image": field, "label": hr.Int()})
    found = entries(path)
    assert found == stored_entries(path)
    assert all(found)


def test_raw_pictures_have_none(tmp_path: Path) -> None:
    raw = write(tmp_path / "raw.beton", BASELINE, fields={"image": hr.Image(mode="raw"), "label": hr.Int()})
    assert entries(raw) is None
    assert "jpeg_tiles" not in sections_of(raw)
    mixed = hr.Image(mode="smart", smart_threshold=20_000)
    path = write(tmp_path / "mixed.beton", BASELINE, fields={"image": mixed, "label": hr.Int()})
    with hr.open(path) as dataset:
        is_jpg = dataset.image_facts("image")["mode"] == 0
    assert 0 < is_jpg.sum() < 9
    assert [bool(entry) for entry in entries(path) or ()] == is_jpg.tolist()


@pytest.mark.parametrize(
    ("files", "options"),
    [(BASELINE, {"jpeg_index": False}), (BASELINE, {"annex": False}), ([PROGRESSIVE] * 2, {})],
)
def test_files_without(tmp_path: Path, files: list[bytes], options: dict[str, bool]) -> None:
    path = write(tmp_path / "x.beton", files, **options)
    assert entries(path) is None
    assert hr.open(path).tile_index is None
    assert options.get("annex") is False or "jpeg_tiles" not in sections_of(path)


def test_files_without_pictures(tmp_path: Path) -> None:
    hr.write(tmp_path / "x.beton", [(1,), (2,)], fields={"n": hr.Int()})
    assert hr.open(tmp_path / "x.beton").tile_index is None


def test_the_jpegs_are_the_same_with_and_without(tmp_path: Path) -> None:
    one, two = write(tmp_path / "1.beton", BASELINE), write(tmp_path / "2.beton", BASELINE, jpeg_index=False)
    assert hr.open(one).read_bytes(range(9), "image") == hr.open(two).read_bytes(range(9), "image") == BASELINE


@pytest.mark.parametrize("kind", ["thread", "process"])
def test_the_file_is_the_same_for_any_number_of_workers(tmp_path: Path, kind: Any) -> None:
    samples = Indexable([(BASELINE[i % 9], i) for i in range(60)])
    found = set()
    for workers in (0, 1, 2, 7):
        path = tmp_path / f"{workers}.beton"
        hr.write(path, samples, fields=FIELDS, page_size=1 << 21, workers=workers, worker_kind=kind)
        found.add(path.read_bytes())
    assert len(found) == 1
    assert entries(tmp_path / "7.beton") == [jpeg.index(BASELINE[i % 9]) for i in range(60)]


def test_one_sample_after_the_other(tmp_path: Path) -> None:
    path = tmp_path / "x.beton"
    with hr.BetonWriter(path, FIELDS, page_size=1 << 21) as writer:
        for i in range(300):
            writer.append((BASELINE[i % 9] if i % 5 else PROGRESSIVE, i))
    assert entries(path) == stored_entries(path)


def test_two_fields(tmp_path: Path) -> None:
    fields = {"a": hr.Image(), "raw": hr.Image(mode="raw"), "n": hr.Int(), "b": hr.Image()}
    samples = [(BASELINE[i], picture(i, 8, 8), i, BASELINE[-i - 1]) for i in range(9)]
    hr.write(tmp_path / "x.beton", samples, fields=fields, page_size=1 << 21)
    assert entries(tmp_path / "x.beton", "a") == [jpeg.index(data) for data in BASELINE]
    assert entries(tmp_path / "x.beton", "raw") == [b""] * 9
    assert entries(tmp_path / "x.beton", "b") == [jpeg.index(data) for data in BASELINE[::-1]]
    hr.index(tmp_path / "x.beton", embed=True)
    assert entries(tmp_path / "x.beton", "raw") == [b""] * 9
    assert entries(tmp_path / "x.beton", "b") == [jpeg.index(data) for data in BASELINE[::-1]]


@pytest.mark.parametrize("has_index", [True, False])
def test_copies_of_a_dataset_have_them(tmp_path: Path, has_index: bool) -> None:
    source = hr.open(write(tmp_path / "x.beton", BASELINE, names=NAMES, jpeg_index=has_index))
    hr.write(tmp_path / "y.beton", source, page_size=1 << 21)
    assert entries(tmp_path / "y.beton") == [jpeg.index(data) for data in BASELINE]
    assert list(hr.open(tmp_path / "y.beton").keys or ()) == NAMES
    hr.write(tmp_path / "z.beton", source, indices=[5, 5, 2], shuffle_seed=1, page_size=1 << 21)
    assert entries(tmp_path / "z.beton") == stored_entries(tmp_path / "z.beton")
    hr.write(tmp_path / "n.beton", source, page_size=1 << 21, jpeg_index=False)
    assert entries(tmp_path / "n.beton") is None


def test_damaged_jpegs_are_written_and_have_none(tmp_path: Path) -> None:
    cut = bytearray(BASELINE[2])
    cut[len(cut) // 2 : len(cut) // 2 + 2] = b"\xff\xd9"
    path = write(tmp_path / "x.beton", [BASELINE[0], bytes(cut)])
    assert entries(path) == [jpeg.index(BASELINE[0]), b""]


# -- added to a file -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("embed", [True, False])
def test_index_adds_them_to_a_file_without_an_annex(tmp_path: Path, embed: bool) -> None:
    path = write(tmp_path / "x.beton", [*BASELINE, PROGRESSIVE], annex=False)
    hr.index(path, embed=embed)
    assert (tmp_path / "x.beton.annex").exists() != embed
    assert entries(path) == [*(jpeg.index(data) for data in BASELINE), b""]
    assert hr.verify(path).ok


@pytest.mark.parametrize("was_beside", [True, False])
def test_index_keeps_what_is_known(tmp_path: Path, was_beside: bool) -> None:
    about: dict[str, Any] = {"names": NAMES, "class_names": {"label": ["a", "b"]}, "metadata": {"k": 1}}
    path = write(tmp_path / "x.beton", BASELINE, jpeg_index=False, **({"annex": False} if was_beside else about))
    if was_beside:
        hr.index(path, jpeg_index=False, **about)
    assert entries(path) is None
    hr.index(path, embed=not was_beside)
    assert entries(path) == [jpeg.index(data) for data in BASELINE]
    dataset = hr.open(path)
    assert list(dataset.keys or ()) == NAMES
    assert (dataset.class_names, dataset.metadata) == ({"label": ["a", "b"]}, {"k": 1})


def test_index_leaves_them_out(tmp_path: Path) -> None:
    path = write(tmp_path / "x.beton", BASELINE, names=NAMES)
    hr.index(path, embed=True, jpeg_index=False)
    assert entries(path) is None
    assert list(hr.open(path).keys or ()) == NAMES
    hr.index(path, embed=True)
    assert entries(path) == [jpeg.index(data) for data in BASELINE]


def test_index_again_changes_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "x.beton", BASELINE, names=NAMES)
    hr.index(path, embed=True)
    before = path.read_bytes()
    hr.index(path, embed=True)
    assert path.read_bytes() == before


def test_index_replaces_damaged_ones_and_keeps_the_names(tmp_path: Path) -> None:
    path = write(tmp_path / "x.beton", BASELINE, names=NAMES)
    surgeon = Surgeon(path)
    start, size = sections_of(path)["jpeg_tiles"]
    surgeon.put(start + 8, bytes(range(100, 200)))
    broken = surgeon.save(tmp_path / "broken.beton")
    hr.index(broken, embed=True)
    assert entries(broken) == [jpeg.index(data) for data in BASELINE]
    assert list(hr.open(broken).keys or ()) == NAMES
    assert size == sections_of(broken)["jpeg_tiles"][1]


def test_verify_looks_at_every_index(tmp_path: Path) -> None:
    path = write(tmp_path / "x.beton", BASELINE)
    assert hr.verify(path).ok
    start, _ = sections_of(path)["jpeg_tiles"]
    first = start + 8 + 8 * (len(BASELINE) + 1)
    with hr.open(path) as dataset:
        offsets = dataset.tile_index.offsets.tolist()
    surgeon = Surgeon(path)
    surgeon.flip(first + offsets[1] + 3, 0x02)  # the version
    surgeon.flip(first + offsets[3] - 1)  # the checksum
    broken = surgeon.save(tmp_path / "broken.beton")
    report = hr.verify(broken, decode=True)
    assert report.bad_samples == (1, 2)
    assert all("make a new one with: headrace index" in problem.message for problem in report.problems)
    assert hr.index(broken, embed=True) == str(broken)  # bad indices are no reason to refuse new ones
    assert hr.verify(broken).ok
    surgeon = Surgeon(path)
    surgeon.put(start, b"\x07")  # columns
    assert "jpeg_tiles" in hr.verify(surgeon.save(broken)).problems[0].message


def test_verify_finds_the_index_of_another_jpeg(tmp_path: Path) -> None:
    one, other = BASELINE[:2]
    path = write(tmp_path / "z.beton", [one, one], annex=False)
    packed = jpeg.index(other)
    section = tile_index_section(1, np.array([len(packed)] * 2, np.uint32), [packed, packed])
    with hr.open(path) as plain:
        _put_beside(plain.file, {"jpeg_tiles": section})
    report = hr.verify(tmp_path / "z.beton")
    assert report.bad_samples == (0, 1)
    assert f"this one has {len(one)} bytes" in report.problems[0].message


@pytest.mark.parametrize("name", [n for n in GOLDEN_NAMES if "jpg" in n or "jpeg" in n or "image" in n])
def test_files_of_ffcv(golden_dir: Path, tmp_path: Path, name: str) -> None:
    path = tmp_path / "x.beton"
    path.write_bytes((golden_dir / f"{name}.beton").read_bytes())
    hr.index(path, embed=True)
    for field in [name for name, field in hr.open(path).schema.items() if field.kind == "image"]:
        is_jpg = hr.open(path).image_facts(field)["mode"] == 0
        assert [bool(entry) for entry in entries(path, field) or is_jpg * 0] == is_jpg.tolist()


# -- read back -----------------------------------------------------------------------------------------------------


def annex_of(pieces: Any, num_samples: int) -> Annex:
    out = bytearray()
    write_annex(
        lambda buffers: [out.extend(memoryview(b).cast("B")) for b in buffers] and None,
        {"jpeg_tiles": pieces},
        num_samples=num_samples,
        dataset_size=lambda size: 1,
        dataset_fingerprint=lambda size: 2,
    )
    data = np.frombuffer(bytes(out), np.uint8)
    facts = {"num_samples": num_samples, "dataset_size": 1, "dataset_fingerprint": 2}
    annex = Annex.find(LocalFile("x", mapped=data), **facts)
    assert annex is not None
    return annex


def tiles_of(packed: list[bytes], columns: int = 1) -> TileIndex:
    sizes = np.array([len(p) for p in packed], np.uint32)
    tiles = read_tile_index(annex_of(tile_index_section(columns, sizes, packed), len(packed) // columns), columns)
    assert tiles is not None
    return tiles


def test_a_section_reads_back() -> None:
    tiles = tiles_of([b"abc", b"", b"d", b"ef", b"", b""], columns=2)
    assert (tiles.columns, tiles.count) == (2, 3)
    for column, expected in ((0, [b"abc", b"d", b""]), (1, [b"", b"ef", b""])):
        packed, starts, sizes = tiles.locate(np.arange(3), column)
        assert [packed[a : a + n].tobytes() for a, n in zip(starts.tolist(), sizes.tolist(), strict=True)] == expected
    packed, starts, sizes = tiles.locate(np.array([1, 1, 0]), 1)
    assert sizes.tolist() == [2, 2, 0]
    assert [array.size for array in tiles.locate(np.empty(0, np.int64), 0)[1:]] == [0, 0]


@pytest.mark.parametrize("seed", range(20))
def test_offsets_from_nowhere_stay_inside(seed: int) -> None:
    tiles = tiles_of([bytes(10)] * 50)
    rng = np.random.default_rng(seed)
    limit = [2**64, 2**63 + 500, 1000, 501][seed % 4]
    wrong = TileIndex(1, rng.integers(0, limit, 51, dtype=np.uint64), tiles.packed)
    packed, starts, sizes = wrong.locate(np.arange(50), 0)
    for start, size in zip(starts.tolist(), sizes.tolist(), strict=True):
        assert 0 <= start <= start + size <= len(packed) == 500


@pytest.mark.parametrize(
    ("section", "samples"),
    [(b"", 3), (b"\1\0\0\0\0\0\0", 0), (bytes(8 + 32), 3), (b"\2" + bytes(7 + 32), 3), (b"\1" + bytes(7 + 31), 3)],
)
def test_a_section_that_is_too_short_or_of_other_columns(section: bytes, samples: int) -> None:
    with pytest.raises(AnnexError, match="jpeg_tiles"):
        read_tile_index(annex_of([section], samples), 1)


def test_datasets_that_travel_and_close(tmp_path: Path) -> None:
    path = write(tmp_path / "x.beton", BASELINE)
    dataset = hr.open(path)
    copy = pickle.loads(pickle.dumps(dataset))
    assert copy.tile_index.count == dataset.tile_index.count == 9
    assert copy.with_checksums(False).tile_index.count == 9
    assert hr.open(path, annex=False).tile_index is None
    dataset.close()
    with pytest.raises(ClosedError):
        _ = dataset.tile_index


# -- the command -----------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "pictures"
    for i, data in enumerate([*BASELINE[:3], PROGRESSIVE]):
        (root / f"{i % 2}").mkdir(parents=True, exist_ok=True)
        (root / f"{i % 2}" / f"{i}.jpg").write_bytes(data)
    return root


def info(path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Indexed JPEGs by the JSON of info, and the line for people."""
    capsys.readouterr()
    assert main(["info", str(path), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert main(["info", str(path)]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines() if "jpeg index" in line]
    return summary["jpegs_indexed"], lines[0] if lines else ""


def test_create_and_info(tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.beton"
    assert main(["create", str(path), str(folder), "-q"]) == 0
    count, line = info(path, capsys)
    assert count == 3
    assert "3 of 4 JPEGs" in line
    assert main(["create", str(path), str(folder), "-q", "--force", "--no-jpeg-index"]) == 0
    count, line = info(path, capsys)
    assert count == 0
    assert "0 of 4 JPEGs" in line
    assert main(["create", str(path), str(folder), "-q", "--force", "--mode", "raw"]) == 0
    assert info(path, capsys) == (0, "")


@pytest.mark.parametrize("embed", [True, False])
def test_index_and_info(tmp_path: Path, folder: Path, embed: bool, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.beton"
    assert main(["create", str(path), str(folder), "-q", "--no-annex"]) == 0
    where = ["--embed"] if embed else []
    assert main(["index", str(path), "-q", "--no-jpeg-index", *where]) == 0
    assert info(path, capsys)[0] == 0
    assert hr.open(path).has_checksums
    assert main(["index", str(path), "-q", *where]) == 0
    assert info(path, capsys)[0] == 3
