"""The index of an archive in a store, brought here as a whole.

SQLite opens files by their names. So the copy has one, in a hidden folder among the temporary files, which only this
user can read. It goes when the archive is closed or the process ends; what a killed process has left, the next one
removes.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from typing import TYPE_CHECKING, BinaryIO, cast

from headrace.storage import HiddenFolder, StoredStream, open_stored

if TYPE_CHECKING:
    from headrace.storage import StoredFile

__all__ = ["RemoteIndex"]

_COPIED_BYTES = 32 << 20
_OLD_INDEX = "-sqlite-index"


class RemoteIndex:
    """The index of an archive in a store, copied to this machine.

    Args:
        path: RemotePath of the archive.

    Attributes:
        place: where the copy is.
    """

    def __init__(self, path: str) -> None:
        folder = HiddenFolder(os.path.join(tempfile.gettempdir(), "headrace-index"))
        self._end = weakref.finalize(self, folder.remove)
        try:
            os.chmod(folder.path, 0o700)
            self.place = os.path.join(folder.path, "index")
            stored = _open_index(path)
            try:
                with open(self.place, "xb") as file:
                    shutil.copyfileobj(cast("BinaryIO", StoredStream(stored)), file, _COPIED_BYTES)
                stored.check()
            finally:
                stored.close()
        except BaseException:
            self._end()
            raise

    def close(self) -> None:
        """Remove the copy."""
        self._end()


def _open_index(path: str) -> StoredFile:
    try:
        return open_stored(path)
    except FileNotFoundError:
        try:
            return open_stored(path + _OLD_INDEX)
        except FileNotFoundError:
            raise FileNotFoundError(f"{path} does not exist") from None
