"""``headrace extract``: samples back to files."""

from __future__ import annotations

import json
import os
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

import headrace
from headrace.cli.archives import extract_archive, is_archive, refuse_damage
from headrace.cli.common import (
    add_follow_links,
    add_json,
    add_progress,
    add_storage,
    print_json,
    progress_bar,
    reading_options,
    say,
    select_ranges,
)
from headrace.cli.files import value_as_file
from headrace.codecs.image import SUFFIXES
from headrace.errors import CorruptSampleError
from headrace.progress import format_count
from headrace.storage import FolderWriter

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from headrace.types import Dataset

HELP = "write samples to files"
DESCRIPTION = """\
Write samples to files below a folder: pictures under their names (JPEG as stored, raw pixels as PNG), other values
beside them, numbers into index.jsonl, which has one line for each sample. The files of a packed folder (.ffr) come out
as they went in; those of a .barecat get their modes and times back, and empty directories are made. Files never land
outside the folder, whatever the names in the dataset say."""
EXAMPLES = """\
examples:
  headrace extract train.beton -C out
  headrace extract train.beton -C out 0:100 cat/7.jpg
  headrace extract train.beton -C out --field image
  headrace extract packed.ffr -C out docs/readme.txt
  headrace extract photos.barecat -C out photos/cat '**/*.txt'"""

_INDEX = "index.jsonl"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("path", metavar="FILE", help="a dataset; a path or URL")
    parser.add_argument(
        "samples", metavar="SAMPLE", nargs="*", help="numbers, ranges (10:20), names or patterns; default all"
    )
    parser.add_argument("-C", "--to", metavar="DIR", required=True, help="folder to write to; made if missing")
    parser.add_argument("--field", action="append", metavar="NAME", help="only this field; may be repeated")
    parser.add_argument("-f", "--force", action="store_true", help="replace files that exist")
    add_progress(parser)
    add_json(parser)
    add_follow_links(parser)
    add_storage(parser)


def run(args: argparse.Namespace) -> int:
    """Write the files and the index."""
    if is_archive(args.path):
        return extract_archive(args)
    with headrace.open(args.path, **reading_options(args)) as dataset:
        return _extract_samples(args, dataset)


def _extract_samples(args: argparse.Namespace, dataset: Dataset) -> int:
    fields = args.field or list(dataset.schema)
    for name in fields:
        if name not in dataset.schema:
            raise ValueError(f"no field {name!r}; the fields are {', '.join(dataset.schema)}")
    ranges = select_ranges(dataset, args.samples)
    count = sum(map(len, ranges))
    size_bytes = 0
    damage: list[str] = []
    with progress_bar("extracting", args) as bar, FolderWriter(args.to) as writer:

        def rows() -> Iterator[bytes]:
            """Lines of the index, as the samples that they are about are written."""
            nonlocal size_bytes
            for folder in () if args.samples else dataset.folders:
                writer.make_dir(folder)
            for done, i in enumerate(chain.from_iterable(ranges), 1):
                try:
                    row, size = _extract_sample(dataset, i, fields, writer, args.force)
                except CorruptSampleError as error:
                    damage.append(str(error))
                    continue
                yield json.dumps(row, ensure_ascii=True).encode() + b"\n"
                size_bytes += size
                if bar is not None:
                    bar(done, count, size_bytes)

        writer.write(_INDEX, rows(), replace=args.force)
    if args.json:
        print_json({"samples": count - len(damage), "size_bytes": size_bytes, "to": args.to})
    elif not args.quiet:
        say(f"{args.to}: {format_count(count - len(damage), 'sample')}")
    refuse_damage(args.path, damage, "sample")
    return 0


def _extract_sample(
    dataset: Dataset, index: int, fields: list[str], writer: FolderWriter, force: bool
) -> tuple[dict[str, Any], int]:
    keys = dataset.keys
    name = keys[index] if keys is not None else None
    row: dict[str, Any] = {"index": index, "name": name}
    size_bytes = 0
    main = next((f for f in fields if dataset.schema[f].kind == "image"), None)
    if main is None and len(dataset.schema) == 1:
        main = fields[0]  # its files may have the samples' names
    for field in fields:
        if dataset.schema[field].kind in ("int", "float"):
            (row[field],) = np.asarray(dataset.read_values(np.array([index], np.int64), field)).tolist()
            continue
        data, suffix = value_as_file(dataset, index, field)
        relative = _file_name(name, index, suffix, None if field == main else field)
        if relative == _INDEX or (not force and writer.exists(relative)):
            relative = _file_name(None, index, suffix, None if field == main else field)
        writer.write(relative, [data], replace=force)
        row[field] = relative
        size_bytes += len(data)
    return row, size_bytes


def _file_name(name: str | None, index: int, suffix: str, field: str | None) -> str:
    """A relative path that stays inside: the sample's own name if it is harmless, else its number."""
    parts = (name or "").split("/")
    harmless = name and not os.path.isabs(name) and "\0" not in name and all(p not in ("", ".", "..") for p in parts)
    stem = str(name) if harmless else f"sample-{index:08d}"
    known_ending = os.path.splitext(stem)[1].lower()
    if field is None and (_same_kind(known_ending, suffix) or (harmless and suffix == ".bin")):
        return stem
    if known_ending in SUFFIXES:
        stem = stem[: -len(known_ending)]
    if field is None:
        return f"{stem}{suffix}"
    plain = f".{field.replace('/', '.')}"
    return f"{stem}{plain}" if plain.lower().endswith(suffix) else f"{stem}{plain}{suffix}"


def _same_kind(ending: str, suffix: str) -> bool:
    return ending == suffix or (ending in (".jpeg", ".jpe", ".jpg") and suffix == ".jpg")
