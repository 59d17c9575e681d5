"""No hostile file changes anything, ends the process, takes all memory or runs for ever, whatever reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.attacks.hostile import HOSTILE
from tests.attacks.jail import QUICK, findings, make_jail

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("name", HOSTILE)
def test_quick(name: str, tmp_path: Path) -> None:
    assert list(findings(make_jail(tmp_path, HOSTILE[name]), tmp_path, QUICK)) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_everything_that_reads(name: str, tmp_path: Path) -> None:
    assert list(findings(make_jail(tmp_path, HOSTILE[name]), tmp_path)) == []
