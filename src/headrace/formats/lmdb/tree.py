"""The pages of an LMDB file, read from the mapped file without the library.

All integers are little-endian. The file is a row of pages of one size (a power of two). Page ``n`` stands at
``n * page_size`` and begins with 16 bytes: its number (u64), padding (u16), flags (u16), and ``lower`` and ``upper``
(u16 each), or, on the first of several overflow pages, how many they are (u32).

- Pages 0 and 1 are *meta pages*; that with the larger transaction number counts. After the 16 bytes: magic 0xBEEFC0DE,
  version 1 (u32 each), an address, the map size (u64 each), two database records (that of the free pages, whose first
  u32 is the page size, and the main one), the last page in use and the transaction number (u64 each).
- A *database record* has 48 bytes: padding (u32), flags, depth (u16 each), then as u64 the numbers of branch, leaf and
  overflow pages and of entries, and the root page.
- *Branch and leaf pages* hold, from byte 16 to ``lower``, the place of each node in the page (u16). A node is four u16
  (low and high half of a size, flags, size of the key), the key, and the value. On a branch the size and the flags are
  the number of the page below. On a leaf with flag 1 the value is the number of the first of its overflow pages, whose
  bytes from the 16th on are the value.

``read_tree`` goes down level by level, all pages of a level at once, and checks every number before it is used: pages
inside the file, none reached twice, nodes inside their page, values inside the file, none over another. What it costs
is proportional to the number of leaf pages; values are not touched.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from headrace._native import gather
from headrace.errors import FormatError
from headrace.formats.mapped_values import Places
from headrace.progress import format_count
from headrace.storage import release_behind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.types import IndexArray

__all__ = ["INTEGER_KEYS", "MAGIC", "SUB_DATABASE", "Environment", "Record", "Tree", "read_environment", "read_tree"]

MAGIC = 0xBEEFC0DE
_VERSION = 1
_HEAD = 16
_META = struct.Struct("<IIQQ48s48sQQ")
_RECORD = struct.Struct("<IHHQQQQQ")
_PAGE_SIZES = tuple(1 << bits for bits in range(8, 16))
_NO_PAGE = (1 << 64) - 1
_BRANCH, _LEAF, _OVERFLOW, _META_PAGE = 1, 2, 4, 8
_KINDS = 0x6F  # all flags of a page that say what it is
_SEVERAL_VALUES = 0x04
INTEGER_KEYS = 0x08
_IN_OVERFLOW, SUB_DATABASE, _DUPLICATES = 1, 2, 4
_MAX_DEPTH = 32
_PLACES = 1024  # that are looked at before the memory of their pages is given back
_DAMAGED = "The file is damaged, or was changed while it was copied; make it again with: mdb_copy"


class Record(NamedTuple):
    """What a file says of one of its databases."""

    flags: int
    depth: int
    entries: int
    root: int

    @classmethod
    def parse(cls, data: bytes) -> Record:
        """Of 48 bytes."""
        _, flags, depth, _, _, _, entries, root = _RECORD.unpack(data)
        return cls(flags, depth, entries, root)


@dataclass(frozen=True, slots=True)
class Environment:
    """A mapped file, and what its newer meta page says."""

    path: str
    mapped: npt.NDArray[np.uint8]
    page_size: int
    num_pages: int
    transaction: int
    main: Record


@dataclass(frozen=True, slots=True)
class Tree:
    """All keys of a database in its order, where their values are, and the flags of their nodes."""

    keys: list[bytes]
    places: Places
    flags: npt.NDArray[np.uint16]


def read_environment(path: str, mapped: npt.NDArray[np.uint8]) -> Environment:
    """Check both meta pages, and that the file has all pages that are in use."""
    first = _read_meta(path, mapped, 0)
    page_size = struct.unpack_from("<I", first[4])[0]
    if page_size not in _PAGE_SIZES:
        problem = f"its pages have {format_count(page_size, 'byte')}, and a page has a power of two from 256 to 32768"
        raise FormatError(path, problem=problem, offset=40, fix=_DAMAGED)
    second = _read_meta(path, mapped, page_size)
    if struct.unpack_from("<I", second[4])[0] != page_size:
        (other,) = struct.unpack_from("<I", second[4])
        problem = f"one meta page says pages of {format_count(page_size, 'byte')}, the other says {other}"
        raise FormatError(path, problem=problem, offset=page_size + 40, fix=_DAMAGED)
    meta = max(first, second, key=lambda one: int(one[7]))
    last_page, transaction = meta[6:]
    has_pages = len(mapped) // page_size
    if last_page >= has_pages:
        used = f"{format_count(last_page + 1, 'page')} of {format_count(page_size, 'byte')}"
        problem = f"{used} are in use, the file has {has_pages:,}"
        raise FormatError(path, problem=problem, offset=len(mapped), fix="It was cut short; copy it again.")
    return Environment(path, mapped, page_size, last_page + 1, transaction, Record.parse(meta[5]))


def _read_meta(path: str, mapped: npt.NDArray[np.uint8], at: int) -> tuple[Any, ...]:
    head = mapped[at : at + _HEAD + _META.size].tobytes()
    if len(head) < _HEAD + _META.size:
        problem = f"a meta page is missing at byte {at}, the file has {format_count(len(mapped), 'byte')}"
        raise FormatError(path, problem=problem, fix="It was cut short; copy it again.")
    meta = _META.unpack_from(head, _HEAD)
    if meta[0] != MAGIC:
        of_other = "; or its page size is a lie" if at else ""
        problem = f"no meta page of LMDB is here: the magic number is {meta[0]:#010x}, expected {MAGIC:#010x}{of_other}"
        fix = "Files of machines with 32 bits or the other byte order cannot be read; bring them over with mdb_dump."
        raise FormatError(path, problem=problem, offset=at + _HEAD, fix=fix)
    if meta[1] != _VERSION:
        problem = f"the file has version {meta[1]} of LMDB's layout, and version {_VERSION} is known"
        raise FormatError(path, problem=problem, offset=at + _HEAD + 4, fix="Write it again with LMDB 0.9.")
    if not int.from_bytes(head[10:12], "little") & _META_PAGE:
        raise FormatError(path, problem="this page is not marked as a meta page", offset=at + 10, fix=_DAMAGED)
    return meta


def read_tree(environment: Environment, record: Record) -> Tree:
    """Walk a database; FormatError at the first number that cannot be right."""
    if record.flags & _SEVERAL_VALUES:
        problem = "keys of this database may have several values (DUPSORT), and a sample has one"
        raise FormatError(environment.path, problem=problem, fix="Write it again with one value for each key.")
    if record.root == _NO_PAGE or record.depth == 0:
        if record.entries or record.depth or record.root != _NO_PAGE:
            raise _Walk(environment).damaged("a database without pages has a root, a depth or entries", 0)
        return Tree([], Places(np.empty(0, np.uint64), np.empty(0, np.uint64)), np.empty(0, np.uint16))
    return _Walk(environment).read(record)


class _Nodes(NamedTuple):
    """The nodes of all pages of a level, in order: where they begin, where their page ends, and their four numbers."""

    starts: IndexArray
    ends: IndexArray
    numbers: npt.NDArray[np.int64]


def _parts_of(places: IndexArray) -> Iterator[slice]:
    return (slice(first, first + _PLACES) for first in range(0, len(places), _PLACES))


class _Walk:
    """One walk over a database, from its root down."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._mapped, self._page_size = environment.mapped, environment.page_size
        self._is_seen = np.zeros(environment.num_pages, bool)
        self._is_seen[:2] = True  # the meta pages

    def damaged(self, problem: str, offset: int) -> FormatError:
        return FormatError(self._environment.path, problem=problem, offset=offset, fix=_DAMAGED)

    def read(self, record: Record) -> Tree:
        if record.depth > _MAX_DEPTH:
            raise self.damaged(f"the tree has {format_count(record.depth, 'level')}, and {_MAX_DEPTH} are the most", 0)
        pages = self._checked_pages(np.array([record.root], np.uint64), 0)
        for _ in range(record.depth - 1):
            nodes = self._nodes(pages, _BRANCH)
            low, high, top, _ = nodes.numbers.T
            pages = self._checked_pages((low | high << 16 | top << 32).astype(np.uint64), int(nodes.starts[0]))
        nodes = self._nodes(pages, _LEAF)
        if len(nodes.starts) != record.entries:
            problem = f"the tree has {format_count(len(nodes.starts), 'key')}, its record says {record.entries:,}"
            raise self.damaged(problem, int(pages[0]) * self._page_size)
        return self._entries(nodes)

    def _checked_pages(self, pages: npt.NDArray[np.uint64], offset: int) -> IndexArray:
        if len(pages) == 0 or pages.max() >= len(self._is_seen):
            raise self.damaged("a page is named that is not in use", offset)
        numbers = pages.astype(np.int64)
        if self._is_seen[numbers].any() or len(np.unique(numbers)) != len(numbers):
            raise self.damaged("a page is reached twice", offset)
        self._is_seen[numbers] = True
        return numbers

    def _u16(self, places: IndexArray) -> npt.NDArray[np.int64]:
        return self._number(places, 2).astype(np.int64)

    def _number(self, places: IndexArray, size: int) -> npt.NDArray[np.uint64]:
        data = np.empty((len(places), size), np.uint8)
        for part in _parts_of(places):
            data[part] = self._mapped[places[part, None] + np.arange(size)]
            self._release(places)
        return data.view(f"<u{size}").reshape(-1).astype(np.uint64)

    def _release(self, places: IndexArray) -> None:
        """A page that was looked at brings its neighbours along; of a large file that would be most of it."""
        if len(places) > _PLACES:
            release_behind(self._mapped, 0, len(self._mapped))

    def _nodes(self, pages: IndexArray, kind: int) -> _Nodes:
        starts = pages * self._page_size
        flags, lowers, uppers = (self._u16(starts + at) for at in (10, 12, 14))
        is_wrong = (flags & _KINDS != kind) | (self._number(starts, 8).astype(np.int64) != pages)
        is_wrong |= (lowers < _HEAD) | (lowers > uppers) | (uppers > self._page_size) | (lowers % 2 != 0)
        counts = (lowers - _HEAD) // 2
        is_wrong |= counts == 0
        if is_wrong.any():
            at = int(starts[np.flatnonzero(is_wrong)[0]])
            raise self.damaged(f"this is no {'branch' if kind == _BRANCH else 'leaf'} page that could be right", at)
        first = np.repeat(starts, counts)
        within = np.arange(len(first)) - np.repeat(np.cumsum(counts) - counts, counts)
        places = self._u16(first + _HEAD + 2 * within)
        is_wrong = (places < np.repeat(uppers, counts)) | (places + 8 > self._page_size)
        if is_wrong.any():
            raise self.damaged("a node lies outside of its page", int(first[np.flatnonzero(is_wrong)[0]]))
        nodes = first + places
        numbers = np.stack([self._u16(nodes + 2 * k) for k in range(4)], axis=1)
        return _Nodes(nodes, first + self._page_size, numbers)

    def _entries(self, nodes: _Nodes) -> Tree:
        low, high, flags, key_sizes = nodes.numbers.T
        if (flags & _DUPLICATES).any():
            raise self.damaged("a key has several values, and its database has no such keys", int(nodes.starts[0]))
        key_starts = nodes.starts + 8
        starts, sizes = key_starts + key_sizes, low | high << 16
        is_apart = flags & _IN_OVERFLOW != 0
        is_wrong = starts + np.where(is_apart, 8, sizes) > nodes.ends
        if is_wrong.any():
            raise self.damaged("a node is longer than its page", int(nodes.starts[np.flatnonzero(is_wrong)[0]]))
        starts[is_apart] = self._overflows(starts[is_apart], sizes[is_apart])
        keys = self._keys(key_starts, key_sizes)
        places = Places(starts.astype(np.uint64), sizes.astype(np.uint64))
        return Tree(keys, places, flags.astype(np.uint16))

    def _keys(self, starts: IndexArray, sizes: IndexArray) -> list[bytes]:
        keys: list[bytes] = []
        for part in _parts_of(starts):
            keys += gather(self._mapped, starts[part].astype(np.uint64), sizes[part].astype(np.uint64))
            self._release(starts)
        return keys

    def _overflows(self, places: IndexArray, sizes: IndexArray) -> IndexArray:
        """Where values begin that have pages of their own."""
        if len(places) == 0:
            return places
        pages = self._checked_pages(self._number(places, 8), int(places[0]))
        starts = pages * self._page_size
        needed = -(-(sizes + _HEAD) // self._page_size)
        counts = self._number(starts + 12, 4).astype(np.int64)
        is_wrong = (self._u16(starts + 10) & _KINDS != _OVERFLOW) | (counts < needed)
        is_wrong |= pages + counts > len(self._is_seen)
        order = np.argsort(pages)
        is_wrong[order[:-1]] |= pages[order[:-1]] + counts[order[:-1]] > pages[order[1:]]
        if is_wrong.any():
            at = int(starts[np.flatnonzero(is_wrong)[0]])
            raise self.damaged("the pages of a value are not marked so, are too few, or lie outside of the file", at)
        return starts + _HEAD
