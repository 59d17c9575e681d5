"""Damaged samples: raise, skip, or ask a function."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.helpers import Surgeon, image_file, picture
from tests.unit.loader.tools import (
    COUNT,
    CROP,
    contents,
    damage,
    headrace_threads,
    labels,
    write_pages,
    write_pictures,
    write_rows,
)

import headrace as hr
from headrace import Loader
from headrace.errors import CorruptSampleError

if TYPE_CHECKING:
    from pathlib import Path

VERIFY = [None, False]  # the checksum does not match; the JPEG cannot be decoded
OPTIONS: dict[str, Any] = {"pipelines": {"image": CROP, "text": None}, "on_error": "skip", "order": "random"}


@pytest.fixture(scope="module")
def bad(path: Path) -> list[int]:
    """Many, so that substitutes are damaged too."""
    jpegs = np.flatnonzero(hr.open(path).image_facts("image")["mode"] == 0)
    return jpegs[:: 2 if len(jpegs) > 12 else 1].tolist()


@pytest.fixture(scope="module")
def broken(path: Path, bad: list[int], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return damage(path, tmp_path_factory.mktemp("broken") / "broken.beton", images=bad)


@pytest.fixture(scope="module")
def broken_blobs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("blobs")
    return damage(write_pages(folder / "pages.beton"), folder / "broken.beton", blobs=range(0, 48, 3))


# -- skip ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verify", VERIFY)
def test_skipped_samples_are_replaced_counted_and_listed_once(broken: Path, bad: list[int], verify: Any) -> None:
    loader = Loader(broken, 5, verify=verify, drop_last=False, **OPTIONS)
    for _ in range(2):
        found = labels(loader)
        assert [len(batch) for batch in found] == [5] * 7 + [2]
        assert not {i for batch in found for i in batch} & set(bad)
    assert sorted(error.sample for error in loader.errors) == sorted(bad)
    assert all(isinstance(error, CorruptSampleError) and error.field == "image" for error in loader.errors)
    problem = "cannot be decoded" if verify is False else "checksum"
    assert all(problem in str(error) for error in loader.errors)
    assert loader.stats.samples_skipped == 2 * len(bad)


def test_good_samples_stay_where_they_are(broken: Path, path: Path, bad: list[int]) -> None:
    found = [i for batch in labels(Loader(broken, 5, **OPTIONS)) for i in batch]
    whole = [i for batch in labels(Loader(path, 5, **OPTIONS)) for i in batch]
    assert [i for i, j in zip(found, whole, strict=True) if j not in bad] == [j for j in whole if j not in bad]


@pytest.mark.parametrize("verify", VERIFY)
@pytest.mark.parametrize("order", ["sequential", "random", "quasi_random"])
def test_substitutes_are_the_same_for_any_workers(broken: Path, verify: Any, order: Any) -> None:
    options = OPTIONS | {"order": order, "verify": verify}
    expected = contents(Loader(broken, 5, workers=1, batches_ahead=1, **options))
    for workers, ahead in ((2, 2), (7, 6)):
        assert contents(Loader(broken, 5, workers=workers, batches_ahead=ahead, **options)) == expected


def test_substitutes_are_the_same_after_resuming_anywhere(broken: Path) -> None:
    loader = Loader(broken, 3, **OPTIONS)
    expected = contents(loader)
    for taken in range(1, len(loader)):
        resumed = Loader(broken, 3, **OPTIONS)
        resumed.load_state_dict(json.loads(json.dumps(loader.state_dict() | {"epoch": 0, "samples_used": 3 * taken})))
        assert contents(resumed) == expected[taken:]


def test_substitutes_do_not_depend_on_what_was_met_before(broken: Path) -> None:
    loader, fresh = Loader(broken, 5, **OPTIONS), Loader(broken, 5, **OPTIONS)
    list(loader)  # all damaged samples are known now
    second = contents(loader)
    fresh.set_epoch(1)
    assert contents(fresh) == second
    fresh = Loader(broken, 5, **OPTIONS)
    backwards = [fresh[step].label.tolist() for step in reversed(range(len(fresh)))]
    assert backwards[::-1] == labels(Loader(broken, 5, **OPTIONS))


def test_ranks_get_the_substitutes_that_one_process_would(broken: Path) -> None:
    whole = labels(Loader(broken, 6, **OPTIONS))
    ranks = [labels(Loader(broken, 2, rank=rank, world=3, **OPTIONS)) for rank in range(3)]
    assert [sorted(a + b + c) for a, b, c in zip(*ranks, strict=True)] == [sorted(batch) for batch in whole]


def test_substitutes_come_from_the_chosen_samples(broken: Path, bad: list[int]) -> None:
    chosen = [*bad[:3], 0, 2, 4, 6, 8]
    found = labels(Loader(broken, len(chosen), indices=chosen, **OPTIONS))
    assert {i for batch in found for i in batch} <= set(chosen) - set(bad)


def test_all_samples_damaged_is_an_error(path: Path, tmp_path: Path) -> None:
    dataset = hr.open(path)
    jpegs = np.flatnonzero(dataset.image_facts("image")["mode"] == 0)
    broken = damage(path, tmp_path / "all.beton", images=jpegs.tolist())
    loader = Loader(broken, 4, indices=jpegs, **OPTIONS)
    with pytest.raises(CorruptSampleError, match="the sample is damaged, and so are 100 others that were drawn"):
        list(loader)
    assert headrace_threads() == []


@pytest.mark.parametrize("cache", ["os", 1, "8MB", "1GB"])
@pytest.mark.parametrize("order", ["sequential", "random", "quasi_random"])
def test_other_fields_are_skipped_too_however_they_are_read(broken_blobs: Path, cache: Any, order: Any) -> None:
    options: dict[str, Any] = {"order": order, "on_error": "skip", "drop_last": False, "pool_pages": 2}
    loader = Loader(broken_blobs, 5, cache=cache, **options)
    for batch in loader:
        assert len(batch.blob) == len(batch.label)
        assert not (batch.label % 3 == 0).any()
        for label, blob in zip(batch.label.tolist(), batch.blob, strict=True):
            assert len(blob) == 300_000 - 1000 * label
    assert sorted(error.sample for error in loader.errors) == list(range(0, 48, 3))
    assert {error.field for error in loader.errors} == {"blob"}
    loader.set_epoch(0)
    assert labels(loader) == labels(Loader(broken_blobs, 5, cache="os", **options))


def test_a_damaged_record_is_skipped(path: Path, tmp_path: Path) -> None:
    surgeon = Surgeon(write_rows(tmp_path / "x.beton"))
    size = hr.open(tmp_path / "x.beton").layout.record.itemsize
    at = surgeon.metadata_start + 5 * size
    label = surgeon.data.index((5).to_bytes(8, "little"), at, at + size)
    broken = surgeon.put(label, (99).to_bytes(8, "little")).save()
    loader = Loader(broken, COUNT, **OPTIONS)
    (found,) = labels(loader)
    assert 99 not in found
    assert [(error.sample, error.field) for error in loader.errors] == [(5, None)]
    with pytest.raises(CorruptSampleError, match=r"sample 5.*metadata record"):
        list(Loader(broken, COUNT, **(OPTIONS | {"on_error": "raise"})))


def test_pictures_of_a_folder_are_skipped_too(tmp_path: Path) -> None:
    for i in range(6):
        (tmp_path / f"{i}.jpg").write_bytes(image_file(picture(i, 20, 20), "JPEG"))
    whole = (tmp_path / "5.jpg").read_bytes()
    (tmp_path / "6.jpg").write_bytes(b"\xff\xd8\xff nothing")
    (tmp_path / "7.png").write_bytes(b"\x89PNG\r\n\x1a\n nothing")
    (tmp_path / "8.jpg").write_bytes(whole[: len(whole) * 3 // 4])
    loader = Loader(tmp_path, 3, on_error="skip")
    assert [len(batch.image) for batch in loader] == [3, 3, 3]
    assert sorted(error.sample for error in loader.errors) == [6, 7, 8]


@pytest.mark.parametrize("start", [0.5, 0.9])
def test_a_jpeg_that_breaks_off_is_damaged(tmp_path: Path, start: float) -> None:
    path = write_pictures(tmp_path / "x.beton", [picture(i, 64, 64) for i in range(6)], mode="jpg")
    dataset, surgeon = hr.open(path), Surgeon(path)
    size = len(dataset.read_bytes([4], "image")[0])
    kept = int(size * start)
    surgeon.put(int(dataset.image_facts("image")["data_ptr"][4]) + kept, bytes(size - kept))
    loader = Loader(surgeon.save(), 2, verify=False, on_error="skip")
    assert 4 not in [i for batch in labels(loader) for i in batch]
    assert [error.sample for error in loader.errors] == [4]


# -- raise, and functions -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verify", VERIFY)
def test_a_damaged_sample_is_raised_by_default(broken: Path, bad: list[int], verify: Any) -> None:
    loader = Loader(broken, 1, verify=verify, pipelines={"image": CROP})
    with pytest.raises(CorruptSampleError) as caught:
        list(loader)
    assert caught.value.sample == bad[0]
    assert loader.errors == []


def test_a_function_is_asked_once_for_each_damaged_sample(broken: Path, bad: list[int]) -> None:
    asked: list[CorruptSampleError] = []
    loader = Loader(broken, 5, **(OPTIONS | {"on_error": asked.append, "drop_last": False}))
    assert labels(loader) == labels(Loader(broken, 5, drop_last=False, **OPTIONS))
    list(loader)
    assert sorted(error.sample for error in asked) == sorted(bad)
    assert loader.errors == asked


def test_a_function_may_raise_the_error_or_one_of_its_own(broken: Path, bad: list[int]) -> None:
    def stop(error: CorruptSampleError) -> None:
        raise KeyError(f"sample {error.sample}") from error

    loader = Loader(broken, 1, **(OPTIONS | {"on_error": stop, "order": "sequential"}))
    seen: list[int] = []
    with pytest.raises(KeyError, match=f"sample {bad[0]}"):
        seen.extend(int(batch.label[0]) for batch in loader)
    assert seen == list(range(bad[0]))
    assert headrace_threads() == []
    assert loader.errors == []


def test_a_function_may_look_at_the_errors_so_far(broken: Path, bad: list[int]) -> None:
    counts = []

    def count(error: CorruptSampleError) -> None:
        counts.append((len(loader.errors), threading.current_thread().name))

    loader = Loader(broken, 5, **(OPTIONS | {"on_error": count, "drop_last": False}))
    list(loader)
    assert [number for number, _ in counts] == list(range(len(bad)))


# -- verify -------------------------------------------------------------------------------------------------------


def test_checksums_are_checked_when_wanted(broken_blobs: Path) -> None:
    wrong = "sample 0, field 'blob'.*checksum 0x.* expected"
    for verify in (True, None):
        with pytest.raises(CorruptSampleError, match=wrong):
            list(Loader(broken_blobs, 5, verify=verify))
    assert len(list(Loader(broken_blobs, 5, verify=False))) == 9  # wrong bytes, and nobody looks
    unchecked = hr.open(broken_blobs, checksums=False)
    assert len(list(Loader(unchecked, 5))) == 9
    with pytest.raises(CorruptSampleError, match=wrong):
        list(Loader(unchecked, 5, verify=True))


def test_checksums_that_do_not_exist_cannot_be_checked(golden_dir: Path) -> None:
    path = golden_dir / "img_raw_var.beton"
    with pytest.raises(ValueError, match=r"verify=True, but .* has no checksums; make them with: headrace index"):
        Loader(path, 1, verify=True)
    Loader(path, 1, verify=None)
    Loader(path, 1, verify=False)
