"""Puts the figures of benchmarks/results into the README, so that none is ever typed."""

from __future__ import annotations

import json

from benchmarks.harness import RESULTS, ROOT

BEGIN, END = "<!-- numbers: begin -->", "<!-- numbers: end -->"


def refresh_readme() -> None:
    """Replace the block between the two marks."""
    readme = ROOT / "README.md"
    before, begin, rest = readme.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if begin and end:
        readme.write_text(f"{before}{BEGIN}\n{table()}\n{END}{after}")


def table() -> str:
    """One Markdown table over all results."""
    lines = ["| measured | result |", "| --- | --- |"]
    cpus = set()
    for path in sorted(RESULTS.glob("*.json")):
        result = json.loads(path.read_text())
        facts = result["environment"]
        cpus.add(f"{facts['cpu']}, {facts['cores']} cores, Python {facts['python']}")
        lines += [f"| {row['what']} | {row['text']} |" for row in result["rows"] if row.get("headline")]
    lines.append("")
    lines.append(f"Warm cache, {'; '.join(sorted(cpus))}. All rows and the scripts: [benchmarks](benchmarks).")
    return "\n".join(lines)
