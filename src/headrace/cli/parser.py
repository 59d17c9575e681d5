"""The parser of the command and of each verb: words in any order, and errors that help."""

from __future__ import annotations

import argparse
import difflib
import os
import re
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from headrace.cli.common import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["CommandParser", "VerbParser", "nearest"]

_MASK = "\0"  # before words that come after --, so that argparse takes none of them for an option
_OTHER_WORDS = {
    "check": "verify",
    "copy": "convert",
    "delete": "rm",
    "del": "rm",
    "describe": "info",
    "dir": "ls",
    "export": "extract",
    "fsck": "verify",
    "head": "ls",
    "import": "convert",
    "join": "merge",
    "list": "ls",
    "move": "mv",
    "pack": "create",
    "read": "cat",
    "remove": "rm",
    "rename": "mv",
    "rsync": "sync",
    "show": "info",
    "stat": "info",
    "test": "verify",
    "umount": "mount",
    "unpack": "extract",
    "write": "create",
}
"""What other programs call a verb."""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that somebody probably meant.

    Example:
        >>> nearest("creat", ["create", "cat"]), nearest("apple", ["create"])
        ('create', None)
    """
    return next(iter(difflib.get_close_matches(word, list(known), 1)), None)


def _shown(word: str) -> str:
    return repr(word if len(word) <= 60 else f"{word[:60]}...")


class VerbParser(argparse.ArgumentParser):
    """Takes options and positional arguments of a verb in any order (argparse alone wants options last)."""

    _is_intermixing = False
    signed_options: tuple[str, ...] = ()
    """Options whose values may begin with a minus sign."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse, with positional arguments before, between and after options; what is left over is an error."""
        if self._is_intermixing:
            return super().parse_known_args(args, namespace)
        if self._subparsers is not None:
            found, unknown = super().parse_known_args(args, namespace)
        else:
            found, unknown = self._parse_intermixed(args, namespace)
        if unknown:
            self._refuse(unknown)
        return found, unknown

    def _parse_intermixed(self, args: Sequence[str] | None, namespace: Any) -> tuple[Any, list[str]]:
        words = list(sys.argv[1:] if args is None else args)
        cut = words.index("--") if "--" in words else len(words)
        words = [*self._join_signed(words[:cut]), *(_MASK + word for word in words[cut + 1 :])]
        self._is_intermixing = True
        try:
            found, unknown = self.parse_known_intermixed_args(words, namespace)
        finally:
            self._is_intermixing = False
        for name, value in vars(found).items():
            setattr(found, name, _unmasked(value))
        return found, _unmasked(unknown)

    def _join_signed(self, words: list[str]) -> list[str]:
        joined: list[str] = []
        for word in words:
            if joined and joined[-1] in self.signed_options:
                joined[-1] += f"={word}"
            else:
                joined.append(word)
        return joined

    def _refuse(self, unknown: list[str]) -> NoReturn:
        word = next((word for word in unknown if word.startswith("-") and word != "-"), None)
        if word is None:
            self.error(f"too many arguments: {_shown(unknown[0])} is not expected")
        name = word.partition("=")[0]
        if re.match(r"-\d", name):
            self.error(f"there is no option {_shown(name)}; names and ranges that begin with a dash go after --")
        meant = self._meant_option(name)
        self.error(f"there is no option {_shown(name)}" + (f"; did you mean {meant}?" if meant else ""))

    def _meant_option(self, word: str) -> str | None:
        known = {option.lstrip("-"): option for action in self._actions for option in action.option_strings}
        meant = nearest(word.lstrip("-"), known)
        return None if meant is None else known[meant]

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value is argparse.SUPPRESS or value in action.choices:
            return
        known = [str(choice) for choice in action.choices]
        meant = nearest(str(value), known)
        about = f"; did you mean {meant}?" if meant else f"; choose from {', '.join(known)}"
        raise argparse.ArgumentError(action, f"{_shown(str(value))} is not a choice{about}")

    def error(self, message: str) -> NoReturn:
        """End with a usage error; what the user typed may hold anything."""
        self.print_usage(sys.stderr)
        message = message.replace(": ignored explicit argument", " takes no value, and got")
        self.exit(2, f"{self.prog}: error: {printable(message)}\n{self._hint}\n")

    @property
    def _hint(self) -> str:
        return f"'{self.prog} --help' explains it."


def _unmasked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unmasked(one) for one in value]
    return value.removeprefix(_MASK) if isinstance(value, str) else value


class CommandParser(VerbParser):
    """The parser of the whole command; its help lists the verbs in groups.

    Attributes:
        groups: a headline, and the verbs under it.
    """

    groups: Mapping[str, Sequence[str]]

    @property
    def verbs(self) -> argparse._SubParsersAction[VerbParser]:
        """The parsers of the verbs."""
        return next(action for action in self._actions if isinstance(action, argparse._SubParsersAction))

    def _refuse(self, unknown: list[str]) -> NoReturn:
        if any(unknown[0] in verb._option_string_actions for verb in self.verbs.choices.values()):
            self.error(f"{unknown[0]} is an option of verbs, and comes after the verb")
        super()._refuse(unknown)

    def format_help(self) -> str:
        """What ``headrace help`` prints."""
        about = {action.dest: action.help for action in self.verbs._choices_actions}
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        for headline, names in self.groups.items():
            formatter.add_text("\n".join([f"{headline}:", *(f"  {name:<10}  {about[name]}" for name in names)]))
        formatter.start_section("options")
        formatter.add_arguments([action for action in self._actions if action.option_strings])
        formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action is not self.verbs or value in action.choices:
            super()._check_value(action, value)
            return
        self.error(f"there is no verb {_shown(value)}{self._meant_verb(value)}")

    def _meant_verb(self, word: str) -> str:
        known = self.verbs.choices
        meant = _OTHER_WORDS.get(word.lower()) or nearest(word.lower(), known)
        if meant in known:
            return f"; did you mean {meant}?"
        if os.path.exists(word):
            return f"; the verb comes first, for example: {self.prog} info {word}"
        return ""

    @property
    def _hint(self) -> str:
        return f"'{self.prog} help' lists the verbs."
