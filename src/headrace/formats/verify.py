"""``headrace.verify``: is a dataset intact?"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

from headrace.errors import HeadraceError
from headrace.formats.content import explained
from headrace.formats.open import all_formats, locate, open_dataset
from headrace.formats.report import Found
from headrace.formats.sets.composite import ProgressAhead, found_in
from headrace.formats.sets.concatenation import ConcatDataset
from headrace.types import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.errors import PathLike
    from headrace.formats.contract import Format
    from headrace.types import Dataset, Progress, Report

__all__ = ["verify"]


def verify(
    path: PathLike | Sequence[PathLike],
    *,
    decode: bool = False,
    workers: int | None = None,
    progress: Progress | None = None,
    follow_links: bool = False,
) -> Report:
    """Check a dataset's structure and every checksum it has.

    Args:
        path: a dataset of any known format; as for ``headrace.open`` also a pattern or a list.
        decode: also decode every value.
        workers: threads; by default one for each core.
        progress: called as the work advances, for example a ``ProgressBar``.
        follow_links: also follow shards and an annex that are symbolic links.

    Returns:
        A report that names every bad sample; ``report.ok`` is True when there is none.
    """
    place = locate(path)
    links: dict[str, Any] = place.format.link_options(follow_links)
    options = links | {"decode": decode, "workers": workers}
    if not place.is_set:
        return _verify_one(place.format, list(place.paths) if place.is_list else place.paths[0], progress, options)
    total = Found()
    opened: list[Dataset] = []  # each of them once, so that nothing is told twice
    try:
        for part in place.paths:
            ahead = ProgressAhead.after(progress, total, None)
            total.add(_verify_part(place.format, part, ahead, total.samples, options, opened))
        if not total.problems:
            total.problems += _problem_of(lambda: _join(path, opened, links))
    finally:
        for dataset in opened:
            dataset.close()
    return total.report(place.name or place.paths[0])


def _join(path: PathLike | Sequence[PathLike], opened: list[Dataset], links: dict[str, Any]) -> None:
    """Raise HeadraceError when files do not make one dataset."""
    if not opened:  # the format checks paths itself
        open_dataset(path, **links).close()
    elif len(opened) > 1:
        ConcatDataset(tuple(opened), os.fspath(path) if isinstance(path, str | os.PathLike) else opened[0].path)


def _verify_one(
    found: Format,
    path: PathLike | Sequence[PathLike],
    progress: Progress | None,
    options: dict[str, Any],
    opened: list[Dataset] | None = None,
) -> Report:
    """Check a path; the dataset goes to ``opened``, or is closed."""
    first = path if isinstance(path, str | os.PathLike) else path[0]
    with explained(first, all_formats):
        if found.verify is not None:
            return found.verify(path, progress=progress, **options)
        opening = {name: value for name, value in options.items() if name == "follow_links"}
        dataset = found.open_checked(path, **opening)
    if opened is not None:
        opened.append(dataset)
    with dataset if opened is None else contextlib.nullcontext():
        return dataset.verify(decode=options["decode"], workers=options["workers"], progress=progress)


def _verify_part(
    found: Format, path: str, progress: Progress | None, first: int, options: dict[str, Any], opened: list[Dataset]
) -> Found:
    """What is found in a file of many; one that cannot even be opened is a problem, and the others are checked."""
    try:
        report = _verify_one(found, path, progress, options, opened)
    except (HeadraceError, OSError) as error:
        return Found(problems=[Problem(sample=None, field=None, message=str(error))])
    return found_in(report, path, {sample: first + sample for sample in report.bad_samples})


def _problem_of(action: Callable[[], None]) -> list[Problem]:
    try:
        action()
    except HeadraceError as error:
        return [Problem(sample=None, field=None, message=str(error))]
    return []
