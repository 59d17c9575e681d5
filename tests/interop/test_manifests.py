"""Python's json and csv modules read what we write, and the other way round."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING

import pytest

import headrace as hr

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = ["", "a,b", 'say "hi"', '"', '""', "line\nbreak", "cr\r\nlf", "tab\there", "π", " x ", "1", "\u2028", "a;b"]
ROWS = [(i - 5, i / 3, text) for i, text in enumerate(TEXTS)]
FIELDS = {"n": hr.Int(), "x": hr.Float(), "t": hr.Text()}


@pytest.mark.parametrize("dialect", ["excel", "excel-tab", "unix"])
def test_csv(tmp_path: Path, dialect: str) -> None:
    path = tmp_path / ("x.tsv" if dialect == "excel-tab" else "x.csv")
    with open(path, "w", newline="") as file:
        csv.writer(file, dialect).writerows([list(FIELDS), *ROWS])
    assert [tuple(dict(sample).values()) for sample in hr.open(path)] == ROWS
    hr.write(path, ROWS, fields=FIELDS, force=True)
    with open(path, newline="") as file:
        names, *rows = csv.reader(file, dialect, strict=True)
    assert names == list(FIELDS)
    assert [(int(n), float(x), t) for n, x, t in rows] == ROWS


@pytest.mark.parametrize("ascii_only", [True, False])
def test_jsonl(tmp_path: Path, ascii_only: bool) -> None:
    path, rows = tmp_path / "x.jsonl", [dict(zip(FIELDS, row, strict=True)) for row in ROWS]
    path.write_text("".join(json.dumps(row, ensure_ascii=ascii_only) + "\n" for row in rows))
    assert [dict(sample) for sample in hr.open(path)] == rows
    hr.write(path, rows, fields=FIELDS, force=True)
    assert [json.loads(line) for line in path.read_bytes().split(b"\n") if line] == rows
