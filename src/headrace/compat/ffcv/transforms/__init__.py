"""All transforms."""

from headrace.compat.ffcv.transforms.color_jitter import RandomBrightness, RandomContrast, RandomSaturation
from headrace.compat.ffcv.transforms.common import Squeeze
from headrace.compat.ffcv.transforms.cutout import Cutout
from headrace.compat.ffcv.transforms.flip import RandomHorizontalFlip
from headrace.compat.ffcv.transforms.mixup import ImageMixup, LabelMixup, MixupToOneHot
from headrace.compat.ffcv.transforms.module import ModuleWrapper
from headrace.compat.ffcv.transforms.normalize import NormalizeImage
from headrace.compat.ffcv.transforms.ops import Convert, ToDevice, ToTensor, ToTorchImage, View
from headrace.compat.ffcv.transforms.poisoning import Poison
from headrace.compat.ffcv.transforms.random_resized_crop import RandomResizedCrop
from headrace.compat.ffcv.transforms.replace_label import ReplaceLabel
from headrace.compat.ffcv.transforms.translate import RandomTranslate

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
