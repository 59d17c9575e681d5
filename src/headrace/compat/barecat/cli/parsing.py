"""The command line: every command with its options."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Any

from headrace.compat.barecat.util.misc import BoolAction

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["parse_arguments"]

_Parser = argparse.ArgumentParser
_MASK = "\0"  # before words that come after --, so that argparse takes none of them for an option


class _Rule(argparse.Action):
    """Collects patterns under their own name, and all of them in ``rules`` in the order in which they were given."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        pattern = normalize_pattern(values)
        setattr(namespace, self.dest, [*(getattr(namespace, self.dest) or []), pattern])
        namespace.rules = [*getattr(namespace, "rules", []), ("+" if self.dest == "include" else "-", pattern)]


def normalize_pattern(pattern: str) -> str:
    """A slash at the end stands for everything below."""
    return f"{pattern}**" if pattern.endswith("/") else pattern


def _archive(p: _Parser) -> None:
    p.add_argument("archive", help="path of the archive")


def _shard_size(p: _Parser, *, required: bool = False) -> None:
    p.add_argument("-s", "--shard-size-limit", required=required, metavar="SIZE", help="limit of a shard, such as 1G")


def _filters(p: _Parser) -> None:
    p.add_argument("--pattern", metavar="GLOB", help="take only files that match; not with -i and -x")
    p.add_argument("-i", "--include", action=_Rule, default=[], metavar="PATTERN", help="take what matches")
    p.add_argument("-x", "--exclude", action=_Rule, default=[], metavar="PATTERN", help="leave out what matches")


def _packing(p: _Parser) -> None:
    _archive(p)
    p.add_argument("paths", nargs="*", help="files and directories to add")
    p.add_argument("-T", "--files-from", metavar="FILE", help="read paths from a file, or from standard input (-)")
    p.add_argument("-0", "--null", action="store_true", help="they end with a NUL, as find -print0 writes them")
    p.add_argument("-C", "--directory", metavar="DIR", help="go to this directory first")
    p.add_argument("--exclude", action="append", default=[], metavar="PATTERN", help="leave out what matches")
    p.add_argument("-i", "--include", action="append", default=[], metavar="PATTERN", help="add only what matches")
    p.add_argument("-j", "--workers", type=int, help="number of threads")
    _shard_size(p)
    p.add_argument("--physical-order", action="store_true", help="add files in the order in which they lie on the disk")


def _create(p: _Parser) -> None:
    _packing(p)
    p.add_argument("-f", "--force", action="store_true", help="replace an archive that exists")


def _add(p: _Parser) -> None:
    _packing(p)
    p.add_argument("-c", "--create", action="store_true", help="make the archive if it is missing")


def _extract(p: _Parser) -> None:
    _archive(p)
    p.add_argument("paths", nargs="*", help="what to extract; a file is written to standard output")
    p.add_argument("-C", "--directory", default=".", help="where to; by default here")
    _filters(p)


def _list(p: _Parser) -> None:
    _archive(p)
    p.add_argument("paths", nargs="*", help="directories, files or patterns")
    p.add_argument("-l", "--long", action="store_true", help="with mode, owner, size and time")
    p.add_argument("-R", "--recursive", action="store_true", help="all files below")
    p.add_argument("--jsonl", action="store_true", help="one JSON object in each line")


def _cat(p: _Parser) -> None:
    _archive(p)
    p.add_argument("path", help="path in the archive")


def _inside(p: _Parser) -> None:
    _archive(p)
    p.add_argument("path", nargs="?", default="", help="path in the archive; by default its root")


def _find(p: _Parser) -> None:
    _inside(p)
    p.add_argument("-name", metavar="PATTERN", help="the last part matches")
    p.add_argument("-path", "-wholename", metavar="PATTERN", dest="pathpattern", help="the whole path matches")
    p.add_argument("-type", choices=["f", "d"], dest="ftype", help="files or directories")
    p.add_argument("-size", metavar="[+-]N[kMG]", help="larger (+), smaller (-) or exactly so many bytes")
    p.add_argument("-maxdepth", type=int, metavar="N", help="go down only so far")
    p.add_argument("-print0", action="store_true", help="end paths with a NUL")


def _shell(p: _Parser) -> None:
    _archive(p)
    p.add_argument("-c", "--cmd", dest="shell_cmd", help="run one command and exit")
    p.add_argument("-w", "--write", action="store_true", help="allow changes")


def _du(p: _Parser) -> None:
    _inside(p)
    p.add_argument("-a", "--all", action="store_true", help="files, too")
    p.add_argument("-s", "--summarize", action="store_true", help="only the total")
    p.add_argument("-H", "--human-readable", action="store_true", help="sizes with units")
    p.add_argument("-d", "--max-depth", type=int, metavar="N", help="go down only so far")


def _tree(p: _Parser) -> None:
    _inside(p)
    p.add_argument("-L", "--level", type=int, metavar="N", help="go down only so far")
    p.add_argument("-d", "--dirs-only", action="store_true", help="only directories")


def _verify(p: _Parser) -> None:
    _archive(p)
    p.add_argument("--quick", action="store_true", help="check the index, and the bytes of the last file only")


def _defrag(p: _Parser) -> None:
    _archive(p)
    p.add_argument("--quick", action="store_true", help="only move files from the end into gaps")
    p.add_argument("--smart", action="store_true", help="move stretches of files at once")
    p.add_argument("--max-seconds", type=float, default=300, metavar="SEC", help="time limit of --quick")
    p.add_argument("-n", "--dry-run", action="store_true", help="only say what could be freed")


def _reshard(p: _Parser) -> None:
    _archive(p)
    _shard_size(p, required=True)


def _subset(p: _Parser) -> None:
    _archive(p)
    p.add_argument("-o", "--output", required=True, help="the new archive")
    _shard_size(p)
    p.add_argument("-f", "--force", action="store_true", help="replace it if it exists")
    _filters(p)


def _merge(p: _Parser) -> None:
    p.add_argument("archives", metavar="ARCHIVE", nargs="+", help="archives, tars and zips")
    p.add_argument("-o", "--output", required=True, help="the archive they go into")
    _shard_size(p)
    p.add_argument("-f", "--force", action="store_true", help="replace it if it exists")
    p.add_argument("-a", "--append", action="store_true", help="add to it if it exists; not with --symlink")
    p.add_argument("--symlink", action="store_true", help="link to the shards instead of copying them")
    p.add_argument("--ignore-duplicates", action="store_true", help="leave out files that are there already")
    p.add_argument("--as-subdirs", action="store_true", help="each goes into a directory with its name")
    p.add_argument("--prefix", metavar="PATH", help="a directory that everything goes into")
    _filters(p)


def _convert(p: _Parser) -> None:
    p.add_argument("input", help="what is read; with --stdin its format")
    p.add_argument("output", help="what is made; with --stdout its format")
    _shard_size(p)
    p.add_argument("-f", "--force", action="store_true", help="replace the output if it exists")
    p.add_argument("--stdin", action="store_true", help="read a tar from standard input")
    p.add_argument("--stdout", action="store_true", help="write a tar to standard output")
    p.add_argument("--root-dir", metavar="NAME", help="a directory of the tar that everything goes into")
    p.add_argument("--wrap", action="store_true", help="only an index over a tar or zip that is not compressed")


def _upgrade(p: _Parser) -> None:
    _archive(p)
    p.add_argument("-j", "--workers", type=int, default=8, help="number of threads")
    p.add_argument("--preserve-backup", action=BoolAction, default=True, help="keep the old index as .old")


def _completion(p: _Parser) -> None:
    p.add_argument("shell", choices=["bash", "zsh"], help="which shell")


def _mount(p: _Parser) -> None:
    _archive(p)
    p.add_argument("mountpoint", help="a directory")
    p.add_argument("-o", "--options", metavar="OPTIONS", help="ro, fg or foreground, with commas between them")


def _rsync(p: _Parser) -> None:
    p.add_argument("paths", nargs="+", help="sources and, last, the target; archive.barecat::path is inside of one")
    p.add_argument("-n", "--dry-run", action="store_true", help="only say what would be done")
    p.add_argument("-v", "--verbose", action="store_true", help="say what is done")
    p.add_argument("--progress", action="store_true", help="show a bar")
    p.add_argument("--delete", action="store_true", help="delete from the target what the sources do not have")
    p.add_argument("-c", "--checksum", action="store_true", help="compare checksums, not sizes and times")
    p.add_argument("-u", "--update", action="store_true", help="leave out what is newer in the target")
    p.add_argument("--include", action="append", default=[], metavar="PAT", help="take what matches")
    p.add_argument("--exclude", action="append", default=[], metavar="PAT", help="leave out what matches")


_COMMANDS: dict[str, tuple[Callable[[_Parser], None], str, tuple[str, ...]]] = {
    "create": (_create, "make an archive", ("c",)),
    "add": (_add, "add to an archive", ("a",)),
    "extract": (_extract, "files back to the disk", ("x",)),
    "list": (_list, "what is in an archive", ("ls", "l", "t")),
    "cat": (_cat, "write a file to standard output", ()),
    "find": (_find, "search, as find does", ()),
    "shell": (_shell, "look around interactively", ()),
    "browse": (_archive, "look around in the terminal", ()),
    "du": (_du, "sizes of directories", ()),
    "ncdu": (_archive, "sizes of directories in the terminal", ()),
    "tree": (_tree, "directories as a tree", ()),
    "verify": (_verify, "is everything intact?", ()),
    "defrag": (_defrag, "take gaps out of the shards", ()),
    "reshard": (_reshard, "another size for the shards", ()),
    "subset": (_subset, "a copy of some files", ()),
    "merge": (_merge, "several archives, tars and zips into one", ()),
    "index-to-csv": (_archive, "the index as CSV", ()),
    "to-ncdu-json": (_archive, "sizes for ncdu", ()),
    "convert": (_convert, "from or to tar and zip", ()),
    "upgrade": (_upgrade, "bring an old index up to date", ()),
    "completion-script": (_completion, "path of a script that completes commands", ()),
    "mount": (_mount, "show an archive as a directory", ()),
    "rsync": (_rsync, "copy what has changed", ()),
}


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace | None:
    """The arguments of a command, its options before, between or behind them; None if there is no command."""
    parser = _Parser(prog="barecat", description="Archives of millions of files.")
    commands = parser.add_subparsers(dest="command", title="commands")
    for name, (fill, about, aliases) in _COMMANDS.items():
        fill(commands.add_parser(name, aliases=aliases, help=about, description=f"{about[0].upper()}{about[1:]}."))
    words = [re.sub(r"^--directory=", "-C", word) for word in argv]
    if not words or words[0] not in commands.choices:
        args = parser.parse_args(words)
        if args.command is None:
            parser.print_help()
            return None
        return args
    chosen = commands.choices[words[0]]
    rest = _join_sizes(words[1:]) if words[0] == "find" else words[1:]
    cut = rest.index("--") if "--" in rest else len(rest)
    args = chosen.parse_intermixed_args([*rest[:cut], *(_MASK + word for word in rest[cut + 1 :])])
    for name, value in vars(args).items():
        setattr(args, name, _unmasked(value))
    args.command = next((name for name, (_, _, aliases) in _COMMANDS.items() if words[0] in aliases), words[0])
    return args


def _unmasked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unmasked(one) for one in value]
    return value.removeprefix(_MASK) if isinstance(value, str) else value


def _join_sizes(words: list[str]) -> list[str]:
    """``-size -10k`` as one word: argparse would take the second for an option."""
    joined: list[str] = []
    for word in words:
        if joined and joined[-1] == "-size":
            joined[-1] = f"-size={word}"
        else:
            joined.append(word)
    return joined
