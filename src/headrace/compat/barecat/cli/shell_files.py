"""Commands of the shell that read, copy and change files."""

from __future__ import annotations

import glob
import os
import sys
from typing import TYPE_CHECKING

from headrace.compat.barecat.core.paths import normalize_path
from headrace.compat.barecat.core.types import BarecatFileInfo
from headrace.formats.barecat.names import safe_name

if TYPE_CHECKING:
    from headrace.compat.barecat.core.barecat import Barecat

__all__ = ["FileCommands"]


class FileCommands:
    """cat, head, get, mget, put, mput, rm, mv."""

    bc: Barecat
    cwd: str
    local_cwd: str
    readonly: bool

    def _parse_args(self, arg: str) -> list[str]:
        raise NotImplementedError

    def _resolve_path(self, path: str) -> str:
        return normalize_path(path if path.startswith("/") else f"{self.cwd}/{path}")

    def _resolve_local_path(self, path: str) -> str:
        return os.path.join(self.local_cwd, path) if path else self.local_cwd

    def _may_write(self, word: str) -> bool:
        if self.readonly:
            print(f"{word}: archive is read-only (use barecat shell --write)")
        return not self.readonly

    def do_cat(self, arg: str) -> None:
        """Cat PATH: the content of a file."""
        path = self._resolve_path(arg.strip())
        if not path:
            print("cat: missing path")
        elif path not in self.bc:
            print(f"cat: {path}: No such file")
        else:
            _show(self.bc[path])

    def do_head(self, arg: str) -> None:
        """Head [-n BYTES] PATH: the beginning of a file."""
        words = self._parse_args(arg)
        count = 1024
        if "-n" in words[:-1]:
            at = words.index("-n")
            count = int(words[at + 1])
            del words[at : at + 2]
        path = self._resolve_path(words[-1]) if words else ""
        if not path:
            print("head: missing path")
        elif path not in self.bc:
            print(f"head: {path}: No such file")
        else:
            _show(self.bc.read(path, 0, count))

    # To the disk

    def do_get(self, arg: str) -> None:
        """Get PATH [TARGET]: a file, or a directory with all below, to the disk."""
        words = self._parse_args(arg)
        if not words:
            print("get: missing archive path")
            return
        path = self._resolve_path(words[0])
        target = self._resolve_local_path(words[1] if len(words) > 1 else os.path.basename(path))
        if self.bc.isfile(path):
            if os.path.isdir(target):
                target = os.path.join(target, os.path.basename(path))
            _write(target, self.bc[path])
            print(f"Extracted: {path} -> {target}")
        elif self.bc.isdir(path):
            self._get_dir(path, target)
        else:
            print(f"get: {path}: No such file or directory")

    def _get_dir(self, path: str, target: str) -> None:
        pattern = f"{path}/**" if path else "**"
        found = self.bc.index.iterglob_infos(pattern, recursive=True, include_hidden=True, only_files=True)
        names = [info.path for info in found]
        for name in names:
            _write(os.path.join(target, safe_name(name[len(path) :].lstrip("/"))), self.bc[name])
        print(f"Extracted {len(names)} files to {target}")

    def do_mget(self, arg: str) -> None:
        """Mget PATTERN [DIR]: files that match, to the disk."""
        words = self._parse_args(arg)
        if not words:
            print("mget: missing pattern")
            return
        pattern = words[0].lstrip("/") if words[0].startswith("/") or not self.cwd else f"{self.cwd}/{words[0]}"
        target = self._resolve_local_path(words[1]) if len(words) > 1 else self.local_cwd
        count = 0
        for info in self.bc.index.iterglob_infos(pattern, recursive=True, only_files=True):
            if isinstance(info, BarecatFileInfo):
                file = os.path.join(target, os.path.basename(info.path))
                _write(file, self.bc.read(info))
                print(f"  {info.path} -> {file}")
                count += 1
        print(f"Extracted {count} files")

    # To the archive

    def do_put(self, arg: str) -> None:
        """Put FILE [PATH]: a file of the disk to the archive."""
        if not self._may_write("put"):
            return
        words = self._parse_args(arg)
        if not words:
            print("put: missing local path")
            return
        file = self._resolve_local_path(words[0])
        path = self._resolve_path(words[1] if len(words) > 1 else os.path.basename(file))
        if not os.path.isfile(file):
            print(f"put: {file}: No such file")
            return
        self.bc.add_by_path(file, path)
        print(f"Added: {file} -> {path}")

    def do_mput(self, arg: str) -> None:
        """Mput PATTERN [DIR]: files of the disk that match, to the archive."""
        if not self._may_write("mput"):
            return
        words = self._parse_args(arg)
        if not words:
            print("mput: missing pattern")
            return
        folder = self._resolve_path(words[1]) if len(words) > 1 else self.cwd
        files = [f for f in glob.glob(self._resolve_local_path(words[0]), recursive=True) if os.path.isfile(f)]
        for file in files:
            path = normalize_path(f"{folder}/{os.path.basename(file)}")
            self.bc.add_by_path(file, path)
            print(f"  {file} -> {path}")
        print(f"Added {len(files)} files")

    def do_rm(self, arg: str) -> None:
        """Rm PATH: remove a file."""
        if not self._may_write("rm"):
            return
        path = self._resolve_path(arg.strip())
        if not path:
            print("rm: missing path")
        elif self.bc.isfile(path):
            del self.bc[path]
            print(f"Removed: {path}")
        elif self.bc.isdir(path):
            print(f"rm: {path}: Is a directory (use rmdir or rm -r)")
        else:
            print(f"rm: {path}: No such file")

    def do_mv(self, arg: str) -> None:
        """Mv OLD NEW: give a file or directory another name."""
        if not self._may_write("mv"):
            return
        words = self._parse_args(arg)
        if len(words) < 2:
            print("mv: need source and destination")
            return
        old, new = self._resolve_path(words[0]), self._resolve_path(words[1])
        self.bc.rename(old, new)
        print(f"Renamed: {old} -> {new}")


def _show(data: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(data if data.endswith(b"\n") else data + b"\n")
    sys.stdout.buffer.flush()


def _write(path: str, data: bytes) -> None:
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)
