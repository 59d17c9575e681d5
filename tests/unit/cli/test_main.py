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


def test_every_verb_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    for verb in ("create", "info", "ls", "cat", "extract", "verify", "index", "demo"):
        with pytest.raises(SystemExit) as left:
            build_parser().parse_args([verb, "--help"])
        assert left.value.code == 0
        assert f"headrace {verb}" in capsys.readouterr().out.partition("examples:")[2]


def test_a_closed_pipe_is_no_error(packed: Path) -> None:
    script = f"{sys.executable} -m headrace ls {packed} | true"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {script}"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_version_and_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"headrace {hr.__version__}\n"
    with pytest.raises(FileNotFoundError):
        main(["--traceback", "info", "missing.beton"])


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
