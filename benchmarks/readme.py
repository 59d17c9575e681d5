"""Puts the most telling figures of benchmarks/results into the README, so that none is ever typed.

This is the one place that says which figures those are: a line of plain words for each, the suite it comes from, and
which of the suite's rows are compared.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from benchmarks.harness import ROOT
from benchmarks.measured import compare, read_result

__all__ = ["HEADLINES", "README", "refresh_readme", "shown_numbers", "table"]

README = ROOT / "README.md"
BEGIN, END = "<!-- numbers: begin -->", "<!-- numbers: end -->"


class Headline(NamedTuple):
    """One line of the README: patterns of our row and of the peer's; and of the row that compares them, if any."""

    words: str
    peer: str
    suite: str
    ours: str
    theirs: str
    ratio: str = ""
    ratio_words: str = ""


_WINDOW = r"window, index, \w+, {}, random crop 224"
_LOADERS = (
    *("FFCV", "DataLoader + Pillow", "DataLoader + torchvision", "WebDataset", "MosaicML Streaming", "LitData"),
    *("Grain + ArrayRecord", "SPDL", "DALI, CPU"),
)


def _one_worker(peer: str) -> str:
    return f"1 worker: {re.escape(peer)}"


def _crops(kind: str, words: str, peer: str) -> Headline:
    ours = _WINDOW.format(kind)
    return Headline(words, peer, "jpeg_windows", ours, f"{re.escape(peer)}, {kind}, random crop 224")


def _archive(words: str, what: str) -> Headline:
    return Headline(words, "Barecat 0.3.1", "barecat_archive", what, f"{what}: barecat .*", what, "barecat")


def _stream(peer: str, name: str) -> Headline:
    words = "random crops of photographs from an object store, first epoch"
    ours = r"crops: store, first epoch"
    return Headline(words, peer, "stream_photos", ours, f"crops: {name}, first epoch", ours, f"the rate of {name}")


HEADLINES = (
    *(
        Headline("a training pipeline, one worker on one core", peer, "loader", "1 worker: headrace", _one_worker(peer))
        for peer in _LOADERS
    ),
    _crops("jpg q90, longer side 500", "random crops to 224 pixels from JPEGs of 500 pixels, one core", "FFCV"),
    _crops("jpg q90, longer side 500", "the same, one thread in a plain loop", "simplejpeg + OpenCV"),
    _crops("originals passed through", "random crops from the photographs as they were taken, one core", "FFCV"),
    Headline(
        "random crops with a flip from raw pixels, one core",
        "FFCV",
        "load_photos",
        r"headrace, raw, longer side 256, flip",
        r"FFCV, raw, longer side 256, flip",
    ),
    Headline(
        "the same without a flip",
        "FFCV",
        "load_photos",
        r"headrace, raw, longer side 256, no flip",
        r"FFCV, raw, longer side 256, no flip",
    ),
    Headline(
        "small pictures at random, flipped, moved and cut out, one core",
        "FFCV",
        "small_pictures",
        r"headrace, pictures at random, flip, translate, cutout",
        r"FFCV, pictures at random, flip, translate, cutout",
    ),
    Headline(
        "plain numbers at random, one core",
        "FFCV",
        "small_pictures",
        r"headrace, numbers at random",
        r"FFCV, numbers at random",
    ),
    Headline(
        "random crops of photographs in a WebDataset tar, one core",
        "WebDataset + DataLoader + Pillow",
        "format_photos",
        r"crops: tar",
        r"crops: webdataset .*",
        r"crops: tar",
        "webdataset",
    ),
    _stream("WebDataset", "webdataset"),
    _stream("LitData", "litdata"),
    _stream("MosaicML Streaming", "mosaicml"),
    Headline(
        "random crops of photographs decoded on an H200, 1 worker",
        "nvJPEG, whole pictures",
        "gpu_jpeg",
        r"jpeg='gpu', 1 worker, batch 256, originals",
        r"nvJPEG, whole pictures, batch 256, originals",
    ),
    Headline(
        "the same with 4 workers",
        "nvJPEG, whole pictures",
        "gpu_jpeg",
        r"jpeg='gpu', 4 workers, batch 1024, originals",
        r"nvJPEG, whole pictures, batch 1024, originals",
    ),
    Headline(
        "writing photographs given as arrays",
        "FFCV's writer",
        "write_photos",
        r".*Pillow arrays \(all encoded anew\)",
        r"FFCV's DatasetWriter, Pillow arrays",
    ),
    Headline(
        "packing JPEG files as they are",
        "copying them",
        "store_bytes",
        r"pack, byte for byte, with checksums",
        r"copy every file",
    ),
    _archive("256 files of an archive in one call, preloaded", "read_many of 256, preload"),
    _archive("files of an archive, one at a time", "read one by one, from SQLite"),
    _archive("checking a whole archive", "verify"),
    _archive("opening an archive", "open and close"),
    Headline(
        "small files into a tar, with the start of Python",
        "`tar cf`",
        "tar_small_files",
        r"disk: headrace convert, folder, with its start",
        r"disk: tar cf",
    ),
    Headline(
        "256 random samples of an `.ffr` that is not in memory",
        "an `os.pread` loop",
        "ffr_read",
        r"cold, 256 .*: FfrReader.read, cold=True",
        r"cold, 256 .*: an os.pread loop",
        r"cold, 256 .*: FfrReader.read, cold=True",
    ),
    Headline(
        "examples of a TFRecord, read and parsed",
        "the tfrecord package",
        "format_index",
        r"tfrecord, examples parsed: headrace",
        r"tfrecord, examples parsed: the tfrecord package",
        r"tfrecord, examples parsed: headrace",
    ),
    Headline(
        "random rows of an HDF5 of plain arrays",
        "h5py",
        "hdf5_batches",
        r"HDF5, contiguous, anywhere: headrace",
        r"HDF5, contiguous, anywhere: h5py",
    ),
    Headline(
        "random batches of an LMDB",
        "the lmdb package",
        "format_reads",
        r"warm: lmdb",
        r"warm: lmdb \(peer\)",
        r"warm: lmdb",
        "lmdb (peer)",
    ),
    Headline(
        "1 kB samples of a `.beton` at random, checked, one core",
        "`os.pread`",
        "read_bytes",
        r".*read_bytes, every checksum checked",
        r"os.pread",
    ),
    Headline(
        "starting Python and importing the package",
        "importing numpy",
        "startup",
        r"start Python and import headrace",
        r"start Python and import numpy",
    ),
)


def refresh_readme() -> None:
    """Replace the block between the two marks."""
    before, begin, rest = README.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if begin and end:
        README.write_text(f"{before}{BEGIN}\n{table()}\n{END}{after}")


def shown_numbers() -> str:
    """The block as it stands in the README."""
    return README.read_text().partition(BEGIN)[2].partition(END)[0].strip()


def table() -> str:
    """One Markdown table of the headlines that have been measured."""
    lines = ["| measured | beside | speed | spread |", "| --- | --- | --- | --- |"]
    machines = set()
    for headline in HEADLINES:
        result = read_result(headline.suite)
        found = compare(
            result["rows"],
            ours=headline.ours,
            theirs=headline.theirs,
            ratio=headline.ratio,
            words=headline.ratio_words,
        )
        if found is None:
            continue
        numbers = f"**{found.ratio:.2f}x** | {found.low:.2f} to {found.high:.2f}"
        lines.append(f"| {headline.words} | {headline.peer} | {numbers} |")
        facts = result["environment"]
        machines.add(f"{facts['cpu']}, {facts['cores']} cores, Python {facts['python']}")
    return "\n".join([*lines, "", f"Machines: {'; '.join(sorted(machines))}."])
