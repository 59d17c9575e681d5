"""What names and values of a file would do to a terminal is shown as text instead."""

from __future__ import annotations

import ast
import json
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from tests.helpers import image_file, picture

import headrace
from headrace.cli import common
from headrace.cli.common import printable
from headrace.cli.main import main
from headrace.cli.previews import describe_file
from headrace.formats.barecat import Archive

# Colours, the title of the window, C1 controls, right-to-left, invisible, line ends, not UTF-8.
HOSTILE = "\x1b[31m\x1b]0;t\x07\x9b2J\u202egnp.\u2066\u200b\u2028\x7f\r\n\t\udcff\U000e0041\ufeff"


def is_harmless(text: str, *, allowed: str = "\n") -> bool:
    return all(char in allowed or unicodedata.category(char)[0] != "C" for char in text) and "\u2028" not in text


@pytest.mark.slow
def test_printable_shows_every_character_that_a_terminal_would_obey() -> None:
    for code in range(0x110000):
        char = chr(code)
        if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"):
            assert is_harmless(printable(char)), hex(code)
            assert printable(char).startswith("\\")
    assert printable("häuser 猫 ▀") == "häuser 猫 ▀"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "a.barecat"
    with Archive(path, "x") as made:
        name = HOSTILE.replace("\udcff", "").replace("/", "")
        made[f"{name}/{name}.txt"] = HOSTILE.encode("utf-8", "surrogateescape")
        made["v.json"] = json.dumps({HOSTILE: [HOSTILE, {"x": "\u009b\u202e"}]}, ensure_ascii=False).encode(
            "utf-8", "surrogatepass"
        )
        made["w.json"] = json.dumps({"a": ["\u009b\u202e\x1b"]}, ensure_ascii=False).encode()
        made["deep.json"] = b"[" * 100_000
        made["x.npy"] = _npy(np.array(["\u202e\x1b[31m"]))
        made["x.png"] = image_file(picture(1, 8, 8), "PNG")
        made["long.txt"] = b"y" * 4000
    return path


def _npy(array: np.ndarray) -> bytes:
    from headrace.codecs import npy

    return npy.encode(array)


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    path = tmp_path / "d.beton"
    name = HOSTILE.replace("\udcff", "")
    headrace.write(
        path,
        [(1, "\u202e\x1b", {"k": HOSTILE.replace("\udcff", "")}), (2, "b", [])],
        fields={"n": headrace.Int(), "t": headrace.Text(), "j": headrace.Json()},
        names=[name, "b"],
        metadata={"about": name, "more": [name]},
        class_names={"n": [name]},
    )
    return path


@pytest.mark.parametrize(
    "words",
    [
        "info",
        "ls",
        "ls -l",
        "ls -R",
        "ls -l -R",
        "tree",
        "find",
        "du -a",
        "verify",
        "ls --json",
        "info --json",
        "du --json",
    ],
)
def test_archives(archive: Path, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    verb, *rest = words.split()
    assert main([verb, str(archive), *rest]) == 0
    out, err = capsys.readouterr()
    assert is_harmless(out, allowed="\n\t")
    assert is_harmless(err)


@pytest.mark.parametrize("words", ["info", "ls", "ls -l", "cat 0", "verify", "ls --json", "info --json", "index"])
def test_datasets(dataset: Path, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    verb, *rest = words.split()
    assert main([verb, str(dataset), *rest]) in (0, 2)
    out, err = capsys.readouterr()
    assert is_harmless(out)
    assert is_harmless(err)


def test_previews(archive: Path) -> None:
    with Archive(archive) as opened:
        for info in opened.index.files():
            preview = describe_file(opened, info)
            assert all(is_harmless(line, allowed="") for line in preview.lines), info.path
            assert max(map(len, preview.lines)) <= 10_000
        assert any("\\x9b\\u202e" in line for line in describe_file(opened, opened.stat("w.json")).lines)
        assert "cannot be shown" in describe_file(opened, opened.stat("deep.json")).lines[-1]


def test_errors_and_left_overs(archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ls", str(archive), HOSTILE]) == 2
    assert main(["cat", str(tmp_path / HOSTILE.replace("/", "")), "0"]) == 2
    assert main(["extract", str(archive), "-C", str(tmp_path / "out\x1b[31m")]) == 0
    out, err = capsys.readouterr()
    assert is_harmless(out)
    assert is_harmless(err)


def test_only_the_shared_function_prints() -> None:
    """Every line that may hold what is not ours goes through ``say``."""
    allowed = {"common.py", "demo.py"}
    for path in Path(common.__file__).parent.rglob("*.py"):
        if path.name in allowed:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
                is_constant = all(isinstance(argument, ast.Constant) for argument in node.args)
                assert is_constant or path.name in ("main.py", "shell.py"), f"{path.name}:{node.lineno}"
