"""``headrace cache``: what is in a cache of blocks from object stores, and clearing it."""

from __future__ import annotations

import os
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from headrace.cli.common import add_json, print_json, say
from headrace.progress import format_bytes, format_count
from headrace.storage import known_cache

if TYPE_CHECKING:
    import argparse

    from headrace.storage import BlockCache

HELP = "what is in a cache on the local disk, and clearing it"
DESCRIPTION = """\
Say what is in the cache that cache_dir= or --cache-dir names, object by object, or remove it from there. Blocks can be
removed at any time, also while others read: what is missing is fetched again. DIR is by default what the environment
variable HEADRACE_CACHE_DIR says."""
EXAMPLES = """\
examples:
  headrace cache info /scratch/cache
  headrace cache clear /scratch/cache --url s3://bucket/old/
  HEADRACE_CACHE_DIR=/scratch/cache headrace cache info --json"""
_VARIABLE = "HEADRACE_CACHE_DIR"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("action", metavar="ACTION", choices=["info", "clear"], help="info or clear")
    parser.add_argument("folder", metavar="DIR", nargs="?", help="the folder of the cache")
    parser.add_argument("--url", metavar="PREFIX", default="", help="only objects whose URLs begin with this")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Look, or clear."""
    folder = args.folder or os.environ.get(_VARIABLE)
    if not folder:
        raise ValueError(f"name the folder of the cache, or set {_VARIABLE}")
    cache = known_cache(folder)
    try:
        (_clear if args.action == "clear" else _tell)(cache, folder, args)
    finally:
        cache.close()
    return 0


def _tell(cache: BlockCache, folder: str, args: argparse.Namespace) -> None:
    objects = _objects(cache, args.url)
    facts = cache.facts
    if args.json:
        print_json({"path": folder, **facts, "objects": [one._asdict() for one in objects]})
        return
    size, taken = format_bytes(int(facts["size_bytes"])), format_bytes(int(facts["disk_bytes"]))
    say(f"{folder}: {format_count(int(facts['blocks']), 'block')}, {taken} of {size}")
    for one in objects:
        say(f"  {format_bytes(one.size_bytes):>10}  {format_count(one.blocks, 'block'):>12}  {one.url}")


class _Object(NamedTuple):
    """What a cache has of an object."""

    url: str
    blocks: int
    size_bytes: int


def _objects(cache: BlockCache, prefix: str) -> list[_Object]:
    found: dict[str, list[int]] = defaultdict(list)
    for block in cache.blocks():
        if block.url.startswith(prefix):
            found[block.url].append(block.size_bytes)
    return [_Object(url, len(sizes), sum(sizes)) for url, sizes in sorted(found.items())]


def _clear(cache: BlockCache, folder: str, args: argparse.Namespace) -> None:
    before = cache.facts["disk_bytes"]
    removed = cache.clear(args.url)
    freed = max(0, before - cache.facts["disk_bytes"])
    if args.json:
        print_json({"path": folder, "removed_blocks": removed, "freed_bytes": freed})
        return
    say(f"{folder}: {format_count(removed, 'block')} removed, {format_bytes(freed)} given back to the disk")
