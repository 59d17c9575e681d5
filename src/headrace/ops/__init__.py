"""Array to array: what happens to a value between the file and the batch."""

from headrace.ops.base import ArrayOp, Draws, Form
from headrace.ops.color import RandomBrightness, RandomContrast, RandomSaturation
from headrace.ops.crops import CenterCrop, RandomCrop, RandomResizedCrop, Resize
from headrace.ops.labels import OneHot, ReplaceLabel, Squeeze
from headrace.ops.mixup import ImageMixup, LabelMixup, MixupToOneHot
from headrace.ops.moves import Cutout, RandomHorizontalFlip, RandomTranslate
from headrace.ops.pixels import Normalize, ToDtype, ToLayout
from headrace.ops.poison import Poison
from headrace.ops.python import Apply

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
