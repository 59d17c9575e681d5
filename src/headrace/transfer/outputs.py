"""Where the bytes of a tar or zip go: a file that gets its name at the end, or a stream of somebody else's."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Protocol

from headrace.formats.barecat.names import beside_path

if TYPE_CHECKING:
    from typing import IO, BinaryIO

__all__ = ["FileOutput", "Output", "StreamOutput", "open_output"]


class Output(Protocol):
    """Takes bytes, and in the end is kept or thrown away."""

    @property
    def file(self) -> IO[bytes]:
        """What is written to."""
        ...

    def keep(self) -> None:
        """All is there."""
        ...

    def drop(self) -> None:
        """Throw away what is there, as far as that is possible."""
        ...


class FileOutput:
    """A file that is written beside its final name."""

    def __init__(self, path: str) -> None:
        self._path, self._beside = path, beside_path(path)
        self.file: IO[bytes] = open(self._beside, "xb")  # noqa: SIM115  # closed by keep and drop

    def keep(self) -> None:
        """Give it its name."""
        self.file.close()
        os.replace(self._beside, self._path)

    def drop(self) -> None:
        """Remove it."""
        with contextlib.suppress(OSError):
            self.file.close()
        os.unlink(self._beside)


class StreamOutput:
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


def open_output(target: str | BinaryIO) -> Output:
    """What writes to a path or a stream."""
    return FileOutput(target) if isinstance(target, str) else StreamOutput(target)
