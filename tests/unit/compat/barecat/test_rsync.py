"""Copying what has changed."""

from __future__ import annotations

import os
import tarfile
from typing import TYPE_CHECKING

import pytest

from headrace.compat.barecat import Barecat
from headrace.compat.barecat.maintenance.rsync import PathType, RsyncOptions, parse_path, rsync

from .conftest import CONTENT

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("path", "kind", "archive", "inner", "has_slash"),
    [
        ("a/b", PathType.LOCAL, None, "", False),
        ("a/b/", PathType.LOCAL, None, "", True),
        ("x.barecat::", PathType.LOCAL_ARCHIVE, "x.barecat", "", False),
        ("x.barecat::/in/side/", PathType.LOCAL_ARCHIVE, "x.barecat", "in/side", True),
        ("any::x", PathType.LOCAL_ARCHIVE, "any", "x", False),
        ("x.TAR.gz::d", PathType.TAR_ZIP, "x.TAR.gz", "d", False),
        ("x.zip::", PathType.TAR_ZIP, "x.zip", "", False),
        (r"we\::ird::in\::side", PathType.LOCAL_ARCHIVE, "we::ird", "in::side", False),
        (r"two\\::x", PathType.LOCAL_ARCHIVE, "two\\", "x", False),
        (r"none\::here", PathType.LOCAL, None, "", False),
        ("me@host:/data/d", PathType.SSH, None, "", False),
        ("host:/data/x.barecat::in", PathType.SSH_ARCHIVE, "/data/x.barecat", "in", False),
        ("barecat://host:5/x::in", PathType.BARECAT_SERVER, "x", "in", False),
    ],
)
def test_paths(path: str, kind: PathType, archive: str | None, inner: str, has_slash: bool) -> None:
    parsed = parse_path(path)
    assert (parsed.path_type, parsed.archive_path, parsed.inner_path) == (kind, archive, inner)
    assert parsed.trailing_slash == parsed.contents_mode == has_slash
    assert parsed.is_archive == (kind not in (PathType.LOCAL, PathType.TAR_ZIP, PathType.SSH))
    assert parsed.is_tar_zip == (kind == PathType.TAR_ZIP)


def test_hosts() -> None:
    parsed = parse_path("me@host:/data")
    assert (parsed.user, parsed.host, parsed.filesystem_path, parsed.is_remote) == ("me", "host", "/data", True)
    assert parse_path("a/x.barecat::").archive_basename == "x"
    with pytest.raises(ValueError, match="Invalid barecat://"):
        parse_path("barecat://host")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for name, data in CONTENT.items():
        file = tmp_path / "src" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        os.utime(file, ns=(10**18, 10**18))
    return tmp_path / "src"


def names(path: str) -> list[str]:
    with Barecat(path) as bc:
        assert bc.verify_integrity()
        return sorted(bc)


def below(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_into_an_archive(source: Path, path: str) -> None:
    rsync([f"{source}/"], f"{path}::")
    assert names(path) == sorted(CONTENT)
    rsync([str(source)], f"{path}::in/side")
    rsync([str(source / "a.txt")], f"{path}::one/")
    assert {"in/side/src/a.txt", "one/a.txt"} <= set(names(path))
    with Barecat(path) as bc:
        info = bc.index.lookup_file("a.txt")
        assert (info.mtime_ns, info.mode) == (10**18, (source / "a.txt").stat().st_mode)


def test_only_what_has_changed(source: Path, path: str, capsys: pytest.CaptureFixture[str]) -> None:
    rsync([f"{source}/"], f"{path}::")
    rsync([f"{source}/"], f"{path}::", RsyncOptions(verbose=True))
    assert sorted(capsys.readouterr().out.splitlines()) == sorted(f"skip (unchanged): {name}" for name in CONTENT)
    (source / "a.txt").write_bytes(b"FIRST and longer")
    (source / "new").write_bytes(b"new")
    rsync([f"{source}/"], f"{path}::", RsyncOptions(dry_run=True))
    assert sorted(capsys.readouterr().out.splitlines()) == ["would add: new", "would update: a.txt"]
    rsync([f"{source}/"], f"{path}::")
    with Barecat(path) as bc:
        assert (bc["a.txt"], bc["new"]) == (b"FIRST and longer", b"new")
        assert bc.verify_integrity()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (RsyncOptions(existing=True), b"changed"),
        (RsyncOptions(ignore_existing=True), b"first"),
        (RsyncOptions(size_only=True), b"changed"),
        (RsyncOptions(update=True), b"first"),
        (RsyncOptions(checksum=True), b"changed"),
        (RsyncOptions(max_size=3), b"first"),
        (RsyncOptions(min_size=8), b"first"),
        (RsyncOptions(exclude=["*.txt"]), b"first"),
        (RsyncOptions(exclude=["*.txt"], include=["a.*"]), b"changed"),
    ],
)
def test_what_is_left_out(source: Path, path: str, options: RsyncOptions, expected: bytes) -> None:
    rsync([f"{source}/"], f"{path}::")
    (source / "a.txt").write_bytes(b"changed")
    os.utime(source / "a.txt", ns=(10**17, 10**17))
    rsync([f"{source}/"], f"{path}::", options)
    with Barecat(path) as bc:
        assert bc["a.txt"] == expected


def test_the_same_size_is_enough_if_asked(source: Path, path: str) -> None:
    rsync([f"{source}/"], f"{path}::")
    (source / "a.txt").write_bytes(b"FIRST")
    rsync([f"{source}/"], f"{path}::", RsyncOptions(size_only=True))
    with Barecat(path) as bc:
        assert bc["a.txt"] == b"first"
    rsync([f"{source}/"], f"{path}::", RsyncOptions(times=False))
    with Barecat(path) as bc:
        assert bc["a.txt"] == b"FIRST"
        assert (bc.index.lookup_file("a.txt").mtime_ns or 0) > 10**18


def test_deleting(source: Path, path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rsync([f"{source}/"], f"{path}::keep")
    (source / "a.txt").unlink()
    with Barecat(path, readonly=False) as bc:
        bc["outside"] = b"stays"
    rsync([f"{source}/"], f"{path}::keep", RsyncOptions(delete=True, dry_run=True))
    assert "would delete: keep/a.txt" in capsys.readouterr().out
    rsync([f"{source}/"], f"{path}::keep", RsyncOptions(delete=True, exclude=["b.txt"]))
    assert names(path) == sorted({"outside"} | {f"keep/{name}" for name in CONTENT if name != "a.txt"})
    out = tmp_path / "out"
    out.mkdir()
    (out / "old").write_bytes(b"")
    rsync([f"{path}::keep/"], str(out), RsyncOptions(delete=True))
    assert below(out) == {name: data for name, data in CONTENT.items() if name != "a.txt"}


def test_out_of_an_archive(filled: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    rsync([f"{filled}::"], str(out), RsyncOptions(dry_run=True))
    assert f"would extract: {out}/x/a.txt" in capsys.readouterr().out
    assert not out.exists()
    rsync([f"{filled}::"], str(out))
    assert below(out / "x") == CONTENT
    rsync([f"{filled}::dir/", f"{filled}::dir", f"{filled}::a.txt"], str(out))
    assert {"b.txt", "dir/b.txt", "a.txt"} <= set(below(out))
    rsync([f"{filled}::dir/"], str(out), RsyncOptions(verbose=True, checksum=True))
    assert f"extract: {out}/b.txt" in capsys.readouterr().out


def test_between_archives_and_tars(
    filled: str, tmp_path: Path, source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = str(tmp_path / "t.barecat")
    rsync([f"{filled}::dir"], f"{target}::")
    rsync([f"{filled}::dir"], f"{target}::", RsyncOptions(checksum=True, verbose=True))
    assert "skip (checksum match): dir/b.txt" in capsys.readouterr().out
    with tarfile.open(tmp_path / "s.tar.gz", "w:gz") as tar:
        tar.add(source, "top")
    rsync([f"{tmp_path}/s.tar.gz::top/dir", f"{tmp_path}/s.tar.gz::"], f"{target}::tar")
    rsync([f"{tmp_path}/s.tar.gz::top/dir/"], str(tmp_path / "folder"))
    assert {"dir/b.txt", "tar/dir/b.txt", "tar/s/top/a.txt"} <= set(names(target))
    assert below(tmp_path / "folder")["sub/c.bin"] == CONTENT["dir/sub/c.bin"]
    rsync([f"{filled}::"], f"{tmp_path}/none.barecat::", RsyncOptions(dry_run=True))
    assert "would copy: a.txt -> x/a.txt" in capsys.readouterr().out
    assert not os.path.exists(tmp_path / "none.barecat")


def test_what_cannot_be(source: Path, path: str) -> None:
    with pytest.raises(ValueError, match="regular rsync"):
        rsync([str(source)], "somewhere")
    with pytest.raises(NotImplementedError):
        rsync(["host:/x"], f"{path}::")
    with pytest.raises(ImportError):
        rsync(["host:/x.barecat::"], f"{path}::")
    with pytest.raises(FileNotFoundError, match="Source not found"):
        rsync([str(source / "no")], f"{path}::")


def test_names_that_lead_out(filled: str, tmp_path: Path) -> None:
    with Barecat(filled, readonly=False) as bc, bc.index.no_triggers():
        bc.index.cursor.execute("UPDATE files SET path = '../out.txt' WHERE path = 'a.txt'")
    with pytest.raises(ValueError, match="leads out"):
        rsync([f"{filled}::/"], str(tmp_path / "deep" / "er"))
    assert not (tmp_path / "deep" / "out.txt").exists()
