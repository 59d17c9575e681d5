"""The import rule, the weight of ``import headrace``, and the facade."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import headrace

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(headrace.__file__).parent
LAYERS: tuple[frozenset[str], ...] = (
    frozenset({"__main__"}),
    frozenset({"compat"}),
    frozenset({"cli"}),
    frozenset({"viewer"}),
    frozenset({"bench"}),
    frozenset({"transfer", "frameworks"}),
    frozenset({"loader"}),
    frozenset({"order", "read", "formats", "ops"}),
    frozenset({"annex", "fields"}),
    frozenset({"codecs"}),
    frozenset({"storage"}),
    frozenset({"_native"}),
    frozenset({"charts"}),
    frozenset({"registry", "progress", "counter_random", "arrays", "terminal"}),
    frozenset({"types"}),
    frozenset({"errors"}),
)
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}
TOP = LAYERS[0] | LAYERS[1] | LAYERS[2]
FACADE = "headrace"
TYPES_ONLY = frozenset({"types", "errors"})
FRAMEWORKS = frozenset({"torch", "jax", "tensorflow"})
MODULES = sorted(ROOT.rglob("*.py"))


def room_of(path: Path) -> str:
    first = path.relative_to(ROOT).parts[0]
    return FACADE if first == "__init__.py" else first.removesuffix(".py")


def imports_of(path: Path) -> Iterator[tuple[str, bool]]:
    """Every absolute module name that a file imports, and whether only a type checker sees it."""
    tree = ast.parse(path.read_text())
    for_types = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node in for_types) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            module = node.module or ""
            for alias in node.names:
                yield (f"{module}.{alias.name}" if module == FACADE else module), node in for_types


def rooms_imported_by(path: Path) -> Iterator[tuple[str, bool]]:
    for module, is_for_types in imports_of(path):
        parts = module.split(".")
        if parts[0] == FACADE:
            yield (parts[1] if len(parts) > 1 else FACADE), is_for_types


def wrong_imports(path: Path) -> Iterator[str]:
    """What the import rule forbids in a file, in words."""
    room, where = room_of(path), path.relative_to(ROOT)
    if room in (FACADE, "testing"):
        return
    if room not in LEVEL:
        yield f"{where}: {room} is a new room: give it a place among the layers"
        return
    for other, is_for_types in rooms_imported_by(path):
        if other == room or (is_for_types and other in TYPES_ONLY):
            continue
        if other == FACADE:
            if room not in TOP:
                yield f"{where} imports the facade"
        elif other == "testing":
            yield f"{where} imports testing"
        elif LEVEL[other] <= LEVEL[room]:
            yield f"{where} ({room}) may not import {other}"


def test_every_module_imports_only_what_lies_below() -> None:
    wrong = [line for path in MODULES for line in wrong_imports(path)]
    assert not wrong, "\n".join(wrong)


def test_the_rule_notices_a_wrong_import(tmp_path: Path) -> None:
    file = tmp_path / "x.py"
    file.write_text(
        "from typing import TYPE_CHECKING\nimport headrace\nfrom headrace import formats\n"
        "if TYPE_CHECKING:\n    from headrace.loader.engine import Loader\n"
    )
    assert set(rooms_imported_by(file)) == {("headrace", False), ("formats", False), ("loader", True)}


def test_no_cycle_between_rooms() -> None:
    edges: dict[str, set[str]] = {}
    for path in MODULES:
        if room_of(path) != FACADE:
            others = {other for other, _ in rooms_imported_by(path)} - {room_of(path), FACADE}
            edges.setdefault(room_of(path), set()).update(others)

    def walk(room: str, trail: tuple[str, ...]) -> None:
        assert room not in trail, " -> ".join((*trail, room))
        for other in edges.get(room, ()):
            walk(other, (*trail, room))

    for room in edges:
        walk(room, ())


def module_name(path: Path) -> str:
    parts = [FACADE, *path.relative_to(ROOT).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def modules_imported_by(path: Path, known: set[str]) -> set[str]:
    """Our own modules that a file imports when it runs, in functions too; packages count as their __init__."""
    found = set()
    tree = ast.parse(path.read_text())
    for_types = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if node in for_types:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                found.add(whole if whole in known else node.module or "")
    return (found & known) - {module_name(path)}


def cycles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules that import each other, directly or by way of others."""
    reach: dict[str, set[str]] = {}
    for start in edges:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            fresh = edges.get(waiting.pop(), set()) - seen
            seen |= fresh
            waiting += fresh
        reach[start] = seen
    groups = {tuple(sorted(b for b in reach[a] if a in reach.get(b, ()))) for a in edges if a in reach[a]}
    return [list(group) for group in sorted(groups)]


def test_no_cycle_between_modules_late_imports_included() -> None:
    known = {module_name(path) for path in MODULES}
    paths = [path for path in MODULES if room_of(path) not in (FACADE, "compat")]  # compat has the originals' trees
    edges = {module_name(path): modules_imported_by(path, known) for path in paths}
    found = cycles(edges)
    assert not found, "\n".join(" <-> ".join(group) for group in found)


def test_a_cycle_is_noticed() -> None:
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [["b", "c"]]


def test_only_their_rooms_import_the_extension_and_the_frameworks() -> None:
    wrong = []
    for path in MODULES:
        modules = {module for module, _ in imports_of(path)}
        if room_of(path) != "_native":
            wrong += [f"{path}: {m}" for m in modules if m.startswith("headrace._native._core")]
        is_measured = path.is_relative_to(ROOT / "bench" / "peers")  # other loaders, each in a process of its own
        if room_of(path) not in ("frameworks", "compat") and not is_measured:
            wrong += [f"{path}: {m}" for m in modules if m.split(".")[0] in FRAMEWORKS]
    assert not wrong, "\n".join(wrong)


def test_importing_headrace_brings_no_heavy_module() -> None:
    heavy = ["torch", "jax", "tensorflow", "PIL", "h5py", "pyarrow", "lmdb", "cv2", "argparse", "headrace.cli"]
    show = f"print([m for m in {heavy} if m in sys.modules])"
    code = f"import sys, headrace; print([m for m in sys.modules if 'numpy' in m]); headrace.Loader; {show}"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout.splitlines() == ["[]", "[]"]


def test_ctrl_c_while_the_command_is_loaded() -> None:
    """It may come at any time: here, when the first module that takes long is imported."""
    program = """
import sys
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "numpy":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupt())
from importlib.metadata import entry_points
(command,) = entry_points(group="console_scripts", name="headrace")
sys.exit(command.load()())
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (130, "", "")


def test_the_facade_is_small_and_documented() -> None:
    assert len(headrace.__all__) <= 30
    assert sorted(headrace.__all__) == sorted(set(headrace.__all__))
    for name in headrace.__all__:
        assert (getattr(headrace, name).__doc__ or "").strip(), f"{name} has no docstring"


def test_version_and_unknown_names() -> None:
    assert headrace.__version__.count(".") >= 1
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = headrace.nonsense


def test_rooms_are_found_without_being_imported() -> None:
    names = ("errors", "fields", "formats", "frameworks", "loader", "ops", "types")
    program = f"import headrace\nfor name in {names}: assert getattr(headrace, name).__name__ == 'headrace.' + name"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_verb_loads_no_other_verb() -> None:
    code = (
        "import sys; from headrace.cli.main import main; code = main(['version']); "
        "print(code, sorted(m for m in sys.modules if m.startswith('headrace.cli.verbs.')))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "0 ['headrace.cli.verbs.version']"
