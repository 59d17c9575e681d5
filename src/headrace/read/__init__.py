"""Spans of a file to buffers, ahead of use: for data that do not fit into memory."""

from headrace.read.ahead_thread import AheadThread
from headrace.read.pages import PageCache, PageWalk
from headrace.read.ranges import RangeSource

__all__ = ["AheadThread", "PageCache", "PageWalk", "RangeSource"]
