"""What the archives of the real barecat in golden.tar.xz are called, and what is known about them."""

from __future__ import annotations

import hashlib
import json
import tarfile
from pathlib import Path
from typing import Any

BUNDLE = Path(__file__).parents[1] / "golden" / "barecat" / "golden.tar.xz"
with tarfile.open(BUNDLE) as bundle:
    NAMES = sorted({n.split("/")[1] for n in bundle.getnames() if n.startswith("archives/")})
    CORRUPT = sorted({n.split("/")[1] for n in bundle.getnames() if n.startswith("corrupt/")})
UNREADABLE = {"schema-major-newer", "schema-no-version-rows", "schema-unversioned"}
READABLE = sorted(set(NAMES) - UNREADABLE)
DAMAGED = {"defrag-quick": {"h/katevan0"}, "subset": {"a/.hid/x.txt"}}
WRONG_STATISTICS = {"schema-by-0.2.7-moved"}
FILE_COLUMNS = ("shard", "offset", "size", "crc32c", "mode", "uid", "gid", "mtime_ns")
DIRECTORY_COLUMNS = ("num_subdirs", "num_files", "num_files_tree", "size_tree", "mode")


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def load(folder: Path, name: str = "manifest.json") -> dict[str, Any]:
    value: dict[str, Any] = json.loads((folder / name).read_text())
    return value


def blob(size: int, tag: str) -> bytes:
    """The content that an operation of ops.jsonl stands for."""
    out, i = b"", 0
    while len(out) < size:
        out += hashlib.sha256(f"{tag}:{i}".encode()).digest()
        i += 1
    return out[:size]


def operations(folder: Path) -> list[tuple[str, list[Any], str]]:
    """Of ops.jsonl: the operation, its arguments, and what came of it."""
    rows = [json.loads(line) for line in (folder / "ops.jsonl").read_text().splitlines()]
    return [(op, args, want) for op, *args, want in rows]


def assert_same_shards(path: Path, expected: dict[str, Any]) -> None:
    for shard in expected["shards"]:
        assert sha(Path(f"{path}{shard['name'][-12:]}").read_bytes()) == shard["sha256"], shard["name"]


def assert_same_columns(found: Any, row: dict[str, Any], columns: tuple[str, ...]) -> None:
    for column in columns:
        assert getattr(found, column) == row[column], (row["path"], column)
