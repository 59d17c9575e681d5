"""Spans of a file to buffers, ahead of use: for data that do not fit into memory."""

from penstock.read.pages import PageCache, PageWalk
from penstock.read.ranges import RangeSource

__all__ = ["PageCache", "PageWalk", "RangeSource"]
