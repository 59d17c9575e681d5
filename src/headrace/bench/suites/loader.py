"""Images a second of a training pipeline, for each number of workers, beside the other loaders that are installed.

All of them read the same JPEGs, make random crops of 224 pixels in shuffled order, and give uint8 batches as NCHW. A
contender runs in a process of its own that stays on as many cores as it has workers; they take turns, an epoch each.
"""

from __future__ import annotations

import importlib.util
import io
import json
import os
import sys
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import PIL.Image

from headrace.bench.charts import Bar, BarChart, Point, PointChart
from headrace.bench.child import Child, ChildError
from headrace.bench.peers.contender import Place
from headrace.bench.pictures import photograph_bytes, photograph_count, typical_bytes
from headrace.bench.rows import Missing, median_row, rate_row, ratio_row
from headrace.bench.suite import Suite
from headrace.progress import format_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt

    from headrace.bench.charts import Chart
    from headrace.bench.rows import Finding, Row
    from headrace.bench.suite import Settings, Tell

__all__ = ["FFCV_PYTHON", "PEERS", "SUITE", "Peer"]

_BATCH, _SIDE, _CHECKED = 64, 224, 8
_OURS = "headrace"
FFCV_PYTHON = "HEADRACE_FFCV_PYTHON"
"""Names the interpreter of an environment with FFCV, which does not go into one with anything else."""
_SCRIPT = Path(__file__).parents[1] / "peers" / "ffcv_script.py"
_ROOM = "headrace.bench.peers"


@dataclass(frozen=True, slots=True)
class Peer:
    """A loader: its name, the class that runs it, and what has to be installed."""

    name: str
    contender: str
    needs: tuple[str, ...] = ()

    def missing(self) -> str:
        """Why it cannot be measured here; empty if it can."""
        absent = [one for one in self.needs if not _is_there(one)]
        return f"not installed: {', '.join(absent)}" if absent else ""

    def command(self, place: Place) -> list[str]:
        """What starts its process."""
        return [sys.executable, "-m", f"{_ROOM}.serve", f"{_ROOM}.{self.contender}", _json(place)]


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # not even the package that it would be in
        return False


class _Ffcv(Peer):
    """In an environment of its own, by a script that needs nothing of this package."""

    def missing(self) -> str:
        """It is named by a variable."""
        if not os.environ.get(FFCV_PYTHON):
            return f"no environment with FFCV is named; set {FFCV_PYTHON} to its interpreter"
        return ""

    def command(self, place: Place) -> list[str]:
        """The same questions as all others."""
        return [os.environ[FFCV_PYTHON], str(_SCRIPT), _json(replace(place, folder=str(_folder(place, _OURS))))]


PEERS: tuple[Peer, ...] = (
    Peer(_OURS, "headrace_loader:HeadraceLoader"),
    _Ffcv("FFCV", ""),
    Peer("DataLoader + Pillow", "torch_loaders:PillowLoader", ("torch",)),
    Peer("DataLoader + torchvision", "torch_loaders:TorchvisionLoader", ("torch", "torchvision")),
    Peer("WebDataset", "torch_loaders:WebDatasetLoader", ("torch", "webdataset")),
    Peer("MosaicML Streaming", "torch_loaders:MosaicLoader", ("torch", "streaming")),
    Peer("LitData", "torch_loaders:LitDataLoader", ("torch", "litdata")),
    Peer("Grain + ArrayRecord", "grain_loader:GrainLoader", ("grain", "array_record")),
    Peer("SPDL", "spdl_loader:SpdlLoader", ("spdl.io",)),
    Peer("DALI, CPU", "dali_loader:DaliLoader", ("nvidia.dali",)),
)


def _json(place: Place) -> str:
    return json.dumps(place.facts())


def _folder(place: Place, name: str) -> Path:
    return Path(place.folder).parent / name


def _run(settings: Settings, tell: Tell) -> Iterator[Finding]:
    count, rounds = photograph_count(settings, quick=256, full=4000), settings.repeats(quick=3, full=7)
    place = _write_photographs(settings, count)
    fit = []
    for peer in PEERS:
        if reason := peer.missing():
            yield Missing(peer.name, reason)
            continue
        tell(f"writing files for {peer.name}")
        try:
            yield from _prepare(peer, place)
        except ChildError as error:
            yield Missing(peer.name, str(error))
        else:
            fit.append(peer)
    for workers in _worker_counts(settings):
        tell(f"{format_count(workers, 'worker')}: starting")
        yield from _measure(fit, replace(place, workers=workers), rounds, tell)


def _worker_counts(settings: Settings) -> list[int]:
    """1, 2, 4 and so on up to the number of cores; the first and the last alone if it has to be quick."""
    cores = len(os.sched_getaffinity(0))
    counts = sorted({*(1 << power for power in range(10) if 1 << power <= cores), cores})
    return sorted({counts[0], counts[-1]}) if settings.quick else counts


def _write_photographs(settings: Settings, count: int) -> Place:
    folder = settings.work / "photographs"
    folder.mkdir()
    for number, data in enumerate(photograph_bytes(settings.images, count)):
        (folder / f"{number:08d}.jpg").write_bytes(data)
    return Place(photographs=str(folder), folder=str(settings.work / "-"), workers=1, batch=_BATCH, side=_SIDE)


# Quality


def _prepare(peer: Peer, place: Place) -> Iterator[Row]:
    """Write its files, and compare what it makes of whole photographs with what Pillow makes of them."""
    home = _folder(place, peer.name)
    home.mkdir()
    out = home / "checked.npy"
    with Child(peer.command(replace(place, folder=str(home)))) as child:
        if not isinstance(peer, _Ffcv):
            child.ask({"do": "write"})
        told = child.ask({"do": "check", "count": _CHECKED, "out": str(out)})
    found = np.load(out).astype(np.float32)
    is_square = bool(told.get("is_square"))
    expected = np.stack([_reference(path, is_square) for path in place.files()[:_CHECKED]]).astype(np.float32)
    levels = [float(one) for one in np.abs(found - expected).mean(axis=(1, 2, 3))]
    yield median_row(
        "difference from Pillow without shortcuts", peer.name, levels, unit="levels of 255", dB=_psnr(found, expected)
    )


def _reference(path: Path, is_square: bool) -> npt.NDArray[np.uint8]:
    """Decoded at full size, then scaled with an antialiased bilinear filter."""
    picture = PIL.Image.open(io.BytesIO(path.read_bytes())).convert("RGB")
    width, height = picture.size
    short = min(width, height)
    left, top = (width - short) // 2, (height - short) // 2
    box = (left, top, left + short, top + short) if is_square else None
    return np.asarray(picture.resize((_SIDE, _SIDE), PIL.Image.Resampling.BILINEAR, box=box))


def _psnr(found: npt.NDArray[np.float32], expected: npt.NDArray[np.float32]) -> float:
    error = float(np.mean((found - expected) ** 2))
    return round(float(10 * np.log10(255**2 / max(error, 1e-6))), 1)


# Speed


def _measure(peers: Sequence[Peer], place: Place, rounds: int, tell: Tell) -> Iterator[Finding]:
    cores = sorted(os.sched_getaffinity(0))[-place.workers :]
    answers: dict[str, list[dict[str, Any]]] = {}
    failures: list[Missing] = []
    with ExitStack() as stack:
        children = {
            peer.name: stack.enter_context(
                Child(peer.command(replace(place, folder=str(_folder(place, peer.name)))), cores=cores)
            )
            for peer in peers
        }
        for turn in range(1 + rounds):  # the first does not count
            tell(f"{format_count(place.workers, 'worker')}: round {turn} of {rounds}")
            for name in list(children):
                try:
                    answer = children[name].ask({"do": "epoch"})
                except ChildError as error:
                    failures.append(Missing(f"{name}, {_workers(place)}", str(error)))
                    del children[name]
                    answers.pop(name, None)
                    continue
                if turn:
                    answers.setdefault(name, []).append(answer)
    yield from failures
    yield from _rows(answers, place)


def _workers(place: Place) -> str:
    return format_count(place.workers, "worker")


def _rows(answers: Mapping[str, list[dict[str, Any]]], place: Place) -> Iterator[Row]:
    told = _workers(place)
    each = {name: [one["seconds"] / one["images"] for one in found] for name, found in answers.items()}
    for name, seconds in each.items():
        facts = {"workers": place.workers, "dtype": answers[name][-1]["dtype"]}
        yield rate_row(told, name, seconds, samples=1, unit="images/s", **facts)
    ours = each.get(_OURS)
    if ours is None:
        return
    for name, seconds in each.items():
        if name != _OURS:
            pairs = [theirs / own for own, theirs in zip(ours, seconds, strict=True)]
            yield ratio_row(f"headrace beside others, {told}", name, pairs, workers=place.workers)
    stages = [one["stages"] for one in answers[_OURS]]
    for stage in stages[-1]:
        yield median_row(f"stages of headrace, {told}", stage, [one[stage] for one in stages], unit="s")


def _charts(rows: Sequence[Row]) -> list[Chart]:
    rates = [row for row in rows if row.unit == "images/s"]
    charts: list[Chart] = []
    for section in dict.fromkeys(row.section for row in rates):
        chosen = sorted((row for row in rates if row.section == section), key=lambda row: -row.value)
        bars = [Bar(row.name, row.value, row.low, row.high) for row in chosen]
        charts.append(BarChart(title=f"Images a second, {section}", unit="images/s", bars=bars))
    if len({row.facts["workers"] for row in rates}) > 2:
        points = [Point(row.facts["workers"], row.value, "", row.name) for row in rates]
        charts.append(
            PointChart(
                title="Images a second over workers",
                x_label="workers, on as many cores",
                y_label="images/s",
                points=points,
                is_joined=True,
            )
        )
    for section in dict.fromkeys(row.section for row in rows if row.section.startswith("stages")):
        bars = [Bar(row.name, row.value, row.low, row.high) for row in rows if row.section == section]
        charts.append(BarChart(title=section.capitalize() + ": seconds of an epoch", unit="s", bars=bars))
    return charts


SUITE = Suite(
    name="loader",
    question="How many images a second does a training pipeline load, beside other loaders?",
    run=_run,
    charts=_charts,
    room_bytes=lambda settings: (
        (len(PEERS) + 2) * typical_bytes(settings.images, photograph_count(settings, quick=256, full=4000)) + (1 << 27)
    ),
    notes=(
        "Every loader reads the same JPEGs byte for byte, as it is documented to be fastest: headrace and FFCV from "
        "one .beton (FFCV does not see its tile indices), WebDataset from tars, MosaicML Streaming from MDS, LitData "
        "from its chunks, Grain from ArrayRecord, the others from plain files. Random crops to 224 pixels, uint8, "
        "NCHW, batches of 64, in shuffled order, warm.",
        "A contender has so many workers (threads, or processes of a DataLoader or of Grain) on as many cores, its own "
        "process included. Processes stay alive between epochs; the first epoch does not count.",
        "The loaders around DataLoader, and Grain, crop with Pillow, which decodes at a half, a quarter or an eighth "
        "where the crop allows it, and resizes the crop alone. SPDL decodes and scales by FFmpeg's filters, DALI "
        "decodes the crop alone, on the CPU.",
        "Difference: whole photographs at 224 pixels by the decoder and filter of each loader, beside Pillow's full "
        "decoder and antialiased bilinear filter: the mean of the absolute differences. It says how alike they are, "
        "not who is right: an area filter differs as well. FFCV is compared on the middle square, which is what it "
        "can scale whole.",
        "Stages are those that loader.stats knows: seconds of an epoch, summed over threads, so they may be more than "
        "the epoch took.",
    ),
)
