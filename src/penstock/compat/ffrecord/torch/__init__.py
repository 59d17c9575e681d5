"""Datasets that read whole batches, and the loader that lets them."""

from importlib.util import find_spec

from penstock.errors import MissingExtraError

if find_spec("torch") is None:
    raise MissingExtraError("torch", extra="torch", needed_by="penstock.compat.ffrecord.torch")

from penstock.compat.ffrecord.torch.dataloader import DataLoader
from penstock.compat.ffrecord.torch.dataset import ConcatDataset, Dataset, ReaderRegistry, Subset

__all__ = ["ConcatDataset", "DataLoader", "Dataset", "ReaderRegistry", "Subset"]
