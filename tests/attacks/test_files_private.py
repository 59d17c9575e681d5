"""A file that only its owner may read stays so when it is replaced or rewritten, at every moment."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from headrace.cli.main import main
from headrace.storage.new_file import NewFile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of two pictures; nameless files are switched off, so that every file can be seen."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in" / "a").mkdir(parents=True)
    pixels = np.random.default_rng(0).integers(0, 255, (200, 300, 3), np.uint8)
    for name in "12":
        Image.fromarray(pixels).save(tmp_path / "in" / "a" / f"{name}.jpg")
    monkeypatch.delattr(os, "O_TMPFILE")
    old = os.umask(0o022)
    yield tmp_path
    os.umask(old)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Modes of files as they get their names."""
    modes: list[int] = []
    whole = NewFile.create

    def create(new: NewFile) -> None:
        whole(new)
        modes.append(os.fstat(new.fd).st_mode & 0o777)

    monkeypatch.setattr(NewFile, "create", create)
    return modes


def _mode(name: str) -> int:
    return os.stat(name).st_mode & 0o777


@pytest.mark.parametrize("name", ["x.beton", "x.ffr", "x.tar", "x.tar.gz", "x.zip"])
def test_a_private_file_that_is_replaced_stays_private(place: Path, seen: list[int], name: str) -> None:
    verb = ["convert", "in", name] if ".tar" in name or name.endswith(".zip") else ["create", name, "in"]
    assert main([*verb, "-q"]) == 0
    assert _mode(name) == 0o644
    os.chmod(name, 0o600)
    seen.clear()
    assert main([*verb, "-q", "--force"]) == 0
    assert _mode(name) == 0o600
    assert set(seen) == {0o600}


@pytest.mark.parametrize("name", ["x.beton", "x.ffr"])
def test_an_annex_is_as_private_as_its_dataset(place: Path, seen: list[int], name: str) -> None:
    assert main(["create", name, "in", "-q", *(["--no-annex"] if name == "x.beton" else [])]) == 0
    os.chmod(name, 0o600)
    seen.clear()
    for _ in range(2):
        assert main(["index", name, "-q"]) == 0
        assert _mode(f"{name}.annex") == 0o600
    assert set(seen) == {0o600}
    if name == "x.beton":
        assert main(["index", name, "-q", "--embed"]) == 0
        assert _mode(name) == 0o600
        assert set(seen) == {0o600}
        assert sorted(os.listdir()) == ["in", "x.beton"]
