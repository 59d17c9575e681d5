"""The command itself: help, version, words, errors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace.cli.main import build_parser, main
from headrace.formats.barecat import Archive

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Said = Callable[..., str]


VERBS = list(build_parser().verbs.choices)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself(verb: str, said: Said, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main([verb, "--help"])
    assert left.value.code == 0
    explained = capsys.readouterr().out
    assert f"headrace {verb}" in explained.partition("examples:")[2]
    assert said("help", verb) == explained


def test_the_help_lists_every_verb_in_groups(said: Said) -> None:
    text = said("help")
    listed = [line.split()[0] for line in text.partition("options:")[0].splitlines() if line.startswith("  ")]
    assert sorted(listed) == sorted(VERBS)
    assert text.index("\nevery format:") < text.index("  verify") < text.index("\narchives of files (.barecat):")
    assert text.index("\narchives of files") < text.index("  defrag") < text.index("\nthe command itself:")
    assert max(map(len, text.partition("examples:")[0].splitlines())) <= 80


def test_the_bare_command_prints_the_help(said: Said) -> None:
    assert said() == said("help")
    with pytest.raises(SystemExit):
        main(["--help"])
    run = subprocess.run([sys.executable, "-m", "headrace"], capture_output=True, text=True, check=True)
    assert run.stdout == said("help")
    assert run.stderr == ""


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as left:
        main(words)
    assert left.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    return err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["creat"], "headrace: error: there is no verb 'creat'; did you mean create?"),
        (["pack", "x"], "there is no verb 'pack'; did you mean create?"),
        (["LS"], "there is no verb 'LS'; did you mean ls?"),
        (["apple"], "there is no verb 'apple'\n'headrace help' lists the verbs."),
        (["\x1b[31m"], "there is no verb '\\x1b[31m'"),
        (["verify", "x", "--decoed"], "headrace verify: error: there is no option '--decoed'; did you mean --decode?"),
        (["verify", "x", "--apple=3"], "there is no option '--apple'\n'headrace verify --help' explains it."),
        (["ls", "x", "-5:"], "there is no option '-5:'; names and ranges that begin with a dash go after --"),
        (["info", "x", "y"], "headrace info: error: too many arguments: 'y' is not expected"),
        (["info"], "headrace info: error: the following arguments are required: FILE"),
        (["info", "x", "--json=3"], "argument --json takes no value, and got '3'"),
        (["create", "x", "y", "--mode", "jpeg"], "argument --mode: 'jpeg' is not a choice; did you mean jpg?"),
        (["create", "x", "y", "--mode", "oil"], "'oil' is not a choice; choose from jpg, raw, smart, proportion"),
        (["help", "crate"], "'crate' is not a choice; did you mean create?"),
        (["--frob"], "headrace: error: the following arguments are required: VERB"),
        (["--"], "the following arguments are required: VERB"),
    ],
)
def test_mistakes_are_answered_with_the_usage_and_what_was_meant(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(capsys, *words)
    assert message in said
    verb = words[0] if words[0] in VERBS else ""
    assert said.startswith(f"usage: headrace {verb}")


def test_a_file_in_the_place_of_the_verb(packed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"the verb comes first, for example: headrace info {packed}" in refused(capsys, str(packed))


def test_a_closed_pipe_is_no_error(packed: Path) -> None:
    script = f"{sys.executable} -m headrace ls {packed} | true"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {script}"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_version_and_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--version"])
    assert left.value.code == 0
    assert capsys.readouterr().out == f"headrace {hr.__version__}\n"
    assert main(["version"]) == 0
    assert capsys.readouterr().out == f"headrace {hr.__version__}\n"
    for words in (["--traceback", "info", "missing.beton"], ["info", "missing.beton", "--traceback"]):
        with pytest.raises(FileNotFoundError):
            main(words)


def test_words_after_two_dashes_are_names(place: Path, said: Said) -> None:
    (place / "-odd").write_text("dash")
    said("create", "-q", "--", "-x.barecat", "-odd")
    assert said("ls", "--", "-x.barecat") == "-odd\n"
    assert said("cat", "--", "-x.barecat", "-odd") == "dash"
    said("mv", "--", "-x.barecat", "-odd", "--")
    assert list(Archive("-x.barecat")) == ["--"]


def test_names_do_not_reach_the_terminal_raw(place: Path, said: Said) -> None:
    (place / "evil").mkdir()
    (place / "evil" / "\x1b[31mred").write_bytes(b"1")
    said("create", "evil.ffr", "evil")
    assert said("ls", "evil.ffr") == "0  \\x1b[31mred\n"
    said("create", "evil.barecat", "evil")
    assert "\x1b" not in said("ls", "-lR", "evil.barecat")
    with open("evil.barecat-shard-00000", "r+b") as shard:
        shard.write(b"2")
    assert "evil/\\x1b[31mred: checksum" in said("verify", "evil.barecat", code=1)
    assert "\x1b" not in said("cat", "evil.barecat", "evil/\x1b[31mred", code=2)
