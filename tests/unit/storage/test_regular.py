from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from headrace.errors import FormatError
from headrace.storage import map_file, open_for_reading
from headrace.storage.regular import open_own

if TYPE_CHECKING:
    from pathlib import Path


def test_a_regular_file_is_opened(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"abc")
    fd = open_for_reading(file, nofollow=True)
    try:
        assert os.read(fd, 9) == b"abc"
        assert not os.get_inheritable(fd)
    finally:
        os.close(fd)


def test_what_is_no_regular_file_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FormatError, match="pipe: this is a pipe"):
        open_for_reading(tmp_path / "pipe", nofollow=False)
    with pytest.raises(FormatError, match="this is a device"):
        map_file("/dev/zero")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        with pytest.raises(FormatError, match="this is a socket"):
            open_for_reading(tmp_path / "socket", nofollow=False)
    with pytest.raises(IsADirectoryError, match="directory"):
        open_for_reading(tmp_path, nofollow=True)
    with pytest.raises(FileNotFoundError):
        open_for_reading(tmp_path / "nothing", nofollow=True)


def test_links_are_followed_only_where_that_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"abc")
    (tmp_path / "link").symlink_to("x")
    os.close(open_for_reading(tmp_path / "link", nofollow=False))
    assert map_file(tmp_path / "link").tobytes() == b"abc"
    for refused in (open_for_reading, map_file):
        with pytest.raises(FormatError, match=r"link: this is a symbolic link.*--follow-links"):
            refused(tmp_path / "link", nofollow=True)


def test_a_link_to_a_pipe_does_not_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    with pytest.raises(FormatError, match="this is a pipe"):
        map_file(tmp_path / "link")


def test_a_file_of_ours_is_no_link_and_nothing_but_a_file(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"abc")
    (tmp_path / "link").symlink_to("x")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FormatError, match="so writing could change a file elsewhere"):
        open_own(tmp_path / "link", os.O_RDWR)
    for name, kind in (("pipe", "a pipe"), ("folder", "a directory")):
        with pytest.raises(FormatError, match=f"this is {kind}, and a regular file is needed"):
            open_own(tmp_path / name, os.O_RDWR, create=True)
    os.close(open_own(tmp_path / "link", os.O_RDWR, follow=True))
    with pytest.raises(FileNotFoundError):
        open_own(tmp_path / "new", os.O_RDWR)


def test_a_new_file_of_ours_has_the_permissions_of_another(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"abc")
    (tmp_path / "x").chmod(0o640)
    fd = open_own(tmp_path / "new", os.O_RDWR, like=os.stat(tmp_path / "x"), create=True)
    try:
        assert os.fstat(fd).st_mode & 0o777 == 0o640
        assert not os.get_inheritable(fd)
    finally:
        os.close(fd)
