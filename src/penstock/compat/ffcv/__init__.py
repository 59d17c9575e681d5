"""FFCV's module tree over penstock."""

from penstock.compat.ffcv.loader import Loader
from penstock.compat.ffcv.writer import DatasetWriter

__all__ = ["DatasetWriter", "Loader"]
__version__ = "1.0.2"
