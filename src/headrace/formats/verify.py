"""``headrace.verify``: is a dataset intact?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.formats.content import explained
from headrace.formats.open import all_formats, find_format

if TYPE_CHECKING:
    from headrace.errors import PathLike
    from headrace.types import Progress, Report

__all__ = ["verify"]


def verify(
    path: PathLike,
    *,
    decode: bool = False,
    workers: int | None = None,
    progress: Progress | None = None,
    follow_links: bool = False,
) -> Report:
    """Check a dataset's structure and every checksum it has.

    Args:
        path: a dataset of any known format.
        decode: also decode every value.
        workers: threads; by default one for each core.
        progress: called as the work advances, for example a ``ProgressBar``.
        follow_links: also follow shards and an annex that are symbolic links.

    Returns:
        A report that names every bad sample; ``report.ok`` is True when there is none.
    """
    found = find_format(path)
    options = found.link_options(follow_links)
    with explained(path, all_formats):
        if found.verify is not None:
            return found.verify(path, decode=decode, workers=workers, progress=progress, **options)
        dataset = found.open_checked(path, **options)
    return dataset.verify(decode=decode, workers=workers, progress=progress)
