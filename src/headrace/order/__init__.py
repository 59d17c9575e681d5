"""Which sample next: pure functions of (n, seed, epoch, rank, world), evaluated where they are needed."""

from headrace.order.batches import BatchPlan
from headrace.order.interleaved import InterleavedOrder, shuffled_order
from headrace.order.orders import (
    ArrayOrder,
    Order,
    RandomOrder,
    SequentialOrder,
    SubsetOrder,
)
from headrace.order.permutation import permute
from headrace.order.quasi_random import quasi_random_order

__all__ = [
    "ArrayOrder",
    "BatchPlan",
    "InterleavedOrder",
    "Order",
    "RandomOrder",
    "SequentialOrder",
    "SubsetOrder",
    "permute",
    "quasi_random_order",
    "shuffled_order",
]
