"""Images a second of a training pipeline, for each number of workers, beside the other loaders that are installed.

All of them read the same JPEGs, make random crops of 224 pixels in shuffled order, and give uint8 batches as NCHW. A
contender runs in a process of its own that stays on as many cores as it has workers; they take turns, an epoch each.
"""

from __future__ import annotations

import io
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import PIL.Image

from headrace.bench.child import Child, ChildError, ask_in_turns
from headrace.bench.peers.contender import Place
from headrace.bench.peers.peer import FFCV, OURS, Peer
from headrace.bench.pictures import photograph_bytes, photograph_count, typical_bytes
from headrace.bench.rows import Missing, compared_rows, median_row
from headrace.bench.suite import Suite
from headrace.charts import Bar, BarChart, Point, PointChart
from headrace.progress import format_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from headrace.bench.rows import Finding, Row
    from headrace.bench.suite import Settings, Tell
    from headrace.charts import Chart

__all__ = ["CHECKED", "PEERS", "SUITE", "compare_pixels", "write_photographs"]

CHECKED = "checked.npy"
"""What a contender makes of whole photographs, in its folder."""

_BATCH, _SIDE, _CHECKED = 64, 224, 8
_TRAINING = "a small model trains on the same cores"
_CHOSEN, _MEMORY = "as the loader chooses", "a batch in memory"
_TRAINED = Peer("headrace, training", "trained_loader:TrainedLoader", ("torch",))
_FROM_MEMORY = Peer(_MEMORY, "trained_loader:TrainedMemory", ("torch",))

PEERS: tuple[Peer, ...] = (
    Peer(OURS, "headrace_loader:HeadraceLoader"),
    Peer(FFCV, ""),
    Peer("DataLoader + Pillow", "torch_loaders:PillowLoader", ("torch",)),
    Peer("DataLoader + torchvision", "torch_loaders:TorchvisionLoader", ("torch", "torchvision")),
    Peer("WebDataset", "torch_loaders:WebDatasetLoader", ("torch", "webdataset")),
    Peer("MosaicML Streaming", "torch_loaders:MosaicLoader", ("torch", "streaming")),
    Peer("LitData", "torch_loaders:LitDataLoader", ("torch", "litdata")),
    Peer("Grain + ArrayRecord", "grain_loader:GrainLoader", ("grain", "array_record")),
    Peer("SPDL", "spdl_loader:SpdlLoader", ("spdl.io",)),
    Peer("DALI, CPU", "dali_loader:DaliLoader", ("nvidia.dali",)),
)


def _placed(place: Place, peer: Peer) -> Place:
    """Where a contender's files are: FFCV's are ours."""
    return replace(place, folder=str(Path(place.folder).parent / (OURS if peer.is_ffcv else peer.name)))


def _run(settings: Settings, tell: Tell) -> Iterator[Finding]:
    count, rounds = photograph_count(settings, quick=256, full=1200), settings.repeats(quick=3, full=5)
    place = write_photographs(settings, count)
    fit = []
    for peer in PEERS:
        if reason := peer.missing():
            yield Missing(peer.name, reason)
            continue
        tell(f"writing files for {peer.name}")
        try:
            yield _prepare(peer, place)
        except ChildError as error:
            yield Missing(peer.name, str(error))
        else:
            fit.append(peer)
    for workers in _worker_counts(settings):
        tell(f"{format_count(workers, 'worker')}: starting")
        yield from _measure(fit, replace(place, workers=workers), rounds, tell)
    yield from _train(_placed(place, PEERS[0]), settings, rounds, tell)


def _worker_counts(settings: Settings) -> list[int]:
    """1, 2, 4 and so on up to the number of cores; the first and the last alone if it has to be quick."""
    cores = len(os.sched_getaffinity(0))
    counts = sorted({*(1 << power for power in range(10) if 1 << power <= cores), cores})
    return sorted({counts[0], counts[-1]}) if settings.quick else counts


def write_photographs(settings: Settings, count: int) -> Place:
    """The photographs as files."""
    folder = settings.work / "photographs"
    folder.mkdir()
    for number, data in enumerate(photograph_bytes(settings.images, count)):
        (folder / f"{number:08d}.jpg").write_bytes(data)
    return Place(photographs=str(folder), folder=str(settings.work / "-"), workers=1, batch=_BATCH, side=_SIDE)


# Quality


def _prepare(peer: Peer, place: Place) -> Row:
    """Write its files, and compare its pixels."""
    own = _placed(place, peer)
    Path(own.folder).mkdir(exist_ok=True)
    with Child(peer.command(own)) as child:
        if not peer.is_ffcv:
            child.ask({"do": "write"})
        return compare_pixels(child, own, peer.name)


def compare_pixels(child: Child, place: Place, name: str) -> Row:
    """What a loader makes of whole photographs beside what Pillow makes of them."""
    out = Path(place.folder, CHECKED)
    told = child.ask({"do": "check", "count": _CHECKED, "out": str(out)})
    found = np.load(out).astype(np.float32)
    is_square = bool(told.get("is_square"))
    expected = np.stack([_reference(path, is_square) for path in place.files()[:_CHECKED]]).astype(np.float32)
    levels = [float(one) for one in np.abs(found - expected).mean(axis=(1, 2, 3))]
    section = "difference from Pillow without shortcuts"
    return median_row(section, name, levels, unit="levels of 255", better="lower", dB=_psnr(found, expected))


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
    workers = format_count(place.workers, "worker")
    commands = {peer.name: peer.command(_placed(place, peer)) for peer in peers}
    answers, failures = ask_in_turns(
        commands,
        {"do": "epoch"},
        rounds,
        cores=place.workers,
        tell=lambda what: tell(f"{workers}: {what}"),
    )
    yield from (Missing(f"{name}, {workers}", reason) for name, reason in failures.items())
    seconds = {name: [one["seconds"] / one["images"] for one in found] for name, found in answers.items()}
    facts = {name: {"workers": place.workers, "dtype": found[-1]["dtype"]} for name, found in answers.items()}
    others = [name for name in answers if name != OURS]
    yield from compared_rows(workers, seconds, others, unit="images/s", facts=facts)
    yield from _stages(answers.get(OURS, []), workers)


def _stages(answers: Sequence[dict[str, Any]], workers: str) -> Iterator[Row]:
    """Those that took any time."""
    stages = [one["stages"] for one in answers]
    for stage in stages[-1] if stages else ():
        seconds = [one[stage] for one in stages]
        if max(seconds) > 0:
            yield median_row(f"stages of headrace, {workers}", stage, seconds, unit="s")


def _train(place: Place, settings: Settings, rounds: int, tell: Tell) -> Iterator[Finding]:
    """What a loader chooses by itself beside fixed numbers of workers, where a model needs the cores as well."""
    if reason := _TRAINED.missing():
        yield Missing(_TRAINING, reason)
        return
    commands = {_CHOSEN: _TRAINED.command(replace(place, workers=0)), _MEMORY: _FROM_MEMORY.command(place)}
    for workers in _worker_counts(settings):
        commands[format_count(workers, "worker")] = _TRAINED.command(replace(place, workers=workers))
    answers, failures = ask_in_turns(
        commands,
        {"do": "epoch"},
        rounds,
        cores=len(os.sched_getaffinity(0)),
        tell=lambda what: tell(f"training: {what}"),
    )
    yield from (Missing(f"{_TRAINING}: {name}", reason) for name, reason in failures.items())
    seconds = {name: [one["seconds"] / one["images"] for one in found] for name, found in answers.items()}
    yield from compared_rows(_TRAINING, seconds, [name for name in seconds if name != _CHOSEN], unit="images/s")


def _charts(rows: Sequence[Row]) -> list[Chart]:
    rates = [row for row in rows if row.unit == "images/s"]
    charts: list[Chart] = []
    for section in dict.fromkeys(row.section for row in rates):
        chosen = sorted((row for row in rates if row.section == section), key=lambda row: -row.value)
        bars = [Bar(row.name, row.value, row.low, row.high) for row in chosen]
        charts.append(BarChart(title=f"Images a second, {section}", unit="images/s", bars=bars))
    by_workers = [row for row in rates if "workers" in row.facts]
    if len({row.facts["workers"] for row in by_workers}) > 2:
        points = [Point(row.facts["workers"], row.value, "", row.name) for row in by_workers]
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
        (len(PEERS) + 2) * typical_bytes(settings.images, photograph_count(settings, quick=256, full=1200)) + (1 << 27)
    ),
    rooms=("loader", "read", "order", "ops", "formats/beton", "codecs"),
    notes=(
        "Every loader reads the same JPEGs byte for byte, as it is documented to be fastest: headrace and FFCV from "
        "one .beton (FFCV does not see its tile indices), WebDataset from tars, MosaicML Streaming from MDS, LitData "
        "from its chunks, Grain from ArrayRecord, the others from plain files. Random crops to 224 pixels, uint8, "
        "NCHW, batches of 64, in shuffled order, warm.",
        "A contender has so many workers (threads, or processes of a DataLoader or of Grain) on as many cores, its own "
        "process included. Processes stay alive between epochs; the first epoch does not count. The next one begins "
        "when the processes of the last have come to rest: some fill their buffers for an epoch that is not asked for "
        "yet.",
        "The loaders around DataLoader, and Grain, crop with Pillow, which decodes at a half, a quarter or an eighth "
        "where the crop allows it, and resizes the crop alone. SPDL decodes and scales by FFmpeg's filters, DALI "
        "decodes the crop alone, on the CPU.",
        "Difference: whole photographs at 224 pixels by the decoder and filter of each loader, beside Pillow's full "
        "decoder and antialiased bilinear filter: the mean of the absolute differences. It says how alike they are, "
        "not who is right: an area filter differs as well. FFCV is compared on the middle square, which is what it "
        "can scale whole.",
        "Stages are those of loader.stats that took any time: seconds of an epoch, summed over threads, so they may be "
        "more than the epoch took. Wait: the loop had no batch. Idle: batches were ready, and the loader did nothing.",
        "Training: a small convolutional network of torch on the CPU, whose threads share all cores with the loader: "
        "what the loader has chosen by itself after eight epochs (workers='auto', its default) beside fixed numbers of "
        "workers, and beside a batch that stays in memory.",
    ),
)
