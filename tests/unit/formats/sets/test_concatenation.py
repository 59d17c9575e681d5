"""Datasets one after the other are as one."""

from __future__ import annotations

import os
import pickle
import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.helpers import image_file, picture

import headrace as hr
from headrace import ops
from headrace.errors import ClosedError, CorruptSampleError, FormatError
from headrace.types import missing_members

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.formats.sets.conftest import Pictures

    from headrace import Dataset

ORDERS = [[], [0], [23, 0, 9, 9, 12, 10], list(range(24)), [2, 1, 0], [9]]
CROP = [ops.RandomResizedCrop(64), ops.RandomHorizontalFlip()]


def same(one: Any, other: Any) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def numbers(folder: Path, *lengths: int, **options: Any) -> list[Dataset]:
    """Files of one Int field that count on."""
    first, opened = 0, []
    for i, length in enumerate(lengths):
        path = folder / f"n{i}.beton"
        names = [f"s{k}" for k in range(first, first + length)]
        hr.write(path, range(first, first + length), fields={"n": hr.Int()}, names=names, **options)
        opened.append(hr.open(path))
        first += length
    return opened


def test_it_is_a_whole_dataset(pictures: Pictures) -> None:
    both = hr.concat(pictures.parts)
    assert missing_members(both, hr.Dataset) == []
    assert len(both) == 24
    assert both.page_size is None
    assert "part-0.beton to" in both.path
    assert both.for_epoch(3) is both


@pytest.mark.parametrize("order", ORDERS)
def test_every_way_of_reading_gives_the_samples_of_one_file(pictures: Pictures, order: list[int]) -> None:
    both, whole, where = hr.concat(pictures.parts), pictures.whole, np.array(order, np.int64)
    assert both.read_bytes(where, "image") == whole.read_bytes(where, "image") == [pictures.files[i] for i in order]
    assert same(both.read_values(where, "image"), whole.read_values(where, "image"))
    assert same(both.read_ragged(where, "image"), whole.read_ragged(where, "image"))
    assert [len(s.image) for s in both[where]] == [len(s.image) for s in whole[where]]
    assert [both.sources()[i][0] for i in order] == [pictures.files[i] for i in order]
    assert len(both.rows(where)) == len(order)
    spans = both.image_spans(where, "image")
    stored = [spans.base[int(o) : int(o) + int(s)].tobytes() for o, s in zip(spans.offsets, spans.sizes, strict=True)]
    assert stored == [pictures.files[i] for i in order]
    assert np.array_equal(spans.widths, whole.image_spans(where, "image").widths)


def test_a_batch_of_one_part_is_not_copied(pictures: Pictures) -> None:
    both = hr.concat(pictures.parts)
    spans = both.image_spans(np.array([3, 1], np.int64), "image")
    assert np.shares_memory(spans.base, pictures.parts[0].image_spans(np.array([0], np.int64), "image").base)


def test_tile_indices_and_checksums_are_kept_where_parts_have_them(pictures: Pictures) -> None:
    where = np.array([0, 9, 20], np.int64)
    spans = hr.concat(pictures.parts).image_spans(where, "image")
    whole = pictures.whole.image_spans(where, "image")
    assert spans.tile_indices is not None
    assert whole.tile_indices is not None
    packed, begins, sizes = spans.tile_indices
    assert (sizes > 0).tolist() == [True, True, False]
    base, starts, lengths = whole.tile_indices
    for i in range(2):
        mine = packed[int(begins[i]) : int(begins[i] + sizes[i])]
        assert np.array_equal(mine, base[int(starts[i]) : int(starts[i] + lengths[i])])
    assert np.array_equal(spans.checksums, whole.checksums)  # computed for the .ffr, which has others


@pytest.mark.parametrize("order", ["sequential", "random"])
def test_a_loader_gives_the_same_batches_as_over_one_file(pictures: Pictures, order: str) -> None:
    options: dict[str, Any] = {"order": order, "seed": 5, "pipelines": {"image": CROP}, "workers": 2}
    one, many = hr.Loader(pictures.whole, 8, **options), hr.Loader(hr.concat(pictures.parts), 8, **options)
    for _ in range(2):
        for a, b in zip(one, many, strict=True):
            assert np.array_equal(a.image, b.image)
    assert many.stats.jpegs["window"] > 0
    assert "of 3 parts" in many.plan()


def test_fields_of_all_kinds(tmp_path: Path) -> None:
    fields = {"n": hr.Int(), "x": hr.Float(), "t": hr.Text(), "j": hr.Json(), "a": hr.NDArray("int16", (2, 3))}
    fields |= {"b": hr.Bytes()}
    rows = [(i, i / 2, f"t{i}", {"i": i}, np.full((2, 3), i, np.int16), bytes([i] * i)) for i in range(8)]
    for name, some in (("w", rows), ("p", rows[:3]), ("q", rows[3:])):
        hr.write(tmp_path / f"{name}.beton", some, fields=fields)
    whole = hr.open(tmp_path / "w.beton")
    both = hr.concat([hr.open(tmp_path / "p.beton"), hr.open(tmp_path / "q.beton")])
    where = np.array([7, 0, 3, 2], np.int64)
    for field in fields:
        one, other = whole.read_values(where, field), both.read_values(where, field)
        assert type(one) is type(other)
        assert same(one, other)
    taken = both.read_arrays(where, "a", lambda shape, dtype: np.zeros(shape, dtype))
    assert np.array_equal(taken, whole.read_values(where, "a"))
    for a, b in zip(hr.Loader(whole, 4, collate="pad"), hr.Loader(both, 4, collate="pad"), strict=True):
        assert np.array_equal(a.a, b.a)
        assert np.array_equal(a.b.values, b.b.values)
        assert a.j.values.tobytes() == b.j.values.tobytes()
    hr.write(tmp_path / "again.beton", both)
    assert hr.open(tmp_path / "again.beton").read_bytes(range(8), "b") == whole.read_bytes(range(8), "b")


def test_fields_in_another_order_are_the_same(tmp_path: Path) -> None:
    hr.write(tmp_path / "a.beton", [(1, "x")], fields={"n": hr.Int(), "t": hr.Text()})
    hr.write(tmp_path / "b.beton", [("y", 2)], fields={"t": hr.Text(), "n": hr.Int()})
    both = hr.concat([hr.open(tmp_path / "a.beton"), hr.open(tmp_path / "b.beton")])
    assert [tuple(sample) for sample in both] == [(1, "x"), (2, "y")]
    hr.write(tmp_path / "c.beton", both, workers=0)
    assert tuple(hr.open(tmp_path / "c.beton")[1]) == (2, "y")


def test_names_are_looked_up_in_the_parts(tmp_path: Path) -> None:
    both = hr.concat(numbers(tmp_path, 3, 4))
    keys = both.keys
    assert keys is not None
    assert list(keys) == [f"s{i}" for i in range(7)] == keys[:]
    assert keys == [f"s{i}" for i in range(7)]
    assert (keys.index("s5"), keys[-1], keys[2:4], "s9" in keys) == (5, "s6", ["s2", "s3"], False)
    assert both["s4"].n == 4
    with pytest.raises(KeyError, match="no sample is called 'x'"):
        both["x"]
    with pytest.raises(IndexError, match="name 7 is out of range"):
        keys[7]
    hr.write(tmp_path / "plain.beton", [1], fields={"n": hr.Int()})
    assert hr.concat([both, hr.open(tmp_path / "plain.beton")]).keys is None


def test_fields_that_differ_are_named_with_both_files(tmp_path: Path) -> None:
    hr.write(tmp_path / "a.beton", [1], fields={"n": hr.Int()})
    hr.write(tmp_path / "b.beton", [1.0], fields={"n": hr.Float()})
    hr.write(tmp_path / "c.beton", [(1, 2)], fields={"n": hr.Int(), "m": hr.Int()})
    a, b, c = (hr.open(tmp_path / f"{name}.beton") for name in "abc")
    with pytest.raises(FormatError, match=r"b\.beton: field 'n' is Float\(\), and in .*a\.beton it is Int\(\)"):
        hr.concat([a, b])
    with pytest.raises(FormatError, match=r"c\.beton: field 'm' is Int\(\), and in .*a\.beton it is not there"):
        hr.concat([a, c])


def test_pictures_are_pictures_however_they_are_written(tmp_path: Path) -> None:
    data = image_file(picture(1, 20, 10), "JPEG")
    hr.write(tmp_path / "a.beton", [data], fields={"image": hr.Image(mode="raw")})
    hr.write(tmp_path / "b.beton", [data], fields={"image": hr.Image(quality=50)})
    both = hr.concat([hr.open(tmp_path / "a.beton"), hr.open(tmp_path / "b.beton")])
    (batch,) = hr.Loader(both, 2, pipelines={"image": [ops.Resize((5, 5))]})
    assert batch.image.shape == (2, 5, 5, 3)
    assert both.image_spans(np.arange(2), "image").modes.tolist() == [1, 0]


def test_classes_must_agree(tmp_path: Path) -> None:
    for name, classes in (("a", ["cat", "dog"]), ("b", ["cat", "cow"]), ("c", ["cat", "dog"]), ("d", ["cat"])):
        hr.write(tmp_path / f"{name}.beton", [1], fields={"n": hr.Int()}, class_names={"n": classes})
    hr.write(tmp_path / "e.beton", [1], fields={"n": hr.Int()})
    a, b, c, d, e = (hr.open(tmp_path / f"{name}.beton") for name in "abcde")
    assert hr.concat([e, a, c]).class_names == {"n": ["cat", "dog"]}
    with pytest.raises(FormatError, match="class 1 is 'cow', and there it is 'dog'"):
        hr.concat([a, b])
    with pytest.raises(FormatError, match="there are 1, and there are 2 there"):
        hr.concat([a, d])


def test_what_is_no_list_of_datasets(tmp_path: Path) -> None:
    (dataset,) = numbers(tmp_path, 1)
    with pytest.raises(ValueError, match="empty list"):
        hr.concat([])
    with pytest.raises(TypeError, match="takes a list of datasets"):
        hr.concat(dataset)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"got the text 'x\.beton'; open it first"):
        hr.concat(["x.beton"])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="not a whole Dataset"):
        hr.concat([[1, 2]])  # type: ignore[list-item]


def test_parts_of_parts_stand_for_themselves(tmp_path: Path) -> None:
    a, b, c = numbers(tmp_path, 2, 2, 2)
    assert hr.concat([hr.concat([a, b]), c]).parts == (a, b, c)


def test_a_damaged_sample_is_named_in_both_ways(tmp_path: Path) -> None:
    files = [image_file(picture(i, 64, 48), "JPEG") for i in range(6)]
    for name, some in (("a", files[:2]), ("b", files[2:])):
        hr.write(tmp_path / f"{name}.beton", some, fields={"image": hr.Image()})
    data = bytearray((tmp_path / "b.beton").read_bytes())
    at = data.find(files[3][-300:-200])
    data[at] ^= 1
    (tmp_path / "b.beton").write_bytes(data)
    both = hr.concat([hr.open(tmp_path / "a.beton"), hr.open(tmp_path / "b.beton")])
    with pytest.raises(CorruptSampleError, match=r"sample 3, .*\(this is sample 1 of .*b\.beton\)") as caught:
        both.read_bytes([0, 3], "image")
    assert caught.value.sample == 3
    with pytest.raises(CorruptSampleError, match="this is sample 1 of"):
        both.sources()[3]
    with pytest.raises(CorruptSampleError, match=r"sample 3, .*\(this is sample 1 of .*b\.beton\)"):
        list(hr.Loader(both, 2, pipelines={"image": [ops.Resize((8, 8))]}))
    loader = hr.Loader(both, 2, on_error="skip", pipelines={"image": [ops.Resize((8, 8))]})
    assert len(list(loader)) == 3
    assert [error.sample for error in loader.errors] == [3]
    report = both.verify()
    (problem,) = report.problems
    assert (problem.sample, report.bad_samples, report.samples_checked) == (3, (3,), 6)
    assert re.search(r"b\.beton, sample 1: ", problem.message)
    unchecked = both.with_checksums(False)
    assert not unchecked.has_checksums
    assert both.has_checksums
    assert unchecked.read_bytes([3], "image") != [files[3]]


def test_progress_goes_on_from_part_to_part(tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    hr.concat(numbers(tmp_path, 3, 4)).verify(progress=lambda done, total, size: seen.append((done, total)))
    assert seen[-1] == (7, 7)
    assert sorted(seen) == seen


def test_fork_pickling_threads_and_closing(pictures: Pictures, tmp_path: Path) -> None:
    both = hr.concat(pictures.parts)
    copy = pickle.loads(pickle.dumps(both))
    assert (copy.fingerprint, copy.path) == (both.fingerprint, both.path)
    assert copy.read_bytes([10, 0], "image") == both.read_bytes([10, 0], "image")
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda i: both.read_bytes([i % 24, (i * 7) % 24], "image")[0], range(200)))
    assert found == [pictures.files[i % 24] for i in range(200)]
    pid = os.fork()
    if not pid:
        os._exit(0 if both.read_bytes([12], "image") == [pictures.files[12]] else 1)
    assert os.waitpid(pid, 0)[1] == 0
    with hr.concat(numbers(tmp_path, 2, 2)) as some:
        pass
    with pytest.raises(ClosedError):
        some.read_values(np.array([1]), "n")


def test_the_fingerprint_is_that_of_the_parts(tmp_path: Path) -> None:
    a, b = numbers(tmp_path, 3, 4)
    prints = {hr.concat(parts).fingerprint for parts in ([a, b], [b, a], [a], [a, a])}
    assert len(prints) == 4


def test_pages_of_parts_differ(tmp_path: Path) -> None:
    for name in "ab":
        hr.write(tmp_path / f"{name}.beton", [bytes(1 << 20)] * 5, fields={"b": hr.Bytes()}, page_size=1 << 21)
    hr.write(tmp_path / "c.ffr", [b"x"] * 3, fields={"data": hr.Bytes()})
    a, b = hr.open(tmp_path / "a.beton"), hr.open(tmp_path / "b.beton")
    pages = hr.concat([a, b]).page_numbers()
    assert pages is not None
    assert not set(pages[:5]) & set(pages[5:])
    ffr = hr.open(tmp_path / "c.ffr")
    numbered = hr.concat([ffr, ffr]).page_numbers()
    assert numbered is not None
    assert numbered.tolist() == [0, 0, 0, 1, 1, 1]
    loader = hr.Loader(hr.concat([a, b]), 1, order="quasi_random", pool_pages=1, seed=2)
    assert sorted(int(i) for step in range(10) for i in loader._batches.batch(loader._order(0), step)) == [*range(10)]
    with pytest.raises(ValueError, match="has no pages to read ahead"):
        hr.Loader(hr.concat([a, b]), 1, cache="1GB")
