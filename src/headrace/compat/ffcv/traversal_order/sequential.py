"""As stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from torch.utils.data import DistributedSampler

from headrace.compat.ffcv.traversal_order.base import TraversalOrder
from headrace.compat.passed_on import pass_on

if TYPE_CHECKING:
    from headrace.compat.ffcv.loader.loader import Loader

__all__ = ["Sequential"]
pass_on(globals(), "DistributedSampler Sequence TYPE_CHECKING TraversalOrder np")


class Sequential(TraversalOrder):
    """The samples as given; with several ranks as torch's DistributedSampler shares them out."""

    def __init__(self, loader: Loader) -> None:
        super().__init__(loader)
        if self.distributed:
            self.sampler = DistributedSampler(self.indices, shuffle=False, seed=self.seed, drop_last=False)

    def sample_order(self, epoch: int) -> Any:
        """The samples of an epoch."""
        if not self.distributed:
            return self.indices
        self.sampler.set_epoch(epoch)
        return self.indices[np.array(list(self.sampler))]
