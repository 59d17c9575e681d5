"""What several verbs share: arguments, samples by name or number, printing."""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import sys
import textwrap
from contextvars import ContextVar
from itertools import chain
from typing import TYPE_CHECKING, TextIO, TypedDict
from urllib.parse import urlsplit

from headrace.errors import HeadraceError
from headrace.formats.contract import MAX_WORKERS
from headrace.progress import ProgressBar, format_count, is_seen, parse_bytes
from headrace.storage import RemotePath, as_path, storage_of
from headrace.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager

    from headrace.types import Dataset, Progress

__all__ = [
    "ERRORS",
    "ReadingOptions",
    "add_dry_run",
    "add_engine",
    "add_follow_links",
    "add_json",
    "add_max_size",
    "add_progress",
    "add_storage",
    "add_storage_option",
    "add_tasks",
    "add_workers",
    "apply_storage",
    "message_of",
    "number_from",
    "parse_color",
    "parse_size",
    "print_json",
    "print_json_list",
    "printable",
    "progress_bar",
    "reading_options",
    "say",
    "select_ranges",
    "select_samples",
    "whole_number_from",
]

ERRORS = (HeadraceError, OSError, ValueError, TypeError, LookupError, ArithmeticError, MemoryError, RecursionError)
"""What a command answers with a line and exit code 2 instead of a traceback."""
_MAX_WHOLE = 2**63 - 1
_secrets: ContextVar[tuple[str, ...]] = ContextVar("secrets", default=())  # of the URLs that the command was given


def add_follow_links(parser: argparse.ArgumentParser) -> None:
    """``--follow-links``."""
    parser.add_argument(
        "--follow-links", action="store_true", help="also read shards and an annex that are symbolic links"
    )


class ReadingOptions(TypedDict, total=False):
    """What verbs that read hand on to whatever opens a dataset."""

    follow_links: bool


def reading_options(args: argparse.Namespace) -> ReadingOptions:
    """What ``--follow-links`` means for whatever opens a dataset; nothing where it is not given."""
    return {"follow_links": True} if getattr(args, "follow_links", False) else {}


def add_storage(parser: argparse.ArgumentParser) -> None:
    """``--storage-option``, ``--cache-dir`` and ``--cache-size``, for what is read from a store."""
    add_storage_option(parser)
    parser.add_argument(
        "--cache-dir", metavar="DIR", help="of URLs: keep what was read in this folder, for all processes"
    )
    parser.add_argument("--cache-size", type=parse_size, metavar="SIZE", help="how much --cache-dir may take")


def add_storage_option(parser: argparse.ArgumentParser) -> None:
    """``--storage-option``, for what is read from a store or written to one."""
    parser.add_argument(
        "--storage-option",
        action="append",
        type=_parse_option,
        metavar="KEY=VALUE",
        help="of URLs: how the store is reached, such as region=eu-west-1 or endpoint=URL; may be repeated",
    )


def _parse_option(text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not sign or not key.strip():
        raise argparse.ArgumentTypeError(f"{_short(text)} is not a pair KEY=VALUE, such as region=eu-west-1")
    return key.strip(), value


_PATHS = ("path", "datasets", "source", "out")


def apply_storage(args: argparse.Namespace) -> None:
    """Let the URLs among the paths of a verb know how their stores are reached; ``file://`` becomes a plain path."""
    options = getattr(args, "storage_option", None)
    cache_dir, cache_size = getattr(args, "cache_dir", None), getattr(args, "cache_size", None)
    if cache_size is not None and cache_dir is None:
        raise ValueError("--cache-size is for a cache on the local disk; say with --cache-dir where it is")
    storage = storage_of(None if options is None else dict(options), cache_dir, cache_size)
    for name in _PATHS:
        path = getattr(args, name, None)
        if isinstance(path, str) and "://" in path:
            setattr(args, name, as_path(path, storage))
        elif isinstance(path, list):
            setattr(args, name, [as_path(one, storage) if "://" in one else one for one in path])
    named = [getattr(args, name, None) for name in _PATHS]
    urls = [
        one for path in named for one in (path if isinstance(path, list) else [path]) if isinstance(one, RemotePath)
    ]
    _secrets.set(tuple(secret for url in urls for secret in _secrets_of(url)))


def _secrets_of(url: RemotePath) -> Iterator[str]:
    """What no output may show of a URL: name and password, and the query, in which a signature may be."""
    if url.scheme in ("http", "https"):
        parts = urlsplit(str(url))
        user, at, _ = parts.netloc.rpartition("@")
        yield from filter(None, (user + at, f"?{parts.query}" if parts.query else ""))


def _without_secrets(text: str) -> str:
    for secret in _secrets.get():
        text = text.replace(secret, "")
    return text


def add_dry_run(parser: argparse.ArgumentParser) -> None:
    """``--dry-run``."""
    parser.add_argument("--dry-run", action="store_true", help="write nothing; say what would be written")


def add_json(parser: argparse.ArgumentParser) -> None:
    """``--json``."""
    parser.add_argument("--json", action="store_true", help="print JSON for scripts")


def add_workers(parser: argparse.ArgumentParser) -> None:
    """``-j``."""
    parser.add_argument(
        "-j",
        "--workers",
        type=whole_number_from(0, MAX_WORKERS),
        metavar="N",
        help="threads to use (default: all cores)",
    )


def add_engine(parser: argparse.ArgumentParser) -> None:
    """``--engine`` and ``--address``."""
    parser.add_argument(
        "--engine",
        choices=["local", "ray"],
        default="local",
        help="who works on a set of files: threads of this process, or as many tasks of a Ray cluster",
    )
    parser.add_argument(
        "--address",
        metavar="ADDR",
        help="of a Ray cluster that runs, such as HEAD:6379 or auto (default: start one on this machine)",
    )


def add_tasks(parser: argparse.ArgumentParser) -> None:
    """``-j`` for verbs of which only tasks can be many."""
    parser.add_argument(
        "-j",
        "--workers",
        type=whole_number_from(1, MAX_WORKERS),
        metavar="N",
        help="with --engine ray: tasks at a time (default: all cores)",
    )


def add_max_size(parser: argparse.ArgumentParser) -> None:
    """``--max-size``."""
    parser.add_argument(
        "--max-size",
        type=parse_size,
        metavar="SIZE",
        help="from tar and zip: refuse more content than this (default: 1 GiB, or 200 times the file)",
    )


def add_progress(parser: argparse.ArgumentParser) -> None:
    """``-q``."""
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress bar, no summary")


def progress_bar(
    label: str, args: argparse.Namespace, *, unit: str = "samples"
) -> AbstractContextManager[Progress | None]:
    """A bar, unless the user wants silence or JSON, or nobody would see it."""
    if args.quiet or getattr(args, "json", False) or not is_seen(sys.stderr):
        return contextlib.nullcontext()
    return ProgressBar(label, unit=unit)


def parse_size(text: str) -> int:
    """Bytes from text such as 8M or 2GiB (powers of 1024).

    Example:
        >>> parse_size("8M")
        8388608
    """
    try:
        return parse_bytes(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def whole_number_from(least: int, most: int = _MAX_WHOLE) -> Callable[[str], int]:
    """What parses a whole number for an option, and refuses others.

    Example:
        >>> whole_number_from(1, 100)("90")
        90
    """

    def parse(text: str) -> int:
        if re.fullmatch(r"[+-]?\d{1,40}", text.strip()) and least <= int(text) <= most:
            return int(text)
        raise argparse.ArgumentTypeError(f"{_short(text)} is not a whole number from {least} to {most}")

    return parse


def number_from(least: float, most: float) -> Callable[[str], float]:
    """What parses a number for an option, and refuses others; "nan" is none.

    Example:
        >>> number_from(0, 1)("0.5")
        0.5
    """

    def parse(text: str) -> float:
        with contextlib.suppress(ValueError):
            if least <= float(text) <= most:
                return float(text)
        raise argparse.ArgumentTypeError(f"{_short(text)} is not a number from {least:g} to {most:g}")

    return parse


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:60]}...")


def parse_color(text: str) -> tuple[int, int, int]:
    """A colour from text such as 255,255,255 or white."""
    known = {"white": (255, 255, 255), "black": (0, 0, 0), "grey": (128, 128, 128), "gray": (128, 128, 128)}
    if text in known:
        return known[text]
    parts = text.split(",")
    if len(parts) != 3 or not all(re.fullmatch(r"\s*[0-9]{1,3}\s*", p) and int(p) < 256 for p in parts):
        raise argparse.ArgumentTypeError(f"{_short(text)} is not a colour; write for example white or 255,255,255")
    red, green, blue = (int(p) for p in parts)
    return red, green, blue


def print_json(value: object) -> None:
    """Print one JSON value."""
    print(_without_secrets(json.dumps(value, indent=2, default=str)))


def print_json_list(values: Iterable[object]) -> None:
    """Print values as one JSON list, as they come: there may be very many."""
    before = "["
    for value in values:
        shown = _without_secrets(json.dumps(value, indent=2, default=str))
        print(f"{before}\n{textwrap.indent(shown, '  ')}", end="")
        before = ","
    print("[]" if before == "[" else "\n]")


def say(*parts: object, sep: str = " ", file: TextIO | None = None) -> None:
    """Print a line of which a part may come from a file or from the command line."""
    print(_without_secrets(sep.join(printable(str(part)) for part in parts)), file=file)


def select_samples(dataset: Dataset, wanted: list[str]) -> Iterator[int]:
    """Indices from words: numbers (also negative), ranges such as 10:20, or names."""
    return chain.from_iterable(select_ranges(dataset, wanted))


def select_ranges(dataset: Dataset, wanted: list[str]) -> list[range]:
    """The same, not yet as single numbers; all samples where nothing is named."""
    return [_select(dataset, word) for word in wanted] if wanted else [range(len(dataset))]


def _select(dataset: Dataset, word: str) -> range:
    keys = dataset.keys
    if keys is not None:
        with contextlib.suppress(ValueError):
            position = keys.index(word)
            return range(position, position + 1)
    whole = range(len(dataset))
    if match := re.fullmatch(r"(-?\d{0,40}):(-?\d{0,40})", word):
        return whole[slice(*(int(part) if part.strip("-") else None for part in match.groups()))]
    if re.fullmatch(r"\s*[+-]?\d{1,40}\s*", word):
        try:
            return range(whole[int(word)], whole[int(word)] + 1)
        except IndexError:
            raise ValueError(
                f"sample {word} is out of range, the dataset has {format_count(len(dataset), 'sample')}"
            ) from None
    if keys is None:
        hint = "; the samples of this dataset have no names, only numbers"
    else:
        hint = f"; names are such as {_short(keys[0])}" if keys else ""
    raise ValueError(f"no sample is called {_short(word)}{hint}")


def message_of(error: BaseException) -> str:
    """What an error says to a user, in one line."""
    if isinstance(error, KeyError) and error.args:
        return str(error.args[0])
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, MemoryError):
        return f"there is not enough memory ({error})" if str(error) else "there is not enough memory"
    if isinstance(error, RecursionError):
        return "values are nested too deeply"
    return str(error) or type(error).__name__
