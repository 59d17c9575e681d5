"""What an order is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from headrace.compat.passed_on import pass_on

if TYPE_CHECKING:
    from headrace.compat.ffcv.loader.loader import Loader

__all__ = ["TraversalOrder"]
pass_on(globals(), "ABC Reader Sequence TYPE_CHECKING abstractmethod")


class TraversalOrder(ABC):
    """Gives the samples of an epoch in order; subclasses, also a user's own, say how."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader
        self.indices = loader.indices
        self.seed = loader.seed
        self.distributed = loader.distributed
        self.sampler: Any = None

    @abstractmethod
    def sample_order(self, epoch: int) -> Any:
        """The samples of an epoch."""
        raise NotImplementedError
