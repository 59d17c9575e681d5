"""``headrace sync``: only what differs is copied, between folders and archives."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from headrace.formats.barecat import Archive
from headrace.transfer.sync import SyncOptions, parse_location, sync

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Said = Callable[..., str]


def tree(root: Path) -> dict[str, tuple[bytes | None, int]]:
    return {
        str(p.relative_to(root)): (p.read_bytes() if p.is_file() else None, p.stat().st_mtime_ns)
        for p in root.rglob("*")
    }


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("x.barecat", ("x.barecat", "", True)),
        ("x.barecat::", ("x.barecat", "", True)),
        ("x.barecat::a/b", ("x.barecat", "a/b", False)),
        ("x.barecat::/a//b/", ("x.barecat", "a/b", True)),
        ("x\\::y", ("x::y", None, False)),
        ("x\\::y::z", ("x::y", "z", False)),
        ("dir/", ("dir/", None, True)),
    ],
)
def test_places(text: str, place: tuple[str, str | None, bool]) -> None:
    assert tuple(parse_location(text)) == place


def test_there_and_back(photos: Path, said: Said) -> None:
    assert "4 copied" in said("sync", "photos/", "new.barecat")
    assert "0 copied (0 B), 0 removed, 4 alike" in said("sync", "photos/", "new.barecat")
    assert "4 copied" in said("sync", "new.barecat", "out")
    assert tree(photos / "out") == tree(photos / "photos")
    assert "4 alike" in said("sync", "new.barecat", "out")
    assert "4 copied" in said("sync", "new.barecat", "copy.barecat::deep/er")
    assert Archive("copy.barecat")["deep/er/notes.txt"] == b"hello\n"
    assert Archive("copy.barecat").verify().ok
    assert "4 copied" in said("sync", "photos/", "plain-folder")


def test_with_and_without_a_slash(photos: Path, said: Said) -> None:
    said("sync", "photos", "a.barecat")
    assert Archive("a.barecat").listdir() == ["photos"]
    said("sync", "a.barecat::photos/cat", "out")
    assert sorted(os.listdir(photos / "out" / "cat")) == ["1.jpg", "2.jpg"]
    said("sync", "a.barecat::photos/cat/", "flat")
    assert sorted(os.listdir(photos / "flat")) == ["1.jpg", "2.jpg"]
    said("sync", "a.barecat::photos/notes.txt", "photos/dog/3 b.jpg", "files")
    assert sorted(os.listdir(photos / "files")) == ["3 b.jpg", "notes.txt"]


def test_only_what_differs(photos: Path) -> None:
    notes = photos / "photos" / "notes.txt"

    def copied(**options: object) -> list[str]:
        return sync(["photos/"], "photos.barecat", SyncOptions(dry_run=True, **options)).copied  # type: ignore[arg-type]

    assert copied() == []
    os.utime(notes, ns=(5, 5))
    assert copied() == ["notes.txt"]
    assert copied(checksum=True) == copied(size_only=True) == copied(update=True) == copied(ignore_existing=True) == []
    notes.write_text("hallo\n")
    assert copied(checksum=True) == copied(update=True) == ["notes.txt"]
    assert copied(size_only=True) == []
    (photos / "photos" / "new").write_bytes(bytes(100))
    assert copied(ignore_existing=True) == ["new"]
    assert copied(existing=True) == ["notes.txt"]
    assert copied(min_size=7) == ["new"]
    assert copied(max_size=99) == ["notes.txt"]
    assert copied(rules=[(False, "n*")]) == []
    assert copied(rules=[(True, "new"), (False, "**")]) == ["new"]
    assert "new" not in Archive("photos.barecat")


@pytest.mark.parametrize("target", ["photos.barecat", "out"])
def test_delete(photos: Path, said: Said, target: str) -> None:
    said("sync", "photos/", target)
    for path in ("cat/1.jpg", "dog/3 b.jpg"):
        (photos / "photos" / path).unlink()
    (photos / "photos" / "dog").rmdir()
    planned = said("sync", "photos/", target, "--delete", "-n", "-v")
    assert planned.splitlines()[:2] == ["remove cat/1.jpg", "remove dog"]
    assert "nothing was done" in planned
    facts = json.loads(said("sync", "photos/", target, "--delete", "--json", "-x", "3*"))
    assert facts["removed"] == ["cat/1.jpg"], "what a rule leaves out stays, and so does its directory"
    said("sync", "photos/", target, "--delete")
    said("sync", f"{target}/" if target == "out" else target, "back")
    assert sorted(tree(photos / "back")) == ["cat", "cat/2.jpg", "notes.txt", "void"]
    assert "one source" in said("sync", "photos/", "photos/cat", target, "--delete", code=2)


def test_what_does_not_go(photos: Path, said: Said) -> None:
    assert "does not exist" in said("sync", "nope", "photos.barecat", code=2)
    assert "does not exist" in said("sync", "photos.barecat::nope", "out", code=2)
    assert "archive that is read" in said("sync", "photos.barecat::cat", "photos.barecat::dog", code=2)
    (photos / "photos" / "notes.txt").unlink()
    (photos / "photos" / "notes.txt").mkdir()
    (photos / "photos" / "void").rmdir()
    (photos / "photos" / "void").write_text("a file now")
    assert "is a directory in the source" in said("sync", "photos/", "photos.barecat", code=2)
    assert "is a file in the source" in said("sync", "photos/", "photos.barecat", "-x", "notes.txt", code=2)
    (photos / "out").mkdir()
    (photos / "elsewhere").mkdir()
    (photos / "out" / "cat").symlink_to(photos / "elsewhere")
    assert "nothing is written through links" in said("sync", "photos.barecat", "out", code=2)
    assert os.listdir(photos / "elsewhere") == []
    said("sync", "photos/", "dry.barecat", "-n")
    assert not (photos / "dry.barecat").exists()
