"""All transforms."""

from penstock.compat.ffcv.transforms.color_jitter import RandomBrightness, RandomContrast, RandomSaturation
from penstock.compat.ffcv.transforms.common import Squeeze
from penstock.compat.ffcv.transforms.cutout import Cutout
from penstock.compat.ffcv.transforms.flip import RandomHorizontalFlip
from penstock.compat.ffcv.transforms.mixup import ImageMixup, LabelMixup, MixupToOneHot
from penstock.compat.ffcv.transforms.module import ModuleWrapper
from penstock.compat.ffcv.transforms.normalize import NormalizeImage
from penstock.compat.ffcv.transforms.ops import Convert, ToDevice, ToTensor, ToTorchImage, View
from penstock.compat.ffcv.transforms.poisoning import Poison
from penstock.compat.ffcv.transforms.random_resized_crop import RandomResizedCrop
from penstock.compat.ffcv.transforms.replace_label import ReplaceLabel
from penstock.compat.ffcv.transforms.translate import RandomTranslate

__all__ = [
    "Convert",
    "Cutout",
    "ImageMixup",
    "LabelMixup",
    "MixupToOneHot",
    "ModuleWrapper",
    "NormalizeImage",
    "Poison",
    "RandomBrightness",
    "RandomContrast",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "RandomSaturation",
    "RandomTranslate",
    "ReplaceLabel",
    "Squeeze",
    "ToDevice",
    "ToTensor",
    "ToTorchImage",
    "View",
]
