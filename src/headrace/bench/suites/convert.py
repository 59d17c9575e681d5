"""Moving data: each format to ``.beton`` beside ``cp``, folders beside copying and ``tar``, photographs encoded anew.

Every contender puts what it makes on the disk before it ends: this package by fsync, and ``cp``, copies and ``tar`` are
followed by syncfs. Conversions run in processes of their own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import PIL.Image

from headrace.bench.charts import bars_of
from headrace.bench.child import ChildError, FreshProcesses
from headrace.bench.disk import sync_disk
from headrace.bench.format_files import PACKAGES, make_files, size_on_disk
from headrace.bench.machine import FFCV_PYTHON, interpreter_of, why_no_interpreter
from headrace.bench.peers.convert_program import convert_once
from headrace.bench.peers.peer import FFCV, is_there
from headrace.bench.pictures import photograph_bytes, photograph_count, typical_bytes
from headrace.bench.rows import Missing, compared_rows
from headrace.bench.suite import Suite
from headrace.bench.turns import one_core, self_timed, timed
from headrace.fields import Image, Int
from headrace.formats.open import all_formats
from headrace.formats.pack import pack
from headrace.formats.write import write
from headrace.progress import format_count
from headrace.transfer.convert import convert

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from headrace.bench.format_files import FormatFile
    from headrace.bench.rows import Finding, Row
    from headrace.bench.suite import Settings, Tell
    from headrace.charts import Chart

__all__ = ["SUITE"]

_CP, _COPIES, _TAR, _ONE_THREAD = "cp", "copying the files", "tar cf", "one process, 1 thread"
_PEERS = (_CP, _COPIES, _TAR, FFCV, _ONE_THREAD)
_FIELDS: list[Mapping[str, Any]] = [{"image": Image(), "label": Int()}, {"image": Image()}]
_SMALL_BYTES, _MAX_SIDE, _SHARDS, _PATIENCE_S = 1000, 500, 8, 180
_ANEW = {"image_mode": "jpg", "quality": 90, "max_side": 400, "force": True}


def _run(settings: Settings, tell: Tell) -> Iterator[Finding]:
    photographs = photograph_bytes(settings.images, _count(settings))
    with one_core():
        with FreshProcesses(PACKAGES) as fresh:
            for known in all_formats():
                if known.create is not None:
                    tell(f"{known.name} to .beton")
                    yield from _formats(fresh, known.name, photographs, settings)
        tell("packing a folder")
        yield from _packing(photographs, settings)
        tell("small files into a tar")
        yield from _tars(settings)
    tell("writing arrays")
    yield from _arrays(photographs, settings)
    tell("encoding anew")
    with FreshProcesses(PACKAGES) as fresh:
        yield from _encoded_anew(fresh, photographs, settings)


def _rounds(settings: Settings) -> int:
    return settings.repeats(quick=2, full=5)


def _compare(
    section: str,
    contenders: Mapping[str, Callable[[], float]],
    settings: Settings,
    *,
    samples: int,
    unit: str = "samples/s",
    facts: Mapping[str, Mapping[str, Any]] | None = None,
) -> Iterator[Finding]:
    seconds, failures = self_timed(contenders, _rounds(settings), _PEERS)
    yield from (Missing(f"{section}: {name}", reason) for name, reason in failures.items())
    yield from compared_rows(section, seconds, _PEERS, samples=samples, unit=unit, cache="warm", facts=facts)


# Each format


class _Conversion:
    """One conversion, again and again, each in a process of its own; remembers what these have told.

    Args:
        fresh: makes the processes; None: each is an interpreter of its own, as Ray needs it.
        source: of the conversion, and its target and options.
        cluster: a dataset to look at in a cluster of Ray first, so that it runs; empty for none.
    """

    def __init__(
        self,
        fresh: FreshProcesses | None,
        source: Path | str,
        target: Path | str,
        options: Mapping[str, Any],
        cluster: str = "",
    ) -> None:
        self._fresh, self._cluster = fresh, cluster
        self._facts: dict[str, Any] = {"source": str(source), "target": str(target), "options": dict(options)}
        self.told: list[dict[str, Any]] = []

    def __call__(self) -> float:
        if self._fresh is not None:
            self.told.append(self._fresh.call(convert_once, **self._facts))
        else:
            told = json.dumps(self._facts | {"cluster": self._cluster})
            self.told.append(_answer([sys.executable, "-m", convert_once.__module__, told], "convert"))
        return float(self.told[-1]["seconds"])

    @property
    def facts(self) -> dict[str, Any]:
        """CPU time of the round that took the least of it: the rest is waiting for the disk, or for others."""
        peak = max((one["peak_bytes"] for one in self.told), default=0)
        return {"MiB": peak / 2**20, "CPU s": min((one["cpu_s"] for one in self.told), default=0.0)}


def _answer(words: Sequence[str], name: str) -> dict[str, Any]:
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=_PATIENCE_S)
    except subprocess.TimeoutExpired:  # FFCV's writer now and then never returns
        raise ChildError(f"{name} did not end within {_PATIENCE_S} s") from None
    except OSError as error:
        raise ChildError(f"{name} cannot be started: {error}") from None
    if done.returncode or not done.stdout.strip():
        raise ChildError(f"{name} ended with code {done.returncode}: {done.stderr[-400:] or 'it said nothing'}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _formats(fresh: FreshProcesses, name: str, photographs: Sequence[bytes], settings: Settings) -> Iterator[Finding]:
    folder = settings.work / "in"
    folder.mkdir()
    samples = [(data, number) for number, data in enumerate(photographs)]
    files, reasons = make_files(folder, samples, _FIELDS, decode="image", only=[name], indexed=False, jpeg_index=False)
    yield from (Missing(f"{name} to .beton", reason) for reason in reasons.values())
    for file in files:
        yield from _beside_cp(fresh, file, len(samples), settings)
    shutil.rmtree(folder)


def _beside_cp(fresh: FreshProcesses, file: FormatFile, samples: int, settings: Settings) -> Iterator[Finding]:
    same = {**file.options, "workers": 1, "force": True}
    target = settings.work / "out.beton"
    ways = {"convert": _Conversion(fresh, file.path, target, same | {"jpeg_index": False})}
    if file.name == "tar":
        ways["convert, with tile indices"] = _Conversion(fresh, file.path, target, same)
        ways["convert to .ffr"] = _Conversion(fresh, file.path, target.with_suffix(".ffr"), same)
    contenders: dict[str, Callable[[], float]] = {**ways, _CP: lambda: _copy(file, settings.work / "copy")}
    rows = list(_compare(f"{file.name} to .beton", contenders, settings, samples=samples))
    if ways["convert"].told[-1]["samples"] != samples:
        converted = format_count(ways["convert"].told[-1]["samples"], "sample")
        raise ValueError(f"{file.name}: {converted} of {samples:,} converted")
    size = size_on_disk(file.path)
    facts = {name: {**way.facts, "MB of the source": size / 1e6} for name, way in ways.items()}
    yield from _with_facts(rows, facts)


def _with_facts(findings: Sequence[Finding], facts: Mapping[str, Mapping[str, Any]]) -> Iterator[Finding]:
    """What is known once all rounds are over."""
    for one in findings:
        yield one if isinstance(one, Missing) else one.with_facts(facts.get(one.name, {}))


def _copy(file: FormatFile, copy: Path) -> float:
    def work() -> None:
        subprocess.run(["cp", "-r", str(file.path.parent), str(copy)], check=True)
        sync_disk(copy)

    sync_disk(copy.parent)  # what others have written is not cp's work
    taken = timed(work)()
    shutil.rmtree(copy)
    return taken


# Folders


def _packing(photographs: Sequence[bytes], settings: Settings) -> Iterator[Finding]:
    folder, out = settings.work / "photographs", settings.work / "out"
    folder.mkdir()
    for number, data in enumerate(photographs):
        (folder / f"{number:08d}.jpg").write_bytes(data)

    def copy() -> None:
        shutil.copytree(folder, out)
        sync_disk(out)

    def copying() -> float:
        shutil.rmtree(out, ignore_errors=True)
        sync_disk(settings.work)
        return timed(copy)()

    contenders = {
        "pack": timed(lambda: pack(settings.work / "x.beton", folder, workers=1, force=True)),
        "pack, no tile indices": timed(
            lambda: pack(settings.work / "x.beton", folder, workers=1, force=True, jpeg_index=False)
        ),
        _COPIES: copying,
    }
    yield from _compare("pack a folder of JPEGs as they are", contenders, settings, samples=len(photographs))


def _tars(settings: Settings) -> Iterator[Finding]:
    count = settings.count(quick=2000, full=50_000)
    source, archive, target = (str(settings.work / name) for name in ("small", "small.barecat", "small.tar"))
    content = os.urandom(_SMALL_BYTES)
    for number in range(count):
        below = Path(source, f"{number // 1000:03d}")
        below.mkdir(parents=True, exist_ok=True)
        (below / f"{number:06d}.bin").write_bytes(content)
    convert(source, archive)

    def tar() -> None:
        subprocess.run(["tar", "cf", target, "-C", source, "."], check=True)
        sync_disk(settings.work)

    command = [sys.executable, "-m", "headrace", "convert", source, target, "-q"]
    works: dict[str, Callable[[], object]] = {
        "headrace, a folder": lambda: convert(source, target),
        "headrace, a .barecat": lambda: convert(archive, target),
        "headrace, a folder, with the start of Python": lambda: subprocess.run(command, check=True),
        _TAR: tar,
    }

    def anew(work: Callable[[], object]) -> Callable[[], float]:
        def run() -> float:
            Path(target).unlink(missing_ok=True)
            sync_disk(settings.work)
            return timed(work)()

        return run

    contenders = {name: anew(work) for name, work in works.items()}
    yield from _compare("small files into a tar", contenders, settings, samples=count, unit="files/s")


# Photographs that are encoded


class _Decoded:
    """What a user's dataset does: decode with Pillow, hand over an array."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = files

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, number: int) -> tuple[Any, int]:
        with PIL.Image.open(self._files[number]) as picture:
            return np.asarray(picture.convert("RGB")), number


def _arrays(photographs: Sequence[bytes], settings: Settings) -> Iterator[Finding]:
    folder, workers = settings.work / "photographs", len(os.sched_getaffinity(0))
    files = sorted(folder.iterdir())
    fields: dict[str, Any] = {"image": Image(mode="jpg", max_side=_MAX_SIDE), "label": Int()}
    target = settings.work / "arrays.beton"
    contenders: dict[str, Callable[[], float]] = {
        "headrace": timed(lambda: write(target, _Decoded(files), fields=fields, workers=workers, force=True)),
    }
    if reason := why_no_interpreter(FFCV_PYTHON, FFCV):
        yield Missing(f"photographs given as arrays: {FFCV}", reason)
    else:
        script = str(Path(__file__).parents[1] / "peers" / "ffcv_writer.py")
        words = [interpreter_of(FFCV_PYTHON), script, str(folder), f"{target}.ffcv", str(_MAX_SIDE), str(workers)]
        contenders[FFCV] = lambda: float(_answer(words, FFCV)["seconds"])
    yield from _compare("photographs given as arrays", contenders, settings, samples=len(files), unit="images/s")


def _encoded_anew(fresh: FreshProcesses, photographs: Sequence[bytes], settings: Settings) -> Iterator[Finding]:
    """Work of the processor: by threads of one process, and by tasks of Ray."""
    source = settings.work / "taken.beton"
    samples = [(data, number) for number, data in enumerate(photographs)]
    write(source, samples, fields=_FIELDS[0], jpeg_index=False)
    target = f"{settings.work}/anew-%04d.beton"
    told = _ANEW | {"shard_samples": -(-len(samples) // _SHARDS)}
    contenders: dict[str, Callable[[], float]] = {
        "one process, 2 threads": _Conversion(fresh, source, target, told | {"workers": 2}),
        _ONE_THREAD: _Conversion(fresh, source, target, told | {"workers": 1}),
    }
    if settings.quick or not is_there("ray"):
        yield Missing("encode anew: Ray", "left out of a quick run" if is_there("ray") else "not installed: ray")
    else:
        for workers in (1, 2):
            options = told | {"workers": workers, "engine": "ray"}
            name = f"Ray, {workers} worker{'s' * (workers > 1)}"
            contenders[f"{name}, with the start of its cluster"] = _Conversion(None, source, target, options)
            contenders[f"{name}, cluster runs"] = _Conversion(None, source, target, options, cluster=str(source))
    yield from _compare("encode anew", contenders, settings, samples=len(samples), unit="images/s")


def _count(settings: Settings) -> int:
    return photograph_count(settings, quick=64, full=2000)


def _charts(rows: Sequence[Row]) -> list[Chart]:
    sections = dict.fromkeys(row.section for row in rows)
    to_beton = [row for row in rows if row.section.endswith("to .beton") and row.name in ("convert", _CP)]
    named = [row.renamed(row.section.partition(" ")[0], row.name) for row in to_beton]
    charts: list[Chart] = [*bars_of(named, "Photographs to .beton as they are, beside cp", ["convert", _CP])]
    others = [section for section in sections if not section.endswith("to .beton")]
    return charts + [chart for section in others for chart in bars_of(rows, section.capitalize(), [section])]


SUITE = Suite(
    name="convert",
    question="How fast are files converted, packed and written, beside cp, tar and FFCV's writer?",
    run=_run,
    charts=_charts,
    room_bytes=lambda settings: (
        12 * typical_bytes(settings.images, _count(settings))
        + settings.count(quick=2000, full=50_000) * 3 * 4096
        + (1 << 28)
    ),
    rooms=("transfer", "formats", "annex", "fields", "codecs", "storage"),
    notes=(
        "Photographs to .beton: as they are, in a process of its own with one worker on one core, without the time of "
        "its imports; without tile indices, for which a JPEG is read once from end to end, which no copy does. cp "
        "copies the source and what lies beside it. MiB: the most memory that the process ever had, mapped files "
        "included.",
        "A folder of JPEGs is packed beside copying its files one by one; 1 kB files go into a tar beside tar(1). All "
        "are on the disk at the end (syncfs after cp, copies and tar).",
        "Photographs given as arrays are decoded by Pillow and written as JPEG of at most 500 pixels, by as many "
        "workers as there are cores, FFCV's too. Encode anew: a .beton to a set of eight, JPEG 90 of at most 400 "
        "pixels, on all cores. Ray with the start of its cluster: the whole command; cluster runs: the work alone.",
    ),
)
