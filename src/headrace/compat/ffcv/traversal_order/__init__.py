"""Orders."""

from headrace.compat.ffcv.traversal_order.quasi_random import QuasiRandom
from headrace.compat.ffcv.traversal_order.random import Random
from headrace.compat.ffcv.traversal_order.sequential import Sequential

__all__ = ["QuasiRandom", "Random", "Sequential"]
