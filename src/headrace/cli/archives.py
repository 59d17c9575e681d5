"""What several verbs do with archives: formats of many files under paths."""

from __future__ import annotations

import argparse
import contextlib
import os
import stat
import sys
import time
from typing import TYPE_CHECKING, Any

from headrace.cli.common import print_json, printable, progress_bar, reading_options, say
from headrace.cli.previews import describe_file, print_preview
from headrace.errors import BrokenPicturesError, EntryIsDirectoryError, UnknownFormatError
from headrace.formats.barecat.index.rows import FileInfo
from headrace.formats.barecat.names import is_part_of
from headrace.formats.barecat.pack import pack_files
from headrace.formats.disk_files import count_found, find_files
from headrace.formats.local_target import local_target
from headrace.formats.open import all_formats, find_format, format_of_name
from headrace.formats.report import Transfer
from headrace.progress import format_bytes, format_count
from headrace.storage import as_path, check_local, group_left_out
from headrace.transfer.extract import extract_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager

    from headrace.formats.barecat import Archive, DirInfo
    from headrace.formats.barecat.archive import Mode
    from headrace.formats.contract import Format

__all__ = [
    "add_rules",
    "broken_named",
    "cat_file",
    "create_archive",
    "extract_archive",
    "is_archive",
    "list_archive",
    "names_from",
    "names_in_archive",
    "new_archive",
    "open_archive",
    "print_left_out",
    "print_lines",
    "print_plan",
    "print_report",
    "print_transfer",
    "refuse_damage",
    "refuse_itself",
    "shown_path",
]

_SHOWN = 20  # of what is damaged
_NAMED = 3  # of what was left out for the same reason


class _AppendRule(argparse.Action):
    """Collects includes and excludes in one list, in their order."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        namespace.rules = [*namespace.rules, (option_string in ("-i", "--include"), values)]


def add_rules(parser: argparse.ArgumentParser) -> None:
    """``-i`` and ``-x``, whose order counts."""
    for short, long, about in (("-i", "--include", "copy what matches"), ("-x", "--exclude", "leave it out")):
        parser.add_argument(short, long, dest="rules", action=_AppendRule, default=(), metavar="PATTERN", help=about)


def is_archive(path: str) -> bool:
    """What is there has files under paths, so that directories can be listed, and files added and removed."""
    try:
        return find_format(path).open_archive is not None
    except (UnknownFormatError, OSError):
        return False


def open_archive(path: str, mode: Mode = "r", *, shard_size: int | None = None, follow_links: bool = False) -> Archive:
    """The archive at a path; ValueError when what is there holds samples."""
    if mode != "r":
        check_local(path)
    found = find_format(path)
    if found.open_archive is None:
        raise _no_archive(path, found)
    return found.open_archive(path, mode, shard_size=shard_size, **found.link_options(follow_links))


def new_archive(path: str, *, shard_size: int | None = None, force: bool = False) -> AbstractContextManager[Archive]:
    """A new archive, of the format that the ending of the path names; it has its name at the end of the block."""
    named = format_of_name(path)
    if named is None or named.new_archive is None:
        known = ", ".join(one.suffixes[0] for one in all_formats() if one.new_archive is not None)
        raise ValueError(f"{path} would not be an archive; give it the ending {known}")
    if named.exists(path) and not force:
        raise FileExistsError(f"{path} exists; give --force to replace it")
    return named.new_archive(path, shard_size=shard_size)


def _no_archive(path: str, found: Format | None) -> ValueError:
    known = ", ".join(one.suffixes[0] for one in all_formats() if one.open_archive is not None)
    if found is None or not found.suffixes or os.path.isdir(path):
        return ValueError(f"{path} is not an archive; this verb is for archives ({known})")
    convert = f"headrace convert {path} {os.path.splitext(path)[0]}{known.partition(',')[0]}"
    return ValueError(
        f"{path} is a dataset of samples ({found.suffixes[0]}), and this verb is for archives of files ({known}). "
        f"Look at it with: headrace ls {path}; or make an archive of it: {convert}"
    )


def names_from(args: argparse.Namespace, paths: list[str]) -> list[str]:
    """Paths from the command line, and from the file of -T."""
    if args.files_from is None:
        return paths
    if args.files_from == "-":
        data = sys.stdin.buffer.read()
    else:
        with open(args.files_from, "rb") as file:
            data = file.read()
    parts = data.split(b"\0" if args.null else b"\n")
    return paths + [os.fsdecode(part) for part in parts if part]


def create_archive(args: argparse.Namespace) -> int:
    """Pack files and folders into a new archive."""
    paths = names_from(args, args.folders)
    if not paths:
        raise ValueError("nothing to pack: name files or folders, or give a list with -T")
    start_s = time.perf_counter()
    if args.dry_run:
        return _plan_archive(args, paths)
    with (
        progress_bar("packing", args, unit="files") as bar,
        local_target(as_path(args.out), force=args.force, progress=bar) as place,
        new_archive(place, shard_size=args.shard_size, force=args.force) as out,
    ):
        result = pack_files(
            out,
            paths,
            folder=args.directory,
            exclude=args.exclude or (),
            recurse=args.files_from is None,
            itself=args.out,
            workers=args.workers,
            progress=bar,
        )
    print_transfer(args, args.out, result, time.perf_counter() - start_s)
    return 0


def _plan_archive(args: argparse.Namespace, paths: list[str]) -> int:
    """Say what would be packed."""
    named = find_format(args.out, must_exist=False)
    if named.exists(args.out) and not args.force:
        raise FileExistsError(f"{args.out} exists; give --force to replace it")
    result = Transfer()
    exclude, recurse = args.exclude or (), args.files_from is None
    found = find_files(paths, folder=args.directory, exclude=exclude, recurse=recurse, skipped=result.skipped)
    count_found((one for one in found if not is_part_of(one.path, args.out)), result)
    print_report(args, named.name, result, 0.0)
    return 0


def refuse_itself(out: str, paths: Iterable[str]) -> None:
    """ValueError when an archive would be written over one that is read."""
    if any(os.path.realpath(path) == os.path.realpath(out) for path in paths):
        raise ValueError(f"{out} cannot be written from itself; name another archive")


def print_left_out(skipped: Iterable[str]) -> None:
    """Say on standard error what was left out."""
    print_lines("left out", skipped)


def print_lines(what: str, lines: Iterable[str]) -> None:
    """Print a line of its own for each thing, on standard error."""
    for line in lines:
        say(f"headrace: {what}: {line}", file=sys.stderr)


@contextlib.contextmanager
def broken_named(args: argparse.Namespace) -> Iterator[None]:
    """In this block, each picture that cannot be stored is named in a line of its own, and the error says the rest."""
    try:
        yield
    except BrokenPicturesError as error:
        print_lines("broken", error.broken)
        problem = f"{format_count(len(error.broken), 'picture')} cannot be stored, and "
        if args.skip_broken:
            raise ValueError(f"{problem}no other is left; {args.out} was not written") from error
        fix = "repair or remove what is broken, or give --skip-broken"
        raise ValueError(f"{problem}{args.out} was not written; {fix}") from error


def print_report(args: argparse.Namespace, kind: str, result: Transfer, elapsed_s: float) -> None:
    """Say what was written, or would be, and on standard error what was left out: by reason, and what is broken."""
    groups = group_left_out(result.skipped)
    for reason, paths in groups.items():
        first = ", ".join(paths[:_NAMED]) + (", ..." if len(paths) > _NAMED else "")
        say(f"headrace: left out, {reason}: {len(paths):,} ({first})", file=sys.stderr)
    print_lines("broken" if args.dry_run else "left out, broken", result.broken)
    if args.dry_run:
        print_plan(args, kind, result)
        return
    unit = "file" if result.samples is None else "sample"
    count = result.files if result.samples is None else result.samples
    if args.json:
        print_json({**_facts(args, kind, result), "seconds": elapsed_s})
    elif not args.quiet:
        rate = f"{format_count(round(count / max(elapsed_s, 1e-9)), unit)}/s"
        say(f"{args.out}: {format_count(count, unit)}, {format_bytes(result.size_bytes)}, {rate}")


def print_plan(args: argparse.Namespace, kind: str, result: Transfer) -> None:
    """Say what would be written."""
    if args.json:
        print_json({**_facts(args, kind, result), "dry_run": True})
        return
    number = format_count(result.files, "file") if result.samples is None else format_count(result.samples, "sample")
    stream = sys.stderr if args.out == "-" else sys.stdout
    size = format_bytes(result.size_bytes)
    say(f"{args.out}: would be written as {kind}: {number}, about {size} of data", file=stream)
    for name, about in result.fields.items():
        say(f"  {name}: {about}", file=stream)
    say("nothing was written", file=stream)


def _facts(args: argparse.Namespace, kind: str, result: Transfer) -> dict[str, object]:
    facts: dict[str, object] = {"path": args.out, "format": kind, "fields": result.fields}
    facts |= {"files": result.files} if result.samples is None else {"samples": result.samples}
    facts |= {"size_bytes": result.size_bytes, "left_out": group_left_out(result.skipped)}
    return facts | {"broken": result.broken}


def print_transfer(
    args: argparse.Namespace, path: str, result: Transfer, elapsed_s: float | None = None, *, is_told: bool = False
) -> None:
    """Say what was carried, and on standard error what was left out; all of it there if the path is -."""
    if not is_told:
        print_left_out(result.skipped)
    facts = {"files": result.files, "dirs": result.dirs, "size_bytes": result.size_bytes}
    if args.json:
        print_json({"path": path, **facts, "skipped": result.skipped, "seconds": elapsed_s})
    elif not args.quiet:
        rate = (
            f", {format_count(round(result.files / max(elapsed_s, 1e-9)), 'file')}/s" if elapsed_s is not None else ""
        )
        stream = sys.stderr if path == "-" else sys.stdout
        say(f"{path}: {format_count(result.files, 'file')}, {format_bytes(result.size_bytes)}{rate}", file=stream)


def extract_archive(args: argparse.Namespace) -> int:
    """Write files below a folder."""
    if args.field:
        raise ValueError("--field is for datasets; name files, directories or patterns of an archive instead")
    damage: list[str] = []
    with (
        open_archive(args.path, **reading_options(args)) as archive,
        progress_bar("extracting", args, unit="files") as bar,
    ):
        result = extract_files(
            archive,
            args.to,
            args.samples,
            force=args.force,
            on_damage=lambda error: damage.append(str(error)),
            progress=bar,
        )
    print_transfer(args, args.to, result)
    refuse_damage(args.path, damage, "file")
    return 0


def refuse_damage(path: str, damage: list[str], unit: str) -> None:
    """Say what was left out because it is damaged, and that this is an error."""
    print_left_out(damage[:_SHOWN])
    if damage:
        count = f"{format_count(len(damage), unit)} {'is' if len(damage) == 1 else 'are'}"
        raise ValueError(f"{count} damaged and not written; headrace verify {path} lists all damage")


def cat_file(args: argparse.Namespace) -> int:
    """Write one file to standard output."""
    if args.field is not None:
        raise ValueError("a file of an archive has no fields; name only the file")
    with open_archive(args.path, **reading_options(args)) as archive:
        if args.preview:
            info = archive.stat(args.sample)
            if not isinstance(info, FileInfo):
                raise EntryIsDirectoryError(args.path, args.sample)
            return print_preview(lambda box: describe_file(archive, info, box=box))
        data = archive[args.sample]
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
    return 0


def names_in_archive(path: str, prefix: str, *, follow_links: bool = False) -> list[str]:
    """What is in the directory of a prefix and begins with it; directories end in a slash."""
    directory, slash, start = prefix.rpartition("/")
    with open_archive(path, follow_links=follow_links) as archive:
        return sorted(
            f"{directory}{slash}{entry.name}{'/' if entry.is_dir() else ''}"
            for entry in archive.scandir(directory)
            if entry.name.startswith(start)
        )


def list_archive(args: argparse.Namespace, *, base: str = "") -> int:
    """List files and directories; paths are shown as seen from ``base``."""
    with open_archive(args.path, **reading_options(args)) as archive:
        rows: list[FileInfo | DirInfo] = []
        for name in args.samples or [base]:
            rows += _listed(archive, name, args.recursive)
        if args.json:
            print_json([{"type": "file" if row.is_file() else "dir", **row._asdict()} for row in rows])
            return 0
        for row in rows:
            shown = shown_path(row.path, base) + ("/" if row.is_dir() else "")
            say(f"{_long_facts(row)} {shown}" if args.long else shown)
    return 0


def _listed(archive: Archive, name: str, recursive: bool) -> Iterable[FileInfo | DirInfo]:
    if any(char in name for char in "*?[") and not archive.exists(name):
        found = archive.glob(name, recursive=True, include_hidden=True)
        if not found:
            raise FileNotFoundError(f"{archive.path}: nothing matches {name}")
        return [archive.stat(path) for path in sorted(found)]
    info = archive.stat(name)
    if info.is_file():
        return [info]
    if recursive:
        below: list[FileInfo | DirInfo] = [entry for entry in archive.index.dirs(below=info.path) if entry.path]
        below += archive.index.files(below=info.path)
        return sorted(below, key=lambda entry: entry.path)
    return sorted(archive.scandir(info.path), key=lambda entry: entry.path)


def shown_path(path: str, base: str = "") -> str:
    """A path for a terminal, relative to a directory if it is below, else with a slash in front.

    Example:
        >>> shown_path("a/b"), shown_path("a/b", "a"), shown_path("c", "a")
        ('a/b', 'b', '/c')
    """
    if not base:
        return printable(path)
    return printable(path.removeprefix(f"{base}/") if path.startswith(f"{base}/") else f"/{path}")


def _long_facts(row: FileInfo | DirInfo) -> str:
    size: Any = row.size if row.is_file() else row.size_tree  # type: ignore[union-attr]
    kind = stat.S_IFREG if row.is_file() else stat.S_IFDIR
    mode = stat.filemode(kind | ((row.mode or 0) & 0o7777))
    if row.mode is None:
        mode = mode[0] + "?" * 9
    owner = f"{'?' if row.uid is None else row.uid}/{'?' if row.gid is None else row.gid}"
    moment = row.mtime.strftime("%Y-%m-%d %H:%M:%S") if row.mtime is not None else "?" * 19
    return f"{mode} {owner:>11} {size:>13,} {moment}"
