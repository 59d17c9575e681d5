from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from headrace.errors import FormatError
from headrace.storage import map_file, open_for_reading

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
