from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from headrace.errors import ClosedError
from headrace.storage import AtomicFile

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=["nameless", "named"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With O_TMPFILE, and as on a file system that has none."""
    if request.param == "named":
        monkeypatch.delattr(os, "O_TMPFILE")
    return str(request.param)


@pytest.mark.usefixtures("kind")
class TestBothKinds:
    def test_appears_when_complete(self, tmp_path: Path) -> None:
        path = tmp_path / "x"
        with AtomicFile(path) as file:
            file.write([b"ab", bytearray(b"c"), b""])
            assert not path.exists()
        assert path.read_bytes() == b"abc"
        assert os.listdir(tmp_path) == ["x"]

    def test_leaves_nothing_after_an_exception(self, tmp_path: Path) -> None:
        file = AtomicFile(tmp_path / "x")
        file.write([b"ab"])
        with pytest.raises(KeyboardInterrupt), file:
            raise KeyboardInterrupt
        assert os.listdir(tmp_path) == []

    def test_an_existing_file_is_replaced_at_the_end_only(self, tmp_path: Path) -> None:
        path = tmp_path / "x"
        path.write_bytes(b"old")
        file = AtomicFile(path)
        file.write([b"new"])
        with pytest.raises(RuntimeError), file:
            raise RuntimeError
        assert path.read_bytes() == b"old"
        with AtomicFile(path) as file:
            file.write([b"new"])
        assert path.read_bytes() == b"new"
        assert os.listdir(tmp_path) == ["x"]

    def test_a_failed_commit_leaves_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*args: object, **options: object) -> None:
            raise OSError(5, "disk on fire")

        monkeypatch.setattr(os, "replace", fail)
        monkeypatch.setattr(os, "link", fail)
        with pytest.raises(OSError, match="disk on fire"), AtomicFile(tmp_path / "x") as file:
            file.write([b"new"])
        assert os.listdir(tmp_path) == []

    def test_permissions_follow_the_umask(self, tmp_path: Path) -> None:
        old = os.umask(0o027)
        try:
            with AtomicFile(tmp_path / "x") as file:
                file.write([b"a"])
        finally:
            os.umask(old)
        assert (tmp_path / "x").stat().st_mode & 0o777 == 0o640

    def test_descriptors_are_closed(self, tmp_path: Path) -> None:
        before = len(os.listdir("/proc/self/fd"))
        for i in range(5):
            with AtomicFile(tmp_path / f"{i}") as file:
                file.write([b"x"])
            AtomicFile(tmp_path / "never").abort()
        assert len(os.listdir("/proc/self/fd")) == before


def test_many_buffers_and_short_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.pwritev

    def short(fd: int, views: list[memoryview], offset: int) -> int:
        return whole(fd, [views[0][:3]], offset)

    monkeypatch.setattr(os, "pwritev", short)
    pieces = [bytes([i % 256]) * (i % 9) for i in range(50)]
    with AtomicFile(tmp_path / "x") as file:
        file.write(pieces)
    monkeypatch.setattr(os, "pwritev", whole)
    assert (tmp_path / "x").read_bytes() == b"".join(pieces)
    with AtomicFile(tmp_path / "y") as file:
        file.write(pieces * 100)
    assert (tmp_path / "y").read_bytes() == b"".join(pieces) * 100


def test_a_failed_write_says_where_and_what(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwritev", full)
    with pytest.raises(OSError, match=r"No space left on device after 0 bytes.*x'"), AtomicFile(tmp_path / "x") as f:
        f.write([b"a"])
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("can_insert", [True, False])
@pytest.mark.parametrize("size", [4096, 3 * 4096])
def test_inserted_space_is_zero_and_the_rest_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_insert: bool, size: int
) -> None:
    if not can_insert:
        monkeypatch.setattr(AtomicFile, "_insert_range", lambda *args: False)
    data = os.urandom(10 * 4096 + 17)
    with AtomicFile(tmp_path / "x") as file:
        file.write([data])
        file.insert_space(4096, size)
        assert file.position == len(data) + size
        file.write([b"end"])
    assert (tmp_path / "x").read_bytes() == data[:4096] + bytes(size) + data[4096:] + b"end"


def test_write_at_and_read_at_do_not_move(tmp_path: Path) -> None:
    with AtomicFile(tmp_path / "x") as file:
        file.write([b"0123456789"])
        file.write_at(2, b"ab")
        assert (file.position, os.pread(file.fileno(), 4, 1)) == (10, b"1ab4")
        file.position = 6
        file.truncate()
    assert (tmp_path / "x").read_bytes() == b"01ab45"


def test_closed_is_said(tmp_path: Path) -> None:
    file = AtomicFile(tmp_path / "x")
    file.abort()
    file.abort()
    with pytest.raises(ClosedError, match="already closed"):
        file.write([b"a"])


def test_a_missing_directory_is_told_with_the_cure(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"does not exist.*mkdir -p"):
        AtomicFile(tmp_path / "nowhere" / "x")


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match="is a directory"):
        AtomicFile(tmp_path)


def test_a_file_that_is_replaced_passes_its_permissions_on(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_bytes(b"old")
    path.chmod(0o600)
    with AtomicFile(path) as file:
        file.write([b"new"])
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_a_link_stands_for_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    with AtomicFile(tmp_path / "link") as file:
        file.write([b"new"])
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_a_stream_writes_seeks_and_gets_its_name_at_the_end(tmp_path: Path) -> None:
    with AtomicFile(tmp_path / "x") as file:
        stream = file.stream()
        stream.write(b"head, then the rest")
        stream.seek(0)
        stream.write(b"HEAD")
        stream.seek(0, 2)
        stream.write(b"!")
        assert stream.tell() == 20
        stream.close()
        assert not (tmp_path / "x").exists()
    assert (tmp_path / "x").read_bytes() == b"HEAD, then the rest!"


def test_a_link_into_a_directory_that_does_not_exist_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "x").symlink_to("nowhere/x")
    with AtomicFile(tmp_path / "x") as file:
        file.write([b"1"])
    assert not (tmp_path / "x").is_symlink()
    assert (tmp_path / "x").read_bytes() == b"1"
