"""The same samples in every format: size, write, open, sequential and random reads, memory, requests to the disk.

There are two kinds of samples: photographs, stored as the JPEGs that they are, with a class each; and arrays of one
size, which the formats of numpy can hold, too. What is read are the stored bytes: nothing is decoded here.
"""

from __future__ import annotations

import gc
import shutil
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.bench.charts import bars_of
from headrace.bench.child import FreshProcesses
from headrace.bench.disk import WHAT_IS_COUNTED, disk_use, own_bytes, sync_disk
from headrace.bench.format_files import PACKAGES, FormatFile, make_files, size_on_disk
from headrace.bench.page_cache import forget
from headrace.bench.pictures import photograph_bytes, photograph_count, typical_bytes
from headrace.bench.rows import Missing, compared_rows, exact_row, median_row
from headrace.bench.suite import Suite
from headrace.bench.turns import one_core, take_turns
from headrace.fields import Bytes, Image, Int, NDArray
from headrace.formats.index import index
from headrace.formats.open import FORMATS, open_dataset
from headrace.formats.write import write
from headrace.loader import Loader
from headrace.ops import RandomResizedCrop, ToLayout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from headrace.bench.rows import Cache, Finding, Row
    from headrace.bench.suite import Settings, Tell
    from headrace.charts import Chart
    from headrace.types import Dataset, Field, IndexArray

__all__ = ["SUITE"]

_BATCH, _ARRAY_BYTES, _CROPS, _SIDE = 256, 10_000, 64, 224
_PLAIN = "plain files"
_WARM_UP = 16
_FORMATS = 20
"""More than there are, for the room that is asked for."""
_KINDS = ("image", "bytes", "ndarray")


@dataclass(frozen=True, kw_only=True)
class _Material:
    """Samples of one kind, in every format that holds them."""

    name: str
    samples: Sequence[tuple[Any, ...]]
    files: Sequence[FormatFile]
    payload_bytes: int

    @property
    def count(self) -> int:
        return len(self.samples)

    def batches(self, turn: int, *, is_random: bool) -> list[IndexArray]:
        rng = np.random.default_rng(turn)
        order = rng.permutation(self.count) if is_random else np.arange(self.count)
        return [order[start : start + _BATCH] for start in range(0, self.count, _BATCH)]


def _run(settings: Settings, tell: Tell) -> Iterator[Finding]:
    if settings.warm_only:
        yield Missing("cold reads and requests to the disk", settings.warm_only)
    with one_core():
        for make in (_photographs, _arrays):
            tell(f"writing {make.__name__.strip('_')} in every format")
            material, reasons = make(settings)
            yield from (Missing(f"{material.name}: {name}", reason) for name, reason in reasons.items())
            yield from _sizes(material)
            yield from _measure(material, settings, tell)
            if make is _photographs:
                tell("crops by the Loader")
                yield from _crops(material, settings)


def _measure(material: _Material, settings: Settings, tell: Tell) -> Iterator[Finding]:
    rounds = settings.repeats(quick=2, full=7)
    caches: tuple[Cache, ...] = ("warm",) if settings.warm_only else ("warm", "cold")
    tell(f"{material.name}: writing again and again")
    yield from _writes(material, settings.work, rounds)
    for cache in caches:
        tell(f"{material.name}: opening, {cache}")
        yield from _opens(material, rounds, cache)
    for is_random in (False, True):
        for cache in caches:
            tell(f"{material.name}: {'random' if is_random else 'sequential'} reads, {cache}")
            yield from _reads(material, rounds, cache, is_random=is_random)
    if "cold" in caches:
        tell(f"{material.name}: requests to the disk")
        yield from _requests(material)
    tell(f"{material.name}: memory")
    yield from _memory(material, min(rounds, 3) if rounds > 2 else 1)


# The samples


def _photographs(settings: Settings) -> tuple[_Material, dict[str, str]]:
    count = photograph_count(settings, quick=256, full=1200)
    samples = [(data, number % 10) for number, data in enumerate(photograph_bytes(settings.images, count))]
    folder = settings.work / "photographs"
    folder.mkdir()
    choices: list[Mapping[str, Field]] = [{"image": Image(), "label": Int()}, {"image": Image()}]
    files, reasons = make_files(folder, samples, choices, decode="image")
    files.append(_plain_files(folder / "plain files", samples))
    payload = sum(len(data) for data, _ in samples)
    return _Material(name="photographs", samples=samples, files=files, payload_bytes=payload), reasons


def _plain_files(home: Path, samples: Sequence[tuple[Any, ...]]) -> FormatFile:
    path = home / "x"
    _write_plain_files(path, samples)
    return FormatFile(format=FORMATS.load("folder"), path=path, options={}, fields={"image": Image(), "label": Int()})


def _write_plain_files(path: Path, samples: Sequence[tuple[Any, ...]]) -> None:
    for label in {label for _, label in samples}:
        (path / str(label)).mkdir(parents=True)
    for number, (data, label) in enumerate(samples):
        (path / str(label) / f"{number:08d}.jpg").write_bytes(data)


def _arrays(settings: Settings) -> tuple[_Material, dict[str, str]]:
    count = settings.count(quick=512, full=8192)
    blob = np.random.default_rng(0).integers(0, 256, _ARRAY_BYTES + count, np.uint8)
    arrays = [blob[i : i + _ARRAY_BYTES] for i in range(count)]
    folder, others = settings.work / "arrays", settings.work / "arrays of numpy"
    folder.mkdir()
    others.mkdir()
    files, reasons = make_files(folder, [(a.tobytes(),) for a in arrays], [{"data": Bytes()}], decode="bytes")
    fields: list[Mapping[str, Field]] = [{"data": NDArray("uint8", (_ARRAY_BYTES,))}]
    more, reasons = make_files(others, [(a,) for a in arrays], fields, only=list(reasons) or ["-"])
    material = _Material(
        name="arrays of 10 kB",
        samples=[(a.tobytes(),) for a in arrays],
        files=[*files, *more],
        payload_bytes=count * _ARRAY_BYTES,
    )
    return material, reasons


# The measurements


def _sizes(material: _Material) -> Iterator[Row]:
    for file in material.files:
        size = size_on_disk(file.path)
        facts = {"of what is in it": size / material.payload_bytes}
        yield exact_row(
            f"{material.name}: size, with the annex", _name(file), size, unit="bytes", better="lower", **facts
        )


def _name(file: FormatFile) -> str:
    return _PLAIN if file.format.create is None else file.name


def _writes(material: _Material, work: Path, rounds: int) -> Iterator[Row]:
    home = work / "written"

    def writing(file: FormatFile) -> Callable[[int], object]:
        target, samples = home / file.path.name, _samples_for(file, material)

        def work(turn: int) -> None:
            if file.format.create is None:
                _write_plain_files(target, samples)
            else:
                write(target, samples, fields=file.fields, workers=1)
            sync_disk(home)

        return work

    def before(name: str) -> None:
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir()

    contenders = {_name(file): writing(file) for file in material.files}
    seconds = take_turns(contenders, lambda turn: [turn], rounds, before=before)
    shutil.rmtree(home)
    yield from _rates(material, "write", seconds, material.count)
    yield from _index_times(material, rounds)


def _samples_for(file: FormatFile, material: _Material) -> list[tuple[Any, ...]]:
    field = next(iter(file.fields.values()))
    if field.kind == "ndarray":
        return [(np.frombuffer(data, np.uint8),) for (data,) in material.samples]
    return [sample[: len(file.fields)] for sample in material.samples]


def _index_times(material: _Material, rounds: int) -> Iterator[Row]:
    """Making an annex anew; formats without one are left out."""
    contenders: dict[str, Callable[[Any], object]] = {}
    for file in material.files:
        if file.format.index is not None:
            with suppress(ValueError):
                index(file.path, fresh=True)
                contenders[_name(file)] = _indexing(file.path)
    seconds = take_turns(contenders, lambda turn: [turn], min(rounds, 3))
    yield from _rates(material, "index", seconds, material.count)


def _indexing(path: Path) -> Callable[[Any], object]:
    return lambda turn: index(path, fresh=True)


def _opening(file: FormatFile) -> Callable[[Any], object]:
    def work(turn: int) -> None:
        file.open().close()

    return work


def _rates(
    material: _Material, what: str, seconds: Mapping[str, list[float]], samples: int, cache: Cache = ""
) -> Iterator[Row]:
    size = material.payload_bytes / material.count
    for row in compared_rows(f"{material.name}: {what}", seconds, [_PLAIN], samples=samples, cache=cache):
        yield row.with_facts({"MB/s": row.value * size / 1e6})


def _opens(material: _Material, rounds: int, cache: Cache) -> Iterator[Row]:
    files = {_name(file): file for file in material.files}

    def before(name: str) -> None:
        gc.collect()  # what is still mapped stays in the cache
        if cache == "cold":
            forget(files[name].path.parent)

    contenders = {name: _opening(file) for name, file in files.items()}
    seconds = take_turns(contenders, lambda turn: [turn], rounds, before=before)
    for name, taken in seconds.items():
        yield median_row(f"{material.name}: open, {cache}", name, taken, unit="s", better="lower", cache=cache)


def _reads(material: _Material, rounds: int, cache: Cache, *, is_random: bool) -> Iterator[Row]:
    opened: dict[str, Dataset] = {}
    files = {_name(file): file for file in material.files}
    fields = {name: file.field(_KINDS) for name, file in files.items()}
    with ExitStack() as stack:
        if cache == "warm":
            opened = {name: stack.enter_context(file.open()) for name, file in files.items()}
        else:
            stack.callback(_close_all, opened)

        def before(name: str) -> None:
            if cache == "cold":
                _open_cold(opened, name, files[name], fields[name])

        contenders = {name: (lambda batch, name=name: _read(opened[name], fields[name], batch)) for name in files}
        seconds = take_turns(
            contenders,
            lambda turn: material.batches(turn, is_random=is_random),
            rounds,
            before=before,
            size=len,  # the last batch is smaller
        )
    what = ("random" if is_random else "sequential") + f" batches of {_BATCH}, {cache}"
    yield from _rates(material, what, seconds, 1, cache)


def _open_cold(opened: dict[str, Dataset], name: str, file: FormatFile, field: str) -> None:
    """Opened, and next to nothing read: what was touched through a mapping could not be forgotten any more."""
    _close_all(opened)
    gc.collect()  # what is still mapped stays in the cache
    forget(file.path.parent)
    opened[name] = file.open()
    if not file.format.has_cache:  # what such a format has unpacked would be warm
        # A queue is made and its memory touched: once for a training, not once for a batch.
        _read(opened[name], field, np.arange(min(_WARM_UP, len(opened[name]))))
    forget(file.path.parent)  # what that has read


def _close_all(opened: dict[str, Dataset]) -> None:
    for dataset in opened.values():
        dataset.close()
    opened.clear()


def _read(dataset: Dataset, field: str, batch: IndexArray) -> object:
    if dataset.schema[field].kind == "ndarray":
        return dataset.read_values(batch, field)
    return dataset.read_bytes(batch, field)


def _requests(material: _Material) -> Iterator[Finding]:
    for file in material.files:
        opened: dict[str, Dataset] = {}
        field = file.field(_KINDS)
        _open_cold(opened, file.name, file, field)
        batches = material.batches(0, is_random=True)[: max(1, material.count // (2 * _BATCH))]
        asked = sum(len(batch) for batch in batches)
        before = disk_use(file.path.parent)
        for batch in batches:
            _read(opened[file.name], field, batch)
        used = disk_use(file.path.parent).since(before)
        opened[file.name].close()
        if used.size_bytes is None:
            yield Missing(f"{material.name}: requests to the disk", "this system has no /proc/self/io")
            return
        fetched = used.size_bytes / (material.payload_bytes / material.count * asked)
        counted = {"calls": used.calls, "faults": used.faults, "requests": used.requests}
        yield exact_row(
            f"{material.name}: requests to the disk, random batches",
            _name(file),
            fetched,
            unit="bytes fetched for each byte asked for",
        ).with_facts({"samples": asked, "bytes": used.size_bytes, **counted}, cache="cold")


def _memory(material: _Material, rounds: int) -> Iterator[Row]:
    with FreshProcesses(PACKAGES) as fresh:
        for file in material.files:
            field = file.field(_KINDS)
            told = {"path": str(file.path), "options": dict(file.options), "field": field, "batch": _BATCH}
            used = [fresh.call(read_all, **told)["memory_bytes"] for _ in range(rounds)]
            yield median_row(f"{material.name}: memory", _name(file), used, unit="bytes", better="lower")


def read_all(path: str, options: dict[str, Any], field: str, batch: int) -> dict[str, Any]:
    """Read everything in random batches; gives how much memory of its own this process took at most."""
    before = peak = own_bytes()
    with open_dataset(path, **options) as dataset:
        order = np.random.default_rng(0).permutation(len(dataset))
        for start in range(0, len(order), batch):
            _read(dataset, field, order[start : start + batch])
            peak = max(peak, own_bytes())
    return {"memory_bytes": peak - before}


def _crops(material: _Material, settings: Settings) -> Iterator[Row]:
    """Random crops by the Loader from every format; those of the .beton are what the others are compared with."""

    def epochs(file: FormatFile) -> Callable[[int], object]:
        image = file.field(("image",))
        pipeline: list[Any] = [RandomResizedCrop(_SIDE), ToLayout("NCHW")]
        dataset = stack.enter_context(file.open())
        loader = Loader(dataset, _CROPS, order="random", workers=1, drop_last=False, pipelines={image: pipeline})
        return lambda turn: sum(len(batch[image]) for batch in loader)

    with ExitStack() as stack:
        contenders = {_name(file): epochs(file) for file in material.files}
        rounds = settings.repeats(quick=1, full=5)
        seconds = take_turns(contenders, lambda turn: [turn], rounds)
    section = f"{material.name}: random crops by the Loader"
    yield from compared_rows(section, seconds, ["beton"], samples=material.count, unit="images/s", cache="warm")


# The pictures


def _charts(rows: Sequence[Row]) -> list[Chart]:
    charts: list[Chart] = []
    for material in dict.fromkeys(row.section.partition(":")[0] for row in rows):
        reads = f"{material}: {{}} batches of {_BATCH}, {{}}".format
        for cache in ("warm", "cold"):
            sections = [reads("sequential", cache), reads("random", cache)]
            charts += bars_of(rows, f"{material}: reads, {cache}", sections)
        charts += bars_of(rows, f"{material}: crops", [f"{material}: random crops by the Loader"])
        charts += bars_of(rows, f"{material}: writing", [f"{material}: write"])
        charts += bars_of(rows, f"{material}: opening", [f"{material}: open, warm", f"{material}: open, cold"])
        charts += bars_of(rows, f"{material}: size", [f"{material}: size, with the annex"])
        charts += bars_of(rows, f"{material}: memory", [f"{material}: memory"])
    return charts


def _room_bytes(settings: Settings) -> int:
    photographs = typical_bytes(settings.images, photograph_count(settings, quick=256, full=1200))
    arrays = settings.count(quick=512, full=8192) * _ARRAY_BYTES
    return 2 * _FORMATS * (photographs + arrays) // 2 + (1 << 28)  # LMDB and pages take more than what is in them


SUITE = Suite(
    name="formats",
    question="How fast and how large is each format, with the same samples?",
    run=_run,
    charts=_charts,
    room_bytes=_room_bytes,
    rooms=("formats", "storage", "annex", "fields", "loader", "read"),
    notes=(
        "All formats hold the same samples, and each has its annex where it has one. One core. Values are checked "
        "where the format or its annex has checksums, as everywhere by default; plain files have none. Reads give the "
        "stored bytes: nothing is decoded.",
        f"Crops: to {_SIDE} pixels by the Loader with one worker, uint8 as NCHW, in random order.",
        "Write: from memory until the file is on the disk (syncfs). Index: making checksums and tile indices anew.",
        "Cold: the dataset is opened, then its files leave the page cache, before each turn. What opening has touched "
        "through a mapping stays: where the table of requests shows fewer bytes fetched than asked for, a part of a "
        "small file was in memory already, and more samples (--samples) make it colder. On a virtual machine the host "
        "may still hold the files in its memory: then cold is the cost of the way, not of the disk. Formats that keep "
        "unpacked values in memory begin each turn without any.",
        "Memory: what a process of its own takes at most beyond what it has with the package imported, while it reads "
        "everything in random batches; mapped files do not count.",
        WHAT_IS_COUNTED,
    ),
)
