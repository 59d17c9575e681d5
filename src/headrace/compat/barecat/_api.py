"""Functions that open archives."""

from __future__ import annotations

import importlib.resources
import os
import threading
import warnings
from typing import TYPE_CHECKING

from headrace.compat.barecat.core.barecat import Barecat
from headrace.compat.barecat.io.codecs import CodecRegistry
from headrace.compat.barecat.util.misc import deprecate

if TYPE_CHECKING:
    from headrace.errors import PathLike

__all__ = ["get_cached_reader", "get_completion_script", "open", "version"]

version = "0.3.1"
"""Which version of barecat this stands in for."""
_MAX_CACHED = 128
_WRITE_MODES = {
    "r+": {},
    "w+": {"overwrite": True},
    "a+": {"append_only": True},
    "ax+": {"append_only": True, "exist_ok": False},
    "x+": {"exist_ok": False},
}
_local = threading.local()


def open(path: PathLike, mode: str = "r", auto_codec: bool = False, threadsafe_reader: bool = True) -> Barecat:
    """An archive for a mode: r, r+, w+, a+ (append only), x+ or ax+ (new ones). ``Barecat`` says it more clearly."""
    deprecate("barecat.open()", "Barecat(path, readonly=True) or Barecat(path, readonly=False) directly.")
    if mode == "r":
        return Barecat(path, threadsafe=threadsafe_reader, auto_codec=auto_codec)
    if mode not in _WRITE_MODES:
        raise ValueError(f"Invalid mode: {mode}; it must be one of r, {', '.join(_WRITE_MODES)}")
    return Barecat(path, readonly=False, auto_codec=auto_codec, **_WRITE_MODES[mode])


def get_cached_reader(path: PathLike, auto_codec: bool | None = None) -> Barecat:
    """An archive for reading; the same thread gets the same object again."""
    if auto_codec is None:
        warnings.warn(
            "get_cached_reader() currently defaults to auto_codec=True, but this default will change to False in "
            "version 1.0. Pass auto_codec=True or auto_codec=False explicitly.",
            FutureWarning,
            stacklevel=2,
        )
    elif auto_codec:
        deprecate("auto_codec=True in get_cached_reader()", "DecodedView instead.")
    cache: dict[tuple[int, str, bool], Barecat] = _local.__dict__.setdefault("readers", {})
    key = (os.getpid(), os.fspath(path), auto_codec is not False)
    if key not in cache:
        while len(cache) >= _MAX_CACHED:
            del cache[next(iter(cache))]
        reader = cache[key] = Barecat(path)
        reader.auto_codec = key[2]
        reader.codec_registry = CodecRegistry(auto_codec=key[2])  # set here, where it is no reason for a warning
    return cache[key]


def get_completion_script(shell: str = "bash") -> str:
    """The path of the completion script for ``bash`` or ``zsh``; source it in the shell."""
    if shell not in ("bash", "zsh"):
        raise ValueError(f"Unknown shell: {shell}. Use 'bash' or 'zsh'.")
    return str(importlib.resources.files("headrace.compat.barecat.completions").joinpath(f"barecat.{shell}"))
