"""A dataset of columns with an annex beside it: checksums of its values, and tile indices of its JPEGs."""

from __future__ import annotations

import copy
import warnings
from abc import abstractmethod
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from headrace import _native
from headrace.errors import CorruptSampleError, FormatError
from headrace.formats.column_annex import (
    WRONG_VALUE,
    find_column_annex,
    refuse_options,
    value_sums,
    write_column_annex,
    wrong_sums,
)
from headrace.formats.column_dataset import ColumnDataset
from headrace.formats.report import MAX_PROBLEMS
from headrace.formats.tile_index import WRONG_INDEX, tile_index_problems
from headrace.progress import format_count
from headrace.types import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

    import numpy.typing as npt

    from headrace.annex import TileIndex
    from headrace.errors import PathLike
    from headrace.formats.column_annex import ColumnAnnex
    from headrace.formats.tile_index import SideFacts
    from headrace.types import ImageSpans, IndexArray, Progress, Report

__all__ = ["AnnexedDataset", "index_columns"]

_PIXELS = 1  # of ImageSpans.modes
_RESTORE = "Restore the file from a copy, or leave the sample out."


class AnnexedDataset(ColumnDataset):
    """A ColumnDataset whose subclass says what binds an annex to it, and which of its fields are whole files.

    Pictures are compared with their checksums as they are read, everything else when that is asked for: by
    ``with_checksums(True)``, which ``Loader(verify=True)`` does, and by ``verify``.
    """

    _checks: bool | None = None
    """Compare all values with their checksums, or none; by default, pictures."""

    @property
    @abstractmethod
    def side_facts(self) -> SideFacts:
        """What an annex beside it is bound to."""

    @property
    @abstractmethod
    def file_fields(self) -> list[str]:
        """Fields whose values are stored as bytes of any length, pictures first: JPEGs may be among them."""

    @cached_property
    def _annex_found(self) -> tuple[ColumnAnnex | None, str | None]:
        return find_column_annex(self.side_facts, next(iter(self.file_fields), None))

    @cached_property
    def column_annex(self) -> ColumnAnnex | None:
        """What the annex beside it says; None where there is none that fits, of which a warning tells."""
        found, problem = self._annex_found
        if problem is None:
            return found
        warnings.warn(
            f"{problem}; values are not checked, and JPEGs are decoded without their indices. Make a new one with: "
            f"headrace index --fresh {self.side_facts.path}",
            RuntimeWarning,
            stacklevel=3,
        )
        return None

    @property
    def tile_index(self) -> TileIndex | None:
        """Tile indices of the JPEGs, by which crops are decoded without the rest, or None."""
        return None if self.column_annex is None else self.column_annex.tile_index

    @property
    def has_checksums(self) -> bool:
        """Every value can be checked against a checksum of the annex."""
        annex = self.column_annex
        return annex is not None and all(annex.covers(name, field) for name, field in self._schema.items())

    def with_checksums(self, is_checked: bool) -> Self:
        """The same dataset, its values checked as they are read, or not."""
        if is_checked == self._checks:
            return self
        other = copy.copy(self)  # opened anew, as in another process
        other._checks = is_checked
        return other

    @property
    def _state(self) -> dict[str, Any]:
        """What ``__reduce__`` gives besides the options."""
        return {"_checks": self._checks}

    # Reading

    def _taken(self, indices: IndexArray, field: str) -> Sequence[Any] | npt.NDArray[Any]:
        stored = super()._taken(indices, field)
        if self._checks and self.column_annex is not None:
            for position, problem in self._wrong(self.column_annex, indices, field, stored).items():
                sample = int(indices[position])
                raise CorruptSampleError(self.path, sample=sample, field=field, problem=problem, fix=_RESTORE)
        return stored

    def _wrong(
        self, annex: ColumnAnnex, indices: IndexArray, field: str, stored: Sequence[Any] | npt.NDArray[Any]
    ) -> dict[int, str]:
        expected = annex.sums(indices, field, self._schema[field])
        return {} if expected is None else wrong_sums(value_sums(self._schema[field], stored)[0], expected)

    def _with_annex(self, spans: ImageSpans, indices: IndexArray, field: str) -> ImageSpans:
        """Pictures together with what the annex says about them."""
        annex = self.column_annex
        if annex is None:
            return spans
        column, sums, tiles = annex.picture_column(field), None, None
        if column is not None and annex.tile_index is not None:
            tiles = annex.tile_index.locate(indices, column)
        if self._checks is not False:
            if not (spans.modes == _PIXELS).any():
                sums = annex.sums(indices, field, self._schema[field])
            elif self._checks:  # pixels may stand in place of files
                self._taken(indices, field)
            if sums is None and tiles is not None:  # then at least no index of other bytes is used
                sums = _native.crc32c_spans(spans.base, spans.offsets, spans.sizes)
        return replace(spans, checksums=sums, tile_indices=tiles)

    # Checking

    def verify(self, *, decode: bool = False, workers: int | None = None, progress: Progress | None = None) -> Report:
        """Read every value, and compare the checksums and tile indices of the annex; with ``decode`` also decode it."""
        report = super().verify(decode=decode, workers=workers, progress=progress)
        _, problem = self._annex_found
        if problem is None:
            return report
        every = list(report.problems)
        if 2 * len(report.bad_samples) > len(self):  # that is another dataset, and not a damaged one
            every = [one for one in every if not one.message.startswith((WRONG_VALUE, WRONG_INDEX))]
        every.insert(0, Problem(sample=None, field=None, message=problem))
        return replace(report, problems=tuple(every[:MAX_PROBLEMS]))

    def _value_problems(
        self, indices: IndexArray, field: str, stored: Sequence[Any] | npt.NDArray[Any]
    ) -> tuple[int, dict[int, str]]:
        annex = self._annex_found[0]
        if annex is None:
            return 0, {}
        sums, sizes = value_sums(self._schema[field], stored)
        expected = annex.sums(indices, field, self._schema[field])
        found = {} if expected is None else wrong_sums(sums, expected)
        column = annex.picture_column(field)
        if column is not None and annex.tile_index is not None:
            found = tile_index_problems(annex.tile_index, indices, column, sizes, sums) | found
        return 0 if expected is None else len(indices), found


def index_columns(
    open_dataset: Callable[..., AnnexedDataset],
    path: PathLike,
    *,
    fresh: bool = False,
    jpeg_index: bool = True,
    progress: Progress | None = None,
    follow_links: bool = False,
    **options: object,
) -> str:
    """Give a dataset of columns an annex; see ``headrace.index``. A format binds ``open_dataset``."""
    refuse_options(path, options)
    with open_dataset(path, follow_links=follow_links) as dataset:
        if not fresh:
            _refuse_damage(dataset)
        return write_column_annex(
            dataset.side_facts,
            dataset.schema,
            dataset._stored,
            files=dataset.file_fields if jpeg_index else (),
            progress=progress,
        )


def _refuse_damage(dataset: AnnexedDataset) -> None:
    """Raise FormatError if values are not those that an annex has checksums of; another dataset is no damage."""
    annex, misfit = dataset._annex_found
    if annex is None or annex.checksums is None:
        return
    report = dataset.verify()
    if len(report.problems) > (misfit is not None):
        raise FormatError(
            dataset.path,
            problem=f"the checksums it has already do not fit {format_count(len(report.bad_samples), 'sample')}",
            fix="New checksums would hide that: see headrace verify. If it was changed on purpose, give --fresh.",
        )
