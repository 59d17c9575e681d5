"""Types."""

from collections.abc import Sequence

__all__ = ["BATCHES_TYPE"]

BATCHES_TYPE = Sequence[Sequence[int]]
