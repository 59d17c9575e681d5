"""Where the bytes of a tar or zip go: a file that gets its name at the end, or somebody else's stream."""

from __future__ import annotations

import contextlib
from typing import IO, TYPE_CHECKING, TypeAlias

from headrace.storage import AtomicFile

if TYPE_CHECKING:
    from typing import BinaryIO

__all__ = ["Target", "TargetFile", "TargetStream", "open_target"]


class TargetFile:
    """A file that gets its name when it is complete."""

    def __init__(self, path: str) -> None:
        self._atomic = AtomicFile(path)
        self.file: IO[bytes] = self._atomic.stream()

    def keep(self) -> None:
        """Put it on the disk and give it its name."""
        self.file.close()
        self._atomic.commit()

    def drop(self) -> None:
        """Remove it."""
        with contextlib.suppress(OSError):
            self.file.close()
        self._atomic.abort()


class TargetStream:
    """A stream such as standard output.

    What went through cannot be taken back, but nothing follows after ``drop``: whoever reads then misses the end, and
    does not take half for the whole.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._count = 0
        self._is_dropped = False

    @property
    def file(self) -> IO[bytes]:
        """Itself."""
        return self  # type: ignore[return-value]  # all that writers of tar and zip ask for

    def write(self, data: bytes) -> int:
        """Pass bytes on."""
        if not self._is_dropped:
            self._stream.write(data)
            self._count += len(data)
        return len(data)

    def tell(self) -> int:
        """How many bytes went through."""
        return self._count

    def flush(self) -> None:
        """Pass on what is waiting."""
        if not self._is_dropped:
            self._stream.flush()

    def keep(self) -> None:
        """Pass on what is waiting; the stream stays open."""
        self.flush()

    def drop(self) -> None:
        """Let nothing more through."""
        self._is_dropped = True


Target: TypeAlias = TargetFile | TargetStream
"""Takes bytes in ``file``; in the end ``keep`` or ``drop`` is called."""


def open_target(target: str | BinaryIO) -> Target:
    """What writes to a path or a stream."""
    return TargetFile(target) if isinstance(target, str) else TargetStream(target)
