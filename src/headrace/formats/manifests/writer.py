"""Writing a manifest, and the files that it names."""

from __future__ import annotations

import itertools
import os
from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from headrace.codecs.image import SUFFIXES
from headrace.errors import ClosedError, WriteError
from headrace.fields import Bytes, Image
from headrace.formats.manifests.files_folder import FilesFolder, remove_replaced
from headrace.formats.manifests.records import KEY, MAX_RECORD_BYTES
from headrace.formats.row_writer import RowWriter
from headrace.formats.spans import NewAnnex
from headrace.formats.values import picture_ending
from headrace.progress import format_count
from headrace.storage import AtomicFile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.errors import PathLike
    from headrace.formats.manifests.dataset import ManifestDataset
    from headrace.formats.row_writer import Row, StoreValue
    from headrace.types import Field

__all__ = ["KEY", "ManifestWriter", "check_names"]


def check_names(fields: Mapping[str, Field]) -> None:
    """ValueError when a field has the name of the column that the names of the samples stand in."""
    if KEY in fields:
        problem = f"no field of a manifest can be called {KEY!r}: the names of the samples stand there"
        raise ValueError(f"{problem}; give it another name")


class ManifestWriter(RowWriter):
    """Writes a record for each sample; pictures and bytes go into files in a folder beside the manifest.

    The files appear all at once, and the manifest after them; then those of a manifest that it replaces go. What the
    fields are exactly stands in the annex.

    Args:
        path: where the manifest goes.
        fields: name to field, in order.
        store: gives the text of a value, or its bytes if they go into a file.
        length: number of samples, if known.
        annex: False: no annex; what the fields are is then guessed from their values.
        class_names: field name to names of its classes.
        metadata: anything JSON can hold.
        jpeg_index: with tile indices of the JPEGs.
        files_folder: name of the folder of the files; by default that of the manifest and ``-files``, or ``-files-2``
            and so on where that is taken.
    """

    def __init__(
        self,
        path: PathLike,
        fields: Mapping[str, Field],
        store: StoreValue,
        *,
        length: int | None = None,
        annex: bool = True,
        class_names: Mapping[str, Sequence[str]] | None = None,
        metadata: Any = None,
        jpeg_index: bool = True,
        files_folder: str | None = None,
    ) -> None:
        super().__init__(fields, store)
        if not fields:
            raise ValueError(f"{os.fspath(path)}: a sample has at least one field; give fields=")
        check_names(fields)
        self._annex = NewAnnex(is_wanted=annex, class_names=class_names, metadata=metadata, jpeg_index=jpeg_index)
        self._annex.check(fields)
        self._file_fields = [name for name, field in fields.items() if isinstance(field, Bytes | Image)]
        self._names: list[str] = []
        self._files: FilesFolder | None = None
        self._file = AtomicFile(path)
        try:
            if self._file_fields:
                self._files = self._new_folder(files_folder)
        except BaseException:
            self._file.abort()
            raise

    def _new_folder(self, name: str | None) -> FilesFolder:
        parent, last = os.path.split(self._file.path)
        if name is not None:
            return FilesFolder(parent, name, last)
        names = itertools.chain([f"{last}-files"], (f"{last}-files-{number}" for number in itertools.count(2)))
        free = next(one for one in names if not os.path.lexists(os.path.join(parent, one)))
        return FilesFolder(parent, free, last)

    @abstractmethod
    def _head(self, has_names: bool) -> str:
        """What stands before the first record."""

    @abstractmethod
    def _record(self, values: list[str], name: str | None) -> str:
        """A sample as text, with the end of the line."""

    @abstractmethod
    def _text(self, text: str) -> str:
        """A text as the text of a value."""

    @abstractmethod
    def _open(self) -> ManifestDataset:
        """The manifest as it was written."""

    def _put(self, rows: list[Row], names: Sequence[str] | None) -> None:
        parts = [] if self._file.position else [self._head(names is not None)]
        for index, row in enumerate(rows, len(self)):
            name = None if names is None else names[index - len(self)]
            values = [
                value if isinstance(value, str) else self._text(self._put_file(field, value, index, name))
                for field, value in zip(self.fields, row, strict=True)
            ]
            record = self._record(values, name)
            if len(record) > MAX_RECORD_BYTES // 4:
                size = format_count(len(record), "character")
                most = f"at most {MAX_RECORD_BYTES // 4:,} fit into a record; store large values as Bytes()"
                raise WriteError(f"sample {index} has {size}, and {most}", sample=index)
            parts.append(record)
        self._file.write(["".join(parts).encode()])
        self._names += names or []

    def _put_file(self, field: str, data: bytes, index: int, name: str | None) -> str:
        assert self._files is not None
        is_picture = isinstance(self.fields[field], Image)
        ending = f".{picture_ending(data)}" if is_picture else ".bin"
        folder = "" if len(self._file_fields) == 1 else f"{field}/"
        number = f"{index:08d}"
        stem = number if name is None else name
        has_ending = os.path.splitext(stem)[1].lower() in SUFFIXES if is_picture else bool(os.path.splitext(stem)[1])
        wanted = f"{folder}{stem}" if has_ending else f"{folder}{stem}{ending}"
        return self._files.write(wanted, f"{folder}sample-{number}{ending}", data)

    def _finish(self) -> None:
        if not self._file.position:
            self._file.write([self._head(False).encode()])
        if self._files is not None:
            self._files.commit()
        self._file.commit()
        files, self._files = self._files, None
        parent, last = os.path.split(self._file.path)
        remove_replaced(parent, last, kept=None if files is None else files.name)
        self._annex.write(self._file.path, self.fields, self._open, self._names if self._has_names else None)

    def _discard(self) -> None:
        is_named = self._is_named()
        self._file.abort()
        if self._files is not None and not is_named:
            self._files.abort()

    def _is_named(self) -> bool:
        """The manifest has its name already, so that its files must stay: only waiting for the disk has failed."""
        try:
            return os.path.samestat(os.fstat(self._file.fileno()), os.stat(self._file.path))
        except (OSError, ClosedError):
            return False
