"""Samples from and to tar, zip, folders and streams.

A dataset is read in any order and a tar only from the front, so an archive (.barecat) stands between them for a while:
beside the target, hidden, and removed in the end, however it ends. It takes as much space as the samples.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from typing import TYPE_CHECKING, Any

from headrace.formats.barecat import remove_archive
from headrace.formats.barecat.names import beside_path
from headrace.transfer.containers import name_of
from headrace.transfer.convert import convert as convert_files
from headrace.transfer.samples import convert

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from headrace.formats.report import Transfer
    from headrace.types import Progress

__all__ = ["files_to_samples", "samples_to_files"]


def files_to_samples(
    source: str | BinaryIO,
    path: str,
    *,
    source_kind: str | None = None,
    max_bytes: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Transfer:
    """Write the files of a tar, zip or stream as samples into a .beton or .ffr.

    Args:
        source: what is read; see ``headrace.transfer.convert.convert``.
        path: the dataset to write.
        source_kind: what the source is where no ending says so.
        max_bytes: refuse more content than this.
        progress: called as the work advances: first with files, then with samples.
        **options: what ``headrace.transfer.samples.convert`` takes.
    """
    with _archive_beside(path, source) as between:
        result = convert_files(source, between, source_kind=source_kind, max_bytes=max_bytes, progress=progress)
        convert(between, path, progress=progress or False, **options)
    return result


def samples_to_files(
    path: str,
    target: str | BinaryIO,
    *,
    target_kind: str | None = None,
    force: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> Transfer:
    """Write the samples of a .beton or .ffr as files into a tar, zip, folder or stream.

    Args:
        path: the dataset.
        target: what is made; see ``headrace.transfer.convert.convert``.
        target_kind: what the target will be where no ending says so.
        force: replace what is there.
        progress: called as the work advances: first with samples, then with files.
        **options: what ``headrace.transfer.samples.convert`` takes.
    """
    with _archive_beside(target, path) as between:
        convert(path, between, progress=progress or False, **options)
        return convert_files(between, target, target_kind=target_kind, force=force, progress=progress)


@contextlib.contextmanager
def _archive_beside(target: str | BinaryIO, source: str | BinaryIO) -> Iterator[str]:
    """The name of an archive for a while, in the folder of the target; for a stream, where temporary files go."""
    place = os.path.abspath(target) if isinstance(target, str) else os.path.join(tempfile.gettempdir(), "headrace")
    path = f"{beside_path(place)}.barecat"
    try:
        yield path
    except Exception as error:
        known = source if isinstance(source, str) else name_of(source)  # nobody has seen the archive
        error.args = tuple(arg.replace(path, known) if isinstance(arg, str) else arg for arg in error.args)
        raise
    finally:
        remove_archive(path)
