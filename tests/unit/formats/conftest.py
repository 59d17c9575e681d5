from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.formats.picture_folder import FILES, IGNORED

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    for name, data in (FILES | IGNORED).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root
