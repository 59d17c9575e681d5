"""The loader."""

from headrace.compat.ffcv.loader.loader import Loader, OrderOption

__all__ = ["Loader", "OrderOption"]
