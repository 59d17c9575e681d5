"""The loader."""

from penstock.compat.ffcv.loader.loader import Loader, OrderOption

__all__ = ["Loader", "OrderOption"]
