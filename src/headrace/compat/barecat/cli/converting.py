"""convert: between archives and tar or zip."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from headrace.compat.barecat.cli import impl
from headrace.compat.barecat.core.paths import is_tar_or_zip
from headrace.compat.barecat.util import misc
from headrace.transfer.containers import translate_errors

if TYPE_CHECKING:
    import argparse

__all__ = ["convert"]

_STREAMS = ("tar", "tar.gz", "tar.bz2", "tar.xz")


def convert(args: argparse.Namespace, shard_size_limit: int) -> None:
    """Run the command."""
    problem = _problem(args)
    if problem is not None:
        print(f"Error: {problem}", file=sys.stderr)
        sys.exit(1)
    with translate_errors("standard input" if args.stdin else args.input):
        _convert(args, shard_size_limit)


def _convert(args: argparse.Namespace, shard_size_limit: int) -> None:
    if args.stdout:
        impl.barecat2stdout_tar(args.input, args.output, args.root_dir)
    elif args.stdin:
        impl.stdin_tar2barecat(args.input, args.output, shard_size_limit, args.force)
    elif not is_tar_or_zip(args.input):
        impl.barecat2archive(args.input, args.output, args.root_dir)
    elif args.wrap:
        impl.wrap_archive(args.input, args.output, args.force)
    else:
        impl.archive2barecat(args.input, args.output, shard_size_limit, args.force)


def _problem(args: argparse.Namespace) -> str | None:
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
