"""``headrace view --pipeline``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace.cli.verbs import view as verb

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Said = Callable[..., str]

PROGRAM = """\
import headrace
from headrace import ops
pipelines = {{"image": [ops.CenterCrop(8)]}}
def make(path):
    return headrace.Loader(path, 2, pipelines=pipelines)
loader = make({path!r})
number = 3
"""


class Served:
    """Stands for a viewer that was ended at once, and knows what it was to show."""

    url = "http://127.0.0.1:1/x/"

    def __init__(self, *targets: Any, **options: Any) -> None:
        self.targets, self.options = targets, options
        Served.last = self

    last: Served

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def wait(self) -> None:
        pass


@pytest.fixture
def program(packed: Path, tmp_path: Path) -> Path:
    file = tmp_path / "train.py"
    file.write_text(PROGRAM.format(path=str(packed)))
    return file


@pytest.fixture(autouse=True)
def _served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verb, "view", Served)


@pytest.mark.parametrize("name", ["loader", "make", "pipelines"])
def test_the_loader_of_a_program_is_shown(program: Path, packed: Path, name: str, said: Said) -> None:
    said("view", packed, "--no-browser", "--pipeline", f"{program}:{name}")
    (loader,) = Served.last.targets
    assert isinstance(loader, hr.Loader)
    assert loader.dataset.path == str(packed)
    assert "CenterCrop" in loader.plan()


def test_a_loader_needs_no_path_and_others_may_be_beside_it(program: Path, packed: Path, said: Said) -> None:
    said("view", "--no-browser", "--pipeline", f"{program}:loader")
    assert len(Served.last.targets) == 1
    said("view", packed, packed, "--no-browser", "--pipeline", f"{program}:make")
    assert Served.last.targets[1] == str(packed)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name a PATH, or a Loader with --pipeline FILE:NAME"),
        (["--pipeline", "{program}:pipelines"], "train.py:pipelines are pipelines: name a PATH that they are for"),
        (["--pipeline", "{program}:number"], "is of the type int; expected a Loader"),
        (["--pipeline", "{program}:make"], "takes an argument: name a DATASET"),
        (["--pipeline", "none.py:loader"], "none.py of --pipeline does not exist"),
    ],
)
def test_what_is_wrong_is_told(program: Path, words: list[str], message: str, said: Said) -> None:
    assert message in said("view", *(word.format(program=program) for word in words), code=2)
