"""A file together with the index of its samples: from the annex beside it, or from one pass over the file.

Where there is no annex, the pass makes the index, and it is kept beside the file if the folder can be written to and
the file is so large that the next pass would be felt. An object in a store is fetched whole for it, and nothing is
kept. An annex that does not belong to the file as it is now is not used, and a warning says so. It is bound to the file
by its size and a fingerprint of its content; not by its time, which copying changes.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from headrace.annex import (
    CLASSES,
    METADATA,
    PROBES,
    SCHEMA,
    TILE_INDEX,
    Annex,
    hold_sections,
    new_side,
    open_side,
    read_checksums,
    read_json,
    side_exists,
    side_path,
    write_annex,
)
from headrace.errors import AnnexError
from headrace.fields import from_spec
from headrace.formats.description import Description
from headrace.formats.spans.sample_index import SampleIndex
from headrace.formats.spans.span_file import SpanFile
from headrace.progress import format_count
from headrace.storage import is_remote
from headrace.types import Progress

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy.typing as npt

    from headrace.errors import PathLike
    from headrace.storage import StoredFile
    from headrace.types import Buffer

__all__ = ["IndexedFile", "Scan"]

Scan: TypeAlias = Callable[[SpanFile, Progress | None], SampleIndex]
"""Finds the samples of a file in one pass; FormatError where it is damaged."""

_WORTH_KEEPING_BYTES = 16 << 20


class IndexedFile:
    """A file and where its samples are.

    Args:
        path: the file.
        format_name: an annex of another format is not used.
        scan: makes the index where no annex has it.
        keep_index: write what was found beside a large file.
        annex: False: do not look for an annex, and write none.
        cold: see ``SpanFile``.
        follow_links: also read an annex that is a symbolic link.
        progress: called by ``scan``.
        file: the file, opened already, where it is not simply the one at the path: see ``unpack``.

    Attributes:
        file: the file.
        index: where its samples are.
        annex: what lies beside it and belongs to it, or None.
        annex_problem: why what lies beside it is not used, or None.
        description: fields, classes and metadata as they were written, or None.
        columns: field to column of the index, for fields that have a column of another name.
    """

    def __init__(
        self,
        path: PathLike,
        *,
        format_name: str,
        scan: Scan,
        keep_index: bool = True,
        annex: bool = True,
        cold: bool | None = None,
        follow_links: bool = False,
        progress: Progress | None = None,
        file: SpanFile | None = None,
    ) -> None:
        self.file = SpanFile(path, cold=cold) if file is None else file
        self.format_name = format_name
        self.annex: Annex | None = None
        self.annex_problem: str | None = None
        self.description: Description | None = None
        self.columns: dict[str, str] = {}
        found = self._read_annex(follow_links) if annex else None
        if found is None:
            self.file.bring()
            found = scan(self.file, progress)
        self.index = found
        self.file.check()
        self._check_count()
        is_large = self.file.size_bytes >= _WORTH_KEEPING_BYTES
        if annex and keep_index and is_large and not is_remote(path) and not side_exists(path):
            self._keep()

    def _check_count(self) -> None:
        if self.annex is not None and self.annex.num_samples != len(self.index):
            told = format_count(self.annex.num_samples, "sample")
            self._warn(f"it describes {told}, and the file has {len(self.index)}")

    def _read_annex(self, follow_links: bool) -> SampleIndex | None:
        announced = self.file.announce_probes()  # on their way while the annex is opened
        try:
            side = open_side(self.file.path, follow_links=follow_links)
            if side is None:
                return None
            self.annex = self._bound_annex(side)
            return self._read_sections()
        except AnnexError as error:
            self._warn(error.problem)
            return None
        finally:
            if announced is not None:
                announced.close()

    def _bound_annex(self, side: StoredFile) -> Annex | None:
        """The annex, if it belongs to the file; AnnexError if it belongs to another one."""
        size_bytes = self.file.size_bytes
        if not self.file.is_local:
            annex = Annex.find(side, num_samples=None, dataset_size=None, dataset_fingerprint=None)
            noted = None if annex is None else annex.section(PROBES)
            if annex is not None and noted is not None and len(noted) > 0 == len(noted) % 4:
                steps = noted.view("<u4")
                if annex.bound_to == (size_bytes, int(steps[-1])) and self.file.adopt_fingerprint(steps):
                    return annex
        return Annex.find(side, num_samples=None, dataset_size=size_bytes, dataset_fingerprint=self.file.fingerprint)

    def _read_sections(self) -> SampleIndex | None:
        if self.annex is None:
            return None
        hold_sections(self.annex, set(self.annex.names()) - {TILE_INDEX}, 1)
        found = SampleIndex.read(self.annex, self.format_name)
        if found is None:
            self.annex = None  # it is of another format, so that its numbers mean something else
            return None
        index, self.columns = found
        self.description = self._read_description(self.annex)
        return index

    def _read_description(self, annex: Annex) -> Description | None:
        specs = read_json(annex, SCHEMA)
        if specs is None:
            return None
        try:
            fields = {str(name): from_spec(spec) for name, spec in specs}
        except (ValueError, TypeError) as error:
            raise annex.fail(SCHEMA, f"does not say what fields there are ({error})") from None
        classes = read_json(annex, CLASSES) or {}
        if not isinstance(classes, dict) or not all(isinstance(names, list) for names in classes.values()):
            raise annex.fail(CLASSES, "does not name classes by field")
        return Description(fields=fields, class_names=classes, metadata=read_json(annex, METADATA))

    def _warn(self, problem: str) -> None:
        self.annex, self.description, self.columns = None, None, {}
        self.annex_problem = f"{self.file.path}.annex is not used: {problem}"
        warnings.warn(
            f"{self.file.path}.annex is not used: {problem}. The samples are found by reading the file. Make a new one "
            f"with: headrace index --fresh {self.file.path}",
            RuntimeWarning,
            stacklevel=4,
        )

    def close(self) -> None:
        """Let go of the file, and of an annex that is fetched from a store; a local one can be read on."""
        self.file.close()
        if self.annex is not None and not self.annex.file.is_local:
            self.annex.file.close()

    def checksums(self) -> npt.NDArray[np.uint32] | None:
        """CRC-32C of every value, samples x columns, or None."""
        return None if self.annex is None else read_checksums(self.annex, len(self.index.columns))

    def _keep(self) -> None:
        with contextlib.suppress(OSError, AnnexError):  # a folder that cannot be written to: then in memory alone
            self.write(self.index.sections(self.format_name, {}), is_synced=False)

    def write(self, sections: Mapping[str, Iterable[Buffer]], *, is_synced: bool = True) -> str:
        """Write an annex of these sections beside the file, and give its path."""
        steps = self.file.fingerprint_steps
        if len(steps) > 1:
            sections = {**sections, PROBES: [steps.astype("<u4").view(np.uint8)]}
        with new_side(self.file.path, is_synced=is_synced) as write:
            write_annex(
                write,
                sections,
                num_samples=len(self.index),
                dataset_size=lambda _: self.file.size_bytes,
                dataset_fingerprint=lambda _: self.file.fingerprint,
            )
        return side_path(self.file.path)
