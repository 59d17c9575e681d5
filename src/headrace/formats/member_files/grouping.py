"""Files as samples: grouped by name as WebDataset does it, or each file a sample.

Grouped: files that follow each other and whose paths are the same up to the first dot of the last part are one sample;
what follows that dot, in lower case, is the name of the field. Left out are hidden files, files without an ending, and
those whose last part begins with ``__``.

By itself a list of files is taken as plain files, each a sample, where no two of them belong together by their names
and some lie in directories or all are pictures. Everything else is grouped.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.annex import Names
from headrace.errors import FormatError
from headrace.formats.member_files.endings import is_picture
from headrace.formats.members import ungrouped_members
from headrace.formats.spans import SampleIndex
from headrace.progress import format_count

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["FileList", "Samples", "arrange_files"]

_log = logging.getLogger("headrace")
_LEFT_OUT = 0xFFFF
_AS_FILES = (
    "In Python, open it with group=False to have each file as a sample; on the command line, carry its files to a "
    "folder or a .barecat with headrace convert."
)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class FileList:
    """Files, where their bytes are, and CRC-32C of these where they were made."""

    path: str
    names: _native.TextList
    offsets: npt.NDArray[np.uint64]
    sizes: npt.NDArray[np.uint64]
    checksums: npt.NDArray[np.uint32] | None = None

    def __len__(self) -> int:
        return len(self.offsets)

    def name(self, number: int) -> str:
        """The name of one of them."""
        return _text(self.names[number])


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Samples:
    """Samples of files: their index, and which file stands where in it."""

    index: SampleIndex
    numbers: npt.NDArray[np.int64]


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def arrange_files(
    files: FileList, *, group: bool | None, as_bytes: bool = False, columns: Sequence[str] = ()
) -> Samples:
    """Make samples of files.

    Args:
        files: all of them, in their order.
        group: True groups them, False takes each as a sample, None decides.
        as_bytes: each is a sample of its bytes, whatever it is.
        columns: what there is of each sample, for lists that may be empty.
    """
    if as_bytes:
        return _plain(files, as_bytes=True)
    if group is False:
        return _plain(files, as_bytes=False)
    try:
        groups = _native.group_members(files.names)
    except _native.NativeError as error:
        raise FormatError(files.path, problem=f"it has {error.detail}", fix=_AS_FILES) from None
    endings = [_text(groups.endings[i]) for i in range(len(groups.endings))]
    is_used = groups.columns != _LEFT_OUT
    if group is None and _looks_plain(files, len(groups.keys), int(is_used.sum()), endings):
        return _plain(files, as_bytes=False)
    _note_left_out(files, is_used)
    return _grouped(files, groups, is_used, endings or list(columns))


def _looks_plain(files: FileList, groups: int, used: int, endings: list[str]) -> bool:
    if not used:
        return len(files) > 0
    return groups == used and (b"/" in files.names.text or all(map(is_picture, endings)))


def _grouped(
    files: FileList, groups: _native.MemberGroups, is_used: npt.NDArray[np.bool_], columns: list[str]
) -> Samples:
    if not columns and not len(files):
        fix = "Was the right file named, and was it written to the end?"
        raise FormatError(files.path, problem="there are no files in it, so there are no samples", fix=fix)
    if not columns:
        raise FormatError(files.path, problem="no file in it has an ending, so there are no samples", fix=_AS_FILES)
    if groups.repeated >= 0:
        name = files.name(groups.repeated)
        problem = f"{name}: its sample has a file of this ending already"
        raise FormatError(files.path, problem=problem, fix=f"Rename one of them. {_AS_FILES}")
    if groups.apart >= 0:
        name = files.name(groups.apart)
        raise FormatError(
            files.path,
            problem=f"{name}: other files of its sample came earlier, with other samples between them",
            fix=f"Sort the files by name, for example with: tar --sort=name. {_AS_FILES}",
        )
    numbers = np.full((len(groups.keys), len(columns)), -1, np.int64)
    numbers[groups.groups[is_used], groups.columns[is_used]] = np.flatnonzero(is_used)
    _refuse_missing(files, groups, numbers, columns)
    ends = groups.keys.ends
    offsets = np.zeros(len(ends) + 1, np.uint64)
    offsets[1:] = ends
    names = Names(offsets, np.frombuffer(groups.keys.text, np.uint8))
    return _samples(files, numbers, columns, names, {"group": True})


def _refuse_missing(
    files: FileList, groups: _native.MemberGroups, numbers: npt.NDArray[np.int64], columns: list[str]
) -> None:
    is_missing = numbers < 0
    if not is_missing.any():
        return
    sample = int(np.argmax(is_missing.any(axis=1)))
    column = int(np.argmax(is_missing[sample]))
    others = int((~is_missing[:, column]).sum())
    raise FormatError(
        files.path,
        problem=f"sample {sample} ({_text(groups.keys[sample])}) has no file that ends in .{columns[column]}, which "
        f"{format_count(others, 'other sample')} {'has' if others == 1 else 'have'}",
        fix=f"Samples need the same endings everywhere; add what is missing. {_AS_FILES}",
    )


def _samples(
    files: FileList,
    numbers: npt.NDArray[np.int64],
    columns: Sequence[str],
    names: Sequence[str],
    facts: dict[str, Any],
) -> Samples:
    index = SampleIndex(
        columns=tuple(columns),
        offsets=files.offsets[numbers],
        sizes=files.sizes[numbers],
        names=names,
        facts=facts,
        checksums=None if files.checksums is None else files.checksums[numbers],
    )
    return Samples(index=index, numbers=numbers)


def _plain(files: FileList, *, as_bytes: bool) -> Samples:
    ends = files.names.ends.tolist()
    text, starts = files.names.text, [0, *ends[:-1]]
    rows = [(_text(text[a:b]), i) for i, (a, b) in enumerate(zip(starts, ends, strict=True))]
    shown = rows if as_bytes else [row for row in rows if not _is_hidden(row[0])]
    if not shown:
        raise FormatError(files.path, problem="it has no files, so there are no samples")
    if len({row[0] for row in shown}) != len(shown):
        raise FormatError(files.path, problem=f"there are two files of the name {_double(shown)}")
    members = ungrouped_members(shown, as_bytes=as_bytes)
    ((column, found),) = members.rows.items()
    if len(found) != len(rows):
        left = format_count(len(rows) - len(found), "file")
        _log.info("%s: %s that are hidden or no pictures are left out", files.path, left)
    numbers = np.array([row[1] for row in found], np.int64).reshape(-1, 1)
    return _samples(files, numbers, [column], members.keys, {"group": False, "bytes": as_bytes})


def _double(rows: list[tuple[str, int]]) -> str:
    seen: set[str] = set()
    return next(name for name, _ in rows if name in seen or seen.add(name))  # type: ignore[func-returns-value]


def _is_hidden(name: str) -> bool:
    if name.startswith((".", "__MACOSX/")) or "/." in name:
        return True
    return name.rpartition("/")[2].startswith("__")


def _note_left_out(files: FileList, is_used: npt.NDArray[np.bool_]) -> None:
    left = np.flatnonzero(~is_used)
    if len(left):
        count, name = format_count(len(left), "file"), files.name(int(left[0]))
        _log.info("%s: %s that are hidden or have no ending are left out, such as %s", files.path, count, name)
