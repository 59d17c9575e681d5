"""Golden files beside an annex that lies, or beside something else under its name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from tests.attacks.hostile_formats import ODD_FILES, golden

import headrace as hr
from headrace.annex import Annex, write_annex
from headrace.formats.spans.span_file import SpanFile
from headrace.storage import LocalFile

if TYPE_CHECKING:
    from tests.attacks.hostile_formats import Maker

__all__ = ["LIES", "SPAN_FILES", "lying_annex", "odd_annex"]

LIES = ("outside", "huge", "overlapping", "elsewhere", "count", "another file")
SPAN_FILES = (
    *("wds-0001.tar", "examples.tfrecord", "images.rec", "stream.msgpack"),
    *("files.jsonl", "files.csv", "table.lmdb", "classes.zip"),
)
"""Golden files whose annex may have places."""


def _real_annex(folder: Path, name: str) -> tuple[Path, Path]:
    path = golden(folder, name)
    return path, Path(hr.index(path))


def lying_annex(name: str, lie: str) -> Maker:
    """A golden file whose annex has sound checksums and places that lie."""

    def make(folder: Path) -> Path:
        path, annex_path = _real_annex(folder, name)
        mapped = np.frombuffer(annex_path.read_bytes(), np.uint8)
        file = SpanFile(path)
        annex = Annex.find(
            LocalFile(annex_path, mapped=mapped),
            num_samples=None,
            dataset_size=file.size_bytes,
            dataset_fingerprint=file.fingerprint,
        )
        assert annex is not None
        sections = {one: bytes(annex.section(one)) for one in annex.names() if annex.section(one) is not None}
        count = annex.num_samples
        if "places" in sections:
            head, table = sections["places"][:8], np.frombuffer(sections["places"][8:], "<u8").copy()
            offsets, sizes = np.split(table, 2)
            if lie == "outside":
                offsets[:] = (1 << 64) - 3
            elif lie == "huge":
                sizes[:] = (1 << 64) - 1
            elif lie == "overlapping":
                offsets[:], sizes[:] = 0, file.size_bytes
            elif lie == "elsewhere":
                offsets[:] = np.minimum(offsets + np.uint64(3), np.uint64(file.size_bytes))
                sizes[:] = np.minimum(sizes, np.uint64(file.size_bytes) - offsets)
            sections["places"] = head + offsets.tobytes() + sizes.tobytes()
            sections.pop("checksums", None)
        if lie == "another file":
            path.write_bytes(path.read_bytes() + bytes(1024))
        with open(annex_path, "wb") as out:
            write_annex(
                out.writelines,
                {one: [data] for one, data in sections.items()},
                num_samples=count if lie != "count" else 1 << 40,
                dataset_size=lambda _: file.size_bytes,
                dataset_fingerprint=lambda _: file.fingerprint,
            )
        return path

    return make


def odd_annex(name: str, what: str) -> Maker:
    """A golden file with something in place of its annex."""

    def make(folder: Path) -> Path:
        path = golden(folder, name)
        ODD_FILES[what](folder / f"{name}.annex")
        return path

    return make
