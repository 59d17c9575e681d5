"""Commands of the original, recorded: the same exit code, the same output, the same files left behind."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.golden.barecat_command.place import look, make_place

from headrace.compat.barecat.cli.main import main
from headrace.compat.commands import COMMANDS, run_command

RECORDED = Path(__file__).parents[3] / "golden" / "barecat_command" / "expected.json"
EXPECTED: dict[str, dict[str, Any]] = json.loads(RECORDED.read_text())
BETTER = {  # what the original leaves out
    "x x.barecat -C adir": {"adir/src/void": "directory"},
    "barecat-extract --file x.barecat --target-directory out": {"out/src/void": "directory"},
}


def run(*words: str) -> int:
    try:
        if words and words[0] in COMMANDS:
            run_command(words)
        else:
            main(words)
    except SystemExit as error:
        return int(error.code or 0)
    finally:
        sys.stdout.flush()
    return 0


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        make_place(folder, run)
    return folder, look(folder)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("line", list(EXPECTED))
def test_a_recorded_command(
    line: str,
    whole: tuple[Path, dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    expected = EXPECTED[line]
    place = tmp_path / "place"
    shutil.copytree(whole[0], place, symlinks=True)
    monkeypatch.chdir(place)
    command, _, stdin = line.partition(" < ")
    with open(stdin or "/dev/null") as file:
        monkeypatch.setattr("sys.stdin", file)
        monkeypatch.setattr("sys.argv", ["barecat"])
        code = run(*shlex.split(command))
    captured = capfdbinary.readouterr()
    after, before = look(place), whole[1]
    changed = {name: after.get(name) for name in sorted({*before, *after}) if after.get(name) != before.get(name)}
    assert (code, captured.out.decode()) == (expected["code"], expected["out"]), captured.err.decode()
    assert json.loads(json.dumps(changed)) == {**expected["changed"], **BETTER.get(line, {})}
