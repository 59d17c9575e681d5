from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.faults.supervisor import supervised, why_not

from headrace.storage import FolderWriter

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_to_replace_a_file_takes_no_more_calls_than_it_must(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"old")

    def work() -> int:
        with FolderWriter(tmp_path) as writer:
            writer.write("x", [b"new"], replace=True, mtime_ns=5)
            writer.write("y", [b"new"], replace=True, mtime_ns=5)
        return 0

    run = supervised(work, lambda request: None, folder=str(tmp_path))
    calls = [name for name in run.calls if not name.startswith("mkdir")]  # of the folder itself, which is there
    assert run.status == 0
    replaced = ["openat", "write", "fchmod", "utimensat", "renameat"]
    assert calls[: len(replaced)] == replaced
    assert calls[len(replaced) :] in (["openat", "write", "utimensat", "linkat"], replaced)  # nameless if it can be
    assert (tmp_path / "x").read_bytes() == b"new"
