from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

import pytest

from headrace.storage import AtomicFile, temporary_file
from headrace.storage.new_file import NewFile, kept_mode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_RDONLY)
    yield fd
    os.close(fd)


def _fails_from_proc(code: int) -> Callable[..., None]:
    whole = os.link

    def link(source: str, target: str, **options: Any) -> None:
        if source.startswith("/proc/"):
            raise OSError(code, os.strerror(code))
        whole(source, target, **options)

    return link


@pytest.mark.parametrize("code", [errno.ENOENT, errno.EPERM, errno.EXDEV, errno.EACCES])
@pytest.mark.parametrize("has_old", [False, True])
def test_what_was_written_is_kept_where_a_nameless_file_gets_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, has_old: bool
) -> None:
    path, data = tmp_path / "x", os.urandom(100_000)
    if has_old:
        path.write_bytes(b"old")
        path.chmod(0o640)
    monkeypatch.setattr(os, "link", _fails_from_proc(code))
    with AtomicFile(path) as file:
        file.write([data])
    assert path.read_bytes() == data
    assert os.listdir(tmp_path) == ["x"]
    umask = os.umask(0)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == (0o640 if has_old else 0o666 & ~umask)


@pytest.mark.parametrize("kind", ["nameless", "named", "no hard links"])
def test_an_existing_file_is_replaced_only_where_that_is_wanted(
    tmp_path: Path, directory: int, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    if kind != "nameless":
        monkeypatch.delattr(os, "O_TMPFILE")
    if kind == "no hard links":

        def link(*args: Any, **options: Any) -> None:
            raise PermissionError(errno.EPERM, "Operation not permitted")

        monkeypatch.setattr(os, "link", link)
    for text, replace in ((b"1", False), (b"2", True), (b"3", False)):
        new = NewFile(directory, "x", is_private=False)
        new.create()
        os.write(new.fd, text)
        try:
            new.give_name(replace=replace)
        except FileExistsError:
            assert text == b"3"
        new.close()
        new.close()
    assert (tmp_path / "x").read_bytes() == b"2"
    assert os.listdir(tmp_path) == ["x"]


def test_a_link_is_replaced_and_not_what_it_leads_to(tmp_path: Path, directory: int) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "x").symlink_to("real")
    new = NewFile(directory, "x", is_private=True)
    new.create()
    new.give_name(replace=True)
    new.close()
    assert not (tmp_path / "x").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"old"


@pytest.mark.parametrize("is_nameless", [True, False])
def test_a_file_that_replaces_another_is_private_until_it_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_nameless: bool
) -> None:
    if not is_nameless:
        monkeypatch.delattr(os, "O_TMPFILE")
    (tmp_path / "x").write_bytes(b"old")
    (tmp_path / "x").chmod(0o644)
    with AtomicFile(tmp_path / "x") as file:
        assert os.fstat(file.fileno()).st_mode & 0o777 == 0o600
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o644


def test_a_file_beside_another_is_not_more_readable_than_that(tmp_path: Path) -> None:
    data, beside = tmp_path / "x", tmp_path / "x.annex"
    data.write_bytes(b"")
    for data_mode, old_mode, mode in ((0o600, None, 0o600), (0o640, 0o644, 0o640), (0o644, 0o600, 0o600)):
        data.chmod(data_mode)
        beside.unlink(missing_ok=True)
        if old_mode is not None:
            beside.write_bytes(b"")
            beside.chmod(old_mode)
        with AtomicFile(beside, like=data) as file:
            assert os.fstat(file.fileno()).st_mode & 0o777 == 0o600
        assert beside.stat().st_mode & 0o777 == mode
    with AtomicFile(tmp_path / "y", like=tmp_path / "nowhere") as file:
        file.write([b"1"])


def test_a_group_that_cannot_be_kept_gets_what_everybody_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").write_bytes(b"")
    (tmp_path / "x").chmod(0o664)
    facts = list((tmp_path / "x").stat())
    facts[5] += 1  # the group

    def refuse(*args: int) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "fchown", refuse)
    with open(tmp_path / "y", "wb") as file:
        assert kept_mode(file.fileno(), os.stat_result(facts)) == 0o644
        assert kept_mode(file.fileno(), (tmp_path / "x").stat()) == 0o664


def test_a_temporary_file_has_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        with temporary_file(str(tmp_path)) as file:
            assert os.listdir(tmp_path) == []
            file.write(b"ab")
            file.seek(0)
            assert file.read() == b"ab"
            assert os.fstat(file.fileno()).st_mode & 0o777 == 0o600
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
