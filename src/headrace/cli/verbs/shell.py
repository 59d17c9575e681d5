"""``headrace shell``: move about in an archive as in a file system."""

from __future__ import annotations

import argparse
import cmd
import contextlib
import os
import posixpath
import shlex
import sys
from typing import TYPE_CHECKING

from headrace.cli.archives import names_in_archive, open_archive
from headrace.cli.common import ERRORS, add_follow_links, message_of, printable, reading_options, say
from headrace.cli.parser import VerbParser
from headrace.cli.verbs import cat, du, find, info, ls, mv, rm, tree, verify
from headrace.errors import HeadraceError
from headrace.formats.disk_files import find_files
from headrace.formats.patterns import fixed_prefix
from headrace.transfer.extract import FolderSink, select_infos

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType

    from headrace.formats.barecat import Archive

HELP = "move about in an archive as in a file system"
DESCRIPTION = """\
An interactive shell in a .barecat: cd, pwd, ls, tree, find, du, cat, get, stat, info, verify, and with -w also put, rm,
mv, mkdir. Names complete with Tab; 'help' lists the commands and 'help COMMAND' explains one. Commands also come from
-c, or from standard input if that is no terminal; the first that fails ends the shell with exit code 2."""
EXAMPLES = """\
examples:
  headrace shell photos.barecat
  headrace shell photos.barecat -c 'cd photos/cat' -c 'ls -l' -c 'get 7.jpg /tmp'
  headrace shell photos.barecat -w < commands.txt"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("path", metavar="FILE", help="an archive (.barecat)")
    parser.add_argument("-c", "--command", action="append", metavar="COMMAND", help="run this; may be repeated")
    parser.add_argument("-w", "--write", action="store_true", help="also allow commands that change the archive")
    add_follow_links(parser)


def run(args: argparse.Namespace) -> int:
    """Read commands and run them; 2 when one failed."""
    open_archive(args.path, **reading_options(args)).close()  # an error now, not at the first command
    shell = ArchiveShell(args.path, is_writable=args.write, **reading_options(args))
    if args.command is not None:
        return shell.run_all(args.command)
    if not sys.stdin.isatty():
        return shell.run_all(sys.stdin)
    shell.interact()
    return 0


class PathShell(cmd.Cmd):
    """A shell with a current directory in an archive; what it does there is up to those that derive from it."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = ""

    def interact(self) -> None:
        """Ask for commands until the user has enough; Ctrl-C gives up one line."""
        with contextlib.suppress(ImportError):
            import readline

            readline.set_completer_delims(" \t\n")
        print(self.intro)
        self.intro = ""  # cmdloop would repeat it
        while True:
            try:
                self.cmdloop()
                return
            except KeyboardInterrupt:
                print("^C")

    def emptyline(self) -> bool:
        """Nothing was typed: do nothing."""
        return False

    def resolve(self, name: str) -> str:
        """A name as the archive has it: relative to the current directory unless it begins with a slash."""
        return posixpath.normpath(posixpath.join("/", self.directory, name)).lstrip("/")

    def do_pwd(self, line: str) -> None:
        """``pwd``: print the current directory."""
        print(f"/{printable(self.directory)}")

    def do_quit(self, line: str) -> bool:
        """``quit``: end the shell; exit and Ctrl-D do the same."""
        return True

    do_exit = do_quit

    def do_EOF(self, line: str) -> bool:
        """Ctrl-D: end the shell."""
        print()
        return True


class ArchiveShell(PathShell):
    """Commands on one archive; they share the options of the verbs of the same name.

    Args:
        path: the archive.
        is_writable: allow what changes it.
        follow_links: also read shards and an annex that are symbolic links.
    """

    intro = "Tab completes, 'help' explains, 'quit' or Ctrl-D ends."

    def __init__(self, path: str, *, is_writable: bool = False, follow_links: bool = False) -> None:
        super().__init__()
        self.path = os.path.abspath(path)  # lcd changes what a relative path means
        self.has_failed = False
        self._is_writable = is_writable
        self._follow_links = follow_links
        self._set_prompt()

    def _set_prompt(self) -> None:
        self.prompt = f"{printable(os.path.basename(self.path))}:/{printable(self.directory)}> "

    def _open(self) -> Archive:
        return open_archive(self.path, follow_links=self._follow_links)

    # Running

    def run_all(self, lines: Iterable[str]) -> int:
        """Run commands until one fails; gives the exit code."""
        for line in lines:
            text = line.strip()
            is_done = self.onecmd(text) if not text.startswith("#") else False
            if self.has_failed:
                return 2
            if is_done:
                break
        return 0

    def onecmd(self, line: str) -> bool:
        """Run one command; errors are printed, not raised."""
        self.has_failed = False
        try:
            return bool(super().onecmd(line))
        except ERRORS as error:
            self._fail(message_of(error))
        except SystemExit as end:  # what a parser does after printing its help or complaint
            self.has_failed = end.code not in (0, None)
        return False

    def _fail(self, message: str) -> None:
        self.has_failed = True
        sys.stdout.flush()
        say(f"headrace: error: {message}", file=sys.stderr)

    def default(self, line: str) -> None:
        """Complain about a word that is no command."""
        raise ValueError(f"no command is called {line.split()[0]!r}; 'help' lists them")

    def _run_verb(self, module: ModuleType, line: str, names: tuple[str, ...]) -> None:
        """Run a verb on this archive; the arguments in ``names`` are relative to the current directory."""
        parser = VerbParser(prog=module.__name__.rpartition(".")[2], description=module.DESCRIPTION)
        module.add_arguments(parser)
        parser._actions[1].help = argparse.SUPPRESS  # FILE, which the shell knows
        args = parser.parse_args([self.path, *shlex.split(line)])
        if self._follow_links and "follow_links" in args:
            args.follow_links = True
        for name in names:
            value = getattr(args, name)
            setattr(args, name, [self.resolve(v) for v in value] if isinstance(value, list) else self.resolve(value))
        seen_from = {"base": self.directory} if module in (ls, find, du) else {}
        self.has_failed = module.run(args, **seen_from) != 0

    def _needs_write(self, what: str) -> None:
        if not self._is_writable:
            raise ValueError(f"{what} changes the archive; start the shell with -w to allow that")

    def do_help(self, line: str) -> None:
        """``help [COMMAND]``: explain all commands, or one."""
        words = line.split()
        hidden = ("do_EOF", "do_exit")
        names = words or [name[3:] for name in self.get_names() if name.startswith("do_") and name not in hidden]
        for name in names:
            about = getattr(self, f"do_{name}", None)
            if about is None:
                raise ValueError(f"no command is called {name!r}; 'help' lists them")
            print((about.__doc__ or "").partition("\n")[0].replace("``", ""))

    # Looking

    def do_cd(self, line: str) -> None:
        """``cd [DIR]``: go to a directory; without DIR to the root."""
        words = shlex.split(line)
        target = self.resolve(words[0]) if words else ""
        with self._open() as archive:
            archive.listdir(target)
        self.directory = target
        self._set_prompt()

    def do_ls(self, line: str) -> None:
        """``ls [-l] [-R] [--json] [NAME ...]``: list a directory, or what matches a pattern."""
        self._run_verb(ls, line, ("samples",))

    def do_tree(self, line: str) -> None:
        """``tree [-L N] [-d] [DIR]``: show a directory as a tree."""
        self._run_verb(tree, line, ("directory",))

    def do_find(self, line: str) -> None:
        """``find [DIR] [--name PATTERN] [--path PATTERN] [--type f|d] [--size [+-]N[kMGT]] [--maxdepth N]``: search."""
        self._run_verb(find, line, ("directory",))

    def do_du(self, line: str) -> None:
        """``du [-a] [-s] [-H] [-L N] [DIR]``: how much directories hold."""
        self._run_verb(du, line, ("directory",))

    def do_cat(self, line: str) -> None:
        """``cat NAME``: write a file to standard output."""
        self._run_verb(cat, line, ("sample",))

    def do_stat(self, line: str) -> None:
        """``stat NAME ...``: what the index says about a file or directory."""
        with self._open() as archive:
            for word in shlex.split(line) or ["."]:
                for key, value in archive.stat(self.resolve(word))._asdict().items():
                    say(f"{key:>14}", value)

    def do_info(self, line: str) -> None:
        """``info [--json]``: about the whole archive."""
        self._run_verb(info, line, ())

    def do_verify(self, line: str) -> None:
        """``verify [--quick] [-j N]``: check the archive."""
        self._run_verb(verify, line, ())

    # Carrying

    def do_lcd(self, line: str) -> None:
        """``lcd DIR``: go to another directory of the machine, for get and put."""
        (directory,) = shlex.split(line) or ["~"]
        os.chdir(os.path.expanduser(directory))

    def do_lpwd(self, line: str) -> None:
        """``lpwd``: print the current directory of the machine."""
        say(os.getcwd())

    def do_get(self, line: str) -> None:
        """``get [--force] NAME [DIR]``: write a file, directory or what matches a pattern below DIR (default: here)."""
        words = shlex.split(line)
        is_forced = "--force" in words
        words = [word for word in words if word != "--force"]
        if len(words) not in (1, 2):
            raise ValueError("get takes a name, and a directory to write to")
        name = self.resolve(words[0])
        target = FolderSink(words[1] if len(words) == 2 else ".", force=is_forced)
        with self._open() as archive:
            dirs, files = select_infos(archive, [name])
            above = (name if archive.exists(name) else fixed_prefix(name)).rpartition("/")[0]
            cut = len(above) + 1 if above else 0
            for directory in dirs:
                if directory.path[cut:]:
                    target.make_dir(directory.path[cut:], directory.metadata)
            for file in files:
                target.write(file.path[cut:], archive[file.path], file.metadata)
        target.finish()

    def do_put(self, line: str) -> None:
        """``put PATH [DIR]``: add a file or folder of the machine to a directory (default: the current one)."""
        self._needs_write("put")
        words = shlex.split(line)
        if len(words) not in (1, 2):
            raise ValueError("put takes a path, and a directory of the archive")
        path = words[0].rstrip("/") or "/"
        below = self.resolve(words[1] if len(words) == 2 else ".")
        cut = len(path) - len(os.path.basename(path))
        with open_archive(self.path, "r+") as archive:
            for found in find_files([path]):
                archive.add_by_path(found.path, posixpath.join(below, found.path[cut:]))

    def do_mkdir(self, line: str) -> None:
        """``mkdir NAME ...``: make directories."""
        self._needs_write("mkdir")
        with open_archive(self.path, "r+") as archive:
            for word in shlex.split(line):
                archive.mkdir(self.resolve(word))

    def do_rm(self, line: str) -> None:
        """``rm [-r] NAME ...``: remove files and directories."""
        self._needs_write("rm")
        self._run_verb(rm, line, ("names",))

    def do_mv(self, line: str) -> None:
        """``mv OLD NEW``: rename, or move into a directory."""
        self._needs_write("mv")
        self._run_verb(mv, line, ("old", "new"))

    # Completing

    def completedefault(self, text: str, line: str, begidx: int, endidx: int) -> list[str]:
        """Names of the archive that begin with what was typed."""
        head, slash, start = text.rpartition("/")
        directory = self.resolve(head or ("/" if slash else "."))
        prefix = f"{directory}/{start}" if directory else start
        try:
            found = names_in_archive(self.path, prefix, follow_links=self._follow_links)
        except (HeadraceError, OSError):
            return []
        cut = len(directory) + 1 if directory else 0
        return [f"{head}{slash}{shlex.quote(name[cut:])}" for name in found if name.isprintable()]
