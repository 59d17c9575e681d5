"""Random numbers of functions that are meant for numba, where they run as plain Python.

numba has generators of its own: what a compiled function draws or seeds leaves those of numpy and Python alone. So a
function that runs as it is, because numba is missing or refuses it, is given generators of its own, too. It is copied,
with every name that leads to the global generators leading to these; functions that it calls are copied likewise, also
those that numba has compiled, for a seed that one of them sets is meant for all. As in numba, the values of global
names are those of the time of the copy. A given seed gives the numbers that numba draws.
"""

from __future__ import annotations

import random
import types
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["OwnRandom"]


class OwnRandom:
    """Generators for some functions.

    Example:
        >>> def draw(count):
        ...     np.random.seed(1)
        ...     return np.random.rand(count)
        >>> before = np.random.get_state()[2]
        >>> len(OwnRandom().copy(draw)(3)), np.random.get_state()[2] == before
        (3, True)
    """

    def __init__(self) -> None:
        of_numpy, of_python = np.random.RandomState(), random.Random()
        self._instead: dict[int, Any] = {}
        drawing = self._copy_module(np.random, of_numpy)
        self._copy_module(random, of_python)
        numpy = types.ModuleType("numpy")
        numpy.__dict__.update(vars(np) | {"random": drawing})
        self._instead[id(np)] = numpy
        self._copies: dict[types.FunctionType, types.FunctionType] = {}

    def _copy_module(self, module: types.ModuleType, generator: Any) -> types.ModuleType:
        copy = types.ModuleType(module.__name__)
        copy.__dict__.update(vars(module))
        for name in module.__all__:
            function = getattr(module, name)
            if hasattr(generator, name) and not isinstance(function, type):
                self._instead[id(function)] = own = getattr(generator, name)
                setattr(copy, name, own)
        self._instead[id(module)] = copy
        return copy

    def copy(self, function: Any) -> Any:
        """The function with these generators; the function itself when it draws nothing."""
        if not isinstance(function, types.FunctionType):
            return function
        if function not in self._copies:
            self._copies[function] = function  # for those that call each other
            self._copies[function] = self._made(function)
        return self._copies[function]

    def _made(self, function: types.FunctionType) -> types.FunctionType:
        names = set(_names_in(function.__code__))
        changed = {
            name: new
            for name in names & function.__globals__.keys()
            if (new := self._instead_of(function.__globals__[name], names)) is not function.__globals__[name]
        }
        cells = tuple(self._cell(cell, names) for cell in function.__closure__ or ())
        if not changed and all(new is old for new, old in zip(cells, function.__closure__ or (), strict=True)):
            return function
        space = function.__globals__ | changed
        copy = types.FunctionType(function.__code__, space, function.__name__, function.__defaults__, cells)
        copy.__kwdefaults__ = function.__kwdefaults__
        copy.__dict__.update(function.__dict__)
        return copy

    def _cell(self, cell: types.CellType, names: set[str]) -> types.CellType:
        try:
            value = cell.cell_contents
        except ValueError:  # nothing is in it yet
            return cell
        new = self._instead_of(value, names)
        return cell if new is value else types.CellType(new)

    def _instead_of(self, value: Any, names: set[str]) -> Any:
        if value is np and "random" not in names:
            return value
        if id(value) in self._instead:
            return self._instead[id(value)]
        plain = getattr(value, "py_func", value)  # of a function that numba has compiled
        if isinstance(plain, types.FunctionType) and (copy := self.copy(plain)) is not plain:
            return copy
        return value


def _names_in(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names_in(constant)
