"""An archive, looked at interactively."""

from __future__ import annotations

import argparse
import cmd
import os
import shlex
import sqlite3
import subprocess
import sys
from typing import Any, Self

from headrace.compat.barecat.cli.commands import du_entries, find_entries, list_entries, tree_entries
from headrace.compat.barecat.cli.shell_files import FileCommands
from headrace.compat.barecat.cli.summaries import summarize
from headrace.compat.barecat.core.barecat import Barecat
from headrace.compat.barecat.exceptions import BarecatError

__all__ = ["BarecatShell", "main"]

_MAX_COMPLETIONS = 200
_DIR_COMMANDS = ("cd", "tree", "lss")
_PATH_COMMANDS = ("ls", "cat", "head", "stat", "du", "get", "rm", "mv", "find")


class BarecatShell(FileCommands, cmd.Cmd):
    """Commands on an archive, with a current directory in it and one on the disk.

    Args:
        archive_path: the archive.
        readonly: refuse commands that change it.
    """

    intro = "Barecat shell. Type help or ? for commands, .quit to exit."

    def __init__(self, archive_path: str, readonly: bool = True) -> None:
        super().__init__()
        self.archive_path = archive_path
        self.readonly = readonly
        self.bc = Barecat(archive_path, readonly=readonly)
        self.cwd = ""
        self.local_cwd = os.getcwd()
        self._update_prompt()

    def _update_prompt(self) -> None:
        self.prompt = f"barecat:/{self.cwd}> "

    def _parse_args(self, arg: str) -> list[str]:
        try:
            return shlex.split(arg)
        except ValueError:
            return arg.split()

    def onecmd(self, line: str) -> Any:
        """Run a command; what goes wrong is said, and the shell goes on."""
        try:
            return super().onecmd(line)
        except (BarecatError, OSError, ValueError, LookupError) as error:
            word = (line.split() or [""])[0]
            print(f"{word}: {error.args[0] if isinstance(error, KeyError) and error.args else error}")
            return None

    # Where we are

    def do_cd(self, arg: str) -> None:
        """Cd [DIR]: go to a directory of the archive."""
        path = self._resolve_path(arg.strip() or "/")
        if self.bc.isdir(path):
            self.cwd = path
        else:
            print(f"cd: not a directory: {path}")
        self._update_prompt()

    def do_pwd(self, arg: str) -> None:
        """pwd: say in which directory of the archive we are."""
        print(f"/{self.cwd}")

    def do_lcd(self, arg: str) -> None:
        """Lcd [DIR]: go to a directory of the disk."""
        path = self._resolve_local_path(arg.strip() or os.path.expanduser("~"))
        if not os.path.isdir(path):
            print(f"lcd: not a directory: {path}")
            return
        self.local_cwd = path
        print(f"Local directory: {self.local_cwd}")

    def do_lpwd(self, arg: str) -> None:
        """lpwd: say in which directory of the disk we are."""
        print(self.local_cwd)

    def do_lls(self, arg: str) -> None:
        """Lls [DIR]: list a directory of the disk."""
        path = self._resolve_local_path(arg.strip())
        for name in sorted(os.listdir(path)):
            print(f"{name}/" if os.path.isdir(os.path.join(path, name)) else name)

    # What there is

    def do_ls(self, arg: str) -> None:
        """Ls [-l] [-R] [PATH]: list a directory of the archive."""
        words = self._parse_args(arg)
        paths = [word for word in words if word not in ("-l", "-R")]
        path = self._resolve_path(paths[0] if paths else "")
        list_entries(self.bc.index, [path], long_format="-l" in words, recursive="-R" in words)

    def do_lss(self, arg: str) -> None:
        """Lss [DIR]: list a directory, numbered files as one line."""
        path = self._resolve_path(arg.strip())
        if not self.bc.isdir(path):
            print(f"lss: not a directory: {path}")
            return
        dirs = [info.path.rpartition("/")[2] for info in self.bc.index.list_subdir_dirinfos(path)]
        files = [info.path.rpartition("/")[2] for info in self.bc.index.list_direct_fileinfos(path)]
        for name in sorted(dirs):
            print(f"{name}/")
        for line in summarize(sorted(files)):
            print(line)

    def do_tree(self, arg: str) -> None:
        """Tree [-L N] [-d] [DIR]: directories and files as a tree."""
        words = self._parse_args(arg)
        options, rest = _options(words, {"-L": int, "--depth": int}, {"-d"})
        level = options.get("-L", options.get("--depth"))
        tree_entries(self.bc.index, self._resolve_path(rest[-1] if rest else ""), level, "-d" in options)

    def do_find(self, arg: str) -> None:
        """Find [PATH] [-name P] [-path P] [-type f|d] [-size [+-]N] [-maxdepth N]: search."""
        values = {"-name": str, "-path": str, "-type": str, "-size": str, "-maxdepth": int}
        options, rest = _options(self._parse_args(arg), values, set())
        unknown = next((word for word in rest if word.startswith("-")), None)
        if unknown is not None:
            print(f"find: unknown option: {unknown}")
            return
        find_entries(
            self.bc.index,
            path=self._resolve_path(rest[-1] if rest else ""),
            name=options.get("-name"),
            pathpattern=options.get("-path"),
            ftype=options.get("-type"),
            size=options.get("-size"),
            maxdepth=options.get("-maxdepth"),
        )

    def do_du(self, arg: str) -> None:
        """Du [-a] [-s] [-H] [-d N] [PATH]: sizes; without options only the total."""
        options, rest = _options(self._parse_args(arg), {"-d": int}, {"-a", "-s", "-H"})
        depth = options.get("-d")
        du_entries(
            self.bc.index,
            path=self._resolve_path(rest[-1] if rest else ""),
            all_files="-a" in options,
            summarize="-s" in options or ("-a" not in options and depth is None),
            human_readable="-H" in options,
            max_depth=depth,
        )

    def do_stat(self, arg: str) -> None:
        """Stat PATH: what is known about a file or directory."""
        path = self._resolve_path(arg.strip())
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
        print(f"Archive: {self.archive_path}")
        print(f"  Files: {self.bc.num_files}")
        print(f"   Dirs: {self.bc.num_dirs}")
        print(f"  Total: {self.bc.total_size} bytes")
        print(f" Shards: {self.bc.sharder.num_shards}")

    def do_sql(self, arg: str) -> None:
        """Sql QUERY: ask the index in SQL."""
        if not arg.strip():
            print("sql: provide a query")
            return
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

    # The shell itself

    def do_quit(self, arg: str) -> bool:
        """quit: leave."""
        return True

    def do_exit(self, arg: str) -> bool:
        """exit: leave."""
        return True

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
        if word in _DIR_COMMANDS or word in _PATH_COMMANDS:
            return self._complete_archive_path(text, dirs_only=word in _DIR_COMMANDS)
        return []

    def _complete_archive_path(self, text: str, dirs_only: bool = False) -> list[str]:
        folder, slash, beginning = text.rpartition("/")
        place = self._resolve_path(folder or ("/" if slash else ""))
        if not self.bc.isdir(place):
            return []
        matches = []
        for info in self.bc.index.iterdir_infos(place):
            name = info.path.rpartition("/")[2]
            if name.startswith(beginning) and (info.isdir() or not dirs_only):
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


def main() -> None:
    """Run the shell as a command of its own."""
    parser = argparse.ArgumentParser(description="Look at an archive interactively")
    parser.add_argument("archive", help="path of the archive")
    parser.add_argument("-c", "--command", help="run one command and exit")
    parser.add_argument("-w", "--write", action="store_true", help="allow changes")
    args = parser.parse_args()
    with BarecatShell(args.archive, readonly=not args.write) as shell:
        if args.command:
            shell.onecmd(args.command)
        else:
            shell.cmdloop()


if __name__ == "__main__":
    main()
