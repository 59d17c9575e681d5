from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from headrace.compat.__main__ import main

if TYPE_CHECKING:
    from pathlib import Path

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="the adapters of FFCV need torch")


def launch(*words: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headrace.compat", *map(str, words)]
    return subprocess.run(
        command, cwd=cwd, env=os.environ | environment, capture_output=True, text=True, timeout=150, check=False
    )


SHOW = "import sys, __main__; print([sys.argv[1:], __name__, __main__.__file__ == __file__, sys.path[0]])\n"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / "neighbour.py").write_text("value = 5\n")
    path = folder / "program.py"
    path.write_text(f"import neighbour\n{SHOW}")
    return path


def test_a_script_runs_as_python_would_run_it(script: Path, tmp_path: Path) -> None:
    result = launch("run", script, "-x", "--help", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == str([["-x", "--help"], "__main__", True, str(script.parent)])
    by_python = subprocess.run(
        [sys.executable, script, "-x", "--help"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert result.stdout == by_python.stdout


def test_run_can_be_left_out(script: Path, tmp_path: Path) -> None:
    assert launch("programs/program.py", "a", cwd=tmp_path).stdout.startswith("[['a'], '__main__'")


@pytest.mark.parametrize("words", [("run", "-m"), ("-m",)])
def test_a_module(script: Path, words: tuple[str, ...]) -> None:
    result = launch(*words, "program", "a", "-m", cwd=script.parent)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == str([["a", "-m"], "__main__", True, str(script.parent)])


@pytest.mark.slow
def test_pytest_runs_tests(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_it.py").write_text("def test_good(): pass\ndef test_bad(): assert 0\n")
    result = launch("pytest", "-q", "-p", "no:cacheprovider", "-k", "good", cwd=tmp_path)
    assert result.returncode == 0, result.stdout
    assert "1 passed, 1 deselected" in result.stdout
    result = launch("pytest", "-q", "-p", "no:cacheprovider", cwd=tmp_path)
    assert result.returncode == 1
    assert "1 failed, 1 passed" in result.stdout


@pytest.mark.parametrize(
    ("code", "expected"),
    [("import sys; sys.exit(7)", 7), ("raise SystemExit", 0), ("raise SystemExit('no')", 1), ("1 / 0", 1), ("pass", 0)],
)
def test_the_exit_code_is_the_programs(tmp_path: Path, code: str, expected: int) -> None:
    (tmp_path / "p.py").write_text(code)
    result = launch("run", "p.py", cwd=tmp_path)
    assert result.returncode == expected
    assert ("ZeroDivisionError" in result.stderr) == (code == "1 / 0")


@pytest.mark.slow
@needs_torch
def test_ffcv_is_answered_by_headrace_although_a_real_one_is_there(tmp_path: Path) -> None:
    site = tmp_path / "site"
    (site / "ffcv").mkdir(parents=True)
    (site / "ffcv" / "__init__.py").write_text("1 / 0\n")
    code = "import ffcv.loader, ffcv.fields; print(ffcv.__version__, ffcv.loader.Loader.__module__)\n"
    children = """
import multiprocessing, subprocess, sys

def work(queue):
    import ffcv.fields
    queue.put(ffcv.__name__)

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=work, args=(queue,))
    process.start()
    print(queue.get(timeout=60))
    process.join()
    subprocess.run([sys.executable, "-c", "import ffcv; print(ffcv.__name__)"], check=True)
"""
    (tmp_path / "p.py").write_text(code + children)
    inherited = [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
    result = launch("run", "p.py", cwd=tmp_path, PYTHONPATH=os.pathsep.join([str(site), *inherited]))
    assert result.returncode == 0, result.stderr
    lines = [line for line in result.stdout.splitlines() if not line.startswith("1.0.2")]
    assert "1.0.2 headrace.compat.ffcv.loader.loader" in result.stdout
    assert lines == ["headrace.compat.ffcv", "headrace.compat.ffcv"]
    assert result.stderr.count("ffcv is installed") == 1, result.stderr


BARECAT = """
import os, subprocess, sys
import barecat
from barecat.core.index import Index

def shown(*command):
    return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout.split()

if __name__ == "__main__":
    with barecat.Barecat("x.barecat", readonly=False) as bc:
        bc["a/b"] = b"1"
    assert barecat.Index is Index
    print(shown("barecat", "ls", "-R", "x.barecat"))
    print(shown(sys.executable, "-m", "barecat", "ls", "-R", "x.barecat"))
    print(shown(sys.executable, "-m", "barecat.cli.shell", "x.barecat", "-c", "ls a"))
    print(shown(sys.executable, "-c", "import barecat.maintenance.rsync as m; print(m.__name__)"))
    reader = barecat.Barecat("x.barecat")
    child = os.fork()
    if child == 0:
        os._exit(reader["a/b"] != b"1")
    print(os.waitpid(child, 0)[1], reader["a/b"])
"""


@pytest.mark.slow
def test_barecat_and_its_commands(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(BARECAT)
    result = launch("run", "p.py", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    listed, module = "['a/b']", "['headrace.compat.barecat.maintenance.rsync']"
    assert result.stdout.splitlines() == [listed, listed, "['b']", module, "0 b'1'"]
    for words in (("barecat",), ("run", "barecat"), ("run", "-m", "barecat")):
        result = launch(*words, "cat", "x.barecat", "a/b", cwd=tmp_path)
        assert (result.returncode, result.stdout) == (0, "1")
        assert launch(*words, "cat", "x.barecat", "no", cwd=tmp_path).returncode == 1
    assert launch("barecat-verify", "x.barecat", cwd=tmp_path).returncode == 0
    assert launch("barecat", "bogus", cwd=tmp_path).returncode == 2


@pytest.mark.parametrize("words", [["-h"], ["--help"], ["run", "--help"]])
def test_help(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    assert main(words) == 0
    text = capsys.readouterr().out
    assert "usage: python -m headrace.compat run SCRIPT" in text
    assert "headrace answers for: " in text
    assert "ffcv" in text


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["run", "no/such.py"], "no/such.py does not exist"),
        (["run", "pytest"], "pytest does not exist; name a Python script, or -m and a module"),
        (["-m"], "-m needs the name of a module"),
        (["run", "-m"], "-m needs the name of a module"),
    ],
)
def test_wrong_usage(capsys: pytest.CaptureFixture[str], words: list[str], problem: str) -> None:
    assert main(words) == 2
    assert problem in capsys.readouterr().err


def test_nothing_to_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == main(["run"]) == 2
    assert "usage" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["no_such_module", "json.no_such_module", "no_such.module"])
def test_a_missing_module(tmp_path: Path, name: str) -> None:
    result = launch("run", "-m", name, cwd=tmp_path)
    assert result.returncode == 2
    assert result.stderr.strip() == f"headrace.compat: there is no module named {name}"


def test_a_package_that_misses_something_says_what(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("import no_such_thing\n")
    result = launch("-m", "package.module", cwd=tmp_path)
    assert result.returncode == 1
    assert "No module named 'no_such_thing'" in result.stderr
