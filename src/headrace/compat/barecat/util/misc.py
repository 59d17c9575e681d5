"""Archives as a whole, and what may not be done to them."""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from headrace.formats.barecat import remove_archive as remove
from headrace.formats.barecat.names import index_path, shard_numbers

if TYPE_CHECKING:
    from headrace.errors import PathLike

__all__ = ["delegate", "deprecate", "exists", "raise_if_readonly", "raise_if_readonly_or_append_only", "remove"]

_Owner = TypeVar("_Owner")
_P = ParamSpec("_P")
_R = TypeVar("_R")
_T = TypeVar("_T")
_Method = TypeVar("_Method", bound=Callable[..., Any])


def exists(path: PathLike) -> bool:
    """There is an index, or at least a shard, under this path."""
    plain = os.fspath(path)
    index = index_path(plain)
    if os.path.exists(index) and not os.path.isdir(index):
        return True
    folder = os.path.dirname(os.path.abspath(plain))
    return os.path.isdir(folder) and bool(shard_numbers(plain))


def deprecate(what: str, instead: str, *, end: str = " and will be removed in version 1.0") -> None:
    """Warn the caller of the function that calls this one."""
    warnings.warn(f"{what} is deprecated{end}. Use {instead}", DeprecationWarning, stacklevel=3)


def delegate(part: str, method: Callable[Concatenate[_T, _P], _R]) -> Callable[Concatenate[_Owner, _P], _R]:
    """A method that the part of an object with this name answers."""

    @functools.wraps(method)
    def call(self: _Owner, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return method(getattr(self, part), *args, **kwargs)

    return call


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
raise_if_readonly_or_append_only = _guard("read-only or append-only", lambda one: one.readonly or one.append_only)
