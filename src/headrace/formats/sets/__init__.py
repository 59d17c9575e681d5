"""Datasets made of datasets, whatever their formats: one after the other, mixed, chosen from, side by side."""

from headrace.formats.sets.concatenation import ConcatDataset, concat
from headrace.formats.sets.joined_fields import ZipDataset, zip_fields
from headrace.formats.sets.mixture import MixDataset, mix
from headrace.formats.sets.selection import SubsetDataset, subset

__all__ = [
    "ConcatDataset",
    "MixDataset",
    "SubsetDataset",
    "ZipDataset",
    "concat",
    "mix",
    "subset",
    "zip_fields",
]
