"""``headrace doctor``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Said = Callable[..., str]
    JsonSaid = Callable[..., Any]

QUICK = ("--seconds", "0.2")
PROGRAM = """\
import headrace
from headrace import ops

PATH = {path!r}

def busy(values):
    import time
    time.sleep(0.02)
    return values

pipelines = {{"image": [ops.CenterCrop(8)], "label": [ops.Apply(busy)]}}

def make(path=PATH):
    return headrace.Loader(path, 2, pipelines=pipelines)

def plain():
    return make()

loader = make()
number = 3

def fails():
    raise RuntimeError("no GPU here")

def gives_number():
    return 3
"""


@pytest.fixture
def program(packed: Path, tmp_path: Path) -> Path:
    file = tmp_path / "train.py"
    file.write_text(PROGRAM.format(path=str(packed)))
    return file


def test_doctor(packed: Path, said: Said) -> None:
    text = said("doctor", packed, *QUICK)
    assert text.startswith(f"{packed}: ")
    assert "RandomResizedCrop" in text
    assert "decode" in text
    assert "What binds: " in text


def test_help_says_that_the_model_is_not_seen(capsys: pytest.CaptureFixture[str]) -> None:
    from headrace.cli.main import main

    with pytest.raises(SystemExit):
        main(["doctor", "--help"])
    assert "headrace.diagnose(loader) after a loop" in capsys.readouterr().out


def test_doctor_json(packed: Path, json_said: JsonSaid) -> None:
    found = json_said("doctor", packed, *QUICK)
    assert found["path"] == str(packed)
    assert found["samples_per_s"] > 0
    assert found["binding"] in ("decode", "resize", "check", "read")
    assert set(found["stages_s"]) >= {"read", "decode", "resize", "ops", "copy"}
    for advice in found["advice"]:
        assert advice["basis"] in ("measured", "computed", "fact")
        assert advice["text"]


@pytest.mark.parametrize("name", ["loader", "make", "plain", "pipelines"])
def test_doctor_of_an_own_pipeline(program: Path, packed: Path, name: str, json_said: JsonSaid) -> None:
    found = json_said("doctor", packed, "--pipeline", f"{program}:{name}", *QUICK)
    assert found["binding"].startswith("python: ")
    assert "busy" in found["binding"]
    (advice,) = (one for one in found["advice"] if one["kind"] == "python_op")
    assert "busy" in advice["text"]
    assert advice["factor"] > 1.5


def test_doctor_of_a_loader_needs_no_dataset(program: Path, json_said: JsonSaid) -> None:
    assert json_said("doctor", "--pipeline", f"{program}:loader", *QUICK)["samples_per_s"] > 0
    assert json_said("doctor", "--pipeline", f"{program}:plain", *QUICK)["samples_per_s"] > 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--pipeline", "{program}:nothing"], "train.py has no nothing; it has PATH, busy"),
        (["--pipeline", "{program}:number"], "is of the type int; expected a Loader, a function that gives one, or"),
        (["--pipeline", "{program}:gives_number"], "is of the type int; expected a Loader"),
        (["--pipeline", "{program}:fails"], "failed with RuntimeError: no GPU here (--traceback shows where)"),
        (["--pipeline", "{program}"], "--pipeline takes FILE:NAME, such as train.py:loader"),
        (["--pipeline", "{program}:a b"], "--pipeline takes FILE:NAME"),
        (["--pipeline", "none.py:loader"], "none.py of --pipeline does not exist"),
        (["--pipeline", "{program}:pipelines"], "name a DATASET, or a Loader with --pipeline FILE:NAME"),
        ([], "name a DATASET, or a Loader with --pipeline FILE:NAME"),
        (["none.beton"], "none.beton"),
        (["{other}", "--pipeline", "{program}:loader"], "is a loader of"),
    ],
)
def test_doctor_says_what_is_wrong(
    program: Path, packed: Path, tmp_path: Path, words: list[str], message: str, said: Said
) -> None:
    other = tmp_path / "other.beton"
    other.write_bytes(packed.read_bytes())
    filled = [word.format(program=program, other=other) for word in words]
    error = said("doctor", *filled, *QUICK, code=2)
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import no_such_module", "failed with ModuleNotFoundError: No module named 'no_such_module'"),
        ("raise SystemExit(3)", "failed with SystemExit: 3"),
        ("def (", "failed with SyntaxError"),
    ],
)
def test_doctor_of_a_program_that_fails(tmp_path: Path, source: str, message: str, said: Said) -> None:
    (tmp_path / "broken.py").write_text(source)
    assert message in said("doctor", "--pipeline", tmp_path / "broken.py:loader", *QUICK, code=2)


def test_a_program_finds_its_neighbours_and_is_not_main(packed: Path, tmp_path: Path, json_said: JsonSaid) -> None:
    (tmp_path / "neighbour_of_train.py").write_text("SIZE = 2")
    (tmp_path / "train.py").write_text(
        "import headrace\nfrom neighbour_of_train import SIZE\nif __name__ == '__main__': raise SystemExit('trains')\n"
        f"loader = headrace.Loader({str(packed)!r}, SIZE, pipelines={{'image': None}})\n"
    )
    assert json_said("doctor", "--pipeline", tmp_path / "train.py:loader", *QUICK)["samples_per_s"] > 0


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "many", "99999"])
def test_seconds_are_checked(packed: Path, seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    from headrace.cli.main import main

    with pytest.raises(SystemExit):
        main(["doctor", str(packed), f"--seconds={seconds}"])
    assert "is not a number from 0.1 to 3600" in capsys.readouterr().err
