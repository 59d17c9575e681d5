"""Names of files and directories inside an archive, a tar, a zip or a folder."""

from __future__ import annotations

import pytest

from headrace.formats.entry_names import check_names, check_new_name, clean_name, parent_of, safe_name


@pytest.mark.parametrize(
    ("name", "cleaned"), [("a/b", "a/b"), ("/a//b/", "a/b"), ("./a/../b", "b"), (".", ""), ("/", ""), ("../a", "../a")]
)
def test_names_are_cleaned(name: str, cleaned: str) -> None:
    assert clean_name(name) == cleaned


@pytest.mark.parametrize("name", ["..", "../a", "a\0b", "\udcff"])
def test_names_that_cannot_be_new(name: str) -> None:
    with pytest.raises(ValueError, match=r"leads out|NUL|UTF-8"):
        check_new_name(name)


def test_names_from_elsewhere_stay_inside() -> None:
    assert safe_name("./a//b") == "a/b"
    for name in ("/a", "a/../../b", ".."):
        with pytest.raises(ValueError, match=r"absolute|leads out"):
            safe_name(name)


def test_parents() -> None:
    assert [parent_of(name) for name in ("a/b/c", "a/b", "a", "")] == ["a/b", "a", "", ""]


def test_names_that_no_entry_can_have() -> None:
    check_names(["", "a", "a/b", ".hidden", "a/.hidden", "a/..b", "...", "a\nb", "a/\n/b", "ü"])
    check_names([])
    for odd in (".", "..", "/", "/a", "a/", "a//b", "a/.", "a/..", "../a", "a/../b", "a\0b", "./a"):
        with pytest.raises(ValueError, match="name"):
            check_names(["fine", odd])
