"""Sizes, times, and archives as a whole."""

from __future__ import annotations

import argparse
import functools
import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar, overload

from headrace.formats.barecat import remove_archive
from headrace.formats.barecat.names import index_path, shard_numbers

if TYPE_CHECKING:
    from headrace.errors import PathLike

__all__ = [
    "BoolAction",
    "chunked",
    "datetime_to_ns",
    "exists",
    "ns_to_datetime",
    "parse_size",
    "raise_if_append_only",
    "raise_if_readonly",
    "raise_if_readonly_or_append_only",
    "read_file",
    "remove",
    "take",
]

_T = TypeVar("_T")
_Method = TypeVar("_Method", bound=Callable[..., Any])
_FACTORS = {"K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}


def read_file(input_path: PathLike, mode: str = "r") -> Any:
    """The whole content of a file."""
    with open(input_path, mode) as file:
        return file.read()


def remove(path: PathLike) -> None:
    """Delete all files of an archive; does nothing when there is none."""
    remove_archive(path)


def exists(path: PathLike) -> bool:
    """There is an index, or at least a shard, under this path."""
    plain = os.fspath(path)
    index = index_path(plain)
    if os.path.exists(index) and not os.path.isdir(index):
        return True
    folder = os.path.dirname(os.path.abspath(plain))
    return os.path.isdir(folder) and bool(shard_numbers(plain))


def take(n: int, iterable: Iterable[_T]) -> list[_T]:
    """The first n of something, or all if there are fewer.

    Example:
        >>> take(2, "abc")
        ['a', 'b']
    """
    return list(itertools.islice(iterable, n))


def chunked(iterable: Iterable[_T], n: int | None, strict: bool = False) -> Iterator[list[_T]]:
    """Lists of n; the last may be shorter, which with ``strict`` is a ValueError.

    Example:
        >>> list(chunked("abcde", 2))
        [['a', 'b'], ['c', 'd'], ['e']]
    """
    if strict and n is None:
        raise ValueError("n must not be None when using strict mode")
    return _chunks(iter(iterable), n, strict)


def _chunks(iterator: Iterator[_T], n: int | None, strict: bool) -> Iterator[list[_T]]:
    while chunk := list(itertools.islice(iterator, n)):
        if strict and len(chunk) != n:
            raise ValueError("iterable is not divisible by n")
        yield chunk


def _guard(message: str, is_forbidden: Callable[[Any], bool]) -> Callable[[_Method], _Method]:
    def decorate(method: _Method) -> _Method:
        @functools.wraps(method)
        def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
            if is_forbidden(self):
                raise PermissionError(f"This function is not allowed in {message} mode")
            return method(self, *args, **kwargs)

        return guarded  # type: ignore[return-value]

    return decorate


raise_if_readonly = _guard("readonly", lambda one: one.readonly)
raise_if_append_only = _guard("append-only", lambda one: one.append_only)
raise_if_readonly_or_append_only = _guard("read-only or append-only", lambda one: one.readonly or one.append_only)


@overload
def parse_size(size: None) -> None: ...
@overload
def parse_size(size: str) -> int: ...
def parse_size(size: str | None) -> int | None:
    """Bytes from text such as ``1G``, ``1.5M`` or ``100``; None stays None.

    Example:
        >>> parse_size("1.5K")
        1536
    """
    if size is None:
        return None
    text = size.upper()
    unit = next((unit for unit in _FACTORS if unit in text), None)
    try:
        return int(text) if unit is None else int(float(text.replace(unit, "")) * _FACTORS[unit])
    except ValueError:
        raise ValueError(f"{size!r} is not a size; write for example 500M or 1G") from None


def datetime_to_ns(dt: datetime) -> int:
    """Nanoseconds since 1970."""
    return int(dt.timestamp() * 1e9)


def ns_to_datetime(ns: int) -> datetime:
    """The local time of nanoseconds since 1970."""
    return datetime.fromtimestamp(ns / 1e9)


class BoolAction(argparse.Action):
    """An option ``--x`` that also has a ``--no-x``."""

    def __init__(
        self,
        option_strings: list[str],
        dest: str,
        default: bool = False,
        required: bool = False,
        help: str | None = None,  # the name argparse uses
    ) -> None:
        if any(not name.startswith("--") or name.startswith("--no-") for name in option_strings):
            raise ValueError(f"such an option begins with -- and not with --no-, got {option_strings}")
        names = [*option_strings, *(f"--no-{name[2:]}" for name in option_strings)]
        super().__init__(names, dest, nargs=0, default=default, required=required, help=help)

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        """Set the value."""
        setattr(namespace, self.dest, not (option_string or "").startswith("--no-"))
