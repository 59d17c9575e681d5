"""The documentation is true: its code runs, its links lead somewhere, and the reference is complete.

Blocks of one page share one namespace and one empty directory, and run in the order in which they stand. The info
string of a block may say ``no-run``, ``exit=N`` (a console block whose commands must end so), ``hexdump=FILE``
(lines of offset and bytes that must be found in a file of the page), ``file=NAME`` (the block becomes a file of the
page, for a later command) or ``needs=torch``, ``needs=lightning``, ``needs=jax``, ``needs=tensorflow``, ``needs=cuda``,
``needs=cupy``, ``needs=gpu``, ``needs=ray``, ``needs=remote`` (it runs only where that is there; cuda: torch with a
GPU, cupy: with a GPU, gpu: torch for CUDA, and kernels in this build, remote: obstore and rclone, with an S3 server
that the environment names and an empty bucket called bucket). Pages that need JAX, TensorFlow or Ray run with the other
tests of these, in processes of their own.
"""

from __future__ import annotations

import argparse
import doctest
import importlib
import importlib.util
import inspect
import pkgutil
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from tests.remote.conftest import Bucket
from tests.remote.fault_proxy import FaultProxy
from tests.remote.rclone_server import RcloneServer, find_rclone

import headrace
from headrace import errors
from headrace._native import gpu_kernels
from headrace.cli.main import build_parser
from headrace.errors import MissingExtraError
from headrace.formats.beton import BetonDataset, BetonWriter

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
ALL_MARKDOWN = [*PAGES, *(ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"))]
PYTHON_REFERENCE = ROOT / "docs" / "reference" / "python.md"
COMMAND_REFERENCE = ROOT / "docs" / "reference" / "command.md"
FENCE = re.compile(r"^(?P<fence>```+)(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=fence)[ \t]*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
TORCHRUN = "-m torch.distributed.run --log-dir logs "  # by default it leaves logs where temporary files go
COMMANDS = {"$ headrace ": "-m headrace ", "$ python ": "", "$ torchrun ": TORCHRUN}
NEEDS = ("torch", "lightning", "jax", "tensorflow", "cuda", "cupy", "gpu", "ray", "remote")
ALONE = {"jax": "frameworks", "tensorflow": "frameworks", "ray": "ray"}


class Block(NamedTuple):
    """One fenced block of a page."""

    language: str
    options: tuple[str, ...]
    body: str
    line: int

    def option(self, name: str, default: str) -> str:
        return next((o.partition("=")[2] for o in self.options if o.startswith(f"{name}=")), default)


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found = []
    for match in FENCE.finditer(text):
        language, *options = match["info"].split() or [""]
        found.append(Block(language, tuple(options), match["body"], text.count("\n", 0, match.start("body"))))
    return found


def without_code(text: str) -> str:
    return re.sub(r"`[^`\n]*`", "", FENCE.sub("", text))


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


def has_what_it_needs(block: Block) -> bool:
    need = block.option("needs", "")
    if not need:
        return True
    assert need in NEEDS, f"needs={need} is not one of {NEEDS}"
    if need == "remote" and find_rclone() is None:
        return False
    module = {"cuda": "torch", "gpu": "torch", "remote": "obstore"}.get(need, need)
    if importlib.util.find_spec(module) is None or (need == "gpu" and gpu_kernels() is None):
        return False
    return need not in ("cuda", "cupy", "gpu") or bool(importlib.import_module(module).cuda.is_available())


def run_python(page: Path, block: Block, namespace: dict[str, Any]) -> None:
    # Empty lines in front, so that a traceback shows the line of the page.
    code = compile("\n" * block.line + block.body, str(page), "exec", dont_inherit=True)
    exec(code, namespace)


def run_console(page: Path, block: Block, directory: Path) -> None:
    for line in block.body.splitlines():
        command = next((command for command in COMMANDS if line.startswith(command)), None)
        if command is None:
            continue
        arguments = COMMANDS[command] + line.removeprefix(command)
        run = subprocess.run(
            f"'{sys.executable}' {arguments}",
            shell=True,
            cwd=directory,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=60,
            check=False,
        )
        expected = int(block.option("exit", "0"))
        assert run.returncode == expected, f"{page_id(page)}: {line}\n{run.stdout}{run.stderr}"


def check_dump(page: Path, block: Block, directory: Path) -> None:
    data = (directory / block.option("hexdump", "")).read_bytes()
    for line in block.body.splitlines():
        offset, _, text = line.partition("  ")
        expected = bytes.fromhex(text)
        assert data[int(offset, 16) :][: len(expected)] == expected, f"{page_id(page)}: {line}"


@pytest.fixture(autouse=True)
def own_temporary_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Examples leave their files behind, and here they are removed. The path is short: Ray has sockets there."""
    folder = tempfile.mkdtemp(prefix="hr", dir="/tmp")
    monkeypatch.setenv("TMPDIR", folder)
    monkeypatch.setattr(tempfile, "tempdir", folder)
    yield
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def store(page: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A store for pages that need one."""
    if not any(block.option("needs", "") == "remote" and has_what_it_needs(block) for block in blocks_of(page)):
        yield
        return
    root = tmp_path_factory.mktemp("buckets")
    (root / "bucket").mkdir()
    server = RcloneServer(root, tmp_path_factory.mktemp("rclone"))
    server.start()
    proxy = FaultProxy(server.port, root)
    proxy.start()
    for name, value in Bucket(name="bucket", folder=root / "bucket", endpoint=proxy.url).environment.items():
        monkeypatch.setenv(name, value)
    yield
    proxy.stop()
    server.stop()


def with_marks(page: Path) -> Any:
    needs = {ALONE.get(block.option("needs", ""), "") for block in blocks_of(page)} - {""}
    return pytest.param(page, marks=[getattr(pytest.mark, name) for name in sorted(needs)], id=page_id(page))


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("page", [with_marks(page) for page in PAGES])
def test_code_on_the_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": f"page_{page.stem.replace('-', '_')}"}
    for block in blocks_of(page):
        if "no-run" in block.options or not has_what_it_needs(block):
            continue
        if file := block.option("file", ""):
            (tmp_path / file).write_text(block.body, encoding="utf-8")
        elif block.language == "python":
            run_python(page, block, namespace)
        elif block.language in ("console", "bash"):
            run_console(page, block, tmp_path)
        elif block.option("hexdump", ""):
            check_dump(page, block, tmp_path)


def test_hardly_any_block_opts_out() -> None:
    skipped = [f"{page_id(p)}:{b.line}" for p in PAGES for b in blocks_of(p) if "no-run" in b.options]
    assert len(skipped) <= 3, skipped


def anchors_of(page: Path) -> set[str]:
    headings = re.findall(r"^#+ +(.+?)\s*$", FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", ALL_MARKDOWN, ids=page_id)
def test_links_resolve(page: Path) -> None:
    for target in LINK.findall(without_code(page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        path = (page.parent / file).resolve() if file else page
        assert path.exists(), f"{page_id(page)}: {target} leads nowhere"
        assert path.is_relative_to(ROOT), f"{page_id(page)}: {target} leaves the repository"
        if anchor:
            assert anchor in anchors_of(path), f"{page_id(page)}: there is no heading for {target}"


def test_every_page_is_on_the_map() -> None:
    index = ROOT / "docs" / "index.md"
    linked = {(index.parent / t.partition("#")[0]).resolve() for t in LINK.findall(index.read_text(encoding="utf-8"))}
    assert [page_id(p) for p in PAGES if p != index and p.resolve() not in linked] == []


def public_members(cls: type) -> list[str]:
    return [name for name, _ in inspect.getmembers(cls) if not name.startswith("_")]


def test_python_reference_names_everything_public() -> None:
    text = PYTHON_REFERENCE.read_text(encoding="utf-8")
    headings = set(re.findall(r"^#+ `?([\w.]+)", text, re.MULTILINE))
    assert [name for name in headrace.__all__ if f"headrace.{name}" not in headings] == []
    words = set(re.findall(r"`\.?(\w+)", text))
    wanted = [
        *errors.__all__,
        *public_members(BetonDataset),
        *public_members(BetonWriter),
        *public_members(headrace.Sample),
    ]
    assert sorted({name for name in wanted if name not in words}) == []


def verbs() -> dict[str, argparse.ArgumentParser]:
    for action in build_parser()._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    raise AssertionError("the command has no verbs")


def options_of(parser: argparse.ArgumentParser) -> list[str]:
    return [option for action in parser._actions for option in action.option_strings if option not in ("-h", "--help")]


def section_of(text: str, heading: str) -> str:
    match = re.search(rf"^## {re.escape(heading)}$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert match is not None, f"the reference has no section '{heading}'"
    return match[1]


def test_command_reference_names_every_verb_and_option() -> None:
    text = COMMAND_REFERENCE.read_text(encoding="utf-8")
    for option in options_of(build_parser()):
        assert f"`{option}`" in text, f"{option} is missing"
    for verb, parser in verbs().items():
        section = section_of(text, f"headrace {verb}")
        for option in options_of(parser):
            assert re.search(rf"`{re.escape(option)}[` ]", section), f"headrace {verb}: {option} is missing"


def module_names() -> list[str]:
    found = [module.name for module in pkgutil.walk_packages(headrace.__path__, "headrace.")]
    return ["headrace", *(name for name in found if not name.endswith(("._core", ".__main__")))]


@pytest.mark.parametrize("name", module_names())
def test_examples_in_docstrings_run(name: str) -> None:
    try:
        module = importlib.import_module(name)
    except MissingExtraError as error:
        pytest.skip(str(error))
    except ImportError as error:
        if not name.startswith("headrace.bench.peers."):
            raise
        pytest.skip(f"another loader is not installed: {error.name}")
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    complaints: list[str] = []
    for example in doctest.DocTestFinder(exclude_empty=True).find(module, name):
        runner.run(example, out=complaints.append)
    assert not runner.failures, "".join(complaints)
