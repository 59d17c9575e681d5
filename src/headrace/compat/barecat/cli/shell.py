"""An archive, looked at interactively."""

from __future__ import annotations

import cmd
import glob
import os
import posixpath
import shlex
import sqlite3
import subprocess
import sys
from typing import Any, Self

from headrace.cli.common import message_of
from headrace.compat.barecat.cli.commands import du_entries, find_entries, list_entries, tree_entries
from headrace.compat.barecat.cli.summaries import summarize
from headrace.compat.barecat.core.barecat import Barecat
from headrace.compat.barecat.core.paths import normalize_path
from headrace.compat.barecat.exceptions import BarecatError
from headrace.formats.barecat import Metadata
from headrace.transfer.extract import FolderSink

__all__ = ["BarecatShell"]

_MAX_COMPLETIONS = 200
_DIR_COMMANDS = ("cd", "tree", "lss")
_PATH_COMMANDS = ("ls", "cat", "head", "stat", "du", "get", "rm", "mv", "find")


class BarecatShell(cmd.Cmd):
    """Commands on an archive, with a current directory in it and one on the disk."""

    intro = "Barecat shell. Type help or ? for commands, .quit to exit."

    def __init__(self, archive_path: str, readonly: bool = True) -> None:
        super().__init__()
        self.archive_path = archive_path
        self.readonly = readonly
        self.bc = Barecat(archive_path, readonly=readonly)
        self.cwd = ""
        self.local_cwd = os.getcwd()
        self.prompt = "barecat:/> "

    def _words(self, arg: str, word: str = "", missing: str = "") -> list[str]:
        """The words of a line; ValueError if there are none and something is missing then."""
        try:
            words = shlex.split(arg)
        except ValueError:
            words = arg.split()
        if missing and not words:
            raise _Refusal(f"{word}: {missing}")
        return words

    def _path(self, path: str) -> str:
        return normalize_path(path if path.startswith("/") else f"{self.cwd}/{path}")

    def _local(self, path: str) -> str:
        return os.path.join(self.local_cwd, path) if path else self.local_cwd

    def _existing(self, word: str, arg: str) -> str:
        """The file that a command is about."""
        path = self._path(arg)
        if not path:
            raise _Refusal(f"{word}: missing path")
        if path not in self.bc:
            raise _Refusal(f"{word}: {path}: No such file")
        return path

    def _need_write(self, word: str) -> None:
        if self.readonly:
            raise _Refusal(f"{word}: archive is read-only (use barecat shell --write)")

    def onecmd(self, line: str) -> Any:
        """Run a command; what goes wrong is said, and the shell goes on."""
        try:
            return super().onecmd(line)
        except _Refusal as refusal:
            print(refusal)
        except (BarecatError, OSError, ValueError, LookupError) as error:
            print(f"{(line.split() or [''])[0]}: {message_of(error)}")
        return None

    # Where we are

    def do_cd(self, arg: str) -> None:
        """Cd [DIR]: go to a directory of the archive."""
        path = self._path(arg.strip() or "/")
        if not self.bc.isdir(path):
            raise _Refusal(f"cd: not a directory: {path}")
        self.cwd = path
        self.prompt = f"barecat:/{path}> "

    def do_pwd(self, arg: str) -> None:
        """pwd: say in which directory of the archive we are."""
        print(f"/{self.cwd}")

    def do_lcd(self, arg: str) -> None:
        """Lcd [DIR]: go to a directory of the disk."""
        path = self._local(arg.strip() or os.path.expanduser("~"))
        if not os.path.isdir(path):
            raise _Refusal(f"lcd: not a directory: {path}")
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
        path = self._path(paths[0] if paths else "")
        list_entries(self.bc.index, [path], long_format="-l" in options, recursive="-R" in options)

    def do_lss(self, arg: str) -> None:
        """Lss [DIR]: list a directory, numbered files as one line."""
        path = self._path(arg.strip())
        if not self.bc.isdir(path):
            raise _Refusal(f"lss: not a directory: {path}")
        dirs = sorted(info.path.rpartition("/")[2] for info in self.bc.index.list_subdir_dirinfos(path))
        files = sorted(info.path.rpartition("/")[2] for info in self.bc.index.list_direct_fileinfos(path))
        for line in (*(f"{name}/" for name in dirs), *summarize(files)):
            print(line)

    def do_tree(self, arg: str) -> None:
        """Tree [-L N] [-d] [DIR]: directories and files as a tree."""
        options, rest = _options(self._words(arg), {"-L": int, "--depth": int}, {"-d"})
        level = options.get("-L", options.get("--depth"))
        tree_entries(self.bc.index, self._path(rest[-1] if rest else ""), level, "-d" in options)

    def do_find(self, arg: str) -> None:
        """Find [PATH] [-name P] [-path P] [-type f|d] [-size [+-]N] [-maxdepth N]: search."""
        values = {"-name": str, "-path": str, "-type": str, "-size": str, "-maxdepth": int}
        options, rest = _options(self._words(arg), values, set())
        unknown = next((word for word in rest if word.startswith("-")), None)
        if unknown is not None:
            raise _Refusal(f"find: unknown option: {unknown}")
        name, path, kind, size = (options.get(word) for word in ("-name", "-path", "-type", "-size"))
        start = self._path(rest[-1] if rest else "")
        find_entries(self.bc.index, start, name, path, kind, size, options.get("-maxdepth"))

    def do_du(self, arg: str) -> None:
        """Du [-a] [-s] [-H] [-d N] [PATH]: sizes; without options only the total."""
        options, rest = _options(self._words(arg), {"-d": int}, {"-a", "-s", "-H"})
        depth, is_all = options.get("-d"), "-a" in options
        is_total = "-s" in options or (not is_all and depth is None)
        du_entries(self.bc.index, self._path(rest[-1] if rest else ""), is_all, is_total, "-H" in options, depth)

    def do_stat(self, arg: str) -> None:
        """Stat PATH: what is known about a file or directory."""
        path = self._path(arg.strip())
        if not path:
            print("stat: missing path")
        elif self.bc.isfile(path):
            info = self.bc.index.lookup_file(path)
            print(f"  File: {info.path}\n  Size: {info.size}\n Shard: {info.shard}\nOffset: {info.offset}")
            print(f"CRC32C: {info.crc32c:#010x}" if info.crc32c else "CRC32C: (none)")
        elif self.bc.isdir(path):
            directory = self.bc.index.lookup_dir(path)
            print(f"   Dir: /{directory.path}\n Files: {directory.num_files} (direct)")
            print(f" Total: {directory.num_files_tree} files, {directory.size_tree} bytes")
        else:
            print(f"stat: {path}: No such file or directory")

    def do_info(self, arg: str) -> None:
        """info: what is known about the archive."""
        print(f"Archive: {self.archive_path}\n  Files: {self.bc.num_files}\n   Dirs: {self.bc.num_dirs}")
        print(f"  Total: {self.bc.total_size} bytes\n Shards: {self.bc.sharder.num_shards}")

    def do_sql(self, arg: str) -> None:
        """Sql QUERY: ask the index in SQL."""
        if not arg.strip():
            raise _Refusal("sql: provide a query")
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
        _show(self.bc[self._existing("cat", arg.strip())])

    def do_head(self, arg: str) -> None:
        """Head [-n BYTES] PATH: the beginning of a file."""
        options, rest = _options(self._words(arg), {"-n": int}, set())
        path = self._existing("head", rest[-1] if rest else "/")
        _show(self.bc.read(path, 0, options.get("-n", 1024)))

    # To the disk

    def do_get(self, arg: str) -> None:
        """Get PATH [TARGET]: a file, or a directory with all below, to the disk."""
        words = self._words(arg, "get", "missing archive path")
        path = self._path(words[0])
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
            print(f"get: {path}: No such file or directory")

    def _write(self, folder: str, names: dict[str, str]) -> None:
        target = FolderSink(folder or ".", force=True)
        for path, name in names.items():
            target.write(name, self.bc[path], Metadata())

    def do_mget(self, arg: str) -> None:
        """Mget PATTERN [DIR]: files that match, to the disk."""
        words = self._words(arg, "mget", "missing pattern")
        folder = self._local(words[1]) if len(words) > 1 else self.local_cwd
        pattern = posixpath.join("/", self.cwd, words[0]).lstrip("/")
        found = self.bc.index.glob_paths(pattern, recursive=True, only_files=True)
        for path in found:
            self._write(folder, {path: os.path.basename(path)})
            print(f"  {path} -> {os.path.join(folder, os.path.basename(path))}")
        print(f"Extracted {len(found)} files")

    # To the archive

    def do_put(self, arg: str) -> None:
        """Put FILE [PATH]: a file of the disk to the archive."""
        self._need_write("put")
        words = self._words(arg, "put", "missing local path")
        file = self._local(words[0])
        path = self._path(words[1] if len(words) > 1 else os.path.basename(file))
        if not os.path.isfile(file):
            raise _Refusal(f"put: {file}: No such file")
        self.bc.add_by_path(file, path)
        print(f"Added: {file} -> {path}")

    def do_mput(self, arg: str) -> None:
        """Mput PATTERN [DIR]: files of the disk that match, to the archive."""
        self._need_write("mput")
        words = self._words(arg, "mput", "missing pattern")
        folder = self._path(words[1]) if len(words) > 1 else self.cwd
        files = [file for file in glob.glob(self._local(words[0]), recursive=True) if os.path.isfile(file)]
        for file in files:
            path = normalize_path(f"{folder}/{os.path.basename(file)}")
            self.bc.add_by_path(file, path)
            print(f"  {file} -> {path}")
        print(f"Added {len(files)} files")

    def do_rm(self, arg: str) -> None:
        """Rm PATH: remove a file."""
        self._need_write("rm")
        if self._path(arg.strip()) and self.bc.isdir(self._path(arg.strip())):
            raise _Refusal(f"rm: {self._path(arg.strip())}: Is a directory (use rmdir or rm -r)")
        path = self._existing("rm", arg.strip())
        del self.bc[path]
        print(f"Removed: {path}")

    def do_mv(self, arg: str) -> None:
        """Mv OLD NEW: give a file or directory another name."""
        self._need_write("mv")
        words = self._words(arg)
        if len(words) < 2:
            raise _Refusal("mv: need source and destination")
        old, new = self._path(words[0]), self._path(words[1])
        self.bc.rename(old, new)
        print(f"Renamed: {old} -> {new}")

    # The shell itself

    def do_quit(self, arg: str) -> bool:
        """quit: leave."""
        return True

    do_exit = do_quit

    def do_EOF(self, arg: str) -> bool:
        """Leave."""
        print()
        return True

    def default(self, line: str) -> Any:
        """``.command`` as ``command``; ``!command`` runs it in the system's shell."""
        if line.startswith("!"):
            if line[1:].strip():
                subprocess.run(line[1:].strip(), shell=True, cwd=self.local_cwd, check=False)
            else:
                print("!: missing command")
            return None
        name, _, rest = line[1:].partition(" ") if line.startswith(".") else ("", "", "")
        method = getattr(self, f"do_{name}", None) if name else None
        if method is not None:
            return method(rest.strip())
        print(f"Unknown command: {line}")
        return None

    def emptyline(self) -> bool:
        """Nothing."""
        return False

    def completedefault(self, text: str, line: str, begidx: int, endidx: int) -> list[str]:
        """Paths in the archive, where a command takes one."""
        word = (line.split() or [""])[0]
        folder, slash, beginning = text.rpartition("/")
        place = self._path(folder or ("/" if slash else ""))
        if word not in (*_DIR_COMMANDS, *_PATH_COMMANDS) or not self.bc.isdir(place):
            return []
        matches = []
        for info in self.bc.index.iterdir_infos(place):
            name = info.path.rpartition("/")[2]
            if name.startswith(beginning) and (info.isdir() or word not in _DIR_COMMANDS):
                matches.append(f"{folder}{slash}{name}{'/' if info.isdir() else ''}")
            if len(matches) >= _MAX_COMPLETIONS:
                break
        return matches

    def cmdloop(self, intro: Any = None) -> None:
        """Read commands until the end; Ctrl-C only drops a line."""
        print(intro if intro is not None else self.intro)
        while True:
            try:
                super().cmdloop(intro="")
                return
            except KeyboardInterrupt:
                print("^C")

    def close(self) -> None:
        """Close the archive."""
        self.bc.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class _Refusal(Exception):
    """A line for the user, in place of what a command would do."""


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


if __name__ == "__main__":
    from headrace.compat.barecat.cli.main import main

    main(["shell", *sys.argv[1:]])
