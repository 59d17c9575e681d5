from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from tests.patchy_file import PatchyStore

from headrace.annex import find_side, new_side_path, open_side, side_exists, side_path
from headrace.errors import AnnexError
from headrace.storage import RemotePath

if TYPE_CHECKING:
    from pathlib import Path


def test_an_annex_beside_a_file(tmp_path: Path) -> None:
    data, annex = tmp_path / "x.beton", tmp_path / "x.beton.annex"
    data.touch()
    assert find_side(data) is None
    assert not side_exists(data)
    annex.touch()
    assert find_side(data) == str(annex)
    assert side_exists(data)


def test_links_to_both_are_as_good_as_the_files(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    data, annex = tmp_path / "real" / "x.beton", tmp_path / "real" / "x.beton.annex"
    data.touch()
    annex.touch()
    link = tmp_path / "y.beton"
    link.symlink_to(data)
    assert find_side(link) == str(annex)
    (tmp_path / "y.beton.annex").symlink_to(annex)
    assert find_side(link) == str(annex)


def test_other_links_and_pipes_are_refused(tmp_path: Path) -> None:
    data, annex = tmp_path / "x.beton", tmp_path / "x.beton.annex"
    data.touch()
    (tmp_path / "other").touch()
    annex.symlink_to(tmp_path / "other")
    with pytest.raises(AnnexError, match=r"symbolic link.*follow_links"):
        find_side(data)
    assert find_side(data, follow_links=True) == str(annex)
    annex.unlink()
    os.mkfifo(annex)
    with pytest.raises(AnnexError, match="this is a pipe"):
        find_side(data, follow_links=True)


def test_beside_objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = PatchyStore(tmp_path).install(monkeypatch)
    url = store.url("x.tar")
    assert side_path(url) == new_side_path(url) == "s3://patchy/x.tar.annex"
    assert (side_exists(url), find_side(url), open_side(url)) == (False, None, None)
    (tmp_path / "x.tar.annex").write_bytes(b"annex")
    assert (side_exists(url), find_side(url)) == (True, "s3://patchy/x.tar.annex")
    opened = open_side(url)
    assert opened is not None
    assert opened.hold(0, 5).tobytes() == b"annex"
    assert isinstance(opened.path, RemotePath)


def test_the_query_of_an_address_stays_behind() -> None:
    path = side_path(RemotePath("https://host/x.tar?download=true"))
    assert path == "https://host/x.tar.annex?download=true"
    assert isinstance(path, RemotePath)
    assert side_path(RemotePath("s3://bucket/what?.tar")) == "s3://bucket/what?.tar.annex"
