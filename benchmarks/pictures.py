"""Draws figures of benchmarks/results: one picture for the README, and one for each suite of the page of results.

A suite of ``headrace bench`` says itself what its charts are. For one of ours alone this is the place that says it: a
title, and the rows that become bars. A panel whose rows were not measured is left out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.harness import ROOT
from benchmarks.measured import figures, names_of_results, read_result
from headrace.bench import SUITES, find_suite
from headrace.bench.chart_file import chart_file
from headrace.bench.charts import Bar, BarChart
from headrace.bench.rows import Row

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.bench.charts import Chart

__all__ = ["FRONT", "FRONT_TITLE", "pictures", "refresh_pictures", "suite_picture"]

FRONT = ROOT / "docs" / "assets" / "rates.svg"
FRONT_TITLE = "How many samples a second headrace loads, beside other packages"
FOLDER = ROOT / "docs" / "assets" / "results"


class Panel(NamedTuple):
    """A chart of some rows of one suite: what each bar is called, and the pattern of its row. Ours comes first."""

    title: str
    suite: str
    bars: tuple[tuple[str, str], ...]
    is_on_front: bool = False


def _formats(beginning: str) -> tuple[tuple[str, str], ...]:
    names = ("beton", "ffr", "barecat", "tar", "zip", "tfrecord", "recordio", "arrow", "parquet", "hdf5", "lmdb")
    return tuple((name, rf"{beginning}: {name}") for name in (*names, "msgpack", "npz", "jsonl", "csv"))


_LOADERS = (
    *("headrace", "FFCV", "DataLoader + Pillow", "DataLoader + torchvision", "WebDataset", "MosaicML Streaming"),
    *("LitData", "Grain + ArrayRecord", "SPDL", "DALI, CPU"),
)

PANELS = (
    Panel(
        "A training pipeline: random crops of photographs, one worker on one core",
        "loader",
        tuple((name, f"1 worker: {re.escape(name)}") for name in _LOADERS),
        is_on_front=True,
    ),
    Panel(
        "Random crops to 224 pixels from JPEGs of 500 pixels, one core",
        "jpeg_windows",
        (
            ("headrace", r"window, index, \w+, jpg q90, longer side 500, random crop 224"),
            ("simplejpeg + OpenCV", r"simplejpeg [+] OpenCV, jpg q90, longer side 500, random crop 224"),
            ("FFCV", r"FFCV, jpg q90, longer side 500, random crop 224"),
        ),
        is_on_front=True,
    ),
    Panel(
        "Random crops to 224 pixels from photographs as they were taken, one core",
        "jpeg_windows",
        (
            ("headrace", r"window, index, \w+, originals passed through, random crop 224"),
            ("simplejpeg + OpenCV", r"simplejpeg [+] OpenCV, originals passed through, random crop 224"),
            ("FFCV", r"FFCV, originals passed through, random crop 224"),
        ),
    ),
    Panel(
        "Random crops of photographs from an object store, first epoch, one worker",
        "stream_photos",
        (
            ("headrace, .beton", r"crops: store, first epoch"),
            ("WebDataset", r"crops: webdataset, first epoch"),
            ("LitData", r"crops: litdata, first epoch"),
            ("MosaicML Streaming", r"crops: mosaicml, first epoch"),
        ),
        is_on_front=True,
    ),
    Panel(
        "Files of an archive at random, 256 in one call",
        "barecat_archive",
        (("headrace", r"read_many of 256, preload"), ("Barecat 0.3.1", r"read_many of 256, preload: barecat .*")),
        is_on_front=True,
    ),
    Panel(
        "Random crops of photographs decoded on an H200 (nvJPEG: whole pictures)",
        "gpu_jpeg",
        (
            ("headrace, 4 workers", r"jpeg='gpu', 4 workers, batch 1024, originals"),
            ("nvJPEG, torchvision", r"nvJPEG, whole pictures, batch 1024, originals"),
        ),
        is_on_front=True,
    ),
    Panel("Random crops of the same photographs in each format, one core", "format_photos", _formats("crops")),
    Panel("Random batches of 256 x 10 kB in each format, in memory", "format_reads", _formats("warm")),
    Panel("Random batches of 256 x 10 kB in each format, not in memory", "format_reads", _formats("cold")),
    Panel(
        "Pictures of 32 x 32, one core",
        "small_pictures",
        tuple(
            (f"{name}, {kind}", rf"{name}, pictures {kind}")
            for kind in ("in order", "at random", "at random, flip, translate, cutout")
            for name in ("headrace", "FFCV")
        ),
    ),
    Panel(
        "Crops from JPEGs of 500 pixels over workers",
        "load_scaling",
        tuple((f"{count} workers", rf"jpg q90, longer side 500, {count} workers") for count in (1, 2, 4, 8, 16)),
    ),
)


def refresh_pictures() -> None:
    """Write all pictures anew; those of suites that are gone are removed."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    drawn = pictures()
    for path, text in drawn.items():
        path.write_text(text)
    for path in set(FOLDER.glob("*.svg")) - set(drawn):
        path.unlink()


def pictures() -> dict[Path, str]:
    """Every picture that the results give, by its path."""
    front = [chart for panel in PANELS if panel.is_on_front for chart in _charts_of(panel)]
    found = {FRONT: chart_file(front, title=FRONT_TITLE)}
    for suite in names_of_results():
        result = read_result(suite)
        if charts := _charts(suite, result):
            found[FOLDER / f"{suite}.svg"] = chart_file(charts, title=result["question"])
    return found


def suite_picture(suite: str) -> Path | None:
    """Where the picture of a suite lies; None if it has none."""
    path = FOLDER / f"{suite}.svg"
    return path if _charts(suite, read_result(suite)) else None


def _charts(suite: str, result: dict[str, Any]) -> list[Chart]:
    if suite in SUITES:
        rows = [Row(**{key: value for key, value in row.items() if key != "text"}) for row in result["rows"]]
        return find_suite(suite).charts(rows)
    return [chart for panel in PANELS if panel.suite == suite for chart in _charts_of(panel)]


def _charts_of(panel: Panel) -> list[Chart]:
    """The chart of a panel; none if fewer than two of its bars were measured."""
    known = figures(read_result(panel.suite)["rows"])
    found = [
        (label, next((one for one in known if re.fullmatch(pattern, one.name)), None)) for label, pattern in panel.bars
    ]
    bars = [
        Bar(label, one.value, one.low, one.high, "ours" if label.startswith("headrace") else "theirs")
        for label, one in found
        if one is not None
    ]
    if len(bars) < 2:
        return []
    unit = next(one.unit for _, one in found if one is not None)
    return [BarChart(title=panel.title, unit=unit, bars=bars, has_legend=False)]
