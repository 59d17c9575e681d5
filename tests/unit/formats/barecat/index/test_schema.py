"""Versions of the schema."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING

import pytest
from tests.unit.formats.barecat.tools import TEXTS, spoil

import headrace
from headrace.cli.main import main
from headrace.errors import FormatError
from headrace.formats.barecat import Archive
from headrace.formats.barecat.index.known_schemas import KNOWN, digest_of
from headrace.formats.barecat.index.schema import check_schema, create_schema

if TYPE_CHECKING:
    from pathlib import Path


def test_archives_of_schema_0_2_open_by_their_name(texts: Path, tmp_path: Path) -> None:
    spoil(texts, "UPDATE config SET value_int = 2 WHERE key = 'schema_version_minor'")
    texts.rename(f"{texts}-sqlite-index")
    assert len(headrace.open(texts)) == len(TEXTS)
    assert headrace.verify(texts).ok
    assert main(["convert", str(texts), str(tmp_path / "x.tar"), "-q"]) == 0
    with pytest.raises(FileNotFoundError, match="does not exist"):
        headrace.open(tmp_path / "y.barecat")


def test_our_schema_is_known() -> None:
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        create_schema(connection, shard_size_limit=1)
        connection.execute("ANALYZE")
        check_schema("x", connection)
        for kind, name, text in connection.execute("SELECT type, name, sql FROM sqlite_master"):
            assert digest_of(text) in KNOWN[f"{kind} {name}"]


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("CREATE VIEW files2 AS SELECT 1", "the view 'files2', which no known version has"),
        ("CREATE TABLE t (a)", "the table 't', which no known version has"),
        ("CREATE INDEX i ON files (size)", "the index 'i', which no known version has"),
        ("CREATE TRIGGER t AFTER DELETE ON dirs BEGIN SELECT 1; END", "the trigger 't', which no known version has"),
        ("ALTER TABLE files ADD COLUMN x", "the table 'files', which is not defined as in any known version"),
        ("DROP TABLE config", "the index has no schema version"),
    ],
)
def test_other_schemas_are_refused(texts: Path, statement: str, problem: str) -> None:
    with contextlib.closing(sqlite3.connect(texts)) as connection, connection:
        connection.execute(statement)
    for mode in ("r", "r+"):
        with pytest.raises(FormatError, match=problem):
            Archive(texts, mode)
