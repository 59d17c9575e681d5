"""Changes of an archive."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, cast

from headrace.formats.barecat.index.rows import Metadata, check_metadata
from headrace.formats.barecat.names import clean_name

if TYPE_CHECKING:
    from typing import BinaryIO

    from headrace.errors import PathLike
    from headrace.formats.barecat.edit.editor import Editor
    from headrace.formats.barecat.index.queries import Index
    from headrace.types import Buffer

__all__ = ["Changing"]


class Changing:
    """The part of an archive that changes it."""

    index: Index

    @property
    def editor(self) -> Editor:
        """What changes the archive."""
        raise NotImplementedError

    def __setitem__(self, name: str, data: Buffer) -> None:
        self.add(name, data)

    def __delitem__(self, name: str) -> None:
        self.remove(name)

    def add(
        self,
        name: PathLike,
        data: Buffer | BinaryIO,
        *,
        size: int | None = None,
        metadata: Metadata | None = None,
        replace: bool = False,
    ) -> None:
        """Add a file.

        Args:
            name: its path in the archive; directories on the way are made.
            data: bytes, or a file open for reading.
            size: of a file open for reading, if it is known; then it is stored a piece at a time.
            metadata: mode, owner and time.
            replace: replace a file that exists; otherwise that is an error.
        """
        cleaned, about = clean_name(name), metadata or Metadata()
        check_metadata(cleaned, about)
        editor = self.editor
        if hasattr(data, "read"):
            if size is None or (replace and self.index.is_file(cleaned)):
                data = cast("BinaryIO", data).read()
            else:
                editor.add_stream(cleaned, cast("BinaryIO", data), size, about)
                return
        content = _bytes_of(cleaned, data)
        if replace and self.index.is_file(cleaned):
            editor.update(cleaned, content, about)
        else:
            editor.add(cleaned, content, about)

    def add_by_path(self, path: PathLike, name: PathLike | None = None, *, replace: bool = False) -> None:
        """Add a file from the disk with its metadata; of a directory only itself, not what is in it.

        Args:
            path: on the disk; links are followed.
            name: in the archive; by default the same.
            replace: take what is there already for replaced, instead of raising.
        """
        target = path if name is None else name
        status = os.stat(path)
        about = Metadata.of(status)
        if os.path.isdir(path):
            self.mkdir(target, metadata=about, exist_ok=replace)
            return
        with open(path, "rb", buffering=0) as file:
            self.add(target, cast("BinaryIO", file), size=status.st_size, metadata=about, replace=replace)

    def update_file(self, name: PathLike, data: Buffer | BinaryIO, *, metadata: Metadata | None = None) -> None:
        """Replace the content of a file, which must exist: in place if it is not longer, else at the end."""
        cleaned = clean_name(name)
        content = _bytes_of(cleaned, cast("BinaryIO", data).read() if hasattr(data, "read") else data)
        if metadata is not None:
            check_metadata(cleaned, metadata)
        self.editor.update(cleaned, content, metadata)

    def remove(self, name: PathLike) -> None:
        """Remove a file."""
        self.editor.remove(clean_name(name))

    def mkdir(
        self, name: PathLike, *, mode: int = 0o755, metadata: Metadata | None = None, exist_ok: bool = False
    ) -> None:
        """Make a directory, and those it lies in."""
        cleaned, about = clean_name(name), metadata or Metadata(mode=mode)
        check_metadata(cleaned, about)
        self.editor.make_dir(cleaned, about, exist_ok=exist_ok)

    def rmdir(self, name: PathLike) -> None:
        """Remove an empty directory."""
        self.editor.remove_dir(clean_name(name))

    def rmtree(self, name: PathLike) -> None:
        """Remove a directory and everything below."""
        self.editor.remove_tree(clean_name(name))

    def rename(self, old: PathLike, new: PathLike) -> None:
        """Give a file or directory another name; there must be nothing of that name."""
        self.editor.rename(clean_name(old), clean_name(new))

    def set_metadata(self, name: PathLike, metadata: Metadata) -> None:
        """Set those of mode, owner and time that are not None."""
        cleaned = clean_name(name)
        check_metadata(cleaned, metadata)
        self.editor.set_metadata(cleaned, metadata)

    def clear(self) -> None:
        """Remove everything."""
        self.rmtree("")


def _bytes_of(name: str, data: object) -> bytes:
    """The bytes of anything that has some: an array of numbers has more of them than entries."""
    if isinstance(data, bytes):
        return data
    try:
        return memoryview(data).tobytes()  # type: ignore[arg-type]
    except TypeError:
        kind = type(data).__name__
        raise TypeError(f"{name}: bytes are needed, or a file open for reading them; got {kind}") from None
