"""What ``headrace.convert`` does to samples on their way: fields, pictures, order, a look at what was written."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.helpers import image_file, picture

import headrace as hr
from headrace.cli.main import main
from headrace.errors import WriteError
from headrace.formats.beton.writer import BetonWriter
from headrace.formats.ffr.dataset_writer import FfrEncoder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COUNT = 12
JPEGS = [image_file(picture(i, 24, 32), "JPEG", quality=85) for i in range(COUNT)]


@pytest.fixture
def source(tmp_path: Path) -> str:
    path = str(tmp_path / "in.beton")
    fields = {"image": hr.Image(), "label": hr.Int(), "text": hr.Text()}
    samples = [(JPEGS[i], i % 3, f"text {i}") for i in range(COUNT)]
    names = [f"s{i:02d}" for i in range(COUNT)]
    hr.write(path, samples, fields=fields, names=names, class_names={"label": ["a", "b", "c"]}, metadata={"x": 1})
    return path


def names_in(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_fields_get_other_names_and_are_left_out(source: str, tmp_path: Path) -> None:
    told: list[str] = []
    target = str(tmp_path / "out.npz")
    hr.convert(source, target, map={"image": "jpg", "label": "cls", "text": ""}, on_left_out=told.append, verify=True)
    with hr.open(target) as dataset:
        assert list(dataset.schema) == ["jpg", "cls"]
        assert dataset.class_names == {"cls": ["a", "b", "c"]}
        assert getattr(dataset, "metadata", None) == {"x": 1}
        assert dataset.read_bytes(range(COUNT), "jpg") == JPEGS
    assert told == ["field text (12 values): only image, label was asked for"]


@pytest.mark.parametrize(
    ("renamed", "message"),
    [
        ({"nose": "x"}, "no field 'nose'"),
        ({"image": "label"}, "both be called 'label'"),
        ({"image": "", "label": "", "text": ""}, "no field of .* is left"),
        ({"image": "a name that is far too long"}, "cannot hold these fields: .*--map image=NEW"),
    ],
)
def test_names_that_do_not_fit(source: str, tmp_path: Path, renamed: dict[str, str], message: str) -> None:
    before = names_in(tmp_path)
    with pytest.raises((ValueError, KeyError), match=message):
        hr.convert(source, tmp_path / "out.beton", map=renamed)
    assert names_in(tmp_path) == before


def test_what_cannot_be_held_is_named_before_anything_is_written(source: str, tmp_path: Path) -> None:
    before = names_in(tmp_path)
    with pytest.raises(ValueError, match=r"out\.npy can hold one field, and .* has image, label, text.*--field label"):
        hr.convert(source, tmp_path / "out.npy")
    with pytest.raises(ValueError, match=r"out\.npy cannot hold image \(image\)\. Keep all of it: .*\.beton"):
        hr.convert(source, tmp_path / "out.npy", field="image")
    hr.write(tmp_path / "t.beton", [(1, [1, 2])], fields={"label": hr.Int(), "tensor": hr.Tensor("int64", (2,))})
    with pytest.raises(ValueError, match=r"cannot hold tensor \(tensor\)\. Leave it out: .* --map tensor=\. Or keep"):
        hr.convert(tmp_path / "t.beton", tmp_path / "out.csv")
    told: list[str] = []
    hr.convert(source, tmp_path / "out.npy", field="label", on_left_out=told.append)
    assert [line for line in told if "no place" in line] == [
        f"class names (label): {tmp_path}/out.npy has no place for it",
        f"metadata (x): {tmp_path}/out.npy has no place for it",
        f"names of 12 samples: {tmp_path}/out.npy has no place for them",
    ]
    assert names_in(tmp_path) == sorted([*before, "out.npy", "t.beton"])


def test_a_limit_is_taken_after_shuffling(source: str, tmp_path: Path) -> None:
    hr.convert(source, tmp_path / "first.beton", limit=4)
    assert list(hr.open(tmp_path / "first.beton").keys or ()) == ["s00", "s01", "s02", "s03"]
    hr.convert(source, tmp_path / "all.beton", shuffle_seed=5)
    hr.convert(source, tmp_path / "few.beton", shuffle_seed=5, limit=4, verify=True)
    expected = list(hr.open(tmp_path / "all.beton").keys or ())[:4]
    assert list(hr.open(tmp_path / "few.beton").keys or ()) == expected != ["s00", "s01", "s02", "s03"]
    with pytest.raises(ValueError, match="limit must be"):
        hr.convert(source, tmp_path / "x.beton", limit=-1)


def test_pictures_stay_as_they_are_unless_asked(tmp_path: Path) -> None:
    png = [image_file(picture(i, 30, 40), "PNG") for i in range(3)]
    hr.write(tmp_path / "a.npz", [(file,) for file in png], fields={"image": hr.Image()})
    assert hr.open(tmp_path / "a.npz").read_bytes(range(3), "image") == png
    hr.convert(tmp_path / "a.npz", tmp_path / "b.msgpack", verify=True)
    assert hr.open(tmp_path / "b.msgpack").read_bytes(range(3), "image") == png
    hr.convert(tmp_path / "a.npz", tmp_path / "c.msgpack", image_mode="jpg", max_side=20, verify=True)
    stored = hr.open(tmp_path / "c.msgpack").read_bytes(range(3), "image")
    assert all(data.startswith(b"\xff\xd8") for data in stored)
    assert hr.open(tmp_path / "c.msgpack")[0].image.shape == (15, 20, 3)
    hr.convert(tmp_path / "a.npz", tmp_path / "d.beton", image_mode="raw", verify=True)
    assert np.array_equal(hr.open(tmp_path / "d.beton")[1].image, picture(1, 30, 40))
    told: list[str] = []
    hr.convert(tmp_path / "a.npz", tmp_path / "e.beton", on_left_out=told.append, verify=True)
    assert ["--image-mode raw keeps them" in line for line in told] == [True]
    with pytest.raises(ValueError, match="holds pictures as files only"):
        hr.convert(tmp_path / "a.npz", tmp_path / "f.ffr", image_mode="raw")
    hr.write(tmp_path / "n.npz", [1, 2], fields={"n": hr.Int()})
    with pytest.raises(ValueError, match="there is no field of them"):
        hr.convert(tmp_path / "n.npz", tmp_path / "f.beton", max_side=9)


@pytest.mark.parametrize("target", ["out.ffr", "out-%02d.ffr"])
def test_what_differs_gets_no_name(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    plain = FfrEncoder._encode

    def encode(self: FfrEncoder, value: Any, index: int) -> bytes:
        return plain(self, value, index) + (b"!" if index == 7 else b"")

    monkeypatch.setattr(FfrEncoder, "_encode", encode)
    before = names_in(tmp_path)
    options: dict[str, Any] = {"shard_samples": 5} if "%" in target else {}
    with pytest.raises(WriteError, match=r"sample 7, field 'text': what was written is not .*Nothing was put in place"):
        hr.convert(source, tmp_path / target, field="text", verify=True, **options)
    assert names_in(tmp_path) == before


@pytest.mark.parametrize("target", ["out.tar", "out.zip", "out.barecat", "out"])
def test_files_are_compared_too(source: str, tmp_path: Path, target: str) -> None:
    hr.convert(source, tmp_path / "files", map={"label": ""}, verify=True)
    result = hr.convert(tmp_path / "files", tmp_path / target, verify=True)
    assert result.files == 2 * COUNT
    if target != "out":
        hr.convert(tmp_path / "files", tmp_path / target, verify=True, force=True)
    assert not [name for name in names_in(tmp_path) if name.startswith(".")]


def test_force_replaces_what_was_looked_at(source: str, tmp_path: Path) -> None:
    for _ in range(2):
        hr.convert(source, tmp_path / "out.msgpack", verify=True, force=True)
    assert names_in(tmp_path) == ["in.beton", "out.msgpack", "out.msgpack.annex"]
    with pytest.raises(FileExistsError):
        hr.convert(source, tmp_path / "out.msgpack", verify=True)


@pytest.mark.parametrize("target", ["out.npz", "out-%02d.beton", "out.tar", "out", "out.barecat"])
def test_a_dry_run_writes_nothing(source: str, tmp_path: Path, target: str) -> None:
    before = names_in(tmp_path)
    options: dict[str, Any] = {"shard_samples": 5, "resume": True} if "%" in target else {}
    for verify in (False, True):
        hr.convert(source, tmp_path / target, map={"label": ""}, dry_run=True, verify=verify, **options)
        assert names_in(tmp_path) == before


def test_the_command_takes_all_of_it(source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "out-%02d.npz")
    words = ["convert", source, out, "--map", "image=jpg", "--map", "text=", "--limit", "7", "--shard-samples", "3"]
    assert main([*words, "--shuffle", "--seed", "5", "--verify", "--resume", "-q", "-j1"]) == 0
    assert [name for name in names_in(tmp_path) if name.startswith("out")] == ["out-00.npz", "out-01.npz", "out-02.npz"]
    dataset = hr.open(str(tmp_path / "out-*.npz"))
    assert (len(dataset), list(dataset.schema)) == (7, ["jpg", "label"])
    hr.convert(source, tmp_path / "same.beton", shuffle_seed=5)
    assert list(dataset.keys or ()) == list(hr.open(tmp_path / "same.beton").keys or ())[:7]
    for wrong in (["--seed", "1"], ["--shuffle", "1", "--seed", "2"], ["--resume"], ["--shard-samples", "2"]):
        assert main(["convert", source, str(tmp_path / "x.beton"), *wrong]) == 2
    with pytest.raises(SystemExit):
        main(["convert", source, out, "--map", "image"])
    assert "must be OLD=NEW" in capsys.readouterr().err


# All memory that the process ever had at a time, pages of mapped files included.
# pyarrow loads pandas where it is installed, which takes 50 MB and is not ours.
MEASURED = """
import re, sys
class WithoutPandas:
    def find_spec(self, name, path=None, target=None):
        if name == "pandas":
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, WithoutPandas())
import headrace as hr
hr.convert(sys.argv[1], sys.argv[2], workers=int(sys.argv[3]))
with open("/proc/self/status") as file:
    print(int(re.search(r"VmHWM:\\s+(\\d+)", file.read())[1]) // 1024)
"""
SIZE_BYTES = 400 << 20


def peak_mib(source: Path, target: Path, *, workers: int = 2) -> int:
    command = [sys.executable, "-c", MEASURED, str(source), str(target), str(workers)]
    found = subprocess.run(command, check=True, capture_output=True, text=True, timeout=240)
    target.unlink()
    return int(found.stdout)


def large_ffr(path: Path, sample_bytes: int) -> Path:
    data = np.random.default_rng(1).bytes(sample_bytes)
    count = SIZE_BYTES // sample_bytes
    hr.write(path, (data[i:] + data[:i] for i in range(count)), fields={"data": hr.Bytes()}, workers=1)
    assert path.stat().st_size > SIZE_BYTES
    return path


def sparse_tar(path: Path, sample_bytes: int) -> Path:
    """A tar whose contents are holes, which costs nothing to write."""
    with path.open("wb") as file:
        for i in range(SIZE_BYTES // sample_bytes):
            member = tarfile.TarInfo(f"{i:06d}.bin")
            member.size = sample_bytes
            file.write(member.tobuf())
            file.seek(-(-sample_bytes // 512) * 512, os.SEEK_CUR)
        file.write(bytes(1024))
    assert path.stat().st_size > SIZE_BYTES
    return path


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = large_ffr(tmp_path_factory.mktemp("large") / "large.ffr", 1 << 20)
    yield path
    path.unlink()


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("rec", "msgpack", "parquet", "h5")]


@pytest.mark.parametrize("target", ["beton", "tfrecord", "lmdb", *SLOW])
def test_memory_does_not_grow_with_the_source(large: Path, tmp_path: Path, target: str) -> None:
    modules = {"msgpack": "msgpack", "lmdb": "lmdb", "parquet": "pyarrow", "h5": "h5py"}
    if target in modules:
        pytest.importorskip(modules[target])
    assert peak_mib(large, tmp_path / f"large.{target}") < 300


def test_memory_does_not_grow_with_a_tar(tmp_path: Path) -> None:
    source = sparse_tar(tmp_path / "large.tar", 100_000)  # takes no room on the disk
    assert peak_mib(source, tmp_path / "large.beton") < 300
    assert peak_mib(source, tmp_path / "large.ffr", workers=1) < 300


def test_memory_is_bounded_in_bytes_where_samples_are_large(tmp_path: Path) -> None:
    source = large_ffr(tmp_path / "large.ffr", 10 << 20)
    assert peak_mib(source, tmp_path / "large.beton", workers=8) < 300
    source.unlink()


def test_large_samples_after_small_ones_are_written_few_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tarfile.open(tmp_path / "in.tar", "w") as tar:
        for i in range(2100):
            member = tarfile.TarInfo(f"{i:06d}.bin")
            member.size = 10 if i < 2000 else 1 << 20
            tar.addfile(member, io.BytesIO(bytes([i % 256]) * member.size))
    chunks: list[int] = []
    place = BetonWriter.append_chunk

    def append_chunk(self: BetonWriter, chunk: Any, *, names: Any = None) -> None:
        chunks.append(int(chunk.sizes.sum()))
        place(self, chunk, names=names)

    monkeypatch.setattr(BetonWriter, "append_chunk", append_chunk)
    hr.convert(tmp_path / "in.tar", tmp_path / "out.beton", workers=2)
    assert max(chunks) <= 9 << 20
    dataset = hr.open(tmp_path / "out.beton")
    assert [dataset[i][0] for i in (0, 1999, 2000, 2099)] == [
        bytes([i % 256]) * size for i, size in ((0, 10), (1999, 10), (2000, 1 << 20), (2099, 1 << 20))
    ]
