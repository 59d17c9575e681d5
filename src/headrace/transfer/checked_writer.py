"""A file that is looked at before it gets its name."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from typing import TYPE_CHECKING, Any

from headrace.annex import side_path
from headrace.formats.contract import BaseWriter
from headrace.storage import HiddenFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.types import Encoder, Writer

__all__ = ["CheckedWriter", "HiddenTarget"]


class HiddenTarget:
    """A hidden folder beside a target in which it is made.

    Args:
        path: the target.
        force: replace it, with what belongs to it and lies beside.
    """

    def __init__(self, path: str, *, force: bool) -> None:
        self._target, self._force = os.path.abspath(path), force
        self._folder = HiddenFolder(path)
        self.path = os.path.join(self._folder.path, os.path.basename(self._target))
        self.remove = self._folder.remove

    def hand_over(self) -> None:
        """Give what was made its name; one file takes the place of another in one step."""
        names = os.listdir(self._folder.path)
        is_plain = set(names) <= {os.path.basename(self._target), os.path.basename(side_path(self._target))}
        if not (self._force and is_plain and os.path.isfile(self._target)):
            self._folder.hand_over(self._old_files() if self._force else [])
            return
        os.chmod(self.path, stat.S_IMODE(os.stat(self._target).st_mode))
        os.replace(self.path, self._target)
        if len(names) > 1:
            os.replace(side_path(self.path), side_path(self._target))
        else:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(side_path(self._target))  # of what was there before
        self._folder.remove()

    def _old_files(self) -> list[str]:
        """What is replaced: the target, its shards and its annex."""
        home, name = os.path.split(self._target)
        form = re.compile(rf"{re.escape(name)}(?:\.annex|-shard-\d+|-.*index)?", re.DOTALL)
        return [os.path.join(home, one) for one in sorted(os.listdir(home)) if form.fullmatch(one)]


class CheckedWriter(BaseWriter):
    """Writes in a hidden folder beside the target; a check decides whether what was written gets its name.

    Args:
        path: the target.
        create: makes the writer for a path.
        check: looks at the file; what it raises ends the writing, and nothing is left behind.
        force: replace the target, with what belongs to it and lies beside.
    """

    def __init__(
        self,
        path: str,
        create: Callable[[str], Writer[Any]],
        check: Callable[[Sequence[str]], None],
        *,
        force: bool,
    ) -> None:
        self._check, self._hidden = check, HiddenTarget(path, force=force)
        try:
            self._writer = create(self._hidden.path)
        except BaseException:
            self._hidden.remove()
            raise

    @property
    def encoder(self) -> Encoder[Any]:
        """What encodes samples for this writer."""
        return self._writer.encoder

    @property
    def size_bytes(self) -> int:
        """Bytes of the samples taken so far."""
        return self._writer.size_bytes

    def __len__(self) -> int:
        """Samples taken so far."""
        return len(self._writer)

    def append(self, sample: Any, *, name: str | None = None) -> None:
        """Add one sample."""
        self._writer.append(sample, name=name)

    def append_chunk(self, chunk: Any, *, names: Sequence[str] | None = None) -> None:
        """Add samples that ``encoder`` has encoded, and their names; chunks must come in order."""
        self._writer.append_chunk(chunk, names=names)

    def close(self) -> None:
        """Finish the file, look at it, and give it its name."""
        try:
            self._writer.close()
            self._check([self._hidden.path])
            self._hidden.hand_over()
        except BaseException:
            self._hidden.remove()
            raise

    def abort(self) -> None:
        """Throw away what was written; nothing is left behind."""
        try:
            self._writer.abort()
        finally:
            self._hidden.remove()
