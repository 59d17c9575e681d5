"""``headrace info``: what is in a dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import headrace
from headrace.cli.archives import describe_archive, is_archive
from headrace.cli.common import add_json, print_json, printable
from headrace.fields import to_spec
from headrace.formats.beton import BetonDataset
from headrace.formats.beton.summary import summarize
from headrace.formats.ffr import FfrDataset
from headrace.formats.ffr.summary import summarize as summarize_ffr
from headrace.progress import format_bytes

if TYPE_CHECKING:
    import argparse

    from headrace.types import Dataset

NAME = "info"
HELP = "schema, counts, sizes and annex of a dataset"
DESCRIPTION = "Say what is in a dataset: fields, counts, sizes, image modes, page use, annex. Nothing is decoded."
EXAMPLES = """\
examples:
  headrace info train.beton
  headrace info train.beton --json | jq .fields"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("path", metavar="FILE", help="a dataset")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the summary."""
    if is_archive(args.path):
        return _run_archive(args)
    summary = describe(headrace.open(args.path))
    if args.json:
        print_json(summary)
        return 0
    print(f"{summary['path']}: {summary['samples']:,} samples, {format_bytes(summary['size_bytes'])}")
    print("\nfields")
    for name, about in summary["fields"].items():
        print(f"  {printable(name):<16} {_field_line(about)}")
    if summary["format"] == "beton":
        _print_storage(summary)
    elif summary["format"] == "ffr":
        _print_files(summary)
    return 0


def _run_archive(args: argparse.Namespace) -> int:
    summary = describe_archive(args.path)
    if args.json:
        print_json(summary)
        return 0
    print(f"{summary['path']}: {summary['files']:,} files, {format_bytes(summary['size_bytes'])}")
    print(f"  {'directories':<16} {summary['dirs']:,}")
    limit = summary["shard_size_limit"]
    print(f"  {'shards':<16} {summary['shards']:,}, limit {format_bytes(limit) if limit else 'none'}")
    print(f"  {'gaps':<16} {format_bytes(summary['gap_bytes'])}")
    if summary["missing_bytes"]:
        print(f"  {'MISSING':<16} {format_bytes(summary['missing_bytes'])}; headrace verify names the files")
    if summary["without_checksum"]:
        print(f"  {'no checksum':<16} {summary['without_checksum']:,} files")
    print(f"  {'schema':<16} {summary['schema']}")
    if index := summary["jpeg_index"]:
        print(f"  {'jpeg index':<16} {index['jpegs_indexed']:,} of {index['pictures']:,} pictures")
    return 0


def describe(dataset: Dataset) -> dict[str, Any]:
    """The summary of a dataset of any format."""
    if isinstance(dataset, BetonDataset):
        return summarize(dataset)
    if isinstance(dataset, FfrDataset):
        return summarize_ffr(dataset)
    size_bytes = dataset.verify().size_bytes
    fields = {name: to_spec(field) for name, field in dataset.schema.items()}
    return {
        "path": dataset.path,
        "format": type(dataset).__name__.removesuffix("Dataset").lower(),
        "samples": len(dataset),
        "size_bytes": size_bytes,
        "fields": fields,
    }


def _field_line(about: dict[str, Any]) -> str:
    parts = [str(about["kind"])]
    if "dtype" in about:
        parts.append(f"{about['dtype']} {'x'.join(map(str, about['shape']))}")
    if "images" in about:
        parts.append(", ".join(f"{count:,} {mode}" for mode, count in about["images"].items() if count))
        for side in ("width", "height"):
            if side in about:
                spread = about[side]
                parts.append(f"{side} {spread['min']} to {spread['max']}, mean {spread['mean']:.0f}")
    return "; ".join(parts)


def _print_storage(summary: dict[str, Any]) -> None:
    print("\nstorage")
    print(f"  {'payloads':<16} {format_bytes(summary['payload_bytes'])}")
    print(f"  {'metadata':<16} {format_bytes(summary['metadata_bytes'])}")
    if summary["pages"]:
        page = f"{summary['page_size'] / (1 << 20):g} MiB"
        print(f"  {'pages':<16} {summary['pages']:,} of {page}, {summary['page_use']:.1%} used")
    annex = summary["annex"]
    if annex is None:
        print(f"  {'annex':<16} none: values cannot be checked. Make one with: headrace index {summary['path']}")
    else:
        sections = ", ".join(annex["sections"])
        print(f"  {'annex':<16} {annex['where']}, {format_bytes(annex['size_bytes'])}: {sections}")
    jpegs = sum(about.get("images", {}).get("jpg", 0) for about in summary["fields"].values())
    if jpegs:
        print(f"  {'jpeg index':<16} {summary['jpegs_indexed']:,} of {jpegs:,} JPEGs")
    for name, count in summary["classes"].items():
        print(f"  {'classes':<16} {count:,} in field {name!r}")
    if summary["metadata"] is not None:
        print(f"  {'about':<16} {summary['metadata']}")


def _print_files(summary: dict[str, Any]) -> None:
    print("\nstorage")
    print(f"  {'files':<16} {summary['files']:,}, headers {format_bytes(summary['header_bytes'])}")
    old = summary["headers_without_checksum"]
    print(f"  {'checksums':<16} of every sample" + (f"; {old:,} headers have none" if old else " and header"))
    if summary["is_packed_folder"]:
        print(f"  {'packed folder':<16} {summary['samples']:,} files by path")
    if summary["jpegs_indexed"]:
        print(f"  {'jpeg index':<16} {summary['jpegs_indexed']:,} of {summary['samples']:,} samples")
