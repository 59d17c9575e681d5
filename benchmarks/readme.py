"""Puts the most telling figures of benchmarks/results into the README, so that none is ever typed.

This is the one place that says which figures those are: a line of plain words for each, the suite it comes from, and
which of the suite's rows it is.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from benchmarks.harness import RESULTS, ROOT

__all__ = ["README", "refresh_readme", "shown_numbers", "table"]

README = ROOT / "README.md"
BEGIN, END = "<!-- numbers: begin -->", "<!-- numbers: end -->"


class Headline(NamedTuple):
    """One line of the README: patterns of the row's name and of its result."""

    words: str
    suite: str
    what: str
    text: str = ""


HEADLINES = (
    Headline(
        "random crops to 224 pixels from JPEGs (longer side 500, quality 90), one core",
        "jpeg_windows",
        r"window, index, .*, jpg q90, .*random crop 224$",
        "FFCV",
    ),
    Headline(
        "the same from the photographs as they were taken",
        "jpeg_windows",
        r"window, index, .*, originals .*random crop 224$",
        "FFCV",
    ),
    Headline(
        "random crops from raw pixels (longer side 256), one core", "load_photos", r".*raw.*, flip, one core", "FFCV"
    ),
    Headline(
        "random crops of photographs decoded on an H200, fed by one worker",
        "gpu_jpeg",
        r"jpeg='gpu', 1 worker, batch 256, originals$",
        "images/s",
    ),
    Headline(
        "the same with 4 workers",
        "gpu_jpeg",
        r"jpeg='gpu', 4 workers, batch 1024, originals$",
        "nvJPEG, whole pictures, batch 1024",
    ),
    Headline("random crops of photographs in a WebDataset tar, one core", "format_photos", r"crops: tar", "webdataset"),
    Headline(
        "examples of a TFRecord, read and parsed", "format_index", r"tfrecord, examples parsed: headrace", "x the rate"
    ),
    Headline("crops from JPEGs, 8 workers", "load_scaling", r"jpg .* 8 workers", "images/s"),
    Headline(
        "256 files of an archive in one call, preloaded",
        "barecat_archive",
        r"read_many of 256, preload$",
        "0.3.1",
    ),
    Headline("files of an archive, one at a time", "barecat_archive", r"read one by one, from SQLite$", "0.3.1"),
    Headline("checking a whole archive", "barecat_archive", r"verify$", "0.3.1"),
    Headline("opening an archive", "barecat_archive", r"open and close$", "0.3.1"),
    Headline(
        "256 random samples of an .ffr that is not in memory",
        "ffr_read",
        r"cold, 256 .*: FfrReader.read, cold=True$",
        "x",
    ),
    Headline("the same from memory", "ffr_read", r"warm, 256 .*: FfrReader.read$", "x the"),
    Headline("1 kB samples of a .beton at random, checked, one core", "read_bytes", r".*read_bytes, every checksum.*"),
    Headline("writing photographs given as arrays", "write_photos", r".*Pillow arrays.*", "FFCV"),
    Headline("packing JPEG files as they are", "store_bytes", r"packing JPEG files as they are", "x"),
    Headline("opening a .beton of ten million samples", "startup", r"open a file of ten million samples"),
    Headline("starting Python and importing headrace", "startup", r"start Python and import headrace"),
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
    lines = ["| measured | result |", "| --- | --- |"]
    machines = set()
    for headline in HEADLINES:
        path = RESULTS / f"{headline.suite}.json"
        result = json.loads(path.read_text()) if path.exists() else {"rows": []}
        for row in filter(lambda row: _is_row(headline, row), result["rows"]):
            lines.append(f"| {headline.words} | {row['text'].partition(' (')[0]} |")
            facts = result["environment"]
            machines.add(f"{facts['cpu']}, {facts['cores']} cores, Python {facts['python']}")
            break
    lines.append("")
    lines.append(f"Machines: {'; '.join(sorted(machines))}. All rows and the scripts: [benchmarks](benchmarks).")
    return "\n".join(lines)


def _is_row(headline: Headline, row: dict[str, Any]) -> bool:
    is_wanted = re.fullmatch(headline.what, row["what"]) and headline.text in row["text"]
    return bool(is_wanted) and row.get("is_quiet", True)
