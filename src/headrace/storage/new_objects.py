"""Objects that a dataset in a store consists of: made as files of this machine, then uploaded together.

Contract: one thread. The files are written in a hidden folder below the usual temporary one (``TMPDIR``), which nobody
else may read. Then each is uploaded and proven; what makes the dataset visible, the object of its own name, comes last.
What fails, Ctrl-C included, is taken back: objects that this upload made are removed, and one that replaced another
stays. The folder goes in any case; what ``kill -9`` leaves of it, the next upload removes.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from headrace.storage.object_folder import ObjectFolder, upload_folder

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

    from headrace.storage.remote_path import RemotePath
    from headrace.storage.upload import Upload
    from headrace.types import Progress

__all__ = ["NewObjects"]


class NewObjects:
    """A dataset that is made here and appears in a store.

    Args:
        path: URL of the dataset.
        names: of all objects that belong to such a dataset, relative to the folder that it is in.
        fixed: what all of these names begin with.
        force: replace objects that there are.

    Attributes:
        path: where the dataset is to be written, with the name that it has in the store.

    Raises:
        FileExistsError: there is one, and it is not to be replaced.
        RemoteError: the store does not answer, or does not let us in.
    """

    def __init__(self, path: RemotePath, *, names: re.Pattern[str], fixed: str, force: bool) -> None:
        self._objects = ObjectFolder(path)
        self.url, self._name = self._objects.url, self._objects.name
        self._names, self._fixed, self._force = names, fixed, force
        self._check_new(self._existing())
        self._folder = upload_folder()
        self.folder = self._folder.path
        self.path = os.path.join(self.folder, self._name)
        self.remove = self._folder.remove

    def _existing(self) -> set[str]:
        """Names of what there is in the store of such a dataset."""
        return set(self._objects.existing(self._names, self._fixed))

    def _check_new(self, there: set[str]) -> None:
        if there and not self._force:
            raise FileExistsError(f"{self.url}/{min(there)} exists; give force=True (--force) to replace it")

    def upload(self, progress: Progress | None = None) -> None:
        """Upload all files, and remove what they replace.

        Args:
            progress: called with parts that are done, all parts, and bytes.
        """
        files = self._files()
        others = [name for name in files if not self._names.fullmatch(name)]
        there = self._existing() | {name for name in others if self._objects.head(name) is not None}
        self._check_new(there)
        uploads = {name: self._objects.upload(name, path) for name, path in files.items()}
        done: list[str] = []
        try:
            for name, upload in uploads.items():
                done.append(name)
                upload.send(None if progress is None else _Telling(list(uploads.values()), progress))
            for name in there - files.keys():
                self._objects.delete(name)
        except BaseException as error:
            for name in reversed(done):
                if name not in there or uploads[name].is_damaged:
                    _take_back(uploads[name], error)
            raise

    def _files(self) -> dict[str, str]:
        """Paths of the files by name: what makes the dataset visible comes last."""
        found = {os.path.relpath(path, self.folder): path for path in _below(self.folder)}
        return {name: found[name] for name in sorted(found, key=lambda name: (name == self._name, name))}


class _Telling:
    """Tells how far several uploads are."""

    def __init__(self, uploads: list[Upload], progress: Progress) -> None:
        self._uploads, self._progress = uploads, progress

    def __call__(self) -> None:
        sent = sum(upload.parts_sent for upload in self._uploads)
        size = sum(min(upload.parts_sent * upload.part_bytes, upload.size_bytes) for upload in self._uploads)
        self._progress(sent, sum(upload.parts for upload in self._uploads), size)


def _below(folder: str) -> Iterator[str]:
    for home, _, names in os.walk(folder):
        yield from (os.path.join(home, name) for name in names)


def _take_back(upload: Upload, error: BaseException) -> None:
    with contextlib.suppress(Exception):
        upload.remove()
    if upload.is_there:
        error.add_note(f"{upload.url} could not be removed; remove it")
