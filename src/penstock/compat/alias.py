"""``import ffcv`` answered by ``penstock.compat.ffcv``, in this process only.

A finder in front of all others maps every module below the original's name to the module of the same name below
``penstock.compat``. Both names are one module object, so classes compare and pickle as expected.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import sys
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

__all__ = ["available", "install"]

_HOME = "penstock.compat"


def available() -> list[str]:
    """Names of the originals that penstock can stand in for.

    Example:
        >>> "ffcv" in available()
        True
    """
    return [name for name in ("barecat", "ffcv", "ffrecord") if importlib.util.find_spec(f"{_HOME}.{name}")]


def install(*names: str) -> None:
    """Let penstock answer ``import NAME`` from now on, in this process.

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
            raise ValueError(f"penstock has no adapter for {name!r}; it has {', '.join(known)}")
        if any(isinstance(finder, _Finder) and finder.name == name for finder in sys.meta_path):
            continue
        loaded = sys.modules.get(name)
        if loaded is not None:
            raise RuntimeError(f"{name} is imported already, from {loaded.__file__}; install the adapter before that")
        if (real := importlib.util.find_spec(name)) is not None:
            where = real.origin
            warnings.warn(f"{name} is installed ({where}), but penstock answers for it here", RuntimeWarning, stacklevel=2)
        sys.meta_path.insert(0, _Finder(name))


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


class _Loader:
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
