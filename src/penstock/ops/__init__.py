"""Array to array: what happens to a value between the file and the batch."""

from penstock.ops.base import Draws
from penstock.ops.crops import CenterCrop, RandomResizedCrop, Resize
from penstock.ops.pixels import Normalize, RandomHorizontalFlip, ToDtype, ToLayout
from penstock.ops.python import Apply

__all__ = [
    "Apply",
    "CenterCrop",
    "Draws",
    "Normalize",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "Resize",
    "ToDtype",
    "ToLayout",
]
