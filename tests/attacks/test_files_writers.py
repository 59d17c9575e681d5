"""Which modules write to the disk at all: few, and each for a reason."""

from __future__ import annotations

import ast
from pathlib import Path

import headrace

ROOT = Path(headrace.__file__).parent
WRITERS = {
    "storage/": "every file that appears when it is complete, and every file below a folder",
    "formats/barecat/edit/": "archives that are changed in place",
    "formats/barecat/remote_index.py": "a copy of the index of an archive in a store, in a folder of its own",
    "formats/shard_log.py": "a set of files that goes on after an interruption",
    "formats/ray_tasks.py": "the folder of a Ray that is started for one piece of work",
    "formats/manifests/files_folder.py": "the folder of the files that a manifest names",
    "formats/spans/new_annex.py": "the same",
    "formats/beton/index.py": "removes an annex that was replaced by one inside the file",
    "transfer/checked_writer.py": "gives a file its name once it was compared with its source",
    "transfer/index_table.py": "an index that is made from a table",
    "transfer/merge.py": "archives whose shards are links",
    "transfer/mount.py": "standard streams to /dev/null",
    "cli/main.py": "standard output to /dev/null",
    "cli/browser.py": "asks for what is extracted, which is written below a folder",
    "cli/verbs/index.py": "a table, where the user names a device",
    "cli/verbs/demo.py": "its own temporary folder",
    "bench/": "its own hidden folder, below the one that the user names for results",
    "testing/": "damaged copies, below the folder of a test",
    "compat/": "what programs of other libraries ask for",
}
_CALLS = {
    *(f"os.{name}" for name in ("mkdir", "makedirs", "link", "symlink", "rename", "replace", "unlink", "remove")),
    *(f"os.{name}" for name in ("rmdir", "truncate", "chmod", "utime", "mkfifo", "mknod", "removedirs", "renames")),
    *(f"shutil.{name}" for name in ("rmtree", "copy", "copy2", "copyfile", "copytree", "move")),
    *(f"tempfile.{name}" for name in ("mkstemp", "NamedTemporaryFile")),
}
_METHODS = (".write_bytes", ".write_text", ".touch", ".extractall", ".extract")


def _mode_of(call: ast.Call, skip: int) -> str:
    given = [*call.args[skip + 1 : skip + 2], *(word.value for word in call.keywords if word.arg == "mode")]
    if not given:
        return "r"
    return str(given[0].value) if isinstance(given[0], ast.Constant) else "w"  # not known: it might


def _writes(call: ast.Call) -> bool:
    name, text = ast.unparse(call.func), ast.unparse(call)
    if name in ("open", "io.open"):
        return bool(set(_mode_of(call, 0)) & set("wax+"))
    if name == "partial" and call.args and ast.unparse(call.args[0]) == "open":
        return bool(set(_mode_of(call, 1)) & set("wax+"))
    if name == "os.open":
        return "O_RDONLY" not in text or "O_CREAT" in text
    return name in _CALLS or name.endswith(_METHODS)


def test_only_the_named_modules_write_files() -> None:
    found = {
        f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"
        for path in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and _writes(node)
    }
    assert sorted(one for one in found if not one.startswith(tuple(WRITERS))) == []
    assert [room for room in WRITERS if not any(one.startswith(room) for one in found)] == [], "no longer needed"
