"""The command line: every command with its options."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.cli.common import VerbParser

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


ARCHIVE = argument("archive", help="path of the archive")
SHARD_SIZE = argument("-s", "--shard-size-limit", metavar="SIZE", help="limit of a shard, such as 1G")
_INSIDE = [ARCHIVE, argument("path", nargs="?", default="", help="path in the archive; by default its root")]
_FILTERS = [
    argument("--pattern", metavar="GLOB", help="take only files that match; not with -i and -x"),
    argument("-i", "--include", action=_Rule, default=[], metavar="PATTERN", help="take what matches"),
    argument("-x", "--exclude", action=_Rule, default=[], metavar="PATTERN", help="leave out what matches"),
]
_PACKING = [
    ARCHIVE,
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
    "create: make an archive",
    *_PACKING,
    _REPLACE,
    "add: add to an archive",
    *_PACKING,
    flag("-c", "--create", help="make the archive if it is missing"),
    "extract: files back to the disk",
    ARCHIVE,
    argument("paths", nargs="*", help="what to extract; a file is written to standard output"),
    argument("-C", "--directory", default=".", help="where to; by default here"),
    *_FILTERS,
    "list: what is in an archive",
    ARCHIVE,
    argument("paths", nargs="*", help="directories, files or patterns"),
    flag("-l", "--long", help="with modes, owners, sizes and times"),
    flag("-R", "--recursive", help="everything below"),
    flag("--jsonl", help="one JSON object for each line"),
    "cat: write a file to standard output",
    ARCHIVE,
    argument("path", help="path in the archive"),
    "find: search, as find does",
    *_INSIDE,
    argument("-name", metavar="PATTERN", help="the last part matches"),
    argument("-path", "-wholename", metavar="PATTERN", dest="pathpattern", help="the whole path matches"),
    argument("-type", choices=["f", "d"], dest="ftype", help="files or directories"),
    argument("-size", metavar="[+-]N[kMG]", help="larger (+), smaller (-) or exactly so many bytes"),
    argument("-maxdepth", type=int, metavar="N", help="go down only so far"),
    flag("-print0", help="end paths with a NUL"),
    "shell: look around interactively",
    ARCHIVE,
    argument("-c", "--cmd", dest="shell_cmd", help="run one command and exit"),
    flag("-w", "--write", help="allow changes"),
    "browse: look around in the terminal",
    ARCHIVE,
    "du: sizes of directories",
    *_INSIDE,
    flag("-a", "--all", help="files, too"),
    flag("-s", "--summarize", help="only the total"),
    flag("-H", "--human-readable", help="sizes with units"),
    argument("-d", "--max-depth", type=int, metavar="N", help="go down only so far"),
    "ncdu: sizes of directories in the terminal",
    ARCHIVE,
    "tree: directories as a tree",
    *_INSIDE,
    argument("-L", "--level", type=int, metavar="N", help="go down only so far"),
    flag("-d", "--dirs-only", help="only directories"),
    "verify: is everything intact?",
    ARCHIVE,
    flag("--quick", help="check the index, and the bytes of the last file only"),
    "defrag: take gaps out of the shards",
    ARCHIVE,
    flag("--quick", help="only move files from the end into gaps"),
    flag("--smart", help="move stretches of files at once"),
    argument("--max-seconds", type=float, default=300, metavar="SEC", help="time limit of --quick"),
    flag("-n", "--dry-run", help="only say what could be freed"),
    "reshard: another size for the shards",
    ARCHIVE,
    Argument(SHARD_SIZE.names, {**SHARD_SIZE.options, "required": True}),
    "subset: a copy of some files",
    ARCHIVE,
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
    "index-to-csv: the index as CSV",
    ARCHIVE,
    "to-ncdu-json: sizes for ncdu",
    ARCHIVE,
    "convert: from or to tar and zip",
    argument("input", help="what is read; with --stdin its format"),
    argument("output", help="what is made; with --stdout its format"),
    SHARD_SIZE,
    _REPLACE,
    flag("--stdin", help="read a tar from standard input"),
    flag("--stdout", help="write a tar to standard output"),
    argument("--root-dir", metavar="NAME", help="a directory of the tar that everything goes into"),
    flag("--wrap", help="only an index over a tar or zip that is not compressed"),
    "upgrade: bring an old index up to date",
    ARCHIVE,
    argument("-j", "--workers", type=int, default=8, help="number of threads"),
    argument(
        "--preserve-backup", action=argparse.BooleanOptionalAction, default=True, help="keep the old index as .old"
    ),
    "completion-script: path of a script that completes commands",
    argument("shell", choices=["bash", "zsh"], help="which shell"),
    "mount: show an archive as a directory",
    ARCHIVE,
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
"""A text begins a command; its arguments follow."""
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
        name, _, about = one.partition(": ")
        aliases = [short for short, full in _SHORT.items() if full == name]
        command = commands.add_parser(name, aliases=aliases, help=about, description=f"{about.capitalize()}.")
        command.signed_options = ("-size",)
    args = parser.parse_args([re.sub(r"^--directory=", "-C", word) for word in argv])
    if args.command is None:
        parser.print_help()
        return None
    args.command = _SHORT.get(args.command, args.command)
    return args
