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
    frozenset({"cli", "viewer"}),
    frozenset({"transfer", "frameworks"}),
    frozenset({"loader"}),
    frozenset({"order", "read", "formats", "ops"}),
    frozenset({"annex", "fields"}),
    frozenset({"codecs"}),
    frozenset({"storage"}),
    frozenset({"_native"}),
    frozenset({"registry", "progress", "counter_random"}),
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


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_module_imports_only_what_lies_below(path: Path) -> None:
    room = room_of(path)
    if room in (FACADE, "testing"):
        return
    assert room in LEVEL, f"{room} is a new room: give it a place among the layers"
    for other, is_for_types in rooms_imported_by(path):
        if other == room or (is_for_types and other in TYPES_ONLY):
            continue
        if other == FACADE:
            assert room in TOP, f"{path} imports the facade"
            continue
        assert other != "testing", f"{path} imports testing"
        assert LEVEL[other] > LEVEL[room], f"{path} ({room}) may not import {other}"


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


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_only_their_rooms_import_the_extension_and_the_frameworks(path: Path) -> None:
    modules = {module for module, _ in imports_of(path)}
    if room_of(path) != "_native":
        assert not [m for m in modules if m.startswith("headrace._native._core")]
    if room_of(path) not in ("frameworks", "compat"):
        assert not [m for m in modules if m.split(".")[0] in FRAMEWORKS]


def test_importing_headrace_brings_no_heavy_module() -> None:
    heavy = ["torch", "jax", "tensorflow", "PIL", "h5py", "pyarrow", "lmdb", "cv2", "argparse", "headrace.cli"]
    code = f"import sys, headrace; print([m for m in {heavy} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout.strip() == "[]"


def test_the_facade_is_small_and_documented() -> None:
    assert len(headrace.__all__) <= 20
    assert sorted(headrace.__all__) == sorted(set(headrace.__all__))
    for name in headrace.__all__:
        assert (getattr(headrace, name).__doc__ or "").strip(), f"{name} has no docstring"


def test_version_and_unknown_names() -> None:
    assert headrace.__version__.count(".") >= 1
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = headrace.nonsense
