"""FFCV's module tree over penstock."""

from importlib.util import find_spec

from penstock.errors import MissingExtraError

if find_spec("torch") is None:
    raise MissingExtraError("torch", extra="torch", needed_by="penstock.compat.ffcv, which stands in for ffcv,")

from penstock.compat.ffcv.loader import Loader
from penstock.compat.ffcv.writer import DatasetWriter

__all__ = ["DatasetWriter", "Loader"]
__version__ = "1.0.2"
