"""The site has every page, every public name and every quoted figure, and asks no other host for anything.

``make site`` builds it, with warnings as errors. What stands here is quick and needs none of its packages.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.docs.test_docs import PAGES, blocks_of

import headrace
import headrace.fields

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
CONFIG = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
ROOT_PAGES = {"README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"}
API_PAGES = sorted((DOCS / "reference" / "api").glob("*.md"))


def nav() -> list[str]:
    """The pages that the navigation names, in order."""
    return re.findall(r"^ +- (?:.*: )?(\S+\.md)$", CONFIG.partition("\nnav:\n")[2], re.MULTILINE)


def directives() -> set[str]:
    """What the API pages are made of."""
    return {name for page in API_PAGES for name in re.findall(r"^::: (\S+)$", page.read_text(), re.MULTILINE)}


def test_every_page_is_in_the_navigation_once() -> None:
    pages = [page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")]
    assert sorted(nav()) == sorted([*pages, *(f"project/{name}" for name in ROOT_PAGES)])


def test_the_site_asks_no_other_host() -> None:
    assert "font: false" in CONFIG
    assert "polyfills: [assets/iframe-worker.js]" in CONFIG, "without it the offline plugin takes one from a server"
    for file in (ROOT / "mkdocs.yml", *(DOCS / "assets").glob("*.*"), *DOCS.rglob("*.svg")):
        found = re.findall(r"//[\w-]+\.[\w.-]+[^\s\"')]*", file.read_text(encoding="utf-8"))
        assert [host for host in found if host != "//www.w3.org/2000/svg"] == [], file.name


def test_a_warning_is_an_error() -> None:
    recipe = re.search(r"^\t.*mkdocs (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert recipe is not None
    assert recipe[1] == "build --strict $(ARGS)"  # with -q no warning is counted
    for check in ("omitted_files", "absolute_links", "unrecognized_links", "anchors"):
        assert f"  {check}: warn" in CONFIG


def test_every_public_name_is_on_an_api_page() -> None:
    known = directives() | {f"headrace.{name}" for name in headrace.fields.__all__}
    assert "headrace.fields" in known
    assert [name for name in headrace.__all__ if f"headrace.{name}" not in known] == []


def imported_modules() -> set[str]:
    """Modules of headrace that code on the pages imports names from."""
    found: set[str] = set()
    for block in (block for page in PAGES for block in blocks_of(page) if block.language == "python"):
        nodes = [node for node in ast.walk(ast.parse(block.body)) if isinstance(node, ast.ImportFrom)]
        found.update(node.module for node in nodes if node.module and node.module.startswith("headrace."))
    return found


def test_every_module_that_the_pages_import_is_on_an_api_page() -> None:
    known = directives()
    assert [name for name in sorted(imported_modules()) if not _is_covered(name, known)] == []


def _is_covered(module: str, known: set[str]) -> bool:
    parts = module.split(".")
    below = any(name.startswith(f"{module}.") for name in known)
    return below or any(".".join(parts[:n]) in known for n in range(2, len(parts) + 1))


def test_pictures_on_the_pages_exist() -> None:
    for page in PAGES:
        for target in re.findall(r"!\[[^\]]*\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).is_file(), f"{page.name}: {target}"
