"""What ``headrace.write`` needs of a format: samples as files of an archive."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from headrace.formats.barecat.archive import new_archive
from headrace.formats.sample_files import SampleFilesWriter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from headrace.errors import PathLike
    from headrace.types import Field

__all__ = ["BarecatWriter"]


class BarecatWriter(SampleFilesWriter):
    """Writes samples into a .barecat archive, which gets its name when ``close`` succeeded.

    Args:
        path: where the archive goes; an existing one is replaced.
        fields: fields that have bytes, and at most one number: an Int field called ``label``.
        length: number of samples, if known: names that are made up then sort as numbers, however many there are.
        class_names: ``{"label": [...]}``, names of the directories; by default numbers.
        shard_size: limit of a shard in bytes.
        annex: kept for other formats' sake; an archive has none.

    Example:
        >>> import os, tempfile, headrace
        >>> path = os.path.join(tempfile.mkdtemp(), "x.barecat")
        >>> fields = {"text": headrace.Text(), "label": headrace.Int()}
        >>> headrace.write(path, [("meow", 0), ("woof", 1)], fields=fields, class_names={"label": ["cat", "dog"]})
        >>> headrace.open(path).keys, headrace.open(path)[1]
        (['cat/sample-00000000.txt', 'dog/sample-00000001.txt'], Sample(text='woof', label=1))
    """

    def __init__(
        self,
        path: PathLike,
        fields: Mapping[str, Field],
        *,
        length: int | None = None,
        class_names: Mapping[str, Sequence[str]] | None = None,
        shard_size: int | None = None,
        annex: bool = True,
    ) -> None:
        super().__init__(fields, length=length, class_names=class_names)
        self._stack = contextlib.ExitStack()
        self._archive = self._stack.enter_context(new_archive(path, shard_size=shard_size))

    def _put(self, path: str, data: bytes) -> None:
        self._archive[path] = data

    def _finish(self) -> None:
        self._stack.close()

    def abort(self) -> None:
        """Throw away what was written; nothing is left behind."""
        given_up = InterruptedError("given up")
        self._stack.__exit__(type(given_up), given_up, None)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self._stack.__exit__(kind, error, trace)  # an error about its hidden files becomes one about the archive
