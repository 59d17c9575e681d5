"""The command line: every command with its options."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.cli.parser import VerbParser

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Argument", "argument", "flag", "normalize_pattern", "parse_arguments"]


class Argument(NamedTuple):
    """What ``add_argument`` takes."""

    names: tuple[str, ...]
    options: dict[str, Any]


def argument(*names: str, **options: Any) -> Argument:
    """An argument, or an option with a value."""
    return Argument(names, options)


def flag(*names: str, help: str) -> Argument:  # the name argparse uses
    """An option without a value."""
    return Argument(names, {"action": "store_true", "help": help})


class _Rule(argparse.Action):
    """Collects patterns under their own name, and all of them in ``rules`` in the order in which they were given."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        pattern = normalize_pattern(values)
        setattr(namespace, self.dest, [*(getattr(namespace, self.dest) or []), pattern])
        namespace.rules = [*getattr(namespace, "rules", []), ("+" if self.dest == "include" else "-", pattern)]


def normalize_pattern(pattern: str) -> str:
    """A slash at the end stands for everything below."""
    return f"{pattern}**" if pattern.endswith("/") else pattern


SHARD_SIZE = argument("-s", "--shard-size-limit", metavar="SIZE", help="limit of a shard, such as 1G")
_INSIDE = argument("path", nargs="?", default="", help="path in the archive; by default its root")
_FILTERS = [
    argument("--pattern", metavar="GLOB", help="take only files that match; not with -i and -x"),
    argument("-i", "--include", action=_Rule, default=[], metavar="PATTERN", help="take what matches"),
    argument("-x", "--exclude", action=_Rule, default=[], metavar="PATTERN", help="leave out what matches"),
]
_PACKING = [
    argument("paths", nargs="*", help="files and directories to add"),
    argument("-T", "--files-from", metavar="FILE", help="read paths from a file, or from standard input (-)"),
    flag("-0", "--null", help="they end with a NUL, as find -print0 writes them"),
    argument("-C", "--directory", metavar="DIR", help="go to this directory first"),
    argument("--exclude", action="append", default=[], metavar="PATTERN", help="leave out what matches"),
    argument("-i", "--include", action="append", default=[], metavar="PATTERN", help="add only what matches"),
    argument("-j", "--workers", type=int, help="number of threads"),
    SHARD_SIZE,
    flag("--physical-order", help="add files in the order in which they lie on the disk"),
]
_REPLACE = flag("-f", "--force", help="replace the output if it exists")
_COMMANDS: list[str | Argument] = [
    "create ARCHIVE: make an archive",
    *_PACKING,
    _REPLACE,
    "add ARCHIVE: add to an archive",
    *_PACKING,
    flag("-c", "--create", help="make the archive if it is missing"),
    "extract ARCHIVE: files back to the disk",
    argument("paths", nargs="*", help="what to extract; a file is written to standard output"),
    argument("-C", "--directory", default=".", help="where to; by default here"),
    *_FILTERS,
    "list ARCHIVE: what is in an archive",
    argument("paths", nargs="*", help="directories, files or patterns"),
    flag("-l", "--long", help="with modes, owners, sizes and times"),
    flag("-R", "--recursive", help="everything below"),
    flag("--jsonl", help="one JSON object for each line"),
    "cat ARCHIVE: write a file to standard output",
    argument("path", help="path in the archive"),
    "find ARCHIVE: search, as find does",
    _INSIDE,
    argument("-name", metavar="PATTERN", help="the last part matches"),
    argument("-path", "-wholename", metavar="PATTERN", dest="pathpattern", help="the whole path matches"),
    argument("-type", choices=["f", "d"], dest="ftype", help="files or directories"),
    argument("-size", metavar="[+-]N[kMG]", help="larger (+), smaller (-) or exactly so many bytes"),
    argument("-maxdepth", type=int, metavar="N", help="go down only so far"),
    flag("-print0", help="end paths with a NUL"),
    "shell ARCHIVE: look around interactively",
    argument("-c", "--cmd", dest="shell_cmd", help="run one command and exit"),
    flag("-w", "--write", help="allow changes"),
    "browse ARCHIVE: look around in the terminal",
    "du ARCHIVE: sizes of directories",
    _INSIDE,
    flag("-a", "--all", help="files, too"),
    flag("-s", "--summarize", help="only the total"),
    flag("-H", "--human-readable", help="sizes with units"),
    argument("-d", "--max-depth", type=int, metavar="N", help="go down only so far"),
    "ncdu ARCHIVE: sizes of directories in the terminal",
    "tree ARCHIVE: directories as a tree",
    _INSIDE,
    argument("-L", "--level", type=int, metavar="N", help="go down only so far"),
    flag("-d", "--dirs-only", help="only directories"),
    "verify ARCHIVE: is everything intact?",
    flag("--quick", help="check the index, and the bytes of the last file only"),
    "defrag ARCHIVE: take gaps out of the shards",
    flag("--quick", help="only move files from the end into gaps"),
    flag("--smart", help="move stretches of files at once"),
    argument("--max-seconds", type=float, default=300, metavar="SEC", help="time limit of --quick"),
    flag("-n", "--dry-run", help="only say what could be freed"),
    "reshard ARCHIVE: another size for the shards",
    Argument(SHARD_SIZE.names, {**SHARD_SIZE.options, "required": True}),
    "subset ARCHIVE: a copy of some files",
    argument("-o", "--output", required=True, help="the new archive"),
    SHARD_SIZE,
    _REPLACE,
    *_FILTERS,
    "merge: several archives, tars and zips into one",
    argument("archives", metavar="ARCHIVE", nargs="+", help="archives, tars and zips"),
    argument("-o", "--output", required=True, help="the archive they go into"),
    SHARD_SIZE,
    _REPLACE,
    flag("-a", "--append", help="add to it if it exists; not with --symlink"),
    flag("--symlink", help="link to the shards instead of copying them"),
    flag("--ignore-duplicates", help="leave out files that are there already"),
    flag("--as-subdirs", help="each goes into a directory with its name"),
    argument("--prefix", metavar="PATH", help="a directory that everything goes into"),
    *_FILTERS,
    "index-to-csv ARCHIVE: the index as CSV",
    "to-ncdu-json ARCHIVE: sizes for ncdu",
    "convert: from or to tar and zip",
    argument("input", help="what is read; with --stdin its format"),
    argument("output", help="what is made; with --stdout its format"),
    SHARD_SIZE,
    _REPLACE,
    flag("--stdin", help="read a tar from standard input"),
    flag("--stdout", help="write a tar to standard output"),
    argument("--root-dir", metavar="NAME", help="a directory of the tar that everything goes into"),
    flag("--wrap", help="only an index over a tar or zip that is not compressed"),
    "upgrade ARCHIVE: bring an old index up to date",
    argument("-j", "--workers", type=int, default=8, help="number of threads"),
    argument(
        "--preserve-backup", action=argparse.BooleanOptionalAction, default=True, help="keep the old index as .old"
    ),
    "completion-script: path of a script that completes commands",
    argument("shell", choices=["bash", "zsh"], help="which shell"),
    "mount ARCHIVE: show an archive as a directory",
    argument("mountpoint", help="a directory"),
    argument("-o", "--options", metavar="OPTIONS", help="ro, fg or foreground, with commas between them"),
    "rsync: copy what has changed",
    argument("paths", nargs="+", help="sources and, last, the target; archive.barecat::path is inside of one"),
    flag("-n", "--dry-run", help="only say what would be done"),
    flag("-v", "--verbose", help="say what is done"),
    flag("--progress", help="show a bar"),
    flag("--delete", help="delete from the target what the sources do not have"),
    flag("-c", "--checksum", help="compare checksums, not sizes and times"),
    flag("-u", "--update", help="leave out what is newer in the target"),
    argument("--include", action="append", default=[], metavar="PAT", help="take what matches"),
    argument("--exclude", action="append", default=[], metavar="PAT", help="leave out what matches"),
]
"""A text begins a command, whose arguments follow; most begin with the path of an archive."""
_SHORT = {"c": "create", "a": "add", "x": "extract", "ls": "list", "l": "list", "t": "list"}


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace | None:
    """The arguments of a command, its options before, between or behind them; None if there is no command."""
    parser = VerbParser(prog="barecat", description="Archives of millions of files.")
    commands = parser.add_subparsers(dest="command", title="commands")
    command = parser
    for one in _COMMANDS:
        if isinstance(one, Argument):
            command.add_argument(*one.names, **one.options)
            continue
        usage, _, about = one.partition(": ")
        name = usage.removesuffix(" ARCHIVE")
        aliases = [short for short, full in _SHORT.items() if full == name]
        command = commands.add_parser(name, aliases=aliases, help=about, description=f"{about.capitalize()}.")
        command.signed_options = ("-size",)
        if name != usage:
            command.add_argument("archive", help="path of the archive")
    args = parser.parse_args([re.sub(r"^--directory=", "-C", word) for word in argv])
    if args.command is None:
        parser.print_help()
        return None
    args.command = _SHORT.get(args.command, args.command)
    return args
