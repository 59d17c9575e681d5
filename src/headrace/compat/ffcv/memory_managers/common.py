"""Types."""

from collections.abc import Sequence

from headrace.compat.passed_on import pass_on

__all__ = ["BATCHES_TYPE"]
pass_on(globals(), "Sequence TYPE_CHECKING")

BATCHES_TYPE = Sequence[Sequence[int]]
