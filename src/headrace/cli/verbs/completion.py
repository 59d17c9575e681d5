"""``headrace completion``: scripts by which shells complete the command, made from its parsers."""

from __future__ import annotations

import contextlib
import shlex
import sys
from itertools import islice
from typing import TYPE_CHECKING

import headrace
from headrace.cli.archives import is_archive, names_in_archive
from headrace.cli.common import say
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from headrace.cli.parser import CommandParser

HELP = "print a script that completes this command in bash, zsh or fish"
DESCRIPTION = """\
Print a script by which bash, zsh or fish complete verbs, options, their choices, and the names in archives and
datasets. 'names' is what the scripts ask for: the names in FILE that begin with PREFIX."""
EXAMPLES = """\
examples:
  headrace completion bash > ~/.local/share/bash-completion/completions/headrace
  headrace completion zsh > ~/.zfunc/_headrace        with fpath+=~/.zfunc in ~/.zshrc, before compinit
  headrace completion fish > ~/.config/fish/completions/headrace.fish
  eval "$(headrace completion bash)"                  this shell only
  headrace completion names photos.barecat photos/c"""
_MAX_NAMES = 1000
_NAMING_VERBS = ("ls", "cat", "extract", "tree", "find", "du", "rm", "mv")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("shell", metavar="SHELL", choices=[*_SCRIPTS, "names"], help="bash, zsh or fish")
    parser.add_argument("file", metavar="FILE", nargs="?", help="with names: an archive or dataset")
    parser.add_argument("prefix", metavar="PREFIX", nargs="?", default="", help="with names: how they begin")


def run(args: argparse.Namespace) -> int:
    """Print the script, or the names."""
    if args.shell == "names":
        if args.file is None:
            raise ValueError("name the FILE whose names are wanted")
        with contextlib.suppress(HeadraceError, OSError, ValueError):  # nobody wants an error while typing
            for name in islice(names_beginning(args.file, args.prefix), _MAX_NAMES):
                if name.isprintable():
                    say(name)
        return 0
    if args.file is not None:
        raise ValueError(f"a script for {args.shell} needs no FILE")
    sys.stdout.write(_SCRIPTS[args.shell](args.whole_command))
    return 0


def names_beginning(path: str, prefix: str) -> Iterable[str]:
    """Names of an archive or dataset that begin so; directories of an archive end in a slash."""
    if is_archive(path):
        return names_in_archive(path, prefix)
    return (key for key in headrace.open(path).keys or () if key.startswith(prefix))


def _verbs(parser: CommandParser) -> dict[str, argparse.ArgumentParser]:
    return dict(parser.verbs.choices)


def _options(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [action for action in parser._actions if action.option_strings]


def _words(parser: argparse.ArgumentParser) -> str:
    return " ".join(option for action in _options(parser) for option in action.option_strings)


_BASH = """\
# bash completion of headrace
_headrace() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} verb= file= choices= i
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        if [[ -z $verb ]]; then
            [[ ${{COMP_WORDS[i]}} == -* ]] || verb=${{COMP_WORDS[i]}}
        elif [[ -z $file && -f ${{COMP_WORDS[i]}} ]]; then
            file=${{COMP_WORDS[i]}}
        fi
    done
    if [[ -z $verb ]]; then
        choices={verbs}
        [[ $word == -* ]] && choices={globals}
    elif [[ $word == -* ]]; then
        case $verb in
{options}
        esac
    else
        case "$verb $before" in
{values}
        esac
    fi
    if [[ -n $choices ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$choices" -- "$word")
    elif [[ -n $file ]]; then
        case $verb in
            {naming})
                mapfile -t COMPREPLY < <(headrace completion names "$file" "$word" 2>/dev/null)
                compopt -o nospace -o filenames 2>/dev/null
                ;;
        esac
    fi
}}
complete -o default -F _headrace headrace
"""


def _bash(parser: CommandParser) -> str:
    verbs = _verbs(parser)
    options = [f"            {verb}) choices={shlex.quote(_words(sub))} ;;" for verb, sub in verbs.items()]
    values = []
    for verb, sub in verbs.items():
        for action in sub._actions:
            patterns = " | ".join(f'"{verb} {option}"' for option in action.option_strings) or f'"{verb} {verb}"'
            if action.choices is not None:
                found = shlex.quote(" ".join(map(str, action.choices)))
                values.append(f"            {patterns}) choices={found} ;;")
            elif action.option_strings and action.nargs != 0:
                values.append(f"            {patterns}) return ;;")
    return _BASH.format(
        verbs=shlex.quote(" ".join(verbs)),
        globals=shlex.quote(_words(parser)),
        options="\n".join(options),
        values="\n".join(values),
        naming=" | ".join(_NAMING_VERBS),
    )


_ZSH = """\
#compdef headrace
# zsh completion of headrace
_headrace_names() {{
    local -a found
    local file
    for file in "${{words[@]:1}}"; do
        [[ -f $file ]] && break
        file=
    done
    if [[ -n $file ]]; then
        found=("${{(@f)$(headrace completion names "$file" "$PREFIX" 2>/dev/null)}}")
        compadd -S '' -a found
    else
        _files
    fi
}}

_headrace() {{
    local -a verbs
    verbs=(
{verbs}
    )
    if (( CURRENT == 2 )); then
        _describe verb verbs
        return
    fi
    local verb=$words[2]
    shift words
    (( CURRENT-- ))
    case $verb in
{cases}
    esac
}}

if [[ $funcstack[1] == _headrace ]]; then
    _headrace "$@"
else
    compdef _headrace headrace
fi
"""


def _zsh(parser: CommandParser) -> str:
    verbs = [f"        {shlex.quote(f'{action.dest}:{action.help}')}" for action in parser.verbs._choices_actions]
    cases = []
    for verb, sub in _verbs(parser).items():
        lines = [f"        {verb})", "            _arguments -s \\"]
        for action in _options(sub):
            lines += [f"                {_zsh_option(option, action)} \\" for option in action.option_strings]
        first = next((action for action in sub._actions if not action.option_strings), None)
        if first is not None and first.choices is not None:
            lines.append(f"                '1:{first.metavar}:({' '.join(map(str, first.choices))})' \\")
        rest = "_headrace_names" if verb in _NAMING_VERBS else "_files"
        cases.append("\n".join([*lines, f"                '*:file:{rest}'", "            ;;"]))
    return _ZSH.format(verbs="\n".join(verbs), cases="\n".join(cases))


def _zsh_option(option: str, action: argparse.Action) -> str:
    about = (action.help or "").replace("[", "(").replace("]", ")").replace(":", ";").replace("%", "")
    takes = ""
    if action.nargs != 0:
        choices = f"({' '.join(map(str, action.choices))})" if action.choices is not None else "_files"
        name = str(action.metavar or action.dest).replace("[", "(").replace("]", ")")
        takes = f":{name}:{choices}"
    return shlex.quote(f"*{option}[{about}]{takes}")


_FISH = """\
# fish completion of headrace
function __headrace_verb
    set -l words (commandline -opc)
    for word in $words[2..]
        if not string match -q -- '-*' $word
            test $word = $argv[1]
            return
        end
    end
    test -z $argv[1]
end

function __headrace_names
    set -l words (commandline -opc)
    for word in $words[3..]
        if test -f $word
            headrace completion names $word (commandline -ct) 2>/dev/null
            return
        end
    end
    __fish_complete_path (commandline -ct)
end

complete -c headrace -f
{lines}
"""


_NO_VERB = "''"


def _fish(parser: CommandParser) -> str:
    lines = [_fish_option(_NO_VERB, option) for option in _options(parser)]
    lines += [
        f"{_fish_start(_NO_VERB)} -a {action.dest} -d {_fish_word(action.help)}"
        for action in parser.verbs._choices_actions
    ]
    for verb, sub in _verbs(parser).items():
        lines += [_fish_option(verb, option) for option in _options(sub)]
        words = [action for action in sub._actions if not action.option_strings]
        choices = [choice for action in words for choice in action.choices or ()]
        if choices:
            lines.append(f"{_fish_start(verb)} -a {_fish_word(' '.join(map(str, choices)))}")
        if verb in _NAMING_VERBS:
            lines.append(f"{_fish_start(verb)} -a '(__headrace_names)'")
        elif any(action.choices is None for action in words):
            lines.append(f"{_fish_start(verb)} -F")
    return _FISH.format(lines="\n".join(lines))


def _fish_start(verb: str) -> str:
    return f'complete -c headrace -n "__headrace_verb {verb}"'


def _fish_option(verb: str, action: argparse.Action) -> str:
    parts = [_fish_start(verb)]
    for option in action.option_strings:
        kind = "-l" if option.startswith("--") else "-s" if len(option) == 2 else "-o"
        parts.append(f"{kind} {option.lstrip('-')}")
    if action.nargs != 0:
        parts.append(
            f"-x -a {_fish_word(' '.join(map(str, action.choices)))}" if action.choices is not None else "-r -F"
        )
    return " ".join([*parts, f"-d {_fish_word(action.help)}"])


def _fish_word(text: str | None) -> str:
    quoted = (text or "").replace("\\", "\\\\").replace("'", "\\'").replace("%%", "%")
    return f"'{quoted}'"


_SCRIPTS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
