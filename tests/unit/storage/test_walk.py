from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from headrace.storage import check_folder, note_left_out, walk_folder

if TYPE_CHECKING:
    from pathlib import Path


def _names(folder: Path, **options: bool) -> tuple[list[str], dict[str, str]]:
    problems: dict[str, str] = {}
    found = walk_folder(str(folder), on_problem=problems.__setitem__, **{"follow_links": False, **options})
    return [one.name for one in found], {os.path.relpath(path, folder): why for path, why in problems.items()}


def test_order_links_and_problems(tmp_path: Path) -> None:
    (tmp_path / "b" / "deep").mkdir(parents=True)
    for name in ("a", "c", "b/1", "b/deep/2"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "dir").symlink_to("b")
    (tmp_path / "broken").symlink_to("nowhere")
    (tmp_path / "self").symlink_to("self")
    os.mkfifo(tmp_path / "pipe")
    names, problems = _names(tmp_path)
    assert names == ["a", "b", "b/1", "b/deep", "b/deep/2", "c", "link"]
    assert problems == {
        "dir": "a link to a directory",
        "broken": "a link that leads nowhere (No such file or directory)",
        "self": "a link that leads nowhere (Too many levels of symbolic links)",
        "pipe": "not a regular file",
    }
    assert _names(tmp_path, dirs_last=True)[0] == ["a", "c", "link", "b", "b/1", "b/deep", "b/deep/2"]
    followed, problems = _names(tmp_path, follow_links=True)
    assert {"dir", "dir/1", "dir/deep/2"} <= set(followed)
    assert "dir" not in problems


def test_folders_that_are_refused(tmp_path: Path) -> None:
    (tmp_path / "root").symlink_to("/")
    (tmp_path / "file").write_bytes(b"")
    for path in ("/", tmp_path / "root", "//", "/tmp/.."):
        with pytest.raises(ValueError, match="the whole machine"):
            check_folder(str(path))
    with pytest.raises(ValueError, match="made by the kernel"):
        check_folder("/proc/self")
    with pytest.raises(NotADirectoryError, match="is not a folder"):
        check_folder(str(tmp_path / "file"))
    with pytest.raises(FileNotFoundError):
        check_folder(str(tmp_path / "nowhere"))


def test_what_is_left_out_is_counted_and_fit_for_a_terminal() -> None:
    text = note_left_out([f"a\x1b[2J\udc80{i}: not a regular file" for i in range(5)])
    assert text.startswith("5 left out: a\\x1b[2J\\udc800: not a regular file; ")
    assert text.endswith("; and 2 more")
