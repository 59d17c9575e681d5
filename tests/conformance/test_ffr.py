"""Every .ffr file that the real FFRecord wrote is read, and written again, exactly as its manifest says."""

from __future__ import annotations

import contextlib
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace.errors import CorruptSampleError, FormatError, HeadraceError
from headrace.formats.ffr import FfrReader, FfrWriter, PackedFolder
from headrace.formats.ffr.packed_index import pack_index

GOLDEN = Path(__file__).parents[1] / "golden" / "ffr"
MANIFEST: dict[str, Any] = json.loads((GOLDEN / "manifest.json").read_text())
SINGLE = [(kind, name) for kind in ("plain", "packed", "old") for name in MANIFEST[kind]]
FOLDERS = [name for name in MANIFEST["multi"] if not name.endswith(".ffr")]
HEADER_DAMAGE = [
    "flip_sample_checksum",
    "flip_offset_low",
    "flip_offset_high",
    "offset_negative",
    "flip_header_checksum",
    "n_plus_one",
    "n_minus_one",
    "n_huge",
    "n_negative",
    "truncated_in_offsets",
    "truncated_in_checksums",
    "truncated_in_n",
    "zero_bytes",
]
HOSTILE_INDEX = [
    "packed_magic_only",
    "packed_truncated_pickle",
    "packed_hostile_global",
    "packed_index_out_of_range",
    "packed_index_negative",
    "packed_cyclic_index",
]


def sha(data: Any) -> str:
    return hashlib.sha256(bytes(data)).hexdigest()


@pytest.mark.parametrize(("kind", "name"), SINGLE)
@pytest.mark.parametrize("cold", [None, True, False])
def test_every_sample(kind: str, name: str, cold: bool | None) -> None:
    expected = MANIFEST[kind][name]
    reader = FfrReader(GOLDEN / kind / name, cold=cold)
    assert len(reader) == expected["n"]
    hashes = [sample[3] for sample in expected["samples"]]
    everything = range(len(reader))
    assert [sha(sample) for sample in reader.read(everything)] == hashes
    assert [sha(sample) for sample in reader.read_bytes(everything)] == hashes
    assert [sha(sample) for sample in reader.views(everything)] == hashes
    assert [sha(reader.read_one(i)) for i in everything] == hashes
    assert reader.checksums().tolist() == [sample[2] for sample in expected["samples"]]
    assert reader.offsets().tolist() == [*(sample[0] for sample in expected["samples"]), expected["file_size"]]
    assert hr.open(GOLDEN / kind / name, packed=False).verify().ok


@pytest.mark.parametrize(("kind", "name"), [*SINGLE, ("multi", "dump_single.ffr")])
@pytest.mark.parametrize("knows_n", [True, False])
def test_written_byte_for_byte(kind: str, name: str, knows_n: bool, tmp_path: Path) -> None:
    original = GOLDEN / kind / name
    samples = FfrReader(original).read(range(MANIFEST[kind][name]["n"]))
    with FfrWriter(tmp_path / "x.ffr", len(samples) if knows_n else None) as writer:
        for sample in samples[::2]:
            writer.append(sample)
        half = len(samples[::2])
        assert len(writer) == half
        writer.abort()
    with FfrWriter(tmp_path / "x.ffr", len(samples) if knows_n else None) as writer:
        writer.append_many(samples)
    written = (tmp_path / "x.ffr").read_bytes()
    # The first generation had no header checksum.
    start = 4 if MANIFEST[kind][name].get("generation") == "old" else 0
    assert written[start:] == original.read_bytes()[start:]


@pytest.mark.parametrize("name", FOLDERS)
def test_folders_of_parts(name: str) -> None:
    expected = MANIFEST["multi"][name]
    dataset = hr.open(GOLDEN / "multi" / name)
    assert len(dataset) == expected["total_n"]
    assert [sha(sample.data) for sample in dataset] == expected["order"]
    backwards = np.arange(len(dataset))[::-1]
    assert [sha(sample) for sample in dataset.read_bytes(backwards, "data")] == expected["order"][::-1]
    assert dataset.verify().ok


@pytest.mark.parametrize("name", MANIFEST["packed"])
def test_packed_folders(name: str) -> None:
    expected = MANIFEST["packed"][name]
    about = expected["folder"]
    folder = PackedFolder(GOLDEN / "packed" / name)
    assert json.loads(json.dumps(folder.structure)) == about["structure"]
    assert folder.num_files() == about["num_files"]
    assert folder.list() == about["list"]
    assert folder.list(recursive=True) == about["list_recursive"]
    assert folder.list(recursive=True, folders=False) == about["list_recursive_files"]
    assert folder.list(files=False) == about["list_dirs"]
    paths = list(about["files"])
    assert [sha(data) for data in folder.read(paths)] == [about["files"][path]["sha256"] for path in paths]
    dataset = hr.open(GOLDEN / "packed" / name)
    assert dataset.keys == about["list_recursive_files"]
    assert [sha(sample.data) for sample in dataset] == [about["files"][path]["sha256"] for path in dataset.keys]
    if expected["meta_pickle_protocol"] == 4:
        assert pack_index(folder.structure) == folder.reader.read_bytes([len(folder.reader) - 1])[0]


@pytest.mark.parametrize("name", HEADER_DAMAGE)
def test_damaged_headers(name: str) -> None:
    path = GOLDEN / "corrupted" / f"{name}.ffr"
    with pytest.raises(FormatError, match=name):
        hr.open(path)
    # What can be reached without trusting the header is reached, everything else is a clean error.
    try:
        reader = FfrReader(path, checksums=False)
    except FormatError:
        return
    for i in range(len(reader)):
        with contextlib.suppress(CorruptSampleError):
            reader.read_one(i)


@pytest.mark.parametrize("cold", [None, True, False])
@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("flip_sample", [1]),
        ("truncated_last_sample", [5]),
        ("truncated_mid_samples", [1, 2, 3, 4, 5]),
        ("truncated_at_header_end", [0, 1, 2, 3, 4, 5]),
        ("trailing_bytes", [5]),
        ("zero_header_checksum", []),
        ("base", []),
    ],
)
def test_damaged_samples(name: str, bad: list[int], cold: bool | None) -> None:
    path = GOLDEN / "corrupted" / f"{name}.ffr"
    dataset = hr.open(path, cold=cold)
    for i in range(6):
        if i not in bad:
            assert len(dataset[i].data) == 50 + i
            continue
        with pytest.raises(CorruptSampleError, match=rf"{name}\.ffr: sample {i}, field 'data'") as caught:
            dataset[i]
        assert (caught.value.path, caught.value.sample) == (str(path), i)
    if bad:
        with pytest.raises(CorruptSampleError, match=f"sample {bad[0]}"):
            dataset.read_bytes(range(6), "data")
    report = dataset.verify()
    assert report.bad_samples == tuple(bad)
    assert report.samples_checked == report.checksums_checked == 6


@pytest.mark.parametrize("name", HOSTILE_INDEX)
def test_hostile_indexes(name: str) -> None:
    path = GOLDEN / "corrupted" / f"{name}.ffr"
    for reading in (PackedFolder, hr.open):
        with pytest.raises(FormatError, match=rf"{name}\.ffr: the index of the packed folder \(sample 1\)"):
            reading(path)
    assert len(hr.open(path, packed=False)) == 2


def test_not_a_packed_folder() -> None:
    wrong = GOLDEN / "corrupted" / "packed_wrong_magic.ffr"
    with pytest.raises(FormatError, match="begins with b'piouhjgbr', found"):
        PackedFolder(wrong)
    assert hr.open(wrong).keys is None
    with pytest.raises(FormatError, match="no samples, so it is not a packed folder"):
        PackedFolder(GOLDEN / "plain" / "empty_file.ffr")


def test_every_damaged_file_gives_headrace_errors_only() -> None:
    for path in sorted((GOLDEN / "corrupted").iterdir()):
        for checksums in (True, False):
            with contextlib.suppress(HeadraceError):
                dataset = hr.open(path, checksums=checksums)
                dataset.verify(decode=True)
                _ = [dataset[i] for i in range(len(dataset))]
