"""No hostile file changes anything, ends the process, takes all memory or runs for ever, whatever reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.attacks.hostile import HOSTILE
from tests.attacks.hostile_annexes import LIES, SPAN_FILES, lying_annex, odd_annex
from tests.attacks.hostile_formats import (
    ENDINGS,
    HOSTILE_FORMATS,
    LARGE,
    ODD_FILES,
    SOUND,
    damaged,
    odd_file,
)
from tests.attacks.hostile_tables import HOSTILE_TABLES
from tests.attacks.jail import QUICK, Warden, make_jail

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FORMATS = HOSTILE_FORMATS | HOSTILE_TABLES
HOW = ("whole", "cut", "flipped", "holes")


@pytest.fixture(scope="module")
def warden() -> Iterator[Warden]:
    for name in ("h5py", "pyarrow.parquet", "lmdb", "msgpack", "zstandard"):
        pytest.importorskip(name)
    found = Warden()
    yield found
    found.close()


@pytest.mark.parametrize("name", HOSTILE)
def test_quick(name: str, tmp_path: Path, warden: Warden) -> None:
    assert warden.findings(make_jail(tmp_path, HOSTILE[name]), tmp_path, QUICK) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_everything_that_reads(name: str, tmp_path: Path, warden: Warden) -> None:
    assert warden.findings(make_jail(tmp_path, HOSTILE[name]), tmp_path) == []


@pytest.mark.parametrize("name", FORMATS)
def test_formats(name: str, tmp_path: Path, warden: Warden) -> None:
    assert warden.findings(make_jail(tmp_path, FORMATS[name]), tmp_path, ("extract", "open")) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_formats_and_everything_that_reads(name: str, tmp_path: Path, warden: Warden) -> None:
    assert warden.findings(make_jail(tmp_path, FORMATS[name]), tmp_path) == []


@pytest.mark.parametrize("name", SOUND)
def test_golden_files_with_flipped_bits(name: str, tmp_path: Path, warden: Warden) -> None:
    make = damaged(name, "flipped")
    assert warden.findings(make_jail(tmp_path, make), tmp_path, ("verify --decode", "Loader")) == []


@pytest.mark.slow
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", SOUND)
def test_golden_files(name: str, how: str, tmp_path: Path, warden: Warden) -> None:
    assert warden.findings(make_jail(tmp_path, damaged(name, how)), tmp_path) == []


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_pipe_in_place_of_a_file(ending: str, tmp_path: Path, warden: Warden) -> None:
    assert warden.findings(make_jail(tmp_path, odd_file(ending, "pipe")), tmp_path, ("info",)) == []


@pytest.mark.slow
@pytest.mark.parametrize("what", ODD_FILES)
@pytest.mark.parametrize("ending", ENDINGS)
def test_odd_files(ending: str, what: str, tmp_path: Path, warden: Warden) -> None:
    assert warden.findings(make_jail(tmp_path, odd_file(ending, what)), tmp_path, (*QUICK, "index")) == []


@pytest.mark.parametrize("name", ["wds-0001.tar", "examples.tfrecord", "files.jsonl"])
@pytest.mark.parametrize("lie", LIES)
def test_an_annex_that_lies(name: str, lie: str, tmp_path: Path, warden: Warden) -> None:
    assert warden.findings(make_jail(tmp_path, lying_annex(name, lie)), tmp_path, ("extract", "Loader")) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", SPAN_FILES)
@pytest.mark.parametrize("lie", LIES)
def test_an_annex_that_lies_and_everything_that_reads(name: str, lie: str, tmp_path: Path, warden: Warden) -> None:
    assert warden.findings(make_jail(tmp_path, lying_annex(name, lie)), tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", SPAN_FILES)
@pytest.mark.parametrize("what", ODD_FILES)
def test_something_else_in_place_of_an_annex(name: str, what: str, tmp_path: Path, warden: Warden) -> None:
    assert warden.findings(make_jail(tmp_path, odd_annex(name, what)), tmp_path, (*QUICK, "index")) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_bombs_that_are_unpacked_up_to_their_limit(name: str, tmp_path: Path, warden: Warden) -> None:
    assert warden.findings(make_jail(tmp_path, LARGE[name]), tmp_path, ("info",)) == []
