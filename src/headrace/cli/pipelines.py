"""``--pipeline FILE:NAME``: the user's own loader or pipelines, from the user's own program."""

from __future__ import annotations

import inspect
import os
import runpy
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import headrace
from headrace.cli.common import message_of

if TYPE_CHECKING:
    import argparse

    from headrace.loader.plan import Pipeline

__all__ = ["add_pipeline", "load_pipeline"]


def add_pipeline(parser: argparse.ArgumentParser) -> None:
    """``--pipeline``."""
    parser.add_argument(
        "--pipeline", metavar="FILE:NAME", help="your loader, a function that gives it, or pipelines; runs FILE"
    )


def load_pipeline(word: str, path: str | None) -> headrace.Loader | Mapping[str, Pipeline | None]:
    """Run a file, and give the loader or the pipelines that a name in it stands for.

    Args:
        word: FILE:NAME, where NAME is a Loader, a function that gives one, or a mapping of fields to lists of ops.
        path: of the dataset, for a function that takes one; of a loader it must be the same.
    """
    value = _named(word)
    if callable(value) and not isinstance(value, headrace.Loader):
        value = _called(word, value, path)
    if isinstance(value, headrace.Loader):
        own = os.fspath(value.dataset.path)
        if path is not None and os.path.abspath(path) != os.path.abspath(own):
            raise ValueError(f"{word} is a loader of {own}; leave {path} out")
        return value
    if isinstance(value, Mapping):
        return value
    raise TypeError(
        f"{word} is of the type {type(value).__name__}; expected a Loader, a function that gives one, or "
        "a mapping of fields to lists of ops"
    )


def _named(word: str) -> Any:
    """Run a file, and give what a name in it stands for."""
    file, _, name = word.rpartition(":")
    if not file or not name.isidentifier():
        raise ValueError(f"--pipeline takes FILE:NAME, such as train.py:loader, got {word!r}")
    if not os.path.isfile(file):
        raise FileNotFoundError(f"{file} of --pipeline does not exist")
    sys.path.insert(0, os.path.dirname(os.path.abspath(file)))  # its neighbours can be imported, as from any program
    try:
        names = runpy.run_path(file, run_name="headrace_pipeline")
    except (Exception, SystemExit) as error:
        raise ValueError(_failed(file, error)) from error
    finally:
        sys.path.pop(0)
    if name not in names:
        known = ", ".join(sorted(own for own in names if not own.startswith("_"))[:20])
        raise ValueError(f"{file} has no {name}; it has {known or 'no names'}")
    return names[name]


def _called(word: str, function: Any, path: str | None) -> Any:
    try:
        takes_path = bool(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        takes_path = False
    if takes_path and path is None:
        raise ValueError(f"{word} takes an argument: name a DATASET")
    try:
        return function(path) if takes_path else function()
    except (Exception, SystemExit) as error:
        raise ValueError(_failed(word, error)) from error


def _failed(what: str, error: BaseException) -> str:
    return f"{what} failed with {type(error).__name__}: {message_of(error)} (--traceback shows where)"
