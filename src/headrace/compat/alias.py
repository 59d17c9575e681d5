"""``import ffcv`` answered by ``headrace.compat.ffcv``, in this process and in those it starts.

A finder in front of all others maps every module below the original's name to the module of the same name below
``headrace.compat``. Both names are one module object, so classes compare and pickle as expected. New processes have no
such finder: multiprocessing hands ``sys.path`` on to them, other programs inherit ``PYTHONPATH``, and both lead to the
folder ``_path``, whose modules have the originals' names and install the finder.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, ModuleType

__all__ = ["available", "install", "share_with_programs", "take_over"]

_HOME = "headrace.compat"
_ORIGINALS = ("barecat", "ffcv", "ffrecord")
_PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_path")


def available() -> list[str]:
    """Names of the originals that headrace can stand in for.

    Example:
        >>> "ffcv" in available()
        True
    """
    return [name for name in _ORIGINALS if importlib.util.find_spec(f"{_HOME}.{name}")]


def install(*names: str) -> None:
    """Let headrace answer ``import NAME`` from now on, in this process and in those that multiprocessing starts.

    A real installation of that name is passed over, which a warning says once.

    Args:
        names: ``"ffcv"`` and so on; all that are available when none is given.

    Raises:
        ValueError: there is no adapter of that name.
        RuntimeError: the original was imported already.
    """
    known = available()
    for name in names or tuple(known):
        if name not in known:
            raise ValueError(f"headrace has no adapter for {name!r}; it has {', '.join(known)}")
        if any(isinstance(finder, _Finder) and finder.name == name for finder in sys.meta_path):
            continue
        loaded = sys.modules.get(name)
        if loaded is not None:
            where = getattr(loaded, "__file__", None)
            raise RuntimeError(f"{name} is imported already, from {where}; install the adapter before that")
        if (where := _installed_at(name)) is not None:
            problem = f"{name} is installed ({where}), but headrace answers for it here"
            warnings.warn(problem, RuntimeWarning, stacklevel=2)
        sys.meta_path.insert(0, _Finder(name))
    if _PATH not in sys.path:
        sys.path.insert(_place_on_path(), _PATH)


def take_over(name: str) -> None:
    """Put the adapter in the place of the module that is being imported under this name."""
    sys.modules.pop(name, None)
    install(name)
    importlib.import_module(name)


def share_with_programs() -> None:
    """Let programs that this process starts find the adapters, too."""
    inherited = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry and entry != _PATH]
    os.environ["PYTHONPATH"] = os.pathsep.join([_PATH, *inherited])


def _installed_at(name: str) -> str | None:
    """Where the original is, if it is installed; a folder that happens to have its name is not."""
    found = importlib.util.find_spec(name)
    origin = None if found is None else found.origin
    return None if origin is None or os.path.dirname(origin) == _PATH else origin


def _place_on_path() -> int:
    """Behind the program's own folder, which programs expect first, unless that has the original in it."""
    first = sys.path[0] if sys.path else ""
    has_original = any(os.path.exists(os.path.join(first, name)) for name in _ORIGINALS)
    return 0 if has_original else 1


class _Finder:
    """Finds the adapters below one name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.name and not fullname.startswith(f"{self.name}."):
            return None
        home = f"{_HOME}.{fullname}"
        try:
            found = importlib.util.find_spec(home)
        except ModuleNotFoundError:
            found = None
        if found is None:
            return None
        is_package = found.submodule_search_locations is not None
        return importlib.machinery.ModuleSpec(fullname, _Loader(home), origin=found.origin, is_package=is_package)


class _Loader(importlib.abc.Loader):
    """Gives the adapter itself in place of a new module."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._spec: importlib.machinery.ModuleSpec | None = None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = importlib.import_module(self._home)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # the import system has just put the alias there

    def get_code(self, fullname: str) -> CodeType | None:
        """The adapter's code, for ``python -m``."""
        found = importlib.util.find_spec(self._home)
        get_code = getattr(None if found is None else found.loader, "get_code", None)
        code: CodeType | None = None if get_code is None else get_code(self._home)
        return code
