"""Every mark of the README's table beside other packages leads to what shows it, and the notes say the same."""

from __future__ import annotations

import re

import pytest
from tests.docs.test_docs import anchors_of
from tests.docs.test_front_pages import README, ROOT, rows_of, section_of

NOTES = ROOT / "docs" / "explanation" / "beside-others.md"
OPEN = ("?", "-")  # not tried, does not apply
MARK = re.compile(r"\[(yes|no|partly|results)\]\(([^)#]+)(?:#([^)]+))?\)")
MEASURED = "measured here"


def table() -> tuple[list[str], list[list[str]]]:
    text = README.read_text(encoding="utf-8").partition("<!-- marks: begin -->")[2].partition("<!-- marks: end -->")[0]
    head = [cell.strip() for cell in text.strip().splitlines()[0].strip("|").split("|")]
    return head, rows_of(text)


def cells() -> list[tuple[str, str, str]]:
    """What, whose and how, for each cell."""
    head, rows = table()
    return [(row[0], name, cell) for row in rows for name, cell in zip(head[1:], row[1:], strict=True)]


def notes_of(name: str) -> dict[str, tuple[str, str]]:
    return {what: (mark, note) for what, mark, note in rows_of(section_of(NOTES, name))}


def test_the_packages_are_there() -> None:
    head, rows = table()
    names = ["headrace", "FFCV", "FFRecord", "Barecat", "WebDataset", "MDS", "LitData", "Grain", "SPDL", "DALI"]
    assert head[1:] == names
    assert len({row[0] for row in rows}) == len(rows) > 10


@pytest.mark.parametrize("name", table()[0][1:])
def test_a_mark_leads_to_what_shows_it(name: str) -> None:
    marks = [(what, cell) for what, whose, cell in cells() if whose == name]
    for what, cell in marks:
        if name == "headrace" or cell not in OPEN:
            check_mark(what, name, cell)


def check_mark(what: str, name: str, cell: str) -> None:
    found = MARK.fullmatch(cell)
    assert found is not None, f"{what}, {name}: {cell} is no mark with a link"
    mark, file, anchor = found.groups()
    path = ROOT / file
    assert path.is_file(), f"{what}, {name}: {file} is not there"
    assert anchor is None or anchor in anchors_of(path)
    if what == MEASURED:
        assert path == ROOT / "docs" / "results.md"
    elif name == "headrace" and mark == "yes":
        assert file.startswith(("tests/", "benchmarks/")), f"{what}: a claim of ours is shown by a test or a benchmark"
        assert re.search(r"^def test_", path.read_text(encoding="utf-8"), re.MULTILINE) or path.suffix == ".json"
    else:
        assert (path, anchor) == (NOTES, name.lower())


def test_the_notes_say_what_the_table_says() -> None:
    for what, name, cell in cells():
        if name == "headrace" or what == MEASURED:
            continue
        mark, note = notes_of(name)[what]
        assert mark == re.sub(r"^\[(\w+)\].*", r"\1", cell), f"{what}, {name}"
        assert note or mark in OPEN, f"{what}, {name}: a mark stands on something"


def test_every_row_is_explained() -> None:
    _, rows = table()
    assert [row[0] for row in rows_of(NOTES.read_text(encoding="utf-8").partition("## What is different")[0])] == [
        row[0] for row in rows if row[0] != MEASURED
    ]


def test_a_package_that_was_measured_is_named_in_the_results() -> None:
    words = {"MDS": "MosaicML"}
    for what, name, cell in cells():
        if what == MEASURED and cell.startswith("[yes]"):
            anchor = cell.rpartition("#")[2].rstrip(")")
            page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
            sections = re.split(r"^## ", page, flags=re.MULTILINE)
            found = next(part for part in sections if _anchor(part.partition("\n")[0]) == anchor)
            assert words.get(name, name).lower() in found.lower(), name


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
