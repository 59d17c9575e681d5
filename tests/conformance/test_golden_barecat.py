"""Archives of the real barecat are read as their manifests say, and the same operations give the same bytes."""

from __future__ import annotations

import os
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

from headrace.errors import (
    EntryExistsError,
    EntryIsDirectoryError,
    EntryIsFileError,
    EntryNotFoundError,
    FormatError,
)
from headrace.formats.barecat import Archive, Metadata

if TYPE_CHECKING:
    from pathlib import Path

UNOPENABLE = {"sqlite-empty-file", "sqlite-header-zeroed", "sqlite-truncated"}
ERRORS = {
    "NotADirectoryBarecatError": EntryIsFileError,
    "FileExistsBarecatError": EntryExistsError,
    "FileNotFoundBarecatError": EntryNotFoundError,
    "IsADirectoryBarecatError": EntryIsDirectoryError,
}


@pytest.mark.parametrize("name", READABLE)
def test_every_file_and_directory(golden: Path, name: str) -> None:
    folder = golden / "archives" / name
    expected = load(folder)
    archive = Archive(folder / f"{name}.barecat", follow_links=True)
    damaged = DAMAGED.get(name, set())
    infos = {info.path: info for info in archive.files()}
    assert set(infos) == {row["path"] for row in expected["files"]}
    assert len(archive) == expected["num_files"] or name in WRONG_STATISTICS
    for row in expected["files"]:
        info = infos[row["path"]]
        assert_same_columns(info, row, FILE_COLUMNS)
        if row["path"] not in damaged:
            assert sha(archive[row["path"]]) == row["sha256"]
            with archive.open(row["path"], "rb") as file:
                assert sha(file.read()) == row["sha256"]
    good = [row for row in expected["files"] if row["path"] not in damaged]
    contents = archive.read_many([row["path"] for row in good])
    assert [sha(data) for data in contents] == [row["sha256"] for row in good]
    dirs = {info.path: info for info in archive.dirs()}
    assert set(dirs) == {row["path"] for row in expected["dirs"]}
    for row in expected["dirs"]:
        assert_same_columns(dirs[row["path"]], row, (*DIRECTORY_COLUMNS, "mtime_ns"))
    report = archive.verify()
    assert {p.message.split(": ")[0] for p in report.problems} == damaged or name in WRONG_STATISTICS


@pytest.mark.parametrize("name", sorted(UNREADABLE))
def test_unknown_schemas_are_refused(golden: Path, name: str) -> None:
    with pytest.raises(FormatError, match="schema version"):
        Archive(golden / "archives" / name / f"{name}.barecat")


@pytest.mark.parametrize("name", CORRUPT)
def test_damage_is_reported_by_name(golden: Path, name: str) -> None:
    folder = golden / "corrupt" / name
    original = {row["path"]: row["sha256"] for row in load(folder)["original"]}
    if name in UNOPENABLE:
        with pytest.raises(FormatError, match="index"):
            Archive(folder / f"{name}.barecat")
        return
    archive = Archive(folder / f"{name}.barecat")
    report = archive.verify()
    assert report.ok == (name == "trailing-garbage")
    if name.startswith("sqlite-"):
        return
    named = {p.message.split(": ")[0] for p in report.problems}
    for path, digest in original.items():
        try:
            intact = sha(archive[path]) == digest
        except (ValueError, OSError):
            intact = False
        assert intact or path in named, f"{path} is damaged and not in the report"


@pytest.mark.parametrize("name", ["nested", "names"])
def test_listings(golden: Path, name: str) -> None:
    folder = golden / "archives" / name
    expected = load(folder, "queries.json")
    archive = Archive(folder / f"{name}.barecat")
    assert sorted(archive) == sorted(expected["files()"])
    assert sorted(info.path for info in archive.dirs()) == sorted(expected["dirs()"])
    walked = {d or ".": (sorted(dirs), sorted(files)) for d, dirs, files in archive.walk()}
    assert walked == {d: (sorted(dirs), sorted(files)) for d, dirs, files in expected["walk"]}
    for directory, names in expected["listdir"].items():
        assert sorted(archive.listdir(directory)) == sorted(names)
        assert sorted(entry.name for entry in archive.scandir(directory)) == sorted(names)
    for query in expected["glob"]:
        # Left out: a trailing slash, and sets that match a leading dot, where the original is not as Python's glob.
        if query["pattern"].endswith("/") or "[!" in query["pattern"]:
            continue
        found = archive.glob(query["pattern"], recursive=query["recursive"], include_hidden=query["include_hidden"])
        assert sorted(found) == [path for path in query["sorted_result"] if path], query


def perform(archive: Archive, op: str, args: list[Any]) -> None:
    if op == "add":
        archive.add(args[0], blob(args[1], args[2]), metadata=Metadata(*args[3:7]))
    elif op == "set":
        archive[args[0]] = blob(args[1], args[2])
    elif op == "del":
        del archive[args[0]]
    elif op == "update":
        archive.update_file(args[0], blob(args[1], args[2]))
    elif op == "append":
        with archive.open(args[0], "ab") as file:
            file.write(blob(args[1], args[2]))
    else:
        getattr(archive, op)(*args)


@pytest.mark.parametrize("commit_every", [0, 1, 7])
def test_the_same_operations_give_the_same_bytes(golden: Path, tmp_path: Path, commit_every: int) -> None:
    folder = golden / "archives" / "replay-ops"
    expected = load(folder)
    path = tmp_path / "r.barecat"
    with Archive(path, "x", shard_size=expected["config"]["shard_size_limit"]) as archive:
        for number, (op, args, want) in enumerate(operations(folder)):
            if want == "ok":
                perform(archive, op, args)
            else:
                with pytest.raises(ERRORS[want]):
                    perform(archive, op, args)
            if commit_every and number % commit_every == 0:
                archive.commit()
    assert_same_shards(path, expected)
    assert not os.path.exists(f"{path}-undo")
    archive = Archive(path)
    infos = {info.path: info for info in archive.files()}
    assert len(infos) == expected["num_files"]
    for row in expected["files"]:
        assert_same_columns(infos[row["path"]], row, FILE_COLUMNS)
        assert sha(archive[row["path"]]) == row["sha256"]
    dirs = {info.path: info for info in archive.dirs()}
    assert set(dirs) == {row["path"] for row in expected["dirs"]}
    for row in expected["dirs"]:
        assert_same_columns(dirs[row["path"]], row, DIRECTORY_COLUMNS)
    assert archive.verify().ok
