"""Sets of files: cut alike by any number of workers, all or nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import headrace as hr
from headrace.errors import WriteError
from headrace.formats.sharded_writer import ShardLimits, ShardNames

if TYPE_CHECKING:
    from pathlib import Path

FIELDS = {"b": hr.Bytes()}
SAMPLES = [bytes([i]) * (100 + 37 * i % 300) for i in range(60)]


def names_in(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


@pytest.mark.parametrize("kind", ["beton", "ffr", "barecat"])
@pytest.mark.parametrize("has_names", [True, False])
def test_a_set_is_read_as_it_was_written(tmp_path: Path, kind: str, has_names: bool) -> None:
    pattern = tmp_path / f"x-*.{kind}"
    names = [f"s{i:02d}.bin" for i in range(60)] if has_names else None
    hr.write(pattern, SAMPLES, fields=FIELDS, shard_samples=25, names=names, workers=2)
    assert [name for name in names_in(tmp_path) if name.endswith(kind)] == [f"x-{i:06d}.{kind}" for i in range(3)]
    with hr.open(pattern) as dataset:
        (field,) = dataset.schema
        assert dataset.read_bytes(range(60), field) == SAMPLES
        if has_names:
            assert list(dataset.keys or ()) == names
    assert hr.verify(pattern).ok
    assert [len(hr.open(tmp_path / f"x-{i:06d}.{kind}")) for i in range(3)] == [25, 25, 10]


@pytest.mark.parametrize(
    "limits", [{"shard_size": 2000}, {"shard_samples": 7}, {"shard_size": "1K", "shard_samples": 4}]
)
def test_files_are_the_same_with_any_number_of_workers(tmp_path: Path, limits: dict[str, Any]) -> None:
    contents = []
    for workers in (0, 1, 3):
        folder = tmp_path / str(workers)
        folder.mkdir()
        hr.write(folder / "x-%03d.ffr", SAMPLES, fields=FIELDS, workers=workers, **limits)
        contents.append({name: (folder / name).read_bytes() for name in names_in(folder)})
    assert contents[0] == contents[1] == contents[2]
    assert len(contents[0]) > 5
    opened = [hr.open(path) for path in (tmp_path / "0").iterdir()]
    sizes = [sum(map(len, one.read_bytes(range(len(one)), "data"))) for one in opened]
    most = {2000: 2000, "1K": 1024}.get(limits.get("shard_size", 0), 10**9)
    assert max(sizes) <= most


def test_samples_from_an_iterator_and_numbers(tmp_path: Path) -> None:
    rows = ((i, i / 2) for i in range(1000))
    hr.write(tmp_path / "n-%d.beton", rows, fields={"n": hr.Int(), "x": hr.Float()}, shard_size=16 * 300)
    assert names_in(tmp_path) == [f"n-{i}.beton" for i in range(4)]
    assert hr.open(tmp_path / "n-*.beton").read_values(np.arange(1000), "n").tolist() == [*range(1000)]


def test_a_large_sample_has_a_file_of_its_own(tmp_path: Path) -> None:
    hr.write(tmp_path / "x-*.ffr", [b"a", bytes(5000), b"b", b"c"], fields=FIELDS, shard_size=1000)
    assert [len(hr.open(tmp_path / name)) for name in names_in(tmp_path)] == [1, 1, 2]


def test_class_names_and_metadata_are_in_every_file(tmp_path: Path) -> None:
    options: dict[str, Any] = {"class_names": {"n": ["a", "b"]}, "metadata": {"v": 1}}
    hr.write(tmp_path / "x-*.beton", [0, 1, 0], fields={"n": hr.Int()}, shard_samples=2, **options)
    for name in names_in(tmp_path):
        opened: Any = hr.open(tmp_path / name)
        assert (opened.class_names, opened.metadata) == ({"n": ["a", "b"]}, {"v": 1})


def test_nothing_is_there_when_a_sample_fails(tmp_path: Path) -> None:
    with pytest.raises(WriteError, match="sample 50"):
        hr.write(tmp_path / "x-*.beton", [*SAMPLES[:50], 7], fields=FIELDS, shard_samples=10)
    assert names_in(tmp_path) == []
    with pytest.raises(ValueError, match="a number"):
        hr.write(tmp_path / "x-*.ffr", [1], fields={"n": hr.Int()}, shard_samples=10)
    assert names_in(tmp_path) == []


def test_files_that_exist(tmp_path: Path) -> None:
    path = tmp_path / "x-*.beton"
    hr.write(path, SAMPLES, fields=FIELDS, shard_samples=10)
    (tmp_path / "x-000005.beton.annex").write_bytes(b"beside")
    (tmp_path / "x-other.beton").write_bytes(b"mine")
    before = {name: (tmp_path / name).read_bytes() for name in names_in(tmp_path)}
    with pytest.raises(FileExistsError, match=r"x-000000\.beton exists; give force=True"):
        hr.write(path, SAMPLES[:5], fields=FIELDS, shard_samples=3)
    with pytest.raises(WriteError):
        hr.write(path, [*SAMPLES[:5], 5], fields=FIELDS, shard_samples=3, force=True)
    assert {name: (tmp_path / name).read_bytes() for name in names_in(tmp_path)} == before
    hr.write(path, SAMPLES[:5], fields=FIELDS, shard_samples=3, force=True)
    assert names_in(tmp_path) == ["x-000000.beton", "x-000001.beton", "x-other.beton"]
    assert (tmp_path / "x-other.beton").read_bytes() == b"mine"


def test_what_cannot_be_moved_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x-*.ffr"
    hr.write(path, SAMPLES[:4], fields=FIELDS, shard_samples=2)
    before = {name: (tmp_path / name).read_bytes() for name in names_in(tmp_path)}
    rename, calls = os.rename, []

    def failing(source: str, target: str) -> None:
        calls.append(target)
        if len(calls) == 4:
            raise OSError(5, "Input/output error")
        rename(source, target)

    monkeypatch.setattr(os, "rename", failing)
    with pytest.raises(OSError, match="Input/output"):
        hr.write(path, SAMPLES[:30], fields=FIELDS, shard_samples=5, force=True)
    assert {name: (tmp_path / name).read_bytes() for name in names_in(tmp_path)} == before


def test_what_a_killed_writer_left_is_removed_by_the_next(tmp_path: Path) -> None:
    program = f"""
import os, signal, headrace as hr
def samples():
    yield from [b"x"] * 50
    os.kill(os.getpid(), signal.SIGKILL)
hr.write({str(tmp_path / "x-*.ffr")!r}, samples(), fields={{"b": hr.Bytes()}}, shard_samples=2, workers=0)
"""
    run = subprocess.run([sys.executable, "-c", program], check=False, timeout=60)
    assert run.returncode == -signal.SIGKILL
    assert all(name.startswith(".") for name in names_in(tmp_path))
    assert len(names_in(tmp_path)) == 1
    hr.write(tmp_path / "x-*.ffr", [b"x"], fields=FIELDS, shard_samples=2)
    assert names_in(tmp_path) == ["x-000000.ffr"]


def test_names_and_limits() -> None:
    assert ShardNames.of("a/b.beton") is None
    assert ShardNames.of("a-%d-*.beton") is None
    assert ShardNames.of("100%/x-%05d.tar.gz") == ShardNames("100%/x-%05d.tar.gz", "100%/x-", 5, ".tar.gz")
    assert ShardLimits.of("2K", None) == ShardLimits(size_bytes=2048)
    assert ShardLimits.of(None, None) is None
    for size, samples in ((0, None), (None, 0), (1.5, None), (True, None)):
        with pytest.raises(ValueError, match="must be a whole number from 1 on"):
            ShardLimits.of(size, samples)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="is not a size"):
        ShardLimits.of("many", None)


def test_one_file_has_no_number(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"x\.beton is one file; .*x-%06d\.beton or .*x-\*\.beton"):
        hr.write(tmp_path / "x.beton", SAMPLES, fields=FIELDS, shard_size="1M")
    hr.write(tmp_path / "x.barecat", SAMPLES, fields=FIELDS, shard_size=4000)
    assert len([name for name in names_in(tmp_path) if "-shard-" in name]) > 2


def test_append_sample_by_sample(tmp_path: Path) -> None:
    from headrace.formats.open import find_format
    from headrace.formats.sharded_writer import HiddenPlace, ShardedWriter, shard_creator

    names = ShardNames.of(tmp_path / "x-*.ffr")
    assert names is not None
    target = find_format(names.path(0), must_exist=False)
    place, create = HiddenPlace(names, force=False), shard_creator(target, FIELDS, {})
    with ShardedWriter(place, create, FIELDS, limits=ShardLimits(samples=2)) as writer:
        for sample in SAMPLES[:5]:
            writer.append(sample)
        assert len(writer) == 5
        assert writer.size_bytes >= sum(map(len, SAMPLES[:5]))
        assert not [name for name in names_in(tmp_path) if not name.startswith(".")]
    assert len(names_in(tmp_path)) == 3
