from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from headrace.storage import Spool

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("max_bytes", [0, 7, 1000])
def test_what_goes_in_comes_out(tmp_path: Path, max_bytes: int) -> None:
    before = len(os.listdir("/proc/self/fd"))
    spool = Spool(str(tmp_path), max_bytes=max_bytes)
    for i in range(10):
        spool.write(b"%d" % i * 3)
    assert len(os.listdir("/proc/self/fd")) == before + (max_bytes < 1000)
    spool.seek(4)
    assert spool.read(4) == b"1122"
    assert spool.read() == b"2333444555666777888999"
    spool.write(b"end")
    spool.seek(30)
    assert spool.read() == b"end"
    spool.close()
    assert os.listdir(tmp_path) == []
    assert len(os.listdir("/proc/self/fd")) == before
