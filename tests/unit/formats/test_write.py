"""``headrace.write``: any source, any number of workers, the same file."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image as Pillow
from tests.helpers import ALL_FIELDS as FIELDS
from tests.helpers import MIB, Indexable, all_fields_sample, write_all_fields

import headrace as hr
from headrace.errors import UnknownFormatError, WriteError

if TYPE_CHECKING:
    from pathlib import Path


class BigArray(np.ndarray):
    """An array that can be watched."""

    def __new__(cls, array: np.ndarray) -> BigArray:
        return array.view(cls)


TWO: dict[str, Any] = {"blob": hr.Bytes(), "label": hr.Int()}
PAIRS = [(b"%d" % (i * i), i) for i in range(2000)]


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("writing") / "x.beton"
    hr.write(path, PAIRS, fields=TWO, workers=1)
    return path.read_bytes()


@pytest.mark.parametrize("workers", [0, 1, 2, 5])
@pytest.mark.parametrize(
    ("source", "kind"),
    [
        (PAIRS, "auto"),
        (PAIRS, "thread"),
        (PAIRS, "process"),
        (Indexable(PAIRS), "auto"),
        (Indexable(PAIRS), "thread"),
        ((pair for pair in ()), "auto"),
    ],
    ids=["list", "list-thread", "list-process", "class", "class-thread", "generator"],
)
def test_the_same_bytes_whatever_the_workers(
    tmp_path: Path, reference: bytes, source: Any, kind: Any, workers: int
) -> None:
    path = tmp_path / "x.beton"
    if isinstance(source, Iterator):
        source = iter(PAIRS)
    hr.write(path, source, fields=TWO, workers=workers, worker_kind=kind)
    assert path.read_bytes() == reference


def test_all_fields_with_many_workers(tmp_path: Path) -> None:
    one, many = tmp_path / "one.beton", tmp_path / "many.beton"
    samples = write_all_fields(one, 40, workers=1)
    hr.write(many, Indexable(samples), fields=FIELDS, page_size=2 * MIB, workers=3)
    assert many.read_bytes() == one.read_bytes()


def test_proportion_does_not_depend_on_workers(tmp_path: Path) -> None:
    fields = {"image": hr.Image(mode="proportion")}
    pictures = [np.full((6, 6, 3), i, np.uint8) for i in range(100)]
    files = []
    for workers in (1, 4):
        path = tmp_path / f"{workers}.beton"
        hr.write(path, pictures, fields=fields, workers=workers)
        files.append(path.read_bytes())
    assert files[0] == files[1]
    assert set(hr.open(path).image_facts("image")["mode"].tolist()) == {0, 1}


def labels(path: Path) -> list[int]:
    return hr.open(path).column("label").tolist()


@pytest.mark.parametrize("kind", ["thread", "process"])
def test_a_subset_in_an_order(tmp_path: Path, kind: Any) -> None:
    path = tmp_path / "x.beton"
    hr.write(path, Indexable(PAIRS), fields=TWO, indices=[5, -1, 0, 5], worker_kind=kind, workers=2)
    assert labels(path) == [5, 1999, 0, 5]


def test_a_mask(tmp_path: Path) -> None:
    path = tmp_path / "x.beton"
    hr.write(path, PAIRS, fields=TWO, indices=np.arange(2000) % 500 == 3)
    assert labels(path) == [3, 503, 1003, 1503]


def test_shuffling_is_fixed_by_the_seed(tmp_path: Path) -> None:
    paths = [tmp_path / f"{k}.beton" for k in range(3)]
    for path, seed in zip(paths, (1, 1, 2), strict=True):
        hr.write(path, PAIRS, fields=TWO, shuffle_seed=seed, indices=range(100))
    assert labels(paths[0]) == labels(paths[1]) != labels(paths[2])
    assert sorted(labels(paths[0])) == sorted(labels(paths[2])) == list(range(100))


def test_names_follow_their_samples(tmp_path: Path) -> None:
    path = tmp_path / "x.beton"
    names = [f"n{i}" for i in range(2000)]
    hr.write(path, PAIRS, fields=TWO, names=names, shuffle_seed=3, indices=range(50), workers=2)
    assert list(hr.open(path).keys or ()) == [f"n{i}" for i in labels(path)]


def test_names_of_a_generator(tmp_path: Path) -> None:
    path = tmp_path / "x.beton"
    hr.write(path, iter(PAIRS[:30]), fields=TWO, names=[f"n{i}" for i in range(30)])
    assert list(hr.open(path).keys or ()) == [f"n{i}" for i in range(30)]


@pytest.mark.parametrize("source", [PAIRS[:30], iter(PAIRS[:30])])
@pytest.mark.parametrize("count", [29, 31])
def test_a_wrong_number_of_names(tmp_path: Path, source: Any, count: int) -> None:
    source = source if isinstance(source, list) else iter(PAIRS[:30])
    with pytest.raises(ValueError, match=f"names has {count} entries"):
        hr.write(tmp_path / "x.beton", source, fields=TWO, names=["n"] * count)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("indices", [None, [7, 2]])
def test_from_a_headrace_dataset_with_its_schema_and_names(tmp_path: Path, indices: list[int] | None) -> None:
    first, second = tmp_path / "1.beton", tmp_path / "2.beton"
    fields = {"blob": hr.Bytes(), "label": hr.Int(), "raw": hr.Image(mode="raw"), "text": hr.Text()}
    samples = [(b"%d" % i, i, np.full((2, 2, 3), i, np.uint8), "ü" * i) for i in range(9)]
    hr.write(first, samples, fields=fields, names=[f"n{i}" for i in range(9)])
    hr.write(second, hr.open(first), indices=indices)
    copy = hr.open(second)
    where = indices or range(9)
    assert dict(copy.schema) == fields
    assert list(copy.keys or ()) == [f"n{i}" for i in where]
    assert [s.text for s in copy] == ["ü" * i for i in where]
    assert [s.raw.max() for s in copy] == list(where)


def test_class_names_and_metadata_go_to_the_writer(tmp_path: Path) -> None:
    path = tmp_path / "x.beton"
    hr.write(path, PAIRS, fields=TWO, class_names={"label": ("a", "b")}, metadata=["anything"])
    assert hr.open(path).class_names == {"label": ["a", "b"]}
    assert hr.open(path).metadata == ["anything"]


@pytest.mark.parametrize("source", [np.arange(12.0).reshape(4, 3), [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]])
def test_bare_values_of_one_field(tmp_path: Path, source: Any) -> None:
    path = tmp_path / "x.beton"
    hr.write(path, source, fields={"a": hr.NDArray("float64", (3,))})
    assert [s.a.tolist() for s in hr.open(path)] == np.arange(12.0).reshape(4, 3).tolist()


@pytest.mark.parametrize("source", [[], iter(()), Indexable([])])
def test_zero_samples(tmp_path: Path, source: Any) -> None:
    with pytest.raises(ValueError, match=r"x\.beton: no samples were written"):
        hr.write(tmp_path / "x.beton", source, fields=TWO)
    assert not list(tmp_path.iterdir())


def test_an_empty_selection(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no samples were written"):
        hr.write(tmp_path / "x.beton", PAIRS, fields=TWO, indices=[])


def test_progress_is_told(tmp_path: Path) -> None:
    calls: list[tuple[int, int | None, int]] = []
    hr.write(tmp_path / "x.beton", PAIRS, fields=TWO, progress=lambda *args: calls.append(args), workers=2)
    done, totals, sizes = zip(*calls, strict=True)
    assert list(done) == sorted(set(done))
    assert done[-1] == 2000
    assert set(totals) == {2000}
    assert sizes[-1] > 0
    calls.clear()
    hr.write(tmp_path / "x.beton", iter(PAIRS), fields=TWO, progress=lambda *args: calls.append(args), force=True)
    assert {total for _, total, _ in calls} == {None}


def test_progress_bar(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hr.write(tmp_path / "x.beton", PAIRS, fields=TWO, progress=True)
    assert capsys.readouterr().err == "", "not on a terminal"


def test_few_samples_are_under_way_at_a_time(tmp_path: Path) -> None:
    """Memory is bounded: the source is never drawn far ahead of what was written."""
    drawn, ahead, written = 0, [], 0

    def source() -> Iterator[tuple[bytes, int]]:
        nonlocal drawn
        for i in range(60):
            drawn += 1
            ahead.append(drawn - written)
            yield bytes(MIB), i

    def progress(done: int, total: int | None, size_bytes: int) -> None:
        nonlocal written
        written = done

    hr.write(tmp_path / "x.beton", source(), fields=TWO, workers=2, progress=progress)
    assert max(ahead) <= 8 * 4 + 8


@pytest.mark.parametrize("kind", ["array", "pillow", "dict"])
def test_large_values_that_become_small_are_not_piled_up(tmp_path: Path, kind: str) -> None:
    drawn: list[weakref.ref[Any]] = []
    most = 0

    def source() -> Iterator[Any]:
        nonlocal most
        for i in range(150):
            value = Pillow.new("RGB", (1500, 1000)) if kind == "pillow" else BigArray(np.zeros((1000, 1500, 3), "u1"))
            drawn.append(weakref.ref(value))
            most = max(most, sum(ref() is not None for ref in drawn))
            yield {"image": value, "label": i} if kind == "dict" else (value, i)

    fields = {"image": hr.Image(mode="raw", max_side=10), "label": hr.Int()}
    hr.write(tmp_path / "x.beton", source(), fields=fields, workers=2)
    assert len(hr.open(tmp_path / "x.beton")) == 150
    assert most <= 60


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"samples": 7}, TypeError, "samples must be indexable or iterable, got int"),
        ({"samples": iter(PAIRS), "indices": [1]}, TypeError, r"need samples with len\(\) and \[i\]"),
        ({"samples": iter(PAIRS), "shuffle_seed": 1}, TypeError, r"need samples with len\(\) and \[i\]"),
        ({"samples": iter(PAIRS), "worker_kind": "process"}, ValueError, "worker_kind='process' needs"),
        ({"worker_kind": "fiber"}, ValueError, "worker_kind must be"),
        ({"workers": -1}, ValueError, "workers must not be negative, got -1"),
        ({"indices": [2000]}, IndexError, "sample 2000 is out of range"),
        ({"fields": None}, TypeError, "fields is missing"),
        ({"compression": 9}, TypeError, "compression"),
    ],
)
def test_wrong_arguments(tmp_path: Path, arguments: dict[str, Any], error: type, message: str) -> None:
    options: dict[str, Any] = {"samples": PAIRS, "fields": TWO} | arguments
    with pytest.raises(error, match=message):
        hr.write(tmp_path / "x.beton", **options)
    assert not list(tmp_path.iterdir())


def test_formats_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(UnknownFormatError, match=r"x\.rar: no format is known"):
        hr.write(tmp_path / "x.rar", PAIRS, fields=TWO)


@pytest.mark.parametrize(("kind", "workers"), [("thread", 1), ("thread", 3), ("process", 2)])
def test_a_value_that_does_not_fit(tmp_path: Path, kind: Any, workers: int) -> None:
    samples = [(b"x", i if i != 77 else 0.5) for i in range(100)]
    with pytest.raises(WriteError, match="sample 77, field 'label': TypeError") as caught:
        hr.write(tmp_path / "x.beton", samples, fields=TWO, worker_kind=kind, workers=workers)
    assert caught.value.sample == 77
    assert not list(tmp_path.iterdir())


def test_an_iterator_that_fails(tmp_path: Path) -> None:
    def source() -> Iterator[tuple[bytes, int]]:
        yield from PAIRS[:13]
        raise OSError("network gone")

    with pytest.raises(WriteError, match="sample 13: the iterator failed: OSError: network gone") as caught:
        hr.write(tmp_path / "x.beton", source(), fields=TWO)
    assert caught.value.sample == 13
    assert isinstance(caught.value.__cause__, OSError)
    assert not list(tmp_path.iterdir())


def test_samples_differ(tmp_path: Path) -> None:
    assert not np.array_equal(all_fields_sample(1)[1], all_fields_sample(6)[1])


@pytest.mark.parametrize("name", ["x.beton", "x.ffr", "x.barecat"])
def test_a_file_that_exists_is_replaced_only_when_that_is_wanted(tmp_path: Path, name: str) -> None:
    path, fields = tmp_path / name, {"data": hr.Bytes()}
    hr.write(path, [b"old"], fields=fields)
    with pytest.raises(FileExistsError, match=r"exists; give force=True to replace it"):
        hr.write(path, iter([b"never drawn"]), fields=fields)
    assert hr.open(path)[0][0] == b"old"
    hr.write(path, [b"new", b"newer"], fields=fields, force=True)
    assert [sample[0] for sample in hr.open(path)] == [b"new", b"newer"]


def test_packing_does_not_replace_a_file_either(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("a")
    for name in ("x.ffr", "x.barecat"):
        hr.pack(tmp_path / name, tmp_path / "in")
        with pytest.raises(FileExistsError, match="force=True"):
            hr.pack(tmp_path / name, tmp_path / "in")
        hr.pack(tmp_path / name, tmp_path / "in", force=True)


def test_a_slow_source_is_seen_advancing(tmp_path: Path) -> None:
    told: list[int] = []
    hr.write(
        tmp_path / "x.beton",
        range(300),
        fields={"n": hr.Int()},
        workers=1,
        progress=lambda done, total, size_bytes: told.append(done),
    )
    steps = np.diff([0, *told])
    assert told[-1] == 300
    assert len(told) >= 5
    assert steps.max() <= 128
