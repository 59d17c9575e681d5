"""What the page about choosing a format says about formats is what they do."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from tests.docs.format_marks import COLUMNS, write_values

import headrace as hr
from headrace.errors import MissingExtraError
from headrace.formats.open import FORMATS

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "choosing-a-format.md"
WRITABLE = [name for name in FORMATS.names() if FORMATS.load(name).create is not None]


def table(beginning: str, end: str) -> list[list[str]]:
    text = PAGE.read_text().partition(beginning)[2].partition(end)[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]


def marks() -> dict[str, dict[str, str]]:
    heading, _, *rows = table("<!-- marks: begin -->", "<!-- marks: end -->")
    return {row[0].strip("`"): dict(zip(heading[1:], row[1:], strict=True)) for row in rows}


def test_the_table_has_every_format_and_column() -> None:
    assert set(WRITABLE) <= set(marks())
    assert all(list(row) == list(COLUMNS) for row in marks().values())
    others = " ".join(row[0] for row in table("## Who else reads it", "What they read"))
    assert set(WRITABLE) <= set(re.findall(r"`(\w+)`", others))


@pytest.mark.filterwarnings("ignore:.*annex is not used")
@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("name", WRITABLE)
def test_a_mark_is_what_the_format_does(name: str, column: str, tmp_path: Path) -> None:
    if name not in marks():
        pytest.skip("a format of another package")
    try:
        found = COLUMNS[column](tmp_path, FORMATS.load(name))
    except MissingExtraError as error:
        pytest.skip(str(error))
    assert found == marks()[name][column], f"{name}, {column}"


@pytest.mark.parametrize("name", WRITABLE)
def test_what_holds_for_all_of_them(name: str, tmp_path: Path) -> None:
    known = FORMATS.load(name)
    try:
        paths = [write_values(tmp_path, known, name=part)[0] for part in ("a", "b")]
    except MissingExtraError as error:
        pytest.skip(str(error))
    with hr.open(paths) as both, hr.open(paths[0]) as one:
        assert len(both) == 2 * len(one)
        field = next(iter(one.schema))
        expected = [bytes(np.asarray(value).data) for value in one.read_values(np.arange(len(one)), field)]
        fields = dict(one.schema) if name != "recordio" else {"data": hr.Bytes()}
        fields = {field: fields[field]} if field in fields else fields
        ending = known.suffixes[0]
        samples = ((value,) for value in one.read_values(np.arange(len(one)), field))
        hr.write(tmp_path / f"set-%02d{ending}", samples, fields=fields, shard_samples=4)
    with hr.open(str(tmp_path / f"set-{{00..01}}{ending}")) as parts:
        found = parts.read_values(np.arange(len(parts)), field)
        assert [bytes(np.asarray(value).data) for value in found] == expected
