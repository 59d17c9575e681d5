"""The engine: order, read, decode, ops, batch; ahead of the consumer, deterministic, resumable."""

from headrace.loader.loader import Loader

__all__ = ["Loader"]
