"""Spans of a file to buffers, ahead of use: for data that do not fit into memory."""

from headrace.read.pages import PageCache, PageWalk
from headrace.read.ranges import RangeSource

__all__ = ["PageCache", "PageWalk", "RangeSource"]
