"""A stand-in for objects of a store: of a local file, only the bytes that were asked for can be seen.

``mapped`` is poisoned but for what was held. ``region`` gives memory of its own, with poison between the spans, so that
whoever looks at bytes that he did not ask for finds wrong ones. What is brought is counted.
"""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.errors import ClosedError
from headrace.storage import RemotePath

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt
    import pytest

__all__ = ["PatchyFile", "PatchyStore"]

POISON = 0xEE
_BETWEEN = 7


class PatchyAnnouncement:
    """Bytes of a file that were announced, until it is closed."""

    def __init__(self, store: PatchyStore, path: str, is_brought: npt.NDArray[np.bool_]) -> None:
        self._store, self.path, self.is_brought, self.is_closed = store, path, is_brought, False
        self.size_bytes = int(is_brought.sum())
        store.announced.append(self)

    is_cached = False

    def distrust(self) -> None: ...

    def needed_again(self, use: float, next_use: float) -> None: ...

    def wait(self) -> None:
        """Everything is here."""

    def close(self, *, used_up: bool = False) -> None:
        """Let it go."""
        if not self.is_closed:
            self._store.announced.remove(self)
        self.is_closed = True


class PatchyStore:
    """Objects ``s3://patchy/NAME`` over the files of a folder, and what was brought of them.

    Attributes:
        held_bytes: of all ``hold`` calls.
        region_bytes: of all ``region`` calls.
        regions: calls of ``region``.
        unannounced: those of them that were not announced before.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.announced: list[PatchyAnnouncement] = []
        self.reset()

    def reset(self) -> None:
        """Begin to count anew."""
        self.held_bytes = self.region_bytes = self.regions = self.unannounced = self.opened = 0
        self.largest_region = 0

    def install(self, monkeypatch: pytest.MonkeyPatch) -> PatchyStore:
        """Let ``open_stored`` open such objects."""
        module: Any = types.ModuleType("headrace.storage.remote_file")
        module.RemoteFile = lambda path: PatchyFile(self, path)
        monkeypatch.setitem(sys.modules, "headrace.storage.remote_file", module)
        return self

    def url(self, name: str) -> RemotePath:
        """The address of a file of the folder."""
        return RemotePath(f"s3://patchy/{name}")

    @property
    def open_announcements(self) -> int:
        """Announced and not closed."""
        return len(self.announced)

    @property
    def brought_bytes(self) -> int:
        """All together."""
        return self.held_bytes + self.region_bytes


class PatchyFile:
    """One such object; see above."""

    is_local = False

    def __init__(self, store: PatchyStore, path: RemotePath) -> None:
        self._store, self.path = store, path
        self._bytes = np.frombuffer((store.folder / str(path).removeprefix("s3://patchy/")).read_bytes(), np.uint8)
        self.size_bytes = len(self._bytes)
        self._seen = np.full(self.size_bytes, POISON, np.uint8)
        self._is_held = np.zeros(self.size_bytes, bool)
        self._is_closed = False
        store.opened += 1

    @property
    def mapped(self) -> npt.NDArray[np.uint8]:
        """What was held, poison elsewhere."""
        self._check_open()
        view = self._seen[:]
        view.flags.writeable = False
        return view

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError(f"{self.path}: the dataset is closed; open it again")

    def hold(self, start: int, end: int) -> npt.NDArray[np.uint8]:
        """Show some bytes for good."""
        self._check_open()
        assert 0 <= start <= end <= self.size_bytes
        self._store.held_bytes += int((~self._is_held[start:end]).sum())
        self._is_held[start:end] = True
        self._seen[start:end] = self._bytes[start:end]
        return self.mapped[start:end]

    def region(
        self, offsets: npt.NDArray[np.uint64], sizes: npt.NDArray[np.uint64]
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint64]]:
        """Copies, with poison between them."""
        self._check_open()
        self._check_spans(offsets, sizes)
        starts = _BETWEEN + np.concatenate([[0], np.cumsum(sizes.astype(np.int64) + _BETWEEN)])
        base = np.full(int(starts[-1]), POISON, np.uint8)
        for start, offset, size in zip(starts.tolist(), offsets.tolist(), sizes.tolist(), strict=False):
            base[start : start + size] = self._bytes[offset : offset + size]
        store, size_bytes = self._store, int(sizes.sum())
        store.region_bytes += size_bytes
        store.largest_region = max(store.largest_region, size_bytes)
        store.regions += 1
        wanted = self._touched(offsets, sizes) & ~self._is_held
        mine = (found for found in store.announced if found.path == self.path)
        store.unannounced += bool(wanted.any()) and not any((found.is_brought | ~wanted).all() for found in mine)
        return base, starts[:-1].astype(np.uint64)

    def announce(self, offsets: npt.NDArray[np.uint64], sizes: npt.NDArray[np.uint64]) -> PatchyAnnouncement:
        """Remember what was announced."""
        self._check_spans(offsets, sizes)
        return PatchyAnnouncement(self._store, self.path, self._touched(offsets, sizes))

    def _touched(self, offsets: npt.NDArray[np.uint64], sizes: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        touched = np.zeros(self.size_bytes, bool)
        for offset, size in zip(offsets.tolist(), sizes.tolist(), strict=True):
            touched[offset : offset + size] = True
        return touched

    def _check_spans(self, offsets: npt.NDArray[np.uint64], sizes: npt.NDArray[np.uint64]) -> None:
        assert offsets.dtype == sizes.dtype == np.uint64
        assert offsets.ndim == sizes.ndim == 1
        assert len(offsets) == len(sizes)
        for offset, size in zip(offsets.tolist(), sizes.tolist(), strict=True):
            assert offset + size <= self.size_bytes

    def check(self) -> None:
        """Nothing goes wrong here."""

    def close(self) -> None:
        """No more is shown."""
        self._is_closed = True
