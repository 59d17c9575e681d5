"""No message says "1 files": what is counted goes through one function."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import headrace
from headrace.progress import format_count

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(headrace.__file__).parent
FOREIGN = ("compat/", "errors.py")  # says what the originals say; counts only what is larger than a limit
NOUNS = (
    "archives arguments arrays batches bytes channels checksums classes columns commands copies cores "
    "dimensions directories entries epochs errors fields files folders gaps images indices ids items jobs JPEGs keys "
    "labels levels lines links members names numbers pages paths parts pictures pieces places problems processes "
    "ranks records requests rows samples sections shards sizes slots sources steps strings tables threads tiles "
    "values words workers"
)
COUNTED = re.compile(
    rf" (?:(?:more|other|bad|damaged|metadata|whole|data) )?(?:{'|'.join(NOUNS.split())})\b(?!/s| each)"
)


def is_count(value: ast.FormattedValue) -> bool:
    """It may be the number one: not a text in quotes, a list, or a constant of the module."""
    if value.conversion != -1 or isinstance(value.value, ast.JoinedStr | ast.Constant):
        return False
    if isinstance(value.value, ast.Call) and getattr(value.value.func, "attr", "") == "join":
        return False
    names = [node.id for node in ast.walk(value.value) if isinstance(node, ast.Name)]
    return not (names and all(name.lstrip("_").isupper() for name in names))


def found_in(source: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.JoinedStr):
            continue
        for value, after in zip(node.values, node.values[1:], strict=False):
            if isinstance(value, ast.FormattedValue) and isinstance(after, ast.Constant) and is_count(value):
                match = COUNTED.match(str(after.value))
                if match:
                    yield value.lineno, f"{{{ast.unparse(value.value)}}}{match[0]}"


def test_the_rule_finds_what_it_is_for() -> None:
    assert [text for _, text in found_in('f"{n:,} files"; f"{len(x)} more problems in {y}"')] == [
        "{n} files",
        "{len(x)} more problems",
    ]
    fine = """f"{format_count(n, 'file')} in {path}"; f"{LIMIT} bytes"; f"{name!r} names fields"; f"{n} files/s" """
    assert list(found_in(fine)) == []
    assert list(found_in('f"{n} bytes each"')) == []


def test_every_count_in_a_message_agrees_with_its_noun() -> None:
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(FOREIGN):
            found += [f"{name}:{line}: {text}" for line, text in found_in(path.read_text(encoding="utf-8"))]
    assert found == []


@pytest.mark.parametrize(
    ("count", "noun", "text"),
    [
        (0, "file", "0 files"),
        (1, "file", "1 file"),
        (2, "file", "2 files"),
        (12345, "sample", "12,345 samples"),
        (2, "directory", "2 directories"),
        (2, "batch", "2 batches"),
        (1, "batch", "1 batch"),
        (3, "class", "3 classes"),
        (3, "index", "3 indices"),
        (2, "key", "2 keys"),
        (2, "more problem", "2 more problems"),
    ],
)
def test_counts_for_people(count: int, noun: str, text: str) -> None:
    assert format_count(count, noun) == text
