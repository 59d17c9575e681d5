"""``headrace find``: search an archive by name, type and size."""

from __future__ import annotations

import argparse
import os
import re
import sys
from typing import TYPE_CHECKING

from headrace.cli.archives import open_archive, shown_path
from headrace.cli.common import add_follow_links, reading_options, say, whole_number_from
from headrace.cli.parser import VerbParser
from headrace.formats.patterns import translate

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.formats.barecat import Archive, DirInfo, FileInfo

HELP = "search an archive by name, type and size"
DESCRIPTION = "Print the paths of a .barecat that fulfil all conditions. One dash will do, as in find: -name."
EXAMPLES = """\
examples:
  headrace find photos.barecat --name '*.jpg' --size +1M
  headrace find photos.barecat photos/cat --type f -0 | xargs -0 -n1 echo"""
_UNITS = {"": 1, "c": 1, "k": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("path", metavar="FILE", help="an archive (.barecat)")
    parser.add_argument("directory", metavar="DIR", nargs="?", default="", help="where to begin; default the root")
    parser.add_argument("--name", "-name", metavar="PATTERN", help="pattern of the last part of the path")
    parser.add_argument(
        "--path", "-path", dest="whole", metavar="PATTERN", help="pattern of the whole path; ** crosses slashes"
    )
    parser.add_argument("--type", "-type", choices=["f", "d"], help="files or directories only")
    parser.add_argument(
        "--size", "-size", type=parse_condition, metavar="[+-]N[kMGT]", help="bytes: more, less or exactly"
    )
    parser.add_argument("--maxdepth", "-maxdepth", type=whole_number_from(0), metavar="N", help="at most N levels down")
    parser.add_argument("-0", "--print0", "-print0", action="store_true", help="end paths with NUL, not a newline")
    if isinstance(parser, VerbParser):
        parser.signed_options = ("--size", "-size")
    add_follow_links(parser)


def parse_condition(text: str) -> Callable[[int], bool]:
    """A condition on a size, from text such as +10k.

    Example:
        >>> parse_condition("+10k")(20_000)
        True
    """
    match = re.fullmatch(r"([+-]?)(\d{1,20})([ckMGT]?)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size; write for example +10k, -1M or 512")
    wanted = int(match[2]) * _UNITS[match[3]]
    if match[1] == "+":
        return lambda size: size > wanted
    if match[1] == "-":
        return lambda size: size < wanted
    return lambda size: size == wanted


def run(args: argparse.Namespace, *, base: str = "") -> int:
    """Print what is found, as seen from ``base``."""
    with open_archive(args.path, **reading_options(args)) as archive:
        start = archive.stat(args.directory)
        depth = start.path.count("/") + 1 if start.path else 0
        for entry in _candidates(archive, start, args.type):
            if _fits(entry, args, depth):
                if args.print0:
                    sys.stdout.buffer.write(os.fsencode(entry.path) + b"\0")
                else:
                    say(shown_path(entry.path, base))
    return 0


def _candidates(archive: Archive, start: FileInfo | DirInfo, kind: str | None) -> list[FileInfo | DirInfo]:
    if start.is_file():
        return [start] if kind != "d" else []
    found: list[FileInfo | DirInfo] = []
    if kind != "f":
        found += [entry for entry in archive.index.dirs(below=start.path) if entry.path]
    if kind != "d":
        found += archive.index.files(below=start.path)
    return sorted(found, key=lambda entry: entry.path)


def _fits(entry: FileInfo | DirInfo, args: argparse.Namespace, depth: int) -> bool:
    if args.maxdepth is not None and entry.path.count("/") + 1 - depth > args.maxdepth:
        return False
    if args.name is not None and not translate(args.name, recursive=False, include_hidden=True).fullmatch(entry.name):
        return False
    if args.whole is not None and not translate(args.whole, recursive=True, include_hidden=True).fullmatch(entry.path):
        return False
    if args.size is None:
        return True
    is_wanted: bool = entry.is_file() and args.size(getattr(entry, "size", 0))
    return is_wanted
