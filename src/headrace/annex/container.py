"""The annex container.

Byte layout, little-endian; docs/formats/annex.md is the long form::

    sections    each begins at a multiple of 8 from the annex's first byte, zero bytes between
    directory   section_count rows of 40 bytes:
                name 16s (ASCII, NUL-padded), offset u64 (from the annex's first byte), size u64,
                checksum u32 (CRC32C of the section), reserved u32 (0)
    trailer     64 bytes:
                 0 magic 8s "HDRANNEX"       32 dataset_size u64 (bytes of the dataset's file)
                 8 version u16 (1)           40 dataset_fingerprint u32
                10 reserved u16 (0)          44 directory_checksum u32 (CRC32C of the directory)
                12 section_count u32         48 reserved 12s (0)
                16 size u64 (whole annex)    60 checksum u32 (CRC32C of the trailer's first 60 bytes)
                24 num_samples u64

It is found from its end: in a side file the trailer ends the file, in a .beton it ends where the allocation
table begins.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from headrace._native import crc32c
from headrace.errors import AnnexError
from headrace.progress import format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import numpy as np
    import numpy.typing as npt

    from headrace.storage import StoredFile
    from headrace.types import Buffer

__all__ = ["REPAIR", "TRAILER_SIZE", "Annex", "write_annex"]

MAGIC = b"HDRANNEX"
VERSION = 1
_TRAILER = struct.Struct("<8sHHIQQQII12sI")
_ROW = struct.Struct("<16sQQII")
TRAILER_SIZE = _TRAILER.size
_MAX_SECTIONS = 1024
REPAIR = (
    "Restore the file from a copy; or open it without its annex (annex=False); or make a new annex with: "
    "headrace index --fresh (and --embed, if it stands inside the file)."
)


class _Row(NamedTuple):
    offset: int
    size: int
    checksum: int


class Annex:
    """A parsed annex: its directory is checked at once, each section is held and checked when it is first asked for.

    Attributes:
        file: what it stands in.
        path: of that file.
        num_samples: samples of the dataset.
        size_bytes: of the whole annex.
        bound_to: size and fingerprint of the dataset that it was made for.
    """

    def __init__(
        self,
        file: StoredFile,
        num_samples: int,
        rows: Mapping[str, _Row],
        *,
        start: int,
        size_bytes: int,
        bound_to: tuple[int, int],
    ) -> None:
        self.file = file
        self.bound_to = bound_to
        self.path = file.path
        self.num_samples = num_samples
        self.size_bytes = size_bytes
        self._rows = dict(rows)
        self._start = start
        self._checked: dict[str, npt.NDArray[np.uint8]] = {}

    @classmethod
    def find(
        cls,
        file: StoredFile,
        *,
        first: int = 0,
        end: int | None = None,
        num_samples: int | None,
        dataset_size: int | None,
        dataset_fingerprint: int | None,
    ) -> Annex | None:
        """Parse the annex that ends at byte ``end``, or with the file, and may begin at ``first`` at the earliest.

        ``num_samples`` is None where the annex is what says how many there are, size and fingerprint where the dataset
        may have been changed since it was made.
        Returns None when there is none; raises AnnexError when there is one that is damaged or belongs to a
        dataset of another size or fingerprint.
        """
        end = file.size_bytes if end is None else end
        at = end - TRAILER_SIZE
        if at < first or not cls.is_marked(file, end):
            return None

        def fail(problem: str, offset: int = at) -> AnnexError:
            return AnnexError(file.path, offset=offset, problem=problem, fix=REPAIR)

        trailer = file.hold(at, end)
        (_, version, _, section_count, size, samples, bound_size, fingerprint, directory_sum, _, checksum) = (
            _TRAILER.unpack(trailer)
        )
        if crc32c(trailer[:60]) != checksum:
            raise fail("the annex trailer does not match its checksum")
        if version != VERSION:
            raise fail(f"the annex has version {version}, and this headrace reads version {VERSION}")
        if section_count > _MAX_SECTIONS:
            raise fail(f"the annex claims {format_count(section_count, 'section')}, the most is {_MAX_SECTIONS}")
        if not TRAILER_SIZE + section_count * _ROW.size <= size <= end - first:
            raise fail(f"the annex claims {format_count(size, 'byte')}, there are {end - first}")
        if num_samples is not None and samples != num_samples:
            raise fail(f"the annex describes {format_count(samples, 'sample')}, the dataset has {num_samples:,}")
        is_bound = dataset_size is not None and dataset_fingerprint is not None
        if is_bound and (bound_size, fingerprint) != (dataset_size, dataset_fingerprint):
            raise fail(
                "the annex belongs to another dataset, or the dataset was changed after it was made: "
                f"it expects {format_count(bound_size, 'byte')} with fingerprint {fingerprint:#010x}, "
                f"found {format_count(dataset_size or 0, 'byte')} with {dataset_fingerprint or 0:#010x}"
            )
        directory = file.hold(at - section_count * _ROW.size, at)
        if crc32c(directory) != directory_sum:
            raise fail("the annex directory does not match its checksum", at - len(directory))
        rows: dict[str, _Row] = {}
        room = size - TRAILER_SIZE - len(directory)
        for raw_name, offset, section_size, section_sum, _ in _ROW.iter_unpack(directory.tobytes()):
            name = raw_name.rstrip(b"\0").decode("ascii", "backslashreplace")
            if offset > room or section_size > room - offset:
                raise fail(
                    f"annex section {name!r} lies outside the annex ({offset} + {format_count(section_size, 'byte')})"
                )
            rows[name] = _Row(offset, section_size, section_sum)
        return cls(file, samples, rows, start=end - size, size_bytes=size, bound_to=(bound_size, fingerprint))

    @staticmethod
    def is_marked(file: StoredFile, end: int) -> bool:
        """Tell whether the bytes before ``end`` claim to be an annex's trailer."""
        return end >= TRAILER_SIZE and bytes(file.hold(end - TRAILER_SIZE, end)[:8]) == MAGIC

    def names(self) -> list[str]:
        """Names of the sections, in file order."""
        return list(self._rows)

    def section(self, name: str) -> npt.NDArray[np.uint8] | None:
        """Bytes of a section, compared with its checksum; None when the annex has no such section."""
        place = self.place(name)
        if place is None:
            return None
        if name not in self._checked:
            data = self.file.hold(*place)
            if crc32c(data) != self._rows[name].checksum:
                self.file.check()  # bytes that could not be read say more
                raise self.fail(name, "does not match its checksum")
            self._checked[name] = data
        return self._checked[name]

    def place(self, name: str) -> tuple[int, int] | None:
        """Where in the file a section begins and ends: for a large one whose parts have checksums of their own."""
        if name not in self._rows:
            return None
        start = self._start + self._rows[name].offset
        return start, start + self._rows[name].size

    def fail(self, section: str, problem: str) -> AnnexError:
        """Make the error for a section that is wrong."""
        offset = self._start + self._rows[section].offset
        return AnnexError(self.path, offset=offset, problem=f"annex section {section!r} {problem}", fix=REPAIR)


def write_annex(
    write: Callable[[Sequence[Buffer]], None],
    sections: Mapping[str, Iterable[Buffer]],
    *,
    num_samples: int,
    dataset_size: Callable[[int], int],
    dataset_fingerprint: Callable[[int], int],
) -> int:
    """Write an annex front to back and give its size.

    Args:
        write: appends buffers.
        sections: name to the section's bytes, in pieces.
        num_samples: samples of the dataset.
        dataset_size: told the annex's size, gives the size of the dataset's file (an embedded annex counts).
        dataset_fingerprint: the same for the fingerprint.
    """
    position = 0
    directory = bytearray()
    for name, pieces in sections.items():
        offset, checksum = position, 0
        for piece in pieces:
            write([piece])
            checksum = crc32c(piece, checksum)
            position += memoryview(piece).nbytes
        directory += _ROW.pack(name.encode("ascii"), offset, position - offset, checksum, 0)
        padding = -position % 8
        write([bytes(padding)])
        position += padding
    size = position + len(directory) + TRAILER_SIZE
    trailer = _TRAILER.pack(
        MAGIC,
        VERSION,
        0,
        len(sections),
        size,
        num_samples,
        dataset_size(size),
        dataset_fingerprint(size),
        crc32c(directory),
        bytes(12),
        0,
    )[:60]
    write([directory, trailer, struct.pack("<I", crc32c(trailer))])
    return size
