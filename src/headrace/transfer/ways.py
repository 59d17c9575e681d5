"""Commands that an error names: how to go on where a conversion would lose something."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.formats.open import all_formats

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.formats.contract import Format

__all__ = ["Ways"]


@dataclass(frozen=True, slots=True)
class Ways:
    """Commands that go on where a conversion would lose something.

    Example:
        >>> Ways("my x.beton", "y.ffr").keeping(2)
        "headrace convert 'my x.beton' y.beton"
        >>> Ways("x.beton", "y.npy").without(["text"])
        'headrace convert x.beton y.npy --map text='
    """

    source: str
    target: str
    source_kind: str | None = None

    def with_field(self, name: str) -> str:
        """The same with one field."""
        return f"{self._command(self.target)} --field {shlex.quote(name)}"

    def without(self, names: Iterable[str]) -> str:
        """The same without some fields."""
        return " ".join([self._command(self.target), *(f"--map {shlex.quote(name)}=" for name in names)])

    def renaming(self, old: str) -> str:
        """The same with another name for a field."""
        return f"{self._command(self.target)} --map {shlex.quote(old)}=NEW"

    def keeping(self, fields: int | None, kinds: Iterable[str] = ()) -> str:
        """Into a file of a format that holds so many fields, of such kinds, or any files."""
        for known in sorted(all_formats(), key=lambda known: _rank(known, wants_archive=fields is None)):
            is_enough = fields is None or known.max_fields is None or known.max_fields >= fields
            is_enough &= known.field_kinds is None or known.field_kinds.issuperset(kinds)
            if known.create is not None and is_enough and known.holds_files == (fields is None):
                stem, ending = os.path.splitext(self.target)[0], known.suffixes[0]
                return self._command(f"{stem}-all{ending}" if stem + ending == self.source else stem + ending)
        return f"{self._command('DST')} into a format that holds them"

    def _command(self, target: str) -> str:
        kind = f" --from {self.source_kind}" if self.source_kind else ""
        return f"headrace convert {shlex.quote(self.source)} {shlex.quote(target)}{kind}"


def _rank(known: Format, *, wants_archive: bool) -> tuple[bool, bool, bool]:
    """Best first: for files an archive, for samples a format with tile indices that says itself what they are."""
    is_plain = "jpeg_index" not in known.writer_options
    return wants_archive and known.open_archive is None, is_plain, bool(known.decodes)
