"""Tables of any text: the same records as Python's csv module finds, and what was written comes back."""

from __future__ import annotations

import csv
import io
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.errors import HeadraceError

PIECES = st.lists(st.sampled_from(["a", "1", ",", '"', '""', '","', "\n", "\r\n", " ", "π"]), max_size=30)
TEXTS = st.text(st.sampled_from('ab1,"\n\r\t \u2028π\0'), max_size=8)


@given(pieces=PIECES)
@settings(max_examples=300, deadline=None)
def test_records_are_those_of_the_csv_module(pieces: list[str]) -> None:
    text = "".join(pieces)
    try:
        theirs = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
    except csv.Error:
        theirs = None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.csv")
        path.write_bytes(b"x\n" + text.encode())
        try:
            ours = [[sample.x] for sample in hr.open(path, fields={"x": hr.Text()})]
        except HeadraceError:
            ours = None
    assert ours is None or ours == theirs
    assert theirs is None or ours == theirs or any(len(row) != 1 for row in theirs)


@given(rows=st.lists(st.tuples(TEXTS, TEXTS), max_size=6), ending=st.sampled_from(["csv", "tsv", "jsonl"]))
@settings(max_examples=100, deadline=None)
def test_texts_come_back(rows: list[tuple[str, str]], ending: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"x.{ending}")
        hr.write(path, rows, fields={"a": hr.Text(), "b": hr.Text()}, workers=1)
        assert [(sample.a, sample.b) for sample in hr.open(path)] == rows
