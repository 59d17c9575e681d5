"""Compiling a user's functions with numba, where it is installed; without it they run as they are."""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

from headrace.compat.passed_on import pass_on

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Compiler"]
pass_on(
    globals(),
    "NumbaPerformanceWarning ch cpu_count get_num_threads njit pdb prange set_num_threads warnings",
    nwarnings="numba.warnings",
)


def find_numba() -> Any:
    """The module, or None."""
    try:
        return importlib.import_module("numba")
    except ImportError:
        return None


class Compiler:
    """Settings of the compiler, for the whole process."""

    is_enabled: bool = True
    num_threads: int = 1

    @classmethod
    def set_enabled(cls, b: bool) -> None:
        """Compile from now on, or not."""
        cls.is_enabled = b

    @classmethod
    def set_num_threads(cls, n: int) -> None:
        """How many threads parallel functions use; any number, none of them a limit of this machine."""
        cls.num_threads = n if n >= 1 else len(os.sched_getaffinity(0))
        cls.use_threads(cls.num_threads)

    @classmethod
    def use_threads(cls, n: int) -> None:
        """Let parallel functions that this thread calls use so many threads; numba asks each thread by itself."""
        numba: Any = sys.modules.get("numba")  # not imported for this alone: it takes a second
        if numba is not None and hasattr(numba, "set_num_threads"):
            numba.set_num_threads(min(n, numba.config.NUMBA_NUM_THREADS))

    @classmethod
    def compile(cls, code: Callable[..., Any], signature: Any = None) -> Callable[..., Any]:
        """A compiled function; the function itself when numba is missing, disabled, or has nothing to do.

        A function that has a form ``for_numba`` is compiled in that form.
        """
        if not cls.is_enabled or getattr(code, "is_native", False):
            return code
        numba = find_numba()
        if numba is None:
            return code
        cls.set_num_threads(cls.num_threads)
        parallel = bool(getattr(code, "is_parallel", False)) and cls.num_threads > 1
        compiled: Callable[..., Any] = numba.njit(
            signature, fastmath=True, nogil=True, error_model="numpy", parallel=parallel
        )(getattr(code, "for_numba", None) or code)
        return compiled

    @classmethod
    def get_iterator(cls) -> Any:
        """What to loop with: a parallel range where a compiled function can use one."""
        numba = find_numba() if cls.num_threads > 1 else None
        return range if numba is None else numba.prange
