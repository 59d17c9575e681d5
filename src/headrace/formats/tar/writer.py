"""Writes tars as WebDataset has them; the same samples give the same bytes."""

from __future__ import annotations

import contextlib
from typing import IO, TYPE_CHECKING, Any, cast

from headrace._native import tar_header
from headrace.formats.member_files.member_writer import MemberWriter
from headrace.formats.spans.unpacked import compression_of_name, compressor
from headrace.formats.tar.dataset import open_tar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.errors import PathLike
    from headrace.formats.spans import IndexedFile
    from headrace.types import Field

__all__ = ["TarWriter"]

_BLOCK = 512
_RECORD = 10240
_MODE = 0o644


class TarWriter(MemberWriter):
    """Writes samples into a tar, one file for each value; see MemberWriter for the arguments.

    The ending of the path says whether it is compressed: ``.tar.gz``, ``.tar.bz2``, ``.tar.xz``, ``.tar.zst``.
    """

    def __init__(self, path: PathLike, fields: Mapping[str, Field], **options: Any) -> None:
        super().__init__(path, fields, **options)
        self._stack = contextlib.ExitStack()
        kind = compression_of_name(self._path)
        self._packed: IO[bytes] | None = None
        try:
            if kind is not None:
                raw = cast("IO[bytes]", self._stack.enter_context(self._file.stream()))
                self._packed = self._stack.enter_context(compressor(raw, kind))
        except BaseException:
            self._file.abort()
            raise

    def _put_file(self, name: str, data: bytes) -> None:
        self._write(tar_header(name, False, _MODE, 0, 0, 0, len(data), False))
        self._write(data)
        self._write(bytes(-len(data) % _BLOCK))

    def _flush(self) -> None:
        if self._packed is None:
            super()._flush()
            return
        for part in self._parts:
            self._packed.write(part)
        self._parts, self._part_bytes = [], 0

    def _end_archive(self) -> None:
        self._write(bytes(2 * _BLOCK))
        self._write(bytes(-self._written % _RECORD))
        self._flush()
        self._stack.close()

    def _open_indexed(self, columns: Sequence[str]) -> IndexedFile:
        # What was written here may be any number of times its size.
        limit = self._written if self._packed is not None else None
        how: dict[str, Any] = {"columns": columns, "annex": False, "make_checksums": True, "max_unpacked_bytes": limit}
        return open_tar(self._path, group=True, **how)

    def _discard(self) -> None:
        super()._discard()
        with contextlib.suppress(Exception):
            self._stack.close()
