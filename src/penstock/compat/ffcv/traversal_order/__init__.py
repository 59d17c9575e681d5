"""Orders."""

from penstock.compat.ffcv.traversal_order.quasi_random import QuasiRandom
from penstock.compat.ffcv.traversal_order.random import Random
from penstock.compat.ffcv.traversal_order.sequential import Sequential

__all__ = ["QuasiRandom", "Random", "Sequential"]
