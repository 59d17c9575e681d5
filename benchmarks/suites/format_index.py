"""Finding the samples of formats without an index, beside reading the file: `cat FILE > /dev/null`, warm.

*Finding* is opening the file without an annex: places, names and types. *Opening* also keeps them in an annex, as the
first opening of a large file does. *Indexing* is `headrace.index`, which also makes the checksums of all values.
TFRecord examples are also read and parsed, all features of each, beside the tfrecord package. That one never compares a
checksum. headrace does, unless it is told not to: both are measured, in batches and sample by sample.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import headrace as hr
from benchmarks.format_files import left_out, ratios
from benchmarks.harness import ROOT
from headrace.bench.format_files import FormatFile, make_files
from headrace.bench.turns import one_core, take_turns

if TYPE_CHECKING:
    from collections.abc import Callable

QUESTION = "How fast are files without an index scanned, beside cat, and TFRecord examples parsed?"
COUNT, SIZE, ROUNDS = 20_000, 10_000, 7
TEXT_COUNT = 200_000
SCANNED = ("tar", "tfrecord", "recordio", "msgpack")
TEXT = ("jsonl", "csv")


def run() -> list[dict[str, Any]]:
    folder = ROOT / "build"
    folder.mkdir(exist_ok=True)
    blob = np.random.default_rng(0).bytes(SIZE + COUNT)
    samples = [(blob[i : i + SIZE], i) for i in range(COUNT)]
    lines = [(i, i / 7, f"the caption of sample {i}, some words long " * 3) for i in range(TEXT_COUNT)]
    with tempfile.TemporaryDirectory(dir=folder) as name, one_core():
        fields = ({"data": hr.Bytes(), "label": hr.Int()}, {"data": hr.Bytes()})
        files, reasons = make_files(Path(name), samples, fields, decode="bytes", only=SCANNED, indexed=False)
        text = {"id": hr.Int(), "score": hr.Float(), "caption": hr.Text()}
        texts, more = make_files(Path(name), lines, (text,), only=TEXT, indexed=False)
        rows = [line for file in (*files, *texts) for line in _scan(file)]
        rows += _parse({file.name: file for file in files})
    return [*rows, *left_out(reasons | more)]


def _scan(file: FormatFile) -> list[dict[str, Any]]:
    size = os.path.getsize(file.path)

    def find(_: int) -> None:
        hr.open(file.path, annex=False, **file.options).close()

    def keep(_: int) -> None:
        file.path.with_name(f"{file.path.name}.annex").unlink(missing_ok=True)
        hr.open(file.path, **file.options).close()

    def index(_: int) -> None:
        hr.index(file.path, fresh=True)

    cat = f"cat {file.name}"
    contenders: dict[str, Callable[[int], object]] = {
        cat: lambda _: subprocess.run(["cat", str(file.path)], stdout=subprocess.DEVNULL, check=True),
        "finding": find,
        "opening": keep,
        "indexing": index,
    }
    seconds = take_turns(contenders, lambda turn: [turn], ROUNDS)
    with file.open() as dataset:
        samples = len(dataset)
    return ratios(f"{file.name}, {size / 1e6:.0f} MB", seconds, cat, samples=samples, size_bytes=size)


def _parse(files: dict[str, FormatFile]) -> list[dict[str, Any]]:
    """All examples in order, all features of each."""
    if "tfrecord" not in files:
        return []
    path = files["tfrecord"].path
    hr.index(path, fresh=True)
    contenders: dict[str, Callable[[int], object]] = {
        "headrace": lambda _: _read_all(path, checksums=True),
        "headrace, checksums not compared": lambda _: _read_all(path, checksums=False),
        "headrace, sample by sample": lambda _: _iterate(path),
    }
    base = "the tfrecord package"
    try:
        from tfrecord.reader import tfrecord_loader
    except ImportError:
        pass
    else:
        with hr.open(path) as dataset:
            kinds = {name: "byte" if field.has_payload else "int" for name, field in dataset.schema.items()}
        contenders[base] = lambda _: [None for _ in tfrecord_loader(str(path), None, kinds)]
    seconds = take_turns(contenders, lambda turn: [turn], 3)
    return ratios("tfrecord, examples parsed", seconds, base, samples=COUNT, size_bytes=os.path.getsize(path))


def _iterate(path: Path) -> None:
    with hr.open(path) as dataset:
        for _ in dataset:
            pass


def _read_all(path: Path, *, checksums: bool) -> None:
    with hr.open(path, checksums=checksums) as dataset:
        for start in range(0, len(dataset), 256):
            batch = np.arange(start, min(start + 256, len(dataset)))
            for name in dataset.schema:
                dataset.read_values(batch, name)
