"""Entries on their way between containers."""

from __future__ import annotations

import io
from functools import partial

import pytest

from headrace.errors import FormatError
from headrace.formats.barecat import Metadata
from headrace.transfer.entry import Entry, Exactly, content_of


def entry(size: int, content: bytes) -> Entry:
    return Entry("a", False, size, Metadata(), partial(io.BytesIO, content))


def test_contents_have_the_size_that_was_announced() -> None:
    assert content_of(entry(3, b"abc")) == b"abc"
    for content, word in ((b"abcd", "more"), (b"ab", "2"), (b"", "0")):
        with pytest.raises(FormatError, match=f"a: this file should have 3 bytes and has {word}"):
            content_of(entry(3, content))


def test_streams_have_the_size_that_was_announced() -> None:
    assert io.BufferedReader(Exactly(entry(3, b"abc"), io.BytesIO(b"abc"))).read() == b"abc"
    for content, word in ((b"abcd", "more"), (b"ab", "fewer")):
        with pytest.raises(FormatError, match=word):
            io.BufferedReader(Exactly(entry(3, content), io.BytesIO(content))).read()
