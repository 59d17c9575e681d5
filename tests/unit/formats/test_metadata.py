"""Mode, owner and time of files and directories."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from headrace.formats.metadata import Metadata, check_metadata, time_ns

if TYPE_CHECKING:
    from pathlib import Path


def test_metadata_of_the_disk(tmp_path: Path) -> None:
    status = os.stat(tmp_path)
    assert Metadata.of(status) == (status.st_mode, status.st_uid, status.st_gid, status.st_mtime_ns)
    check_metadata("a", Metadata.of(status))
    with pytest.raises(TypeError, match="a: mode must be an int"):
        check_metadata("a", Metadata(mode="x"))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="64 bits"):
        check_metadata("a", Metadata(uid=2**63))


def test_times_that_no_index_can_hold() -> None:
    assert [time_ns(value) for value in (0, -1.5, 1e300, float("nan"))] == [0, -1_500_000_000, None, None]
