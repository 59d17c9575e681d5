"""FFCV's module tree over headrace."""

from importlib.util import find_spec

from headrace.errors import MissingExtraError

if find_spec("torch") is None:
    raise MissingExtraError("torch", extra="torch", needed_by="headrace.compat.ffcv, which stands in for ffcv,")

from headrace.compat.ffcv.loader import Loader
from headrace.compat.ffcv.writer import DatasetWriter

__all__ = ["DatasetWriter", "Loader"]
__version__ = "1.0.2"
