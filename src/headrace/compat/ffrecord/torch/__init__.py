"""Datasets that read whole batches, and the loader that lets them."""

from importlib.util import find_spec

from headrace.errors import MissingExtraError

if find_spec("torch") is None:
    raise MissingExtraError("torch", extra="torch", needed_by="headrace.compat.ffrecord.torch")

from headrace.compat.ffrecord.torch.dataloader import DataLoader
from headrace.compat.ffrecord.torch.dataset import ConcatDataset, Dataset, ReaderRegistry, Subset

__all__ = ["ConcatDataset", "DataLoader", "Dataset", "ReaderRegistry", "Subset"]
