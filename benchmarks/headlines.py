"""The most telling figures, for the README: this is the one place that says which they are."""

from __future__ import annotations

from typing import NamedTuple

from benchmarks.committed import all_results
from headrace.bench.suites.loader import PEERS
from headrace.charts import Bar, BarChart

__all__ = ["HEADLINES", "PANELS", "WHERE_INSTALLED", "Headline", "Panel", "front_charts", "table"]


class Headline(NamedTuple):
    """One line of the README: a row of a suite, and the peer that it is compared with."""

    words: str
    suite: str
    section: str
    row: str
    peer: str
    called: str = ""
    """The peer, where its name says too little."""


def _on_a_gpu(*peers: str) -> tuple[Headline, ...]:
    """Which GPU it was stands with the machines: a result says it."""
    words = "random crops of photographs decoded on a GPU"
    return tuple(
        Headline(f"{words}, {workers}", "gpu", f"originals, batches of {batch}", f"jpeg='gpu', {workers}", peer)
        for batch, workers in ((256, "1 worker"), (1024, "4 workers"))
        for peer in peers
    )


_DALI = ("DALI, the same crops, 1 thread", "DALI, the same crops, 16 threads")
_ARCHIVE = "256 files in one call, preloaded"
_STORE = "random crops, an epoch"
HEADLINES = (
    *(
        Headline("a training pipeline, one worker on one core", "loader", "1 worker", "headrace", peer.name)
        for peer in PEERS[1:]
    ),
    *(
        Headline(f"{words}, one core", "crops", f"{stored}: random crops, flipped", "headrace", peer)
        for stored, words in (
            ("JPEG 90 of 500 pixels", "random crops to 224 pixels from JPEGs of 500 pixels"),
            ("as taken", "random crops to 224 pixels from photographs as they were taken"),
            ("raw, 256 pixels", "random crops to 224 pixels from raw pixels, flipped"),
        )
        for peer in ("FFCV", "simplejpeg + OpenCV")
        if stored != "raw, 256 pixels" or peer == "FFCV"
    ),
    Headline("the same without a flip", "crops", "raw, 256 pixels: random crops", "headrace", "FFCV"),
    *(
        Headline(f"{words}, one core", "ffcv", section, "headrace", "FFCV")
        for words, section in (
            ("pictures of 32 x 32 at random, flipped, moved, cut out", "pictures at random, flip, translate, cutout"),
            ("plain numbers at random", "numbers at random"),
        )
    ),
    *(
        Headline("random crops of photographs from an object store", "stores", _STORE, "headrace", peer)
        for peer in ("WebDataset", "LitData", "MosaicML Streaming")
    ),
    *_on_a_gpu("nvJPEG, whole pictures"),
    Headline(
        "writing photographs given as arrays",
        "convert",
        "photographs given as arrays",
        "headrace",
        "FFCV",
        "FFCV's writer",
    ),
    Headline(
        "packing JPEG files as they are, with tile indices",
        "convert",
        "pack a folder of JPEGs as they are",
        "pack",
        "copying the files",
    ),
    Headline(
        "the same without tile indices",
        "convert",
        "pack a folder of JPEGs as they are",
        "pack, no tile indices",
        "copying the files",
    ),
    Headline("a WebDataset tar to `.beton`, JPEGs as they are", "convert", "tar to .beton", "convert", "cp", "`cp`"),
    Headline(
        "small files into a tar, with the start of Python",
        "convert",
        "small files into a tar",
        "headrace, a folder, with the start of Python",
        "tar cf",
        "`tar cf`",
    ),
    Headline("256 files of an archive in one call, preloaded", "archives", _ARCHIVE, "headrace", "Barecat"),
    Headline("files of an archive, one at a time", "archives", "one by one, index in SQLite", "headrace", "Barecat"),
    Headline("checking a whole archive", "archives", "check all files", "headrace", "Barecat"),
    Headline("opening an archive", "archives", "open and close", "headrace", "Barecat"),
    Headline(
        "256 random samples of an `.ffr` that is not in memory",
        "reads",
        "samples of an .ffr, cold: 256 x 10 kB",
        "FfrReader.read, cold=True",
        "os.pread, a loop",
        "an `os.pread` loop",
    ),
    Headline(
        "1 kB samples of a `.beton` at random, checked, one core",
        "reads",
        "samples of a .beton, warm: 256 x 1 kB",
        "read_bytes",
        "os.pread",
        "`os.pread`",
    ),
    Headline(
        "examples of a TFRecord, read and parsed", "libraries", "TFRecord, examples parsed", "headrace", "tfrecord"
    ),
    Headline("random rows of an HDF5 of plain arrays", "libraries", "HDF5, contiguous, anywhere", "headrace", "h5py"),
    Headline("random batches of an LMDB", "libraries", "LMDB, 10 kB", "headrace", "lmdb"),
    Headline(
        "starting Python and importing the package",
        "scaling",
        "start Python",
        "import headrace",
        "import numpy",
        "importing numpy",
    ),
)


WHERE_INSTALLED = _on_a_gpu(*_DALI)
"""Headlines with peers that a machine with a GPU may lack: they stand behind the others where a result has them."""


def table() -> str:
    """One Markdown table of the headlines that have been measured."""
    lines = ["| measured | beside | speed | spread |", "| --- | --- | --- | --- |"]
    machines = set()
    results = all_results()
    for one in _in_order():
        rows = results[one.suite].rows if one.suite in results else []
        found = next((row for row in rows if (row.section, row.name) == (one.section, one.row)), None)
        if found is None or one.peer not in found.beside:
            continue
        ratio = found.beside[one.peer]
        numbers = f"**{ratio.value:.2f}x** | {ratio.low:.2f} to {ratio.high:.2f}"
        lines.append(f"| {one.words} | {one.called or one.peer} | {numbers} |")
        facts = results[one.suite].environment
        gpu = f"{facts['gpu']}, " if one.suite == "gpu" and "gpu" in facts else ""
        machines.add(f"{facts['cpu']}, {facts['cores']} cores, {gpu}Python {facts['python']}")
    return "\n".join([*lines, "", f"Machines: {'; '.join(sorted(machines))}."])


def _in_order() -> list[Headline]:
    """Those of one suite together."""
    suites = list(dict.fromkeys(one.suite for one in HEADLINES))
    return sorted((*HEADLINES, *WHERE_INSTALLED), key=lambda one: suites.index(one.suite))


class Panel(NamedTuple):
    """A chart of the README's picture: some rows of one section, ours first."""

    title: str
    suite: str
    section: str
    rows: tuple[str, ...]


_CROPS = ("headrace", "simplejpeg + OpenCV", "FFCV")
PANELS = (
    Panel(
        "A training pipeline: random crops of photographs, one worker on one core",
        "loader",
        "1 worker",
        tuple(peer.name for peer in PEERS),
    ),
    Panel(
        "Random crops to 224 pixels from JPEGs of 500 pixels, one core",
        "crops",
        "JPEG 90 of 500 pixels: random crops, flipped",
        _CROPS,
    ),
    Panel(
        "Random crops of photographs from an object store, one worker",
        "stores",
        _STORE,
        ("headrace", "WebDataset", "LitData", "MosaicML Streaming"),
    ),
    Panel("Files of an archive at random, 256 in one call", "archives", _ARCHIVE, ("headrace", "Barecat", "LMDB")),
    Panel(
        "Random crops of photographs decoded on a GPU (nvJPEG: whole pictures)",
        "gpu",
        "originals, batches of 1024",
        ("jpeg='gpu', 4 workers", *_DALI, "nvJPEG, whole pictures"),
    ),
)


def front_charts() -> list[BarChart]:
    """The panels that were measured, with at least two bars each."""
    charts, results = [], all_results()
    for panel in PANELS:
        rows = results[panel.suite].rows if panel.suite in results else []
        found = {row.name: row for row in rows if row.section == panel.section}
        bars = [
            Bar(_label(row.name), row.value, row.low, row.high, "theirs" if row.name != panel.rows[0] else "ours")
            for row in (found[name] for name in panel.rows if name in found)
        ]
        if len(bars) > 1:
            unit = found[panel.rows[0]].unit
            charts.append(BarChart(title=panel.title, unit=unit, bars=bars, has_legend=False))
    return charts


def _label(name: str) -> str:
    return name.replace("jpeg='gpu'", "headrace")
