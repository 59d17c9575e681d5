"""The results that are committed, as they were measured."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from headrace.bench import SUITES, find_suite
from headrace.bench.compare import read_result
from headrace.bench.report import Result
from headrace.bench.source import fingerprint

__all__ = ["RESULTS", "ROOT", "all_results", "machine_of", "old_suites"]

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"


def all_results() -> dict[str, Result]:
    """Every result by its suite, in the order of the suites."""
    return _read(RESULTS)


@cache
def _read(folder: Path) -> dict[str, Result]:
    paths = {name: folder / f"{name}.json" for name in SUITES}
    return {
        name: Result.from_json(read_result(path), find_suite(name)) for name, path in paths.items() if path.exists()
    }


def old_suites() -> list[str]:
    """Suites whose result was measured with other code than that of this tree."""
    return [name for name, result in all_results().items() if result.source != fingerprint(find_suite(name))]


def machine_of(result: Result) -> str:
    """The machine in a few words."""
    facts = result.environment
    gpu = f"{facts['gpu']}, " if result.suite.name == "gpu" and "gpu" in facts else ""
    return f"{facts['cpu']}, {facts['cores']} cores, {facts['simd']}, {gpu}Python {facts['python']}"
