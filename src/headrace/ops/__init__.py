"""Array to array: what happens to a value between the file and the batch."""

from headrace.ops.augment import RandAugment, TrivialAugmentWide
from headrace.ops.base import ArrayOp, Draws, Form
from headrace.ops.blur import GaussianBlur
from headrace.ops.color import ColorJitter, RandomBrightness, RandomContrast, RandomGrayscale, RandomSaturation
from headrace.ops.crops import CenterCrop, RandomCrop, RandomResizedCrop, Resize
from headrace.ops.erasing import RandomErasing
from headrace.ops.labels import OneHot, ReplaceLabel, Squeeze
from headrace.ops.mixup import ImageMixup, LabelMixup, MixupToOneHot
from headrace.ops.moves import Cutout, RandomHorizontalFlip, RandomRotate90, RandomTranslate, RandomVerticalFlip
from headrace.ops.pixels import Normalize, ToDtype, ToLayout
from headrace.ops.poison import Poison
from headrace.ops.python import Apply

__all__ = [
    "Apply",
    "ArrayOp",
    "CenterCrop",
    "ColorJitter",
    "Cutout",
    "Draws",
    "Form",
    "GaussianBlur",
    "ImageMixup",
    "LabelMixup",
    "MixupToOneHot",
    "Normalize",
    "OneHot",
    "Poison",
    "RandAugment",
    "RandomBrightness",
    "RandomContrast",
    "RandomCrop",
    "RandomErasing",
    "RandomGrayscale",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "RandomRotate90",
    "RandomSaturation",
    "RandomTranslate",
    "RandomVerticalFlip",
    "ReplaceLabel",
    "Resize",
    "Squeeze",
    "ToDtype",
    "ToLayout",
    "TrivialAugmentWide",
]
