from __future__ import annotations

import json
import sys
from importlib.metadata import EntryPoint

import pytest

from headrace.errors import MissingExtraError, UnknownFormatError
from headrace.formats.beton import FORMAT
from headrace.registry import PluginTable, require

GROUP = "headrace.formats"


def entry(name: str, value: str) -> EntryPoint:
    return EntryPoint(name=name, value=value, group=GROUP)


def table_of(monkeypatch: pytest.MonkeyPatch, *entries: EntryPoint) -> PluginTable[object]:
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: list(entries))
    return PluginTable(GROUP, kind="format")


def test_built_ins_are_entry_points() -> None:
    table: PluginTable[object] = PluginTable(GROUP, kind="format")
    assert {"beton", "folder"} <= set(table.names())
    assert table.load("beton") is FORMAT


def test_names_are_known_before_code_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(monkeypatch, entry("b", "no.such.module:X"), entry("a", "os:sep"))
    assert table.names() == ["a", "b"]
    with pytest.raises(ModuleNotFoundError):
        table.load("b")
    assert table.load("a") == "/"


def test_an_unknown_name_is_told_with_the_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownFormatError, match="no format is called 'zip'; known are: a"):
        table_of(monkeypatch, entry("a", "os:sep")).load("zip")


def test_a_name_claimed_twice_is_an_error_that_names_both(monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(monkeypatch, entry("a", "one:X"), entry("a", "two:Y"))
    with pytest.raises(RuntimeError, match=r"'a' is claimed twice.*one:X.*two:Y"):
        table.names()


def test_the_same_claim_seen_twice_is_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    assert table_of(monkeypatch, entry("a", "os:sep"), entry("a", "os:sep")).names() == ["a"]


def test_an_optional_package_that_is_missing_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(MissingExtraError, match=r"\.zst needs the 'zstandard' package.*headrace\[zstd\]"):
        require("zstandard", ".zst")
    assert require("json", "anything") is json
