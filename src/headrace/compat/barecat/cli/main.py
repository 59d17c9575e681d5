"""The command ``barecat``.

Exit codes: 0 fine, 1 something went wrong or is damaged, 2 wrong usage.
"""

from __future__ import annotations

import contextlib
import csv
import logging
import os
import sqlite3
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from headrace.cli.common import message_of, say
from headrace.compat.barecat._api import get_completion_script
from headrace.compat.barecat.cli import impl
from headrace.compat.barecat.cli.commands import du_entries, find_entries, format_size, list_entries, tree_entries
from headrace.compat.barecat.cli.packing import pack_paths
from headrace.compat.barecat.cli.parsing import normalize_pattern as _normalize_pattern
from headrace.compat.barecat.cli.parsing import parse_arguments
from headrace.compat.barecat.cli.terminal import safe_on_terminals
from headrace.compat.barecat.core.barecat import Barecat
from headrace.compat.barecat.core.index import Index
from headrace.compat.barecat.core.paths import is_tar_or_zip, resolve_index_path
from headrace.compat.barecat.core.types import SHARD_SIZE_UNLIMITED, Order
from headrace.compat.barecat.exceptions import BarecatError, FileExistsBarecatError
from headrace.compat.barecat.maintenance.defrag import defragment, get_gap_stats, reshard
from headrace.compat.barecat.maintenance.rsync import RsyncOptions, rsync
from headrace.compat.barecat.maintenance.upgrade_database import upgrade
from headrace.compat.barecat.util import misc
from headrace.errors import HeadraceError
from headrace.progress import parse_bytes
from headrace.transfer.containers import translate_errors
from headrace.transfer.extract import extract_files
from headrace.transfer.sinks import open_sink

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from headrace.compat.barecat.core.types import BarecatEntryInfo
    from headrace.formats.barecat.edit.maintenance import Method

__all__ = ["check_archive", "fail", "main", "report_errors"]

_SHOWN = 20  # of what is damaged
_STREAMS = ("tar", "tar.gz", "tar.bz2", "tar.xz")


def fail(problem: str) -> NoReturn:
    """Say what is wrong and leave with code 1."""
    say(f"Error: {problem}", file=sys.stderr)
    sys.exit(1)


@contextlib.contextmanager
def report_errors() -> Iterator[None]:
    """Run a command in this block: code 1 for errors, 130 for Ctrl-C, and nothing when the reader goes away."""
    try:
        with safe_on_terminals(), translate_errors("the input"):
            yield
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # not our business
    except KeyboardInterrupt:
        sys.exit(130)
    except (BarecatError, HeadraceError, OSError, ValueError, LookupError, sqlite3.Error) as error:
        fail(message_of(error))


def _parse_shard_size(value: str | None) -> int:
    """Bytes from text; no text means no limit."""
    return SHARD_SIZE_UNLIMITED if value is None else parse_bytes(value)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command; leaves by ``SystemExit`` unless everything was fine."""
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    args = parse_arguments(sys.argv[1:] if argv is None else argv)
    if args is None:
        sys.exit(0)
    with report_errors():
        if args.command in _READERS:
            with Barecat(args.archive) as bc:
                _READERS[args.command](bc, args)
        else:
            _HANDLERS[args.command](args)


def _create(args: argparse.Namespace) -> None:
    if misc.exists(args.archive) and not args.force:
        fail(f"Archive '{args.archive}' already exists. Use -f to overwrite, or 'barecat add'.")
    pack_paths(args, _parse_shard_size(args.shard_size_limit), overwrite=args.force)


def _add(args: argparse.Namespace) -> None:
    is_there = misc.exists(args.archive)
    if not is_there and not args.create:
        fail(f"Archive '{args.archive}' does not exist. Use 'barecat create' or 'barecat add -c'.")
    limit = None if is_there and args.shard_size_limit is None else _parse_shard_size(args.shard_size_limit)
    pack_paths(args, limit, overwrite=False)


def _check_filters(args: argparse.Namespace) -> tuple[str | None, list[tuple[str, str]] | None]:
    if args.pattern and (args.include or args.exclude):
        fail("--pattern is incompatible with --include/--exclude")
    return _normalize_pattern(args.pattern) if args.pattern else None, getattr(args, "rules", None)


def _extract(bc: Barecat, args: argparse.Namespace) -> None:
    pattern, rules = _check_filters(args)
    index = bc.index
    if args.paths:
        for path in args.paths:
            _extract_named(bc, path, args.directory)
    elif pattern is not None:
        _extract_intact(bc, args.directory, index.iterglob_infos(pattern, recursive="**" in pattern, only_files=True))
    elif rules:
        _extract_intact(bc, args.directory, index.iterglob_infos_incl_excl(rules, only_files=True))
    else:
        _extract_intact(bc, args.directory, None)


def _extract_intact(bc: Barecat, folder: str, infos: Iterable[BarecatEntryInfo] | None) -> None:
    """Everything, or what is named, if it is not damaged; the rest is said, and then it is an error."""
    names, damage = [info.path for info in infos or ()], []
    if names or infos is None:
        extract_files(bc._archive, folder, names, force=True, on_damage=lambda error: damage.append(str(error)))
    if damage:
        fail("\nError: ".join([*damage[:_SHOWN], f"{len(damage)} files are damaged and were not extracted"]))


def _extract_named(bc: Barecat, path: str, folder: str) -> None:
    if bc.isdir(path):
        _extract_intact(bc, folder, [bc.index.lookup_dir(path)])
    else:
        _print_file(bc, path)


def _print_file(bc: Barecat, path: str) -> None:
    if path not in bc:
        fail(f"{path} not found in archive")
    sys.stdout.buffer.write(bc[path])


def _shell(args: argparse.Namespace) -> None:
    from headrace.compat.barecat.cli.shell import BarecatShell

    with BarecatShell(args.archive, readonly=not args.write) as shell:
        if args.shell_cmd:
            shell.onecmd(args.shell_cmd)
        else:
            shell.interact()


def _native(verb: str, *words: str) -> None:
    """Let headrace's own command do it."""
    from headrace.cli import main as command  # which barecat alone does not need

    sys.exit(command.main([verb, *words]))


def _browse(args: argparse.Namespace) -> None:
    if not misc.exists(args.archive):
        fail(f"{args.archive} does not exist")
    _native("browse", args.archive)


def _mount(args: argparse.Namespace) -> None:
    options = [option for option in (args.options or "").split(",") if option]
    for option in options:
        if option not in ("ro", "mmap", "fg", "foreground"):
            fail(f"Mount option {option} is not supported: archives are mounted for reading. Known: ro, fg, mmap")
    words = [args.archive, args.mountpoint]
    words += [] if {"fg", "foreground"} & set(options) else ["--background"]
    _native("mount", *words)


def _verify(bc: Barecat, args: argparse.Namespace) -> None:
    check_archive(bc, quick=args.quick)
    size = format_size(bc.total_size)
    what = "(quick check), all OK" if args.quick else f"({size}), all checksums OK"
    print(f"Verified {bc.num_files} files {what}.")


def check_archive(bc: Barecat, *, quick: bool) -> None:
    """Print every problem, and leave with code 1 if there is one."""
    report = bc._archive.verify(quick=quick)
    parts = [problem.message.partition(": checksum ") for problem in report.problems]
    for name, is_wrong_sum, _ in parts:
        print(f"CRC32C mismatch for file: {name}" if is_wrong_sum else name)
    is_last_good = not (quick and report.ok and len(bc)) or bc.check_crc32c(bc.index.get_last_file())
    if not report.ok or not is_last_good:
        what = "Integrity" if quick or not any(part[1] for part in parts) else "CRC32C"
        print(f"{what} verification failed.", file=sys.stderr)
        sys.exit(1)


def _defrag(args: argparse.Namespace) -> None:
    with Barecat(args.archive, readonly=args.dry_run) as bc:
        if args.dry_run:
            _print_gaps(get_gap_stats(bc))
        elif bc.total_physical_size_seek > bc.total_logical_size:
            method: Method = "quick" if args.quick else "smart" if args.smart else "full"
            freed = defragment(bc, method, args.max_seconds if args.quick else None)
            print(f"Freed {format_size(freed)}")


def _print_gaps(stats: dict[str, Any]) -> None:
    show = format_size
    print(f"Physical size:       {show(stats['physical_size'])}")
    print(f"Logical size:        {show(stats['logical_size'])}")
    print(f"Freeable space:      {show(stats['total_gap_size'])}")
    print(f"Number of gaps:      {stats['num_gaps']}")
    print(f"Fragmentation ratio: {stats['fragmentation_ratio']:.3f}")
    sizes = sorted(stats["gap_sizes"])
    if not sizes:
        return
    print("\nGap size distribution:")
    shares = {"Min": 0.0, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p90": 0.9, "p99": 0.99, "Max": 1.0}
    for label, share in shares.items():
        print(f"  {label + ':':<8}{show(sizes[min(int(len(sizes) * share), len(sizes) - 1)])}")
    print(f"  {'Mean:':<8}{show(sum(sizes) / len(sizes))}")
    print("\nGaps by shard:")
    for shard, gaps in sorted(stats["gaps_by_shard"].items()):
        print(f"  Shard {shard}: {len(gaps)} gaps, {show(sum(size for _, size in gaps))} total")


def _reshard(args: argparse.Namespace) -> None:
    with Barecat(args.archive, readonly=False) as bc:
        reshard(bc, parse_bytes(args.shard_size_limit))


def _subset(args: argparse.Namespace) -> None:
    if misc.exists(args.output) and not args.force:
        fail(f"Output '{args.output}' already exists. Use -f to overwrite.")
    pattern, rules = _check_filters(args)
    limit = _parse_shard_size(args.shard_size_limit)
    impl.merge([args.archive], args.output, limit, overwrite=args.force, pattern=pattern, filter_rules=rules)


def _merge(args: argparse.Namespace) -> None:
    if args.symlink and args.append:
        fail("--append is not supported with --symlink")
    pattern, rules = _check_filters(args)
    if args.symlink and any(is_tar_or_zip(one) for one in args.archives):
        fail("--symlink is not supported with tar/zip inputs")
    is_there = misc.exists(args.output)
    if is_there and not args.force and not args.append:
        fail(f"Output '{args.output}' already exists. Use -f to overwrite or -a to append.")
    common: dict[str, Any] = {"overwrite": args.force, "as_subdirs": args.as_subdirs, "prefix": args.prefix}
    common |= {"pattern": pattern, "filter_rules": rules}
    try:
        if args.symlink:
            impl.merge_symlink(args.archives, args.output, ignore_duplicates=args.ignore_duplicates, **common)
        else:
            keeps_limit = is_there and args.append and args.shard_size_limit is None
            limit = None if keeps_limit else _parse_shard_size(args.shard_size_limit)
            ignore = args.ignore_duplicates or args.append
            impl.merge(args.archives, args.output, limit, ignore_duplicates=ignore, **common)
    except FileExistsBarecatError as error:
        fail(
            f"Duplicate path in archive: {error}\n"
            "To ignore duplicates and keep the first occurrence, use --ignore-duplicates."
        )


def _index_to_csv(args: argparse.Namespace) -> None:
    writer = csv.writer(sys.stdout, quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow(["path", "shard", "offset", "size", "crc32c"])
    with Index(resolve_index_path(args.archive)) as index:
        for info in index.iter_all_fileinfos(order=Order.PATH):
            writer.writerow([info.path, info.shard, info.offset, info.size, info.crc32c])


def _convert(args: argparse.Namespace) -> None:
    problem = _conversion_problem(args)
    if problem is not None:
        fail(problem)
    limit = _parse_shard_size(args.shard_size_limit)
    with translate_errors("standard input" if args.stdin else args.input):
        if args.stdout:
            impl.write_container(args.input, open_sink(sys.stdout.buffer, kind=args.output), args.root_dir)
        elif args.stdin:
            impl.pack_container(sys.stdin.buffer, args.output, limit, args.force, args.input)
        elif not is_tar_or_zip(args.input):
            impl.barecat2archive(args.input, args.output, args.root_dir)
        elif args.wrap:
            impl.wrap_archive(args.input, args.output, args.force)
        else:
            impl.archive2barecat(args.input, args.output, limit, args.force)


def _conversion_problem(args: argparse.Namespace) -> str | None:
    formats = ", ".join(_STREAMS)
    if args.stdin and args.input not in _STREAMS:
        return f"With --stdin, input must be a tar format: {formats}"
    if args.stdout and args.output not in _STREAMS:
        return f"With --stdout, output must be a tar format: {formats}"
    reads_archive = args.stdin or is_tar_or_zip(args.input)
    writes_archive = args.stdout or is_tar_or_zip(args.output)
    if reads_archive and writes_archive:
        return "Both input and output are tar/zip. One must be a barecat path."
    if not reads_archive and not writes_archive:
        return (
            "Neither input nor output is tar/zip. "
            "One must have extension like .tar, .tar.gz, .zip (or use --stdin/--stdout)"
        )
    if args.wrap and args.stdin:
        return "--wrap cannot be used with --stdin"
    is_there = misc.exists(args.output) if reads_archive else not args.stdout and os.path.exists(args.output)
    if is_there and not args.force:
        return f"Output '{args.output}' already exists. Use -f to overwrite."
    return None


def _rsync(args: argparse.Namespace) -> None:
    if len(args.paths) < 2:
        fail("rsync requires at least source and destination")
    names = ("delete", "dry_run", "verbose", "progress", "checksum", "update", "include", "exclude")
    rsync(args.paths[:-1], args.paths[-1], RsyncOptions(**{name: getattr(args, name) for name in names}))


_READERS: dict[str, Callable[[Barecat, argparse.Namespace], None]] = {
    "extract": _extract,
    "list": lambda bc, args: list_entries(bc.index, args.paths, args.long, args.recursive, args.jsonl),
    "cat": lambda bc, args: _print_file(bc, args.path),
    "find": lambda bc, args: find_entries(
        bc.index, args.path, args.name, args.pathpattern, args.ftype, args.size, args.maxdepth, args.print0
    ),
    "du": lambda bc, args: du_entries(
        bc._archive, args.path, args.all, args.summarize, args.human_readable, args.max_depth
    ),
    "tree": lambda bc, args: tree_entries(bc._archive, args.path, args.level, args.dirs_only),
    "verify": _verify,
}
"""Commands that read an archive."""
_HANDLERS: dict[str, Callable[[argparse.Namespace], None]] = {
    "create": _create,
    "add": _add,
    "shell": _shell,
    "browse": _browse,
    "ncdu": _browse,
    "defrag": _defrag,
    "reshard": _reshard,
    "subset": _subset,
    "merge": _merge,
    "index-to-csv": _index_to_csv,
    "to-ncdu-json": lambda args: impl.print_ncdu_json(args.archive),
    "convert": _convert,
    "upgrade": lambda args: upgrade(args.archive, workers=args.workers, preserve_backup=args.preserve_backup),
    "completion-script": lambda args: print(get_completion_script(args.shell)),
    "mount": _mount,
    "rsync": _rsync,
}


if __name__ == "__main__":
    main()
