"""The suite ``gpu`` of ``headrace bench`` with few samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.bench import Settings, find_suite, run_suite

if TYPE_CHECKING:
    from pathlib import Path


def test_the_suite_measures(tmp_path: Path) -> None:
    suite = find_suite("gpu")
    if reason := suite.missing():
        pytest.skip(reason)
    found = run_suite(suite, Settings(work=tmp_path, quick=True, samples=1024, rounds=1), command="x")
    sections = {row.section for row in found.rows}
    assert {"originals, batches of 256", "originals, not in memory", "the processor's time for a picture"} <= sections
    rates = {row.name: row.value for row in found.rows if row.section == "originals, batches of 256"}
    assert rates["jpeg='gpu', 1 worker"] > 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gpu.html", "gpu.json"]
