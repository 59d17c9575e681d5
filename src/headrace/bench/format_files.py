"""The same samples in every format."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.errors import MissingExtraError
from headrace.formats.index import index
from headrace.formats.open import all_formats, open_dataset
from headrace.formats.write import write

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from headrace.formats.contract import Format
    from headrace.types import Dataset, Field

__all__ = ["PACKAGES", "FormatFile", "make_file", "make_files", "size_on_disk"]

PACKAGES = ("pyarrow.parquet", "pyarrow.dataset", "h5py", "lmdb", "msgpack", "zstandard")
"""What formats import late: neither the time nor the memory of that is the format's."""


@dataclass(frozen=True, kw_only=True)
class FormatFile:
    """A dataset of one format that holds the samples of a suite.

    Args:
        format: which.
        path: alone in a folder, with what belongs to it.
        options: for opening.
        fields: as the samples were written.
    """

    format: Format
    path: Path
    options: Mapping[str, Any]
    fields: Mapping[str, Field]

    @property
    def name(self) -> str:
        """The format's."""
        return self.format.name

    def open(self) -> Dataset:
        """Open it as what it holds."""
        return open_dataset(self.path, **self.options)

    def field(self, kinds: Sequence[str]) -> str:
        """The field that the samples went into: it may have another name in this format."""
        with self.open() as dataset:
            return next(name for kind in kinds for name, f in dataset.schema.items() if f.kind == kind)


def make_files(
    folder: Path,
    samples: Sequence[Any],
    choices: Iterable[Mapping[str, Field]],
    *,
    decode: str | None = None,
    only: Sequence[str] = (),
    indexed: bool = True,
    **options: Any,
) -> tuple[list[FormatFile], dict[str, str]]:
    """Write samples in every format that takes them, and say why others do not.

    Args:
        folder: where.
        samples: tuples of values.
        choices: fields, the best first: a format gets the first that it takes.
        decode: for formats that do not say themselves what their bytes are.
        only: names of formats; by default all.
        indexed: each gets its annex, where the format has one.
        **options: for the writers that take them.
    """
    made, reasons = [], {}
    for known in all_formats():
        if known.create is None or (only and known.name not in only):
            continue
        try:
            made.append(make_file(folder, known, samples, list(choices), decode, options))
        except (ValueError, MissingExtraError) as error:
            reasons[known.name] = str(error).replace(f"{folder}{os.sep}", "")
            continue
        if indexed and known.index is not None:
            with contextlib.suppress(ValueError):  # tables without JPEGs have nothing to index
                index(made[-1].path)
    return made, reasons


def make_file(
    folder: Path,
    known: Format,
    samples: Sequence[Any],
    choices: list[Mapping[str, Field]],
    decode: str | None,
    options: Mapping[str, Any],
) -> FormatFile:
    """Write samples in one format; ValueError when it does not hold them."""
    home = folder / known.name
    home.mkdir()
    path = home / f"x{known.suffixes[0]}"
    taken = {name: value for name, value in options.items() if name in known.writer_options}
    for fields in choices:
        width = len(fields)
        if known.max_fields is not None and width > known.max_fields:
            continue
        try:
            write(path, [sample[:width] for sample in samples], fields=fields, **taken)
        except ValueError:
            if fields is choices[-1]:
                raise
            continue
        return FormatFile(format=known, path=path, options=_decode_option(path, known, fields, decode), fields=fields)
    raise ValueError(f"a {known.name} holds {known.max_fields} field of a sample")


def _decode_option(path: Path, known: Format, fields: Mapping[str, Field], decode: str | None) -> dict[str, Any]:
    with open_dataset(path) as dataset:
        is_known = next(iter(fields.values())).kind in {field.kind for field in dataset.schema.values()}
    return {} if is_known or decode not in known.decodes else {"decode": decode}


def size_on_disk(path: Path) -> int:
    """Bytes of a dataset with all that lies beside it in its folder."""
    files = (os.path.join(at, name) for at, _, names in os.walk(path.parent) for name in names)
    return sum(map(os.path.getsize, files))
