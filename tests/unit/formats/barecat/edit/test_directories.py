"""Directories, names and metadata in the index."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.errors import DirectoryNotEmptyError, EntryExistsError, EntryIsFileError, EntryNotFoundError
from headrace.formats.barecat import Archive, Metadata
from headrace.formats.barecat.edit.editor import Editor

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def editor(path: Path) -> Iterator[Editor]:
    editor = Editor(str(path))
    for name in ("a/b/1", "a/2", "c"):
        editor.add(name, name.encode(), Metadata())
    yield editor
    editor.close()


def test_making_directories(editor: Editor) -> None:
    editor.directories.make_dir("x/y/z", Metadata(mode=0o700), exist_ok=False)
    assert editor.index.is_dir("x/y")
    with pytest.raises(EntryExistsError):
        editor.directories.make_dir("x/y", Metadata(), exist_ok=False)
    editor.directories.make_dir("x/y/z", Metadata(mtime_ns=5), exist_ok=True)
    assert editor.index.entry("x/y/z").metadata[::3] == (0o700, 5)
    for exist_ok, error in ((True, EntryIsFileError), (False, EntryExistsError)):
        with pytest.raises(error):
            editor.directories.make_dir("c", Metadata(), exist_ok=exist_ok)
    with pytest.raises(EntryIsFileError):
        editor.directories.make_dir("c/d", Metadata(), exist_ok=True)


def test_removing_directories(editor: Editor) -> None:
    with pytest.raises(DirectoryNotEmptyError):
        editor.directories.remove_dir("a")
    with pytest.raises(EntryIsFileError):
        editor.directories.remove_dir("c")
    with pytest.raises(EntryNotFoundError):
        editor.directories.remove_tree("nope")
    editor.directories.remove_tree("a")
    root = editor.index.directory("")
    assert root is not None
    assert (root.num_subdirs, root.num_files_tree, root.size_tree) == (0, 1, 1)


def test_a_tree_that_moves_takes_its_statistics_along(editor: Editor, path: Path) -> None:
    editor.directories.rename("a", "new/place")
    assert sorted(editor.index.file_names()) == ["c", "new/place/2", "new/place/b/1"]
    for old, new, error in (
        ("new", "c", EntryExistsError),
        ("new", "c/d", EntryIsFileError),
        ("gone", "x", EntryNotFoundError),
        ("new", "new/inside", ValueError),
    ):
        with pytest.raises(error):
            editor.directories.rename(old, new)
    editor.close()
    assert Archive(path).verify().ok


def test_only_what_is_known_is_set(editor: Editor) -> None:
    editor.directories.set_metadata("c", Metadata(1, 2, 3, 4))
    editor.directories.set_metadata("c", Metadata(uid=9))
    assert editor.index.entry("c").metadata == Metadata(1, 9, 3, 4)
    with pytest.raises(EntryNotFoundError):
        editor.directories.set_metadata("gone", Metadata(mode=1))
