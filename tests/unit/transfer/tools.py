"""Tars and trees for the tests."""

from __future__ import annotations

import io
import os
import tarfile
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


def make_folder(root: Path) -> Path:
    """A folder with files, an empty directory, a name with a newline, and times and modes of its own."""
    (root / "a" / "deep").mkdir(parents=True)
    (root / "void").mkdir()
    (root / "a" / "1.txt").write_text("one")
    (root / "a" / "deep" / "new\nline").write_bytes(bytes(100_000))
    (root / "empty").write_bytes(b"")
    (root / "a" / "1.txt").chmod(0o640)
    for path in (root / "a" / "1.txt", root / "void"):
        os.utime(path, ns=(10**18, 10**18))
    return root


def tree(root: Path) -> dict[str, bytes | None]:
    """Files with their contents, and directories, by name."""
    return {str(p.relative_to(root)): p.read_bytes() if p.is_file() else None for p in root.rglob("*")}


def make_tar(path: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    """Write a tar, compressed as its ending says."""
    how: Any = f"w:{path.suffix[1:]}" if path.suffix in (".gz", ".xz") else "w"
    with tarfile.open(path, how) as tar:
        for info, data in members:
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    """An entry of a tar."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info
