"""Files of all formats that are cut, replaced or removed while they are open, and names that a terminal would obey."""

from __future__ import annotations

import contextlib
import os
import unicodedata
from typing import TYPE_CHECKING, Any

import pytest
from tests.attacks.hostile_formats import ESCAPES, SOUND, golden, named, tar_of

import headrace as hr
from headrace.cli.main import main
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from pathlib import Path

for _name in ("h5py", "pyarrow", "lmdb", "msgpack"):
    pytest.importorskip(_name)


def data_file(path: Path) -> Path:
    return next(path.glob("*.arrow")) if path.is_dir() else path


def values(dataset: Any) -> list[str]:
    return [repr(dataset[i]) for i in range(len(dataset))]


@pytest.mark.parametrize("name", SOUND)
def test_a_file_that_becomes_shorter(name: str, tmp_path: Path) -> None:
    path = golden(tmp_path, name)
    with hr.open(path) as dataset:
        os.truncate(data_file(path), 10)
        for i in range(len(dataset)):
            with contextlib.suppress(HeadraceError):
                dataset[i]
        with contextlib.suppress(HeadraceError):
            dataset.verify(decode=True)


@pytest.mark.parametrize("how", ["replaced", "removed"])
@pytest.mark.parametrize("name", SOUND)
def test_a_file_that_goes_is_read_on(name: str, how: str, tmp_path: Path) -> None:
    path = golden(tmp_path, name)
    with hr.open(path) as dataset:
        before = values(dataset)
        if how == "replaced":
            (tmp_path / "new").write_bytes(b"x" * 50)
            os.rename(tmp_path / "new", data_file(path))
        else:
            data_file(path).unlink()
        assert values(dataset) == before
        assert dataset.verify().ok


@pytest.mark.parametrize("ending", ["tar", "zip", "jsonl", "npz", "h5", "parquet", "msgpack", "lmdb", "csv"])
@pytest.mark.parametrize("words", ["ls", "ls -l", "info", "verify", "cat", "ls --json"])
def test_names_are_shown_as_text(ending: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, name = tmp_path / f"x.{ending}", f"a{ESCAPES}"
    if ending == "tar":
        tar_of(path, [named(f"{name}.txt"), named(f"b{ESCAPES}.txt")])
    else:
        hr.write(path, [(ESCAPES,), (ESCAPES,)], fields={"text": hr.Text()}, names=[name, "b"])
    verb, *options = words.split()
    assert main([verb, str(path), *options, *(["0"] if verb == "cat" else [])]) == 0
    out, err = capsys.readouterr()
    shown = err if verb == "cat" else out + err
    assert all(char == "\n" or unicodedata.category(char)[0] != "C" for char in shown), shown
