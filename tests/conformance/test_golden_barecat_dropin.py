"""The drop-in on archives of the real barecat: recorded answers, and the same bytes for the same operations."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import pytest
from tests.conformance.barecat_golden import (
    CORRUPT,
    DAMAGED,
    DIRECTORY_COLUMNS,
    FILE_COLUMNS,
    READABLE,
    UNREADABLE,
    WRONG_STATISTICS,
    assert_same_columns,
    assert_same_shards,
    blob,
    load,
    operations,
    sha,
)

from headrace.compat.barecat import Barecat, BarecatError, BarecatFileInfo

if TYPE_CHECKING:
    from pathlib import Path


def open_quietly(path: Path) -> Barecat:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of an older version
        return Barecat(path)


@pytest.mark.parametrize("name", READABLE)
def test_every_file(golden: Path, name: str) -> None:
    folder = golden / "archives" / name
    expected = load(folder)
    damaged = DAMAGED.get(name, set())
    with open_quietly(folder / f"{name}.barecat") as bc:
        for row in expected["files"]:
            info = bc.index.lookup_file(row["path"])
            assert_same_columns(info, row, FILE_COLUMNS)
            if row["path"] not in damaged:
                assert sha(bc[row["path"]]) == row["sha256"]
                with bc.open(info, "rb") as file:
                    assert sha(file.read()) == row["sha256"]
        for row in expected["dirs"]:
            assert_same_columns(bc.index.lookup_dir(row["path"]), row, (*DIRECTORY_COLUMNS, "mtime_ns"))
        assert bc.verify_integrity() == (not damaged and name not in WRONG_STATISTICS)


@pytest.mark.parametrize("name", sorted(UNREADABLE))
def test_unknown_schemas(golden: Path, name: str) -> None:
    with pytest.raises(BarecatError, match="schema version"):
        Barecat(golden / "archives" / name / f"{name}.barecat")


@pytest.mark.parametrize("name", CORRUPT)
def test_damage_is_never_passed_over(golden: Path, name: str) -> None:
    folder = golden / "corrupt" / name
    original = {row["path"]: row["sha256"] for row in load(folder)["original"]}
    try:
        bc = Barecat(folder / f"{name}.barecat")
    except BarecatError:
        return
    is_good = bc.verify_integrity()
    assert is_good == (name == "trailing-garbage")
    for path, digest in original.items():
        try:
            assert sha(bc[path]) == digest or not is_good
        except (LookupError, ValueError, OSError, BarecatError):
            assert not is_good


@pytest.mark.parametrize("name", ["nested", "names"])
def test_recorded_answers(golden: Path, name: str) -> None:
    folder = golden / "archives" / name
    expected = load(folder, "queries.json")
    with Barecat(folder / f"{name}.barecat") as bc:
        assert sorted(bc.files()) == sorted(expected["files()"])
        assert sorted(bc.dirs()) == sorted(expected["dirs()"])
        walked = {d: (sorted(dirs), sorted(files)) for d, dirs, files in bc.walk("")}
        assert walked == {d: (sorted(dirs), sorted(files)) for d, dirs, files in expected["walk"]}
        for directory, names in expected["listdir"].items():
            assert sorted(bc.listdir(directory)) == sorted(names)
        for query in expected["glob"]:
            found = bc.glob(query["pattern"], recursive=query["recursive"], include_hidden=query["include_hidden"])
            if query["pattern"].endswith("/"):  # the original leaves out directories that are empty
                found = [path for path in found if not path or bc.listdir(path)]
            assert sorted(found) == query["sorted_result"], query


def perform(bc: Barecat, op: str, args: list[Any]) -> None:
    if op == "add":
        mode, uid, gid, mtime_ns = args[3:7]
        bc.add(BarecatFileInfo(args[0], mode, uid, gid, mtime_ns), data=blob(args[1], args[2]))
    elif op == "set":
        bc[args[0]] = blob(args[1], args[2])
    elif op == "del":
        del bc[args[0]]
    elif op == "update":
        bc.update_file(args[0], data=blob(args[1], args[2]))
    elif op == "append":
        with bc.open(args[0], "ab") as file:
            file.write(blob(args[1], args[2]))
    else:
        getattr(bc, op)(*args)


def test_the_same_operations_give_the_same_bytes(golden: Path, tmp_path: Path) -> None:
    folder = golden / "archives" / "replay-ops"
    expected = load(folder)
    path = tmp_path / "r.barecat"
    with Barecat(path, readonly=False, shard_size_limit=expected["config"]["shard_size_limit"]) as bc:
        for number, (op, args, want) in enumerate(operations(folder)):
            try:
                perform(bc, op, args)
                got = "ok"
            except (BarecatError, KeyError) as error:
                got = type(error).__name__
            assert got == want, (number, op, args)
    assert_same_shards(path, expected)
    with Barecat(path) as bc:
        assert len(bc) == expected["num_files"]
        for row in expected["files"]:
            info = bc.index.lookup_file(row["path"])
            assert_same_columns(info, row, ("shard", "offset", "crc32c"))
        assert bc.verify_integrity()
