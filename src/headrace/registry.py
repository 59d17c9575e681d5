"""What may be installed besides: tables of plug-ins, whose code is loaded on first use, and optional packages."""

from __future__ import annotations

import importlib
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headrace.errors import MissingExtraError, UnknownFormatError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["PluginTable", "reach", "require"]

T = TypeVar("T")
_EXTRAS = {
    "h5py": "hdf5",
    "mfusepy": "mount",
    "obstore": "remote",
    "pyarrow": "arrow",
    "starlette": "view",
    "textual": "browse",
    "uvicorn": "view",
    "zstandard": "zstd",
}
"""Extras that are not called as their package is."""


class PluginTable(Generic[T]):
    """The plug-ins of one entry-point group, by name.

    Built-ins are declared as entry points too. Two packages that claim the same name are an error.

    Args:
        group: of the entry points.
        kind: what a plug-in is called in errors.
        type: what every plug-in must be an instance of; None for anything.

    Example:
        >>> table = PluginTable("headrace.formats", kind="format")
        >>> "beton" in table.names()
        True
    """

    def __init__(self, group: str, *, kind: str, type: type[T] | None = None) -> None:
        self._group = group
        self._kind = kind
        self._type = type
        self._loaded: dict[str, T] = {}

    @cached_property
    def _entry_points(self) -> dict[str, EntryPoint]:
        from importlib.metadata import entry_points  # slow to import, and not needed to import headrace

        found: dict[str, EntryPoint] = {}
        for entry in entry_points(group=self._group):
            other = found.setdefault(entry.name, entry)
            if other.value != entry.value:
                raise RuntimeError(
                    f"{self._kind} {entry.name!r} is claimed twice: by {_package(other)} ({other.value}) and by "
                    f"{_package(entry)} ({entry.value}). Uninstall one of them."
                )
        return found

    def names(self) -> list[str]:
        """Names of all plug-ins, sorted."""
        return sorted(self._entry_points)

    def load(self, name: str) -> T:
        """Import a plug-in (once) and give it back."""
        if name not in self._loaded:
            if name not in self._entry_points:
                raise UnknownFormatError(f"no {self._kind} is called {name!r}; known are: {', '.join(self.names())}.")
            entry = self._entry_points[name]
            loaded = entry.load()
            if self._type is not None and not isinstance(loaded, self._type):
                raise TypeError(
                    f"{self._kind} {name!r} of {_package(entry)} ({entry.value}) must be a "
                    f"{self._type.__module__}.{self._type.__name__}, got {loaded!r}"
                )
            self._loaded[name] = loaded
        return self._loaded[name]


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else "an unknown package"


def require(package: str, needed_by: str) -> Any:
    """An optional package, or the error that says how to get it."""
    try:
        return importlib.import_module(package)
    except ImportError:
        root = package.partition(".")[0]
        raise MissingExtraError(root, extra=_EXTRAS.get(root, root), needed_by=needed_by) from None


def reach(name: str) -> Any:
    """A module of this package that lies above whoever asks, such as ``viewer.server``; nothing below imports it."""
    return importlib.import_module(f"headrace.{name}")
