"""The folder that the recorded commands run in, and what they leave behind; for the recorder and for the test."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tarfile
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Callable

TIME_S = 1_600_000_000
FILES = {
    "src/a.txt": b"alpha\n",
    "src/sub/b.bin": bytes(range(256)) * 20,
    "src/sub/deep/c.txt": b"ccc" * 500,
    "src/empty": b"",
    "src/.hidden": b"h",
    "odd/q?#%[1].txt": b"1",
    "odd/new\nline": b"22",
    "odd/\u00fcn\u00ef.txt": b"333",
    "odd/-dash": b"4444",
    "odd/sp ace": b"55555",
}
LISTS = {
    "list": "src/a.txt\nsrc/empty\nsrc/sub/deep/c.txt\n",
    "list0": "src/a.txt\0odd/new\nline\0",
    "list-missing": "src/a.txt\nnope\nsrc/sub/b.bin\n",
    "list-blank": "src/a.txt\n\nsrc/sub/b.bin",
    "list-none": "",
    "all": "src/a.txt\nsrc/.hidden\nsrc/empty\nsrc/sub/b.bin\nsrc/sub/deep/c.txt\nsrc/void\n",
    "odd0": "odd/-dash\0odd/new\nline\0odd/q?#%[1].txt\0odd/sp ace\0odd/\u00fcn\u00ef.txt\0",
}


def make_place(folder: Path, run: Callable[..., object]) -> None:
    """Files, lists, archives (made by ``run``), tars and zips, and damaged ones; ``folder`` is the current one."""
    for name, data in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
        (folder / name).chmod(0o644)
    (folder / "src/void").mkdir()
    (folder / "adir").mkdir()
    for path in (folder / "src", folder / "odd", *(folder / "src").rglob("*"), *(folder / "odd").rglob("*")):
        if path.is_dir():
            path.chmod(0o755)
        os.utime(path, (TIME_S, TIME_S))
    for name, text in LISTS.items():
        (folder / name).write_text(text)
    run("create", "-s", "6K", "x.barecat", "-T", "all")
    run("create", "odd.barecat", "-0", "-T", "odd0")
    run("create", "dup.barecat", "src/a.txt")
    for ending in ("tar", "tar.gz", "tar.bz2", "tar.xz"):
        how: Any = "w:" + ending.partition(".")[2]
        with tarfile.open(f"t.{ending}", how) as tar:
            tar.add("src")
    with zipfile.ZipFile("t.zip", "w") as archive:
        for name in sorted(FILES)[-5:]:
            archive.write(name)
    _damage(folder)


def _damage(folder: Path) -> None:
    for kind in ("crc", "short", "missing", "garbage"):
        for file in folder.glob("x.barecat*"):
            shutil.copy(file, folder / file.name.replace("x.", f"{kind}.", 1))
    with open("crc.barecat-shard-00000", "r+b") as shard:
        shard.write(b"\xff")
    os.truncate("short.barecat-shard-00000", 10)
    os.unlink("missing.barecat-shard-00000")
    (folder / "garbage.barecat").write_bytes(b"SQLite format 3\0" + b"x" * 500)
    (folder / "text.barecat").write_text("hello")
    (folder / "cut.tar").write_bytes((folder / "t.tar").read_bytes()[:3000])
    (folder / "bad.zip").write_bytes(b"PK garbage")
    (folder / "bad.tar.gz").write_bytes(b"garbage")


def look(folder: Path) -> dict[str, Any]:
    """Everything in a folder, in a form that can be compared: archives by their rows, tars and zips by their members."""
    return {str(path.relative_to(folder)): _facts(path) for path in sorted(folder.rglob("*"))}


def _facts(path: Path) -> Any:
    if path.is_symlink():
        return f"-> {os.path.basename(os.readlink(path))}"
    if path.is_dir():
        return "directory"
    if path.suffix == ".zip" and zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            return sorted([one.filename, one.file_size] for one in archive.infolist())
    if ".tar" in path.name:
        with contextlib.suppress(tarfile.TarError, EOFError), tarfile.open(path) as tar:
            return sorted([one.name, one.size, one.mode] for one in tar)
    data = path.read_bytes()
    if data.startswith(b"SQLite format 3\0") and len(data) > 4096:
        return _rows(path)
    if "-shard-" in path.name:
        return f"{len(data)} bytes"  # which file comes first is up to the file system
    return f"{len(data)} bytes, {zlib.crc32(data):08x}"


def _rows(path: Path) -> list[Any]:
    connection = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)
    try:
        files = connection.execute("SELECT path, size, crc32c, mode, mtime_ns FROM files ORDER BY path")
        dirs = "SELECT path, num_subdirs, num_files, num_files_tree, size_tree, mode FROM dirs ORDER BY path"
        return [[list(row) for row in files], [list(row) for row in connection.execute(dirs)]]
    finally:
        connection.close()
