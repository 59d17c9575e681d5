"""What the front pages say about the tree, the import rule, the formats and the figures is what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.unit.test_imports import LAYERS

import headrace
from headrace.formats.open import FORMATS
from headrace.transfer.containers import KINDS

ROOT = Path(__file__).parents[2]
PACKAGE = Path(headrace.__file__).parent
README = ROOT / "README.md"
FORMATS_PAGE = ROOT / "docs" / "formats" / "index.md"
DESIGN = ROOT / "docs" / "explanation" / "design.md"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"


def section_of(page: Path, heading: str) -> str:
    found = re.search(rf"^##+ {re.escape(heading)}$(.*?)(?=^## |\Z)", page.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None, f"{page.name} has no section {heading!r}"
    return found[1]


def rows_of(text: str) -> list[list[str]]:
    """The cells of a table, without its first two lines."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def tree_of(text: str) -> dict[str, list[str]]:
    """The first tree in a section: a folder, and the names of what stands below it."""
    found: dict[str, list[str]] = {}
    names: list[str] = []
    block = re.search(r"```text\n(.*?)```", text, re.DOTALL)
    assert block is not None
    for line in block[1].splitlines():
        if re.match(r"\S+/$", line):
            names = found[line] = []
        elif name := re.match(r"  (\S+)  ", line):
            names.append(name[1])
    return found


def names_below(folder: Path) -> set[str]:
    entries = [entry for entry in folder.iterdir() if entry.name not in ("__pycache__", "py.typed", "CMakeLists.txt")]
    return {entry.name + "/" if entry.is_dir() else entry.name for entry in entries if entry.suffix != ".so"}


def test_the_tree_in_the_design_is_the_tree() -> None:
    tree = tree_of(section_of(DESIGN, "The rooms"))
    assert set(tree) == {"src/headrace/", "native/"}
    assert set(tree["src/headrace/"]) == names_below(ROOT / "src" / "headrace")
    assert set(tree["native/"]) == names_below(ROOT / "native")


@pytest.mark.parametrize("page", [DESIGN, CONTRIBUTING], ids=lambda page: page.name)
def test_the_import_rule_is_the_one_that_is_tested(page: Path) -> None:
    rule = re.search(r"```text\n([^`]*?> types > errors)\n```", page.read_text())
    assert rule is not None, f"{page.name} does not say the import rule"
    said = [set(layer.replace(",", " ").split()) for layer in rule[1].split(">")]
    existing = {entry.removesuffix("/").removesuffix(".py") for entry in names_below(PACKAGE)}
    assert said == [set(layer) & existing for layer in LAYERS if layer & existing and layer != {"__main__"}]


def test_the_page_of_formats_lists_every_format_and_ending() -> None:
    text = FORMATS_PAGE.read_text()
    said = {row[0].strip("`"): tuple(re.findall(r"`([^`]+)`", row[1])) for row in rows_of(text)}
    assert said == {name: FORMATS.load(name).suffixes for name in FORMATS.names()}
    below = text.rpartition("`headrace convert`")[2]
    assert set(KINDS) <= set(re.findall(r"`(\.[\w.]+)`", below))


def test_the_readme_names_every_format() -> None:
    said = re.search(r"^Formats: (.*?): \[", README.read_text(), re.MULTILINE | re.DOTALL)
    assert said is not None
    assert sorted(re.findall(r"`(\w+)`", said[1])) == sorted(FORMATS.names())


def test_every_format_has_its_page() -> None:
    pages = {page.stem for page in (ROOT / "docs" / "formats").glob("*.md")}
    assert {name for name in FORMATS.names() if FORMATS.load(name).suffixes} <= pages
