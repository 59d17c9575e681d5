"""``headrace.diagnose``: for each piece of advice a dataset or loader that must get it, and one that must not."""

from __future__ import annotations

import json
import re
import shlex
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image as Pillow
from tests.helpers import picture
from tests.unit.loader.tools import values_of

import headrace as hr
from headrace import Loader, ops
from headrace.cli.main import build_parser
from headrace.errors import CorruptSampleError
from headrace.loader import diagnosis, remedies
from headrace.loader.measurement import Measured, measure, sample_pictures
from headrace.loader.remedies import Case, make_case
from headrace.loader.stats import LoaderStats

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = 0.4


def write(path: Path, pictures: list[np.ndarray], *, mode: Any = "jpg", **options: Any) -> Path:
    fields = {"image": hr.Image(mode=mode), "label": hr.Int()}
    hr.write(path, [(one, i) for i, one in enumerate(pictures)], fields=fields, workers=1, **options)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("diagnosis")


@pytest.fixture(scope="module")
def large(folder: Path) -> list[np.ndarray]:
    """Pictures far larger than what is taken of them."""
    return [picture(i, 900, 1200) for i in range(8)]


@pytest.fixture(scope="module")
def bare(folder: Path, large: list[np.ndarray]) -> Path:
    """Large JPEGs without indices and checksums."""
    return write(folder / "bare.beton", large, annex=False)


@pytest.fixture(scope="module")
def indexed(folder: Path, large: list[np.ndarray]) -> Path:
    """The same with both."""
    return write(folder / "indexed.beton", large)


@pytest.fixture(scope="module")
def numbers(folder: Path) -> Path:
    path = folder / "numbers.beton"
    hr.write(path, [(i, i / 2) for i in range(2000)], fields={"n": hr.Int(), "x": hr.Float()})
    return path


def small_crops(path: Path, **options: Any) -> Loader:
    crop = [ops.RandomResizedCrop(32, scale=(0.005, 0.01))]
    return Loader(path, 4, pipelines={"image": crop, "label": None}, **options)


def case_of(loader: Loader, seconds: float = SECONDS) -> Case:
    return make_case(loader, seconds)


def with_stats(case: Case, **stages: float) -> Case:
    """The same loader, as if it had been measured otherwise."""
    stats = LoaderStats(batches=1, samples=100, loop_s=1.0, wait_s=1.0, workers=2)
    stats.stages.update(stages)
    return replace(case, measured=Measured(stats, 10.0, 0))


# -- pictures ---------------------------------------------------------------------------------------------------------


def test_an_index_that_is_missing(bare: Path, indexed: Path) -> None:
    advice = remedies.missing_index(case_of(small_crops(bare)))
    assert advice is not None
    assert (advice.kind, advice.basis) == ("jpeg_index", "measured")
    assert f"headrace index {bare}" in advice.text
    assert advice.factor is not None
    assert advice.factor > 1.5
    assert remedies.missing_index(case_of(small_crops(indexed))) is None


def test_no_index_where_it_would_bring_nothing(bare: Path) -> None:
    """Something else binds, or whole pictures are taken."""
    slow = case_of(small_crops(bare))
    assert remedies.missing_index(with_stats(slow, decode=0.1, read=2.0)) is None
    assert remedies.missing_index(case_of(small_crops(bare, jpeg="libjpeg"))) is None


def test_pictures_that_are_stored_too_large(indexed: Path, folder: Path) -> None:
    whole = {"image": [ops.Resize(32)], "label": None}
    advice = remedies.stored_too_large(case_of(Loader(indexed, 4, pipelines=whole)))
    assert advice is not None
    assert (advice.kind, advice.basis) == ("max_side", "measured")
    assert "stored at 1200 px" in advice.text
    assert "--max-side 71" in advice.text
    assert advice.factor is not None
    assert advice.factor > 2
    fitting = write(folder / "fitting.beton", [picture(i, 60, 70) for i in range(8)])
    assert remedies.stored_too_large(case_of(Loader(fitting, 4, pipelines=whole))) is None


def test_raw_pictures_stay_raw_when_they_are_made_smaller(
    folder: Path, indexed: Path, large: list[np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ``convert --max-side`` keeps them."""
    raw = write(folder / "large_raw.beton", large, mode="raw")
    fields = []
    again = remedies._stored_again

    def stored_again(pictures: Any, field: hr.Image) -> Any:
        fields.append(field)
        return again(pictures, field)

    monkeypatch.setattr(remedies, "_stored_again", stored_again)
    monkeypatch.setattr(remedies, "native_seconds", lambda pictures, ways: [1.0, 0.5])
    whole = {"image": [ops.Resize(32)], "label": None}
    texts = []
    for path in (raw, indexed):
        advice = remedies.stored_too_large(with_stats(case_of(Loader(path, 4, pipelines=whole)), resize=2.0))
        assert advice is not None
        texts.append(advice.text)
    assert [field.mode for field in fields] == ["raw", "jpg"]
    assert "shrunk and stay raw" in texts[0]
    assert "compressed again" in texts[1]
    hr.convert(raw, folder / "smaller_raw.beton", max_side=71)
    with hr.open(folder / "smaller_raw.beton") as smaller:
        assert len(smaller.read_bytes([0], "image")[0]) == 71 * 53 * 3


def test_pictures_of_which_pixels_are_cut_are_not_made_smaller(indexed: Path) -> None:
    cut = {"image": [ops.RandomCrop(32)], "label": None}
    assert remedies.stored_too_large(case_of(Loader(indexed, 4, pipelines=cut))) is None


def test_png_and_jpeg(folder: Path) -> None:
    for kind in ("png", "jpg"):
        (folder / kind / "a").mkdir(parents=True)
        for i in range(6):
            Pillow.fromarray(picture(i, 500, 600)).save(folder / kind / "a" / f"{i}.{kind}")
    pipelines = {"image": [ops.RandomResizedCrop(32, scale=(0.01, 0.05))]}
    advice = remedies.slow_codec(case_of(Loader(folder / "png", 3, pipelines=pipelines)))
    assert advice is not None
    assert (advice.kind, advice.basis) == ("codec", "measured")
    assert "stored as PNG" in advice.text
    assert "loses a little" in advice.text
    assert remedies.slow_codec(case_of(Loader(folder / "jpg", 3, pipelines=pipelines))) is None


def test_fast_precision(indexed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = case_of(small_crops(indexed))
    monkeypatch.setattr(remedies, "simd_level", lambda: "avx512")
    monkeypatch.setattr(remedies, "native_seconds", lambda pictures, ways: [1.0, 0.5])
    advice = remedies.fast_precision(with_stats(case, decode=2.0))
    assert advice is not None
    assert (advice.kind, advice.factor) == ("precision", 2.0)
    assert remedies.fast_precision(with_stats(case, read=2.0)) is None  # nothing to gain
    monkeypatch.setattr(remedies, "simd_level", lambda: "avx2")
    assert remedies.fast_precision(with_stats(case, decode=2.0)) is None
    monkeypatch.setattr(remedies, "simd_level", lambda: "avx512")
    assert remedies.fast_precision(case_of(small_crops(indexed, precision="fast"))) is None


# -- the loader -------------------------------------------------------------------------------------------------------


def drowsy(values: Any) -> Any:
    time.sleep(0.01)
    return values


def test_an_op_in_python(numbers: Path) -> None:
    slow = Loader(numbers, 100, pipelines={"n": [ops.Apply(drowsy)]})
    found = hr.diagnose(slow, seconds=SECONDS)
    advice = next(one for one in found.advice if one.kind == "python_op")
    assert advice.basis == "computed"
    assert "drowsy" in advice.text
    assert "% of the time" in advice.text
    assert advice.factor is not None
    assert advice.factor > 2
    assert found.binding.startswith("python: ")
    assert "drowsy" in found.text
    quick = Loader(numbers, 100, pipelines={"n": [ops.Apply(np.negative)]})
    assert remedies.python_op(with_stats(case_of(quick), read=2.0)) is None
    assert remedies.python_op(case_of(Loader(numbers, 100))) is None


def test_too_few_workers(indexed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remedies, "own_cores", lambda: 8)
    monkeypatch.setattr(Case, "times_as_fast", lambda self, **changes: {8: 3.5}[changes["workers"]])
    advice = remedies.workers(case_of(small_crops(indexed, workers=1)))
    assert advice is not None
    assert (advice.kind, advice.factor, advice.basis) == ("workers", 3.5, "measured")
    assert "workers=1, and this process has 8 cores" in advice.text
    assert remedies.workers(case_of(small_crops(indexed))) is None  # "auto"
    assert remedies.workers(with_stats(case_of(small_crops(indexed, workers=1)), read=4.0, decode=0.1)) is None
    monkeypatch.setattr(Case, "times_as_fast", lambda self, **changes: 1.01)
    assert remedies.workers(case_of(small_crops(indexed, workers=1))) is None


def test_too_many_workers(indexed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remedies, "own_cores", lambda: 2)
    advice = remedies.workers(case_of(small_crops(indexed, workers=4)))
    assert advice is not None
    assert (advice.factor, advice.basis) == (None, "fact")
    assert remedies.workers(case_of(small_crops(indexed, workers=2))) is None


def test_small_batches(numbers: Path) -> None:
    advice = remedies.small_batches(case_of(Loader(numbers, 2)))
    assert advice is not None
    assert (advice.kind, advice.basis) == ("batch_size", "measured")
    assert "with 8 samples in a batch" in advice.text
    assert advice.factor is not None
    assert advice.factor > 1.2
    assert remedies.small_batches(case_of(Loader(numbers, 500))) is None
    assert remedies.small_batches(case_of(Loader(numbers, 2, indices=[0, 1]))) is None  # no larger ones are possible


def test_what_checksums_cost(folder: Path) -> None:
    raw = write(folder / "raw.beton", [picture(i, 256, 256) for i in range(32)], mode="raw")
    plain = {"image": [], "label": None}
    case = case_of(Loader(raw, 16, pipelines=plain))
    advice = remedies.checks(with_stats(case, check=1.0, resize=1.0))
    assert advice is not None
    assert (advice.kind, advice.basis, advice.factor) == ("verify", "computed", 2.0)
    assert remedies.checks(with_stats(case, check=0.01, decode=1.0)) is None
    assert remedies.checks(case_of(Loader(raw, 16, pipelines=plain, verify=False))) is None


def test_wide_values_to_a_device(indexed: Path) -> None:
    floats = Loader(indexed, 4, pipelines={"image": [ops.Resize(32), ops.ToDtype("float32")]})
    advice = remedies.to_device(with_stats(case_of(floats), copy=1.0))
    assert advice is not None
    assert (advice.kind, advice.factor, advice.basis) == ("dtype", 2.0, "computed")
    assert remedies.to_device(with_stats(case_of(floats), copy=0.01, decode=2.0)) is None
    assert remedies.to_device(with_stats(case_of(small_crops(indexed)), copy=1.0)) is None


# -- the file ---------------------------------------------------------------------------------------------------------


def test_a_random_order_of_a_file_that_does_not_fit(
    indexed: Path, numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = case_of(small_crops(indexed, order="random"))
    assert remedies.order(case) is None
    monkeypatch.setattr(remedies, "available_bytes", lambda: 1000)
    advice = remedies.order(case)
    assert advice is not None
    assert (advice.kind, advice.factor, advice.basis) == ("order", None, "fact")
    assert "order='quasi_random'" in advice.text
    assert remedies.order(case_of(small_crops(indexed, order="quasi_random"))) is None
    assert remedies.order(case_of(small_crops(indexed))) is None
    assert remedies.order(case_of(Loader(numbers, 100, order="random"))) is None  # there are no pages


def test_a_random_order_from_a_disk_is_measured(indexed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = case_of(small_crops(indexed, order="random"))
    stats = case.measured.stats
    waits = replace(case, measured=Measured(stats, 0.0, stats.bytes_read))
    rates = {"random": 100.0, "quasi_random": 400.0}
    monkeypatch.setattr(Case, "rate_with", lambda self, seconds=None, **changes: rates[changes.get("order", "random")])
    advice = remedies.order(waits)
    assert advice is not None
    assert (advice.factor, advice.basis) == (4.0, "measured")
    rates["quasi_random"] = 100.0
    assert remedies.order(waits) is None
    assert diagnosis._binding(waits.measured, is_local=True) == "disk"


def test_a_format_that_is_slow_to_read(folder: Path, numbers: Path) -> None:
    path = folder / "rows.csv"
    path.write_text("n,x,word\n" + "".join(f"{i},{i / 3},word{i}\n" for i in range(5000)))
    case = case_of(Loader(path, 250, order="random"), seconds=1.0)
    advice = remedies.another_format(case)
    assert advice is not None
    assert (advice.kind, advice.basis) == ("format", "measured")
    assert f"headrace convert {path} NEW.beton" in advice.text
    assert advice.factor is not None
    assert advice.factor > 1.2
    assert remedies.another_format(with_stats(case, read=0.1, python=2.0)) is None  # something else binds
    assert remedies.another_format(with_stats(case_of(Loader(numbers, 100)), read=2.0)) is None  # it is a .beton


def test_the_part_that_is_written_has_the_same_samples(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "few.csv"
    path.write_text("n,x\n" + "".join(f"{i},{i / 3}\n" for i in range(30)))
    seen = []

    def rate_of(loader: Loader, seconds: float) -> float:
        seen.append([(len(batch.n), values_of(batch)) for batch in loader])
        return 100.0 * len(seen)

    case = with_stats(case_of(Loader(path, 7)), read=2.0)
    monkeypatch.setattr(remedies, "_possible_rate", rate_of)
    advice = remedies.another_format(case)
    assert advice is not None
    assert advice.factor == pytest.approx(4 / 3)  # the better of two each, by turns
    assert seen[0] == seen[1] == seen[2] == seen[3]
    assert sum(count for count, _ in seen[0]) == 30


def test_a_store_without_a_cache() -> None:
    def case(*, is_local: bool) -> Any:
        return SimpleNamespace(
            loader=SimpleNamespace(dataset=SimpleNamespace(is_local=is_local, path="s3://b/x.beton"))
        )

    advice = remedies.no_cache(case(is_local=False))
    assert advice is not None
    assert (advice.kind, advice.basis) == ("cache_dir", "fact")
    assert remedies.no_cache(case(is_local=True)) is None


def test_no_checksums(bare: Path, indexed: Path) -> None:
    advice = remedies.no_checksums(case_of(small_crops(bare)))
    assert advice is not None
    assert (advice.kind, advice.factor, advice.basis) == ("checksums", None, "fact")
    assert remedies.no_checksums(case_of(small_crops(indexed))) is None


COMMAND = re.compile(r"headrace (?:\w+) .*?(?=\. [A-Z]| \(|$)")


def test_every_command_that_is_advised_can_be_run(
    bare: Path, folder: Path, large: list[np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remedies, "native_seconds", lambda pictures, ways: [1.0, 0.1])
    rates = iter([1.0, 9.0] * 99)
    monkeypatch.setattr(remedies, "_possible_rate", lambda loader, seconds: next(rates))
    places = [bare, folder / "with spaces.tar", folder / "pngs", folder / "pairs-*.beton"]
    hr.convert(bare, places[1])
    (places[2] / "a").mkdir(parents=True)
    for part, one in enumerate(large[:2]):
        Pillow.fromarray(one).save(places[2] / "a" / f"{part}.png")
        write(folder / f"pairs-{part}.beton", large[:2], annex=False)
    told: dict[str, set[str]] = {}
    for path in places:
        loader = Loader(str(path), 2, pipelines={"image": [ops.RandomResizedCrop(32)]})
        case = case_of(loader, 0.1)
        cases = [with_stats(case, decode=3.0), with_stats(case, read=3.0)]
        found = [advice for remedy in remedies.REMEDIES for one in cases if (advice := remedy(one)) is not None]
        for advice in found:
            for command in COMMAND.findall(advice.text):
                told.setdefault(advice.kind, set()).add(command)
                words = shlex.split(command)[1:]
                assert build_parser().parse_args(words).verb == words[0]
    assert set(told) == {"jpeg_index", "max_side", "codec", "format", "checksums"}


# -- as a whole -------------------------------------------------------------------------------------------------------


def test_the_usual_training_of_pictures(bare: Path) -> None:
    found = hr.diagnose(bare, seconds=SECONDS)
    assert "RandomResizedCrop" in found.pipeline
    assert "float16" in found.pipeline
    assert found.samples_per_s > 0
    assert found.binding in ("decode", "resize")
    assert "of the threads' time" in found.text
    kinds = [advice.kind for advice in found.advice]
    assert "checksums" in kinds
    factors = [advice.factor or 0 for advice in found.advice]
    assert factors == sorted(factors, reverse=True)
    text = str(found)
    assert f"What binds: {found.text}." in text
    assert "What to change:" in text
    assert f"  1. {found.advice[0]}" in text
    assert json.loads(json.dumps(found.facts()))["binding"] == found.binding


def test_nothing_to_gain_is_said(numbers: Path) -> None:
    found = hr.diagnose(numbers, seconds=SECONDS)
    assert found.advice == ()
    assert "Nothing was found that would make it faster or safer." in str(found)
    assert found.binding == "read"


def test_other_pipelines_of_a_dataset(indexed: Path) -> None:
    found = hr.diagnose(indexed, seconds=SECONDS, pipelines={"image": [ops.Resize(16)], "label": None})
    assert "Resize" in found.pipeline
    assert "label: left out" in found.pipeline


def test_the_consumer_of_a_loop_that_was(numbers: Path) -> None:
    loader = Loader(numbers, 500)
    state = loader.state_dict()
    for _ in loader:
        time.sleep(0.6)
    before = loader.stats.copy()
    found = hr.diagnose(loader, seconds=SECONDS)
    assert found.binding == "consumer"
    assert "a faster loader would bring nothing" in found.text
    assert loader.stats == before  # the loader itself is left alone
    assert loader.state_dict() == state | {"epoch": 1}


@pytest.mark.parametrize("kind", ["jsonl", "csv", "npy", "tar", "zip"])
def test_every_kind_of_dataset_can_be_looked_at(folder: Path, kind: str) -> None:
    path = folder / f"any.{kind}"
    if kind == "jsonl":
        path.write_text("".join(f'{{"n": {i}}}\n' for i in range(20)))
    elif kind == "csv":
        path.write_text("n\n" + "".join(f"{i}\n" for i in range(20)))
    elif kind == "npy":
        np.save(path, np.zeros((20, 3, 4), np.float32))
    else:
        hr.convert(write(folder / f"for_{kind}.beton", [picture(i, 20, 30) for i in range(5)]), path)
    found = hr.diagnose(path, seconds=0.2)
    assert found.samples_per_s > 0
    assert str(found)


def test_a_list_of_files_is_named_by_its_files(folder: Path, large: list[np.ndarray]) -> None:
    files = [write(folder / f"bare-{part}.beton", large[:4], annex=False) for part in range(2)]
    found = {advice.kind: advice.text for advice in hr.diagnose(files, seconds=0.2).advice}
    assert found["checksums"].endswith("headrace index FILE (each of 2 files)")


def test_sets_of_files_and_what_is_made_of_others(folder: Path, indexed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pictures = [picture(i, 30, 40) for i in range(8)]
    for part in range(2):
        write(folder / f"set-{part}.beton", pictures[4 * part : 4 * part + 4])
    monkeypatch.setattr(remedies, "available_bytes", lambda: 1000)
    for target in (str(folder / "set-*.beton"), [folder / "set-0.beton", folder / "set-1.beton"]):
        found = hr.diagnose(target, seconds=0.2)
        assert found.samples_per_s > 0
        assert "order" in {advice.kind for advice in found.advice}
    mixed = hr.mix([hr.open(folder / "set-0.beton"), hr.open(folder / "set-1.beton")], [1, 1], length=8)
    assert hr.diagnose(mixed, seconds=0.2).samples_per_s > 0


def test_damaged_pictures_are_left_out_of_the_samples(folder: Path) -> None:
    path = write(folder / "damaged.beton", [picture(i, 64, 64) for i in range(6)], annex=False)
    data = bytearray(path.read_bytes())
    with hr.open(path) as dataset:
        first = dataset.read_bytes([2], "image")[0]
    start = bytes(data).index(first)
    data[start : start + 2] = b"no"
    path.write_bytes(data)
    loader = Loader(path, 2, on_error="skip", pipelines={"image": [ops.Resize(16)]})
    (pictures,) = sample_pictures(loader)
    assert pictures.job.indices.tolist() == [0, 1, 3, 4, 5]
    assert hr.diagnose(loader, seconds=0.2).samples_per_s > 0
    with pytest.raises(CorruptSampleError):
        hr.diagnose(path, seconds=0.2)


def test_what_cannot_be_measured(folder: Path, numbers: Path) -> None:
    (folder / "empty.csv").write_text("n\n")
    with pytest.raises(ValueError, match="has no samples, so there is nothing to measure"):
        hr.diagnose(folder / "empty.csv")
    with pytest.warns(UserWarning, match="an epoch has no batches"):
        none = Loader(numbers, 5000)
    with pytest.raises(ValueError, match="has no batches, so there is nothing to measure"):
        measure(none, 0.1)
    for seconds in (0, -1, float("nan"), 4000):
        with pytest.raises(ValueError, match="seconds must be above 0 and at most 3600"):
            hr.diagnose(numbers, seconds=seconds)
    with pytest.raises(ValueError, match="a loader has its own"):
        hr.diagnose(Loader(numbers, 10), pipelines={})
