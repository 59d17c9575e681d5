"""Functions of a user's, compiled by numba; where it refuses or is missing, as they are."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from headrace.compat.ffcv.libffcv import take_failure
from headrace.compat.ffcv.pipeline.compiler import Compiler, find_numba
from headrace.errors import ImageError

if TYPE_CHECKING:
    from headrace.compat.ffcv.pipeline.own_random import OwnRandom

__all__ = ["compiled"]


def compiled(code: Any, name: str, own_random: OwnRandom) -> Any:
    """The function compiled; where numba cannot, with random numbers of its own, and a warning says so."""
    if not Compiler.is_enabled or getattr(code, "is_native", False):
        return code
    if find_numba() is None:
        return own_random.copy(code)
    return _Compiled(code, name, own_random)


class _Compiled:
    """Calls the compiled function until numba refuses it, then the plain one."""

    def __init__(self, plain: Any, name: str, own_random: OwnRandom) -> None:
        self._plain = plain
        self._call = Compiler.compile(plain)
        self._threads = Compiler.num_threads if getattr(plain, "is_parallel", False) else 1
        self._is_compiled = True
        self._name = name
        self._own_random = own_random
        self.with_indices = getattr(plain, "with_indices", False)

    def __call__(self, *arguments: Any) -> Any:
        if not self._is_compiled:
            return self._call(*arguments)
        if self._threads > 1:
            Compiler.use_threads(self._threads)
        take_failure()  # of somebody else's call
        try:
            result = self._call(*arguments)
        except Exception as error:
            if not type(error).__module__.startswith("numba."):
                raise
        else:
            if (problem := take_failure()) is not None:
                raise ImageError(f"a call of imdecode or resize_crop failed: {problem}")
            return result
        problem = f"numba cannot compile the operation {self._name}; it runs as plain Python"
        warnings.warn(problem, RuntimeWarning, stacklevel=2)
        self._call = self._own_random.copy(self._plain)
        self._is_compiled = False
        return self._call(*arguments)
