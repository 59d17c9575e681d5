"""An archive, looked at interactively."""

from __future__ import annotations

import glob
import itertools
import os
import posixpath
import re
import shlex
import sqlite3
import subprocess
import sys
from collections import defaultdict
from typing import Any, Self

from headrace.cli.common import message_of
from headrace.cli.verbs.shell import PathShell
from headrace.compat.barecat.cli.commands import du_entries, find_entries, list_entries, tree_entries
from headrace.compat.barecat.core.barecat import Barecat
from headrace.compat.barecat.core.paths import normalize_path
from headrace.compat.barecat.exceptions import BarecatError
from headrace.formats.barecat import Metadata
from headrace.transfer.extract import FolderSink

__all__ = ["BarecatShell", "summarize"]

_MAX_COMPLETIONS = 200
_ENOUGH = 5
_PIECES = re.compile(r"\d+|\D+")
_DIR_COMMANDS = ("cd", "tree", "lss")
_WRITING_COMMANDS = ("put", "mput", "rm", "mv")
_PATH_COMMANDS = ("ls", "cat", "head", "stat", "du", "get", "rm", "mv", "find")


class BarecatShell(PathShell):
    """Commands on an archive, with a current directory in it and one on the disk."""

    intro = "Barecat shell. Type help or ? for commands, .quit to exit."
    prompt = "barecat:/> "

    def __init__(self, archive_path: str, readonly: bool = True) -> None:
        super().__init__()
        self.archive_path = archive_path
        self.readonly = readonly
        self.bc = Barecat(archive_path, readonly=readonly)
        self.local_cwd = os.getcwd()

    def _words(self, arg: str, missing: str = "") -> list[str]:
        """The words of a line; there must be some if it is said what is missing without."""
        try:
            words = shlex.split(arg)
        except ValueError:
            words = arg.split()
        if missing and not words:
            raise ValueError(f"missing {missing}")
        return words

    def _local(self, path: str) -> str:
        return os.path.join(self.local_cwd, path) if path else self.local_cwd

    def _existing(self, arg: str) -> str:
        """The file that a command is about."""
        path = self.resolve(arg)
        if not path:
            raise ValueError("missing path")
        if path not in self.bc:
            raise ValueError(f"{path}: No such file")
        return path

    def onecmd(self, line: str) -> Any:
        """Run a command; what goes wrong is said, and the shell goes on."""
        word = (line.split() or [""])[0].lstrip(".")
        try:
            if self.readonly and word in _WRITING_COMMANDS:
                raise ValueError("archive is read-only (use barecat shell --write)")
            return super().onecmd(line)
        except (BarecatError, OSError, ValueError, LookupError) as error:
            print(f"{word}: {message_of(error)}")
        return None

    # Where we are

    def do_cd(self, arg: str) -> None:
        """Cd [DIR]: go to a directory of the archive."""
        path = self.resolve(arg.strip() or "/")
        if not self.bc.isdir(path):
            raise ValueError(f"not a directory: {path}")
        self.directory = path
        self.prompt = f"barecat:/{path}> "

    def do_lcd(self, arg: str) -> None:
        """Lcd [DIR]: go to a directory of the disk."""
        path = self._local(arg.strip() or os.path.expanduser("~"))
        if not os.path.isdir(path):
            raise ValueError(f"not a directory: {path}")
        self.local_cwd = path
        print(f"Local directory: {self.local_cwd}")

    def do_lpwd(self, arg: str) -> None:
        """lpwd: say in which directory of the disk we are."""
        print(self.local_cwd)

    def do_lls(self, arg: str) -> None:
        """Lls [DIR]: list a directory of the disk."""
        path = self._local(arg.strip())
        for name in sorted(os.listdir(path)):
            print(f"{name}/" if os.path.isdir(os.path.join(path, name)) else name)

    # What there is

    def do_ls(self, arg: str) -> None:
        """Ls [-l] [-R] [PATH]: list a directory of the archive."""
        options, paths = _options(self._words(arg), {}, {"-l", "-R"})
        path = self.resolve(paths[0] if paths else "")
        list_entries(self.bc.index, [path], long_format="-l" in options, recursive="-R" in options)

    def do_lss(self, arg: str) -> None:
        """Lss [DIR]: list a directory, numbered files as one line."""
        path = self.resolve(arg.strip())
        if not self.bc.isdir(path):
            raise ValueError(f"not a directory: {path}")
        _, dirs, files = next(self.bc.walk(path))
        for line in (*(f"{name}/" for name in sorted(dirs)), *summarize(sorted(files))):
            print(line)

    def do_tree(self, arg: str) -> None:
        """Tree [-L N] [-d] [DIR]: directories and files as a tree."""
        options, rest = _options(self._words(arg), {"-L": int, "--depth": int}, {"-d"})
        level = options.get("-L", options.get("--depth"))
        tree_entries(self.bc._archive, self.resolve(rest[-1] if rest else ""), level, "-d" in options)

    def do_find(self, arg: str) -> None:
        """Find [PATH] [-name P] [-path P] [-type f|d] [-size [+-]N] [-maxdepth N]: search."""
        values = {"-name": str, "-path": str, "-type": str, "-size": str, "-maxdepth": int}
        options, rest = _options(self._words(arg), values, set())
        unknown = next((word for word in rest if word.startswith("-")), None)
        if unknown is not None:
            raise ValueError(f"unknown option: {unknown}")
        name, path, kind, size = (options.get(word) for word in ("-name", "-path", "-type", "-size"))
        start = self.resolve(rest[-1] if rest else "")
        find_entries(self.bc.index, start, name, path, kind, size, options.get("-maxdepth"))

    def do_du(self, arg: str) -> None:
        """Du [-a] [-s] [-H] [-d N] [PATH]: sizes; without options only the total."""
        options, rest = _options(self._words(arg), {"-d": int}, {"-a", "-s", "-H"})
        depth, is_all = options.get("-d"), "-a" in options
        is_total = "-s" in options or (not is_all and depth is None)
        du_entries(self.bc._archive, self.resolve(rest[-1] if rest else ""), is_all, is_total, "-H" in options, depth)

    def do_stat(self, arg: str) -> None:
        """Stat PATH: what is known about a file or directory."""
        path = self.resolve(*self._words(arg, "path")[:1])
        if self.bc.isdir(path):
            directory = self.bc.index.lookup_dir(path)
            print(f"   Dir: /{directory.path}\n Files: {directory.num_files} (direct)")
            print(f" Total: {directory.num_files_tree} files, {directory.size_tree} bytes")
        elif self.bc.isfile(path):
            info = self.bc.index.lookup_file(path)
            print(f"  File: {info.path}\n  Size: {info.size}\n Shard: {info.shard}\nOffset: {info.offset}")
            print(f"CRC32C: {info.crc32c:#010x}" if info.crc32c else "CRC32C: (none)")
        else:
            raise ValueError(f"{path}: No such file or directory")

    def do_info(self, arg: str) -> None:
        """info: what is known about the archive."""
        print(f"Archive: {self.archive_path}\n  Files: {self.bc.num_files}\n   Dirs: {self.bc.num_dirs}")
        print(f"  Total: {self.bc.total_size} bytes\n Shards: {self.bc.sharder.num_shards}")

    def do_sql(self, arg: str) -> None:
        """Sql QUERY: ask the index in SQL."""
        if not arg.strip():
            raise ValueError("provide a query")
        try:
            cursor = self.bc.index.cursor.execute(arg.strip())
            rows = cursor.fetchall()
        except sqlite3.Error as error:
            print(f"sql error: {error}", file=sys.stderr)
            return
        if rows:
            print("\t".join(column[0] for column in cursor.description))
            print("-" * 40)
        for row in rows:
            print("\t".join(str(value) for value in row))
        print(f"({len(rows)} rows)")

    def do_cat(self, arg: str) -> None:
        """Cat PATH: the content of a file."""
        _show(self.bc[self._existing(arg.strip())])

    def do_head(self, arg: str) -> None:
        """Head [-n BYTES] PATH: the beginning of a file."""
        options, rest = _options(self._words(arg), {"-n": int}, set())
        path = self._existing(rest[-1] if rest else "/")
        _show(self.bc.read(path, 0, options.get("-n", 1024)))

    # To the disk

    def do_get(self, arg: str) -> None:
        """Get PATH [TARGET]: a file, or a directory with all below, to the disk."""
        words = self._words(arg, "archive path")
        path = self.resolve(words[0])
        target = self._local(words[1] if len(words) > 1 else os.path.basename(path))
        if self.bc.isfile(path):
            if os.path.isdir(target):
                target = os.path.join(target, os.path.basename(path))
            self._write(os.path.dirname(target), {path: os.path.basename(target)})
            print(f"Extracted: {path} -> {target}")
        elif self.bc.isdir(path):
            below = self.bc.index.glob_paths(f"{path}/**".lstrip("/"), True, True, only_files=True)
            self._write(target, {name: name[len(path) :].lstrip("/") for name in below})
            print(f"Extracted {len(below)} files to {target}")
        else:
            raise ValueError(f"{path}: No such file or directory")

    def _write(self, folder: str, names: dict[str, str]) -> None:
        target = FolderSink(folder or ".", force=True)
        for path, name in names.items():
            target.write(name, self.bc[path], Metadata())

    def do_mget(self, arg: str) -> None:
        """Mget PATTERN [DIR]: files that match, to the disk."""
        words = self._words(arg, "pattern")
        folder = self._local(words[1]) if len(words) > 1 else self.local_cwd
        pattern = posixpath.join("/", self.directory, words[0]).lstrip("/")
        found = self.bc.index.glob_paths(pattern, recursive=True, only_files=True)
        for path in found:
            self._write(folder, {path: os.path.basename(path)})
            print(f"  {path} -> {os.path.join(folder, os.path.basename(path))}")
        print(f"Extracted {len(found)} files")

    # To the archive

    def do_put(self, arg: str) -> None:
        """Put FILE [PATH]: a file of the disk to the archive."""
        words = self._words(arg, "local path")
        file = self._local(words[0])
        path = self.resolve(words[1] if len(words) > 1 else os.path.basename(file))
        if not os.path.isfile(file):
            raise ValueError(f"{file}: No such file")
        self.bc.add_by_path(file, path)
        print(f"Added: {file} -> {path}")

    def do_mput(self, arg: str) -> None:
        """Mput PATTERN [DIR]: files of the disk that match, to the archive."""
        words = self._words(arg, "pattern")
        folder = self.resolve(words[1]) if len(words) > 1 else self.directory
        files = [file for file in glob.glob(self._local(words[0]), recursive=True) if os.path.isfile(file)]
        for file in files:
            path = normalize_path(f"{folder}/{os.path.basename(file)}")
            self.bc.add_by_path(file, path)
            print(f"  {file} -> {path}")
        print(f"Added {len(files)} files")

    def do_rm(self, arg: str) -> None:
        """Rm PATH: remove a file."""
        path = self.resolve(arg.strip())
        if path and self.bc.isdir(path):
            raise ValueError(f"{path}: Is a directory (use rmdir or rm -r)")
        del self.bc[self._existing(path and f"/{path}")]
        print(f"Removed: {path}")

    def do_mv(self, arg: str) -> None:
        """Mv OLD NEW: give a file or directory another name."""
        words = self._words(arg)
        if len(words) < 2:
            raise ValueError("need source and destination")
        old, new = self.resolve(words[0]), self.resolve(words[1])
        self.bc.rename(old, new)
        print(f"Renamed: {old} -> {new}")

    def default(self, line: str) -> Any:
        """``.command`` as ``command``; ``!command`` runs it in the system's shell."""
        if line.startswith("!"):
            if not line[1:].strip():
                raise ValueError("missing command")
            subprocess.run(line[1:].strip(), shell=True, cwd=self.local_cwd, check=False)
            return None
        name, _, rest = line.removeprefix(".").partition(" ")
        if line.startswith(".") and hasattr(self, f"do_{name}"):
            return getattr(self, f"do_{name}")(rest.strip())
        print(f"Unknown command: {line}")
        return None

    def completedefault(self, text: str, line: str, begidx: int, endidx: int) -> list[str]:
        """Paths in the archive, where a command takes one."""
        word = (line.split() or [""])[0]
        folder, slash, _ = text.rpartition("/")
        place = self.resolve(folder or ("/" if slash else ""))
        if word not in (*_DIR_COMMANDS, *_PATH_COMMANDS) or not self.bc.isdir(place):
            return []
        found = (
            f"{folder}{slash}{info.path.rpartition('/')[2]}{'/' if info.isdir() else ''}"
            for info in self.bc.index.iterdir_infos(place)
            if info.isdir() or word not in _DIR_COMMANDS
        )
        return list(itertools.islice((name for name in found if name.startswith(text)), _MAX_COMPLETIONS))

    def close(self) -> None:
        """Close the archive."""
        self.bc.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def _options(words: list[str], with_value: dict[str, Any], flags: set[str]) -> tuple[dict[str, Any], list[str]]:
    """Options that are known, with their values, and the other words."""
    options: dict[str, Any] = {}
    rest: list[str] = []
    waiting = iter(words)
    for word in waiting:
        value = next(waiting, None) if word in with_value else None
        if value is not None:
            options[word] = with_value[word](value)
        elif word in flags:
            options[word] = True
        else:
            rest.append(word)
    return options, rest


def _show(data: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(data if data.endswith(b"\n") else data + b"\n")
    sys.stdout.buffer.flush()


def summarize(names: list[str]) -> list[str]:
    """Names that differ in one number as a line with stars, if there are five or more; the others as they are.

    Example:
        >>> summarize(["a.txt", *(f"frame_{n:03}.jpg" for n in range(7))])
        ['a.txt', 'frame_***.jpg  (7 files, 000\u2013006)']
    """
    shapes: defaultdict[tuple[str, ...], list[list[str]]] = defaultdict(list)
    for name in names:
        pieces = _PIECES.findall(name)
        # Names of the same shape have numbers of the same length at the same places.
        shapes[tuple(f"\0{len(piece)}" if piece.isdigit() else piece for piece in pieces)].append(pieces)
    return [line for found in sorted(shapes.values(), key=lambda found: found[0]) for line in _lines(found)]


def _lines(found: list[list[str]]) -> list[str]:
    numbers = [position for position, piece in enumerate(found[0]) if piece.isdigit()]
    varying = max(numbers, key=lambda position: len({pieces[position] for pieces in found}), default=0)
    groups: defaultdict[tuple[str, ...], list[list[str]]] = defaultdict(list)
    for pieces in found:
        groups[(*pieces[:varying], *pieces[varying + 1 :])].append(pieces)
    lines: list[str] = []
    for _, group in sorted(groups.items()):
        if len(group) < _ENOUGH:
            lines += ["".join(pieces) for pieces in group]
            continue
        values = [pieces[varying] for pieces in group]
        stars = ["*" * len(values[0]) if position == varying else piece for position, piece in enumerate(group[0])]
        lines.append(f"{''.join(stars)}  ({len(group)} files, {min(values)}\u2013{max(values)})")
    return lines


if __name__ == "__main__":
    from headrace.compat.barecat.cli.main import main

    main(["shell", *sys.argv[1:]])
