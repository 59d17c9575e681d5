"""Entry point of the command.

Exit codes: 0 fine, 1 ``verify`` found something wrong, 2 an error or wrong usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING

from headrace.cli.common import ERRORS, apply_storage, message_of, say
from headrace.cli.parser import CommandParser, VerbParser
from headrace.errors import FormatError
from headrace.formats.content import explain_content
from headrace.formats.open import all_formats

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]

_GROUPS = {
    "every format": (
        *("create", "convert", "info", "ls", "cat", "extract", "verify", "repair", "index"),
        *("browse", "view", "doctor"),
    ),
    "archives of files (.barecat)": (
        *("tree", "find", "du", "shell", "mount"),
        *("add", "rm", "mv", "sync", "merge", "subset", "reshard", "defrag"),
    ),
    "object stores": ("cache",),
    "the command itself": ("help", "version", "completion", "demo", "bench"),
}
"""The verbs; each is a module of ``headrace.cli.verbs``, loaded when it is needed."""
_VERBS = tuple(chain.from_iterable(_GROUPS.values()))
_OF_ALL_VERBS = ("help", "completion")
_EPILOG = """\
examples:
  headrace create train.beton photos/train     pack a folder of pictures, one class per directory
  headrace info train.beton                    what is in it
  headrace verify train.beton --decode         is every sample intact?
  headrace extract train.beton -C out          back to files
  headrace convert photos.ffr photos.beton     one format into another; also tar, zip and folders
  headrace create photos.barecat photos        an archive of any files; also ls, find, du, add, rm, sync, shell, mount
  headrace demo                                see it all happen, with numbers, in seconds

'headrace help VERB' explains a verb and shows examples.
"""


class _Version(argparse.Action):
    """Prints the version; looked up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, *unused: object) -> None:
        parser.exit(import_module("headrace.cli.verbs.version").run(namespace))


def build_parser(verbs: Sequence[str] = _VERBS) -> CommandParser:
    """Make the parser of the whole command, or one that knows some of its verbs."""
    parser = CommandParser(
        prog="headrace",
        description="Training data on disk: pack it once, open it anywhere, know that it is intact.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.groups = _GROUPS
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    parser.add_argument("--traceback", action="store_true", help="show the Python traceback of errors")
    subparsers = parser.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=VerbParser)
    for name in verbs:
        module = import_module(f"headrace.cli.verbs.{name}")
        sub = subparsers.add_parser(
            name,
            help=module.HELP,
            description=module.DESCRIPTION,
            epilog=module.EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(sub)
        sub.set_defaults(run=module.run, whole_command=parser)
        if name == "help":
            next(action for action in sub._actions if action.dest == "topic").choices = list(verbs)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and give its exit code."""
    done = "nothing unfinished was left behind"
    try:
        return _run(argv)
    except KeyboardInterrupt as interrupt:
        done = "; ".join(getattr(interrupt, "__notes__", [done]))  # what was written file by file
    except Exception as error:
        if not isinstance(error.__context__, KeyboardInterrupt):
            raise  # an interrupt in the middle of argparse, say, becomes an error of its own
    say(f"headrace: interrupted; {done}", file=sys.stderr)
    return 130


def _run(argv: Sequence[str] | None) -> int:
    args = argparse.Namespace(traceback=False)
    try:
        _parse(argv, args)
        apply_storage(args)
        code: int = args.run(args)
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()  # the reader went away: not our business
        return 0
    except ERRORS as error:
        _flush_or_discard_output()
        if args.traceback:
            raise
        say(f"headrace: error: {message_of(_explained(error))}", file=sys.stderr)
        return 2
    return code


def _explained(error: BaseException) -> BaseException:
    """What is damaged may only have the wrong name."""
    told = None
    if isinstance(error, FormatError):
        with contextlib.suppress(OSError):
            told = explain_content(error.path, all_formats())
    return told or error


def _parse(argv: Sequence[str] | None, args: argparse.Namespace) -> argparse.Namespace:
    words = list(sys.argv[1:] if argv is None else argv)
    cut = words.index("--") if "--" in words else len(words)
    if "--traceback" in words[:cut]:  # wherever it stands
        args.traceback = True
        words = [*(word for word in words[:cut] if word != "--traceback"), *words[cut:]]
    words = words or ["help"]
    known = words[:1] if words[0] in _VERBS and words[0] not in _OF_ALL_VERBS else _VERBS
    try:
        return build_parser(() if words[0] == "--version" else known).parse_args(words, args)
    except SystemExit:
        sys.stdout.flush()  # --help and --version have printed
        raise


def _flush_or_discard_output() -> None:
    try:
        sys.stdout.flush()
    except OSError:
        _discard_output()


def _discard_output() -> None:
    """Lead standard output nowhere: at exit Python writes what is still held, and would fail with a code of its own."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
