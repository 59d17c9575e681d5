"""``headrace.verify``: is a dataset intact?"""

from __future__ import annotations

import contextlib
import os
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.errors import HeadraceError
from headrace.formats.content import explained
from headrace.formats.open import FORMATS, all_formats, locate, open_place
from headrace.formats.ray_tasks import TaskCall, check_engine, open_tasks
from headrace.formats.report import Found
from headrace.formats.sets.composite import ProgressAhead, found_in
from headrace.formats.sets.concatenation import ConcatDataset
from headrace.storage import storage_of
from headrace.types import Problem, Report

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from headrace.errors import PathLike
    from headrace.formats.contract import Format
    from headrace.formats.open import Place
    from headrace.formats.ray_tasks import EngineName
    from headrace.types import Dataset, Progress

__all__ = ["verify"]


def verify(
    path: PathLike | Sequence[PathLike],
    *,
    decode: bool = False,
    workers: int | None = None,
    progress: Progress | None = None,
    follow_links: bool = False,
    engine: EngineName = "local",
    address: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    cache_dir: PathLike | None = None,
    cache_size: int | str | None = None,
) -> Report:
    """Check a dataset's structure and every checksum it has.

    Args:
        path: a dataset of any known format; as for ``headrace.open`` also a URL, a pattern or a list.
        decode: also decode every value.
        workers: threads; by default one for each core.
        progress: called as the work advances, for example a ``ProgressBar``.
        follow_links: also follow shards and an annex that are symbolic links.
        engine: ``"ray"``: each file of a set is checked by a task of a Ray cluster; the report is the same.
        address: of the Ray cluster, as ``ray.init`` takes it; by default one is started on this machine.
        storage_options: how a store is reached, see ``headrace.open``; and so are ``cache_dir`` and ``cache_size``.
        cache_dir: keeps what was read from stores.
        cache_size: bytes that it may take.

    Returns:
        A report that names every bad sample; ``report.ok`` is True when there is none.
    """
    place = locate(path, storage=storage_of(storage_options, cache_dir, cache_size))
    links: dict[str, Any] = place.format.link_options(follow_links)
    options = links | {"decode": decode, "workers": workers}
    if check_engine(engine, address) == "ray":
        return _verify_by_tasks(place, links, options, address, progress)
    if not place.is_set:
        return _verify_one(place.format, list(place.paths) if place.is_list else place.paths[0], progress, options)
    total = Found()
    opened: list[Dataset] = []  # each of them once, so that nothing is told twice
    try:
        for part in place.paths:
            places = partial(_places_after, total.samples)
            ahead = ProgressAhead.after(progress, total, None, path=part, find=places)
            total.add(_verify_part(place.format, part, ahead, total.samples, options, opened))
        if not total.problems:
            total.problems += _problem_of(lambda: _join(place, opened, links))
    finally:
        for dataset in opened:
            dataset.close()
    return total.report(place.name or place.paths[0])


def _verify_by_tasks(
    place: Place,
    links: dict[str, Any],
    options: dict[str, Any],
    address: str | None,
    progress: Progress | None,
) -> Report:
    """The same by tasks of a cluster: one for each file of a set, and one for what is no set."""
    total, name = Found(), place.format.name
    with open_tasks(address=address, workers=options["workers"], needed_by="verify(engine='ray')") as tasks:
        if not place.is_set:
            where = list(place.paths) if place.is_list else place.paths[0]
            ((_, answer),) = tasks.map([TaskCall(place.paths[0], _report_of, (name, where, options))])
            return _report_or_raise(answer)
        each = options | {"workers": 1}
        answers: dict[int, Report | Exception] = {}
        seen = Found()
        for number, answer in tasks.map([TaskCall(part, _report_of, (name, part, each)) for part in place.paths]):
            answers[number] = answer
            seen.add(_found_in_part(answer, place.paths[number], 0))
            if progress is not None:
                progress(seen.samples, None, seen.size_bytes)
    for number, part in enumerate(place.paths):
        total.add(_found_in_part(answers[number], part, total.samples))
    if not total.problems:
        total.problems += _problem_of(lambda: _join(place, [], links))
    return total.report(place.name or place.paths[0])


def _report_of(format: str, path: str | list[str], options: dict[str, Any]) -> Report | Exception:
    """Check a path, in the process of a task."""
    try:
        return _verify_one(FORMATS.load(format), path, None, options)
    except (HeadraceError, OSError) as error:
        return error


def _report_or_raise(answer: Report | Exception) -> Report:
    if isinstance(answer, Exception):
        raise answer
    return answer


def _join(place: Place, opened: list[Dataset], links: dict[str, Any]) -> None:
    """Raise HeadraceError when files do not make one dataset."""
    if not opened:  # the format checks paths itself
        open_place(place, **links).close()
    elif len(opened) > 1:
        ConcatDataset(tuple(opened), place.name or opened[0].path)


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
        found.check_reads(path)
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
        answer: Report | Exception = _verify_one(found, path, progress, options, opened)
    except (HeadraceError, OSError) as error:
        answer = error
    return _found_in_part(answer, path, first)


def _found_in_part(answer: Report | Exception, path: str, first: int) -> Found:
    if isinstance(answer, Exception):
        return Found(problems=[Problem(sample=None, field=None, message=str(answer))])
    return found_in(answer, path, _places_after(first, answer.bad_samples))


def _places_after(first: int, samples: Sequence[int]) -> dict[int, int]:
    return {sample: first + sample for sample in samples}


def _problem_of(action: Callable[[], None]) -> list[Problem]:
    try:
        action()
    except HeadraceError as error:
        return [Problem(sample=None, field=None, message=str(error))]
    return []
