"""Files that were written, read back and compared by size and checksum."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace._native import crc32c
from headrace.errors import WriteError
from headrace.transfer.containers import read_entries, translate_errors

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.transfer.entry import Entry

__all__ = ["FileSums"]

_PIECE = 1 << 20


@dataclass(slots=True)
class FileSums:
    """Size and checksum of files, by name."""

    sums: dict[str, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> FileSums:
        """Read all entries."""
        found = cls()
        for entry in entries:
            found.add(entry)
        return found

    def add(self, entry: Entry) -> None:
        """Read one; directories do not count."""
        if entry.is_dir:
            return
        size = checksum = 0
        with entry.open() as file:
            while piece := file.read(_PIECE):
                size, checksum = size + len(piece), crc32c(piece, checksum)
        self.sums[entry.name] = size, checksum

    def compare(self, path: str, *, kind: str | None, name: str, outcome: str) -> None:
        """Read a tar, zip, archive or folder; WriteError when one of these files is missing there, or is another.

        Args:
            path: what was written.
            kind: what it is, where its ending does not say so.
            name: what errors call it.
            outcome: what an error says about it.
        """
        with translate_errors(path):
            written = FileSums.of(entry for entry in read_entries(path, [], kind=kind, max_bytes=1 << 62)).sums
        for one, sums in self.sums.items():
            if written.get(one) != sums:
                problem = "is not what was read" if one in written else "is missing"
                raise WriteError(f"{name}: {one} {problem}. {outcome}")
