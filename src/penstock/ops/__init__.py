"""Array to array: what happens to a value between the file and the batch."""

from penstock.ops.base import ArrayOp, Draws, Form
from penstock.ops.color import RandomBrightness, RandomContrast, RandomSaturation
from penstock.ops.crops import CenterCrop, RandomCrop, RandomResizedCrop, Resize
from penstock.ops.labels import OneHot, ReplaceLabel, Squeeze
from penstock.ops.mixup import ImageMixup, LabelMixup, MixupToOneHot
from penstock.ops.moves import Cutout, RandomHorizontalFlip, RandomTranslate
from penstock.ops.pixels import Normalize, ToDtype, ToLayout
from penstock.ops.poison import Poison
from penstock.ops.python import Apply

__all__ = [
    "Apply",
    "ArrayOp",
    "CenterCrop",
    "Cutout",
    "Draws",
    "Form",
    "ImageMixup",
    "LabelMixup",
    "MixupToOneHot",
    "Normalize",
    "OneHot",
    "Poison",
    "RandomBrightness",
    "RandomContrast",
    "RandomCrop",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "RandomSaturation",
    "RandomTranslate",
    "ReplaceLabel",
    "Resize",
    "Squeeze",
    "ToDtype",
    "ToLayout",
]
