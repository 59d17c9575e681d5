"""``--follow-links``: archives whose shards are symbolic links, in every verb that reads."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import headrace as hr
from headrace.errors import AnnexError
from headrace.formats.barecat import Archive
from headrace.transfer import mount as mounting
from headrace.transfer.merge import link_archives

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.transfer.mount import ArchiveOperations

    Said = Callable[..., str]

JPEGS = 3


@pytest.fixture
def linked(photos: Path, said: Said) -> dict[str, bytes]:
    """``linked.barecat``, whose shard is a link to that of ``photos.barecat``; gives its files."""
    (photos / "apart").mkdir()
    for part in ("", "-shard-00000"):
        (photos / f"photos.barecat{part}").rename(photos / "apart" / f"photos.barecat{part}")
    said("merge", "apart/photos.barecat", "-o", "linked.barecat", "--symlink")
    return _contents("photos")


def _contents(name: str) -> dict[str, bytes]:
    """The files of a folder or an archive, the samples of an .ffr."""
    path = Path(name)
    if path.is_dir():
        return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}
    if name.endswith(".barecat"):
        with Archive(path, follow_links=True) as archive:
            return dict(archive.items())
    with hr.open(path) as dataset:
        assert dataset.keys is not None
        return dict(zip(dataset.keys, dataset.read_bytes(range(len(dataset)), *dataset.schema), strict=True))


def _rows_of_files(table: str) -> list[str]:
    return [line for line in Path(table).read_text().splitlines() if line.startswith("file")]


class CopyOfMount:
    """Stands for FUSE: copies all that it finds to ``out``."""

    def FUSE(self, operations: ArchiveOperations, place: str, **options: object) -> None:
        self._copy(operations, "/")

    def _copy(self, operations: ArchiveOperations, path: str) -> None:
        for name in operations.readdir(path, 0):
            below = f"{path.rstrip('/')}/{name}"
            if name in (".", ".."):
                continue
            facts = operations.getattr(below)
            if facts["st_nlink"] == 2:
                self._copy(operations, below)
                continue
            data = operations.read(below, facts["st_size"], 0, operations.open(below, os.O_RDONLY))
            (target := Path("out" + below)).parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)


@pytest.mark.parametrize(
    ("command", "out"),
    [
        ("convert linked.barecat out.barecat", "out.barecat"),
        ("convert linked.barecat out/", "out"),
        ("convert linked.barecat out.ffr", "out.ffr"),
        ("merge linked.barecat -o out.barecat", "out.barecat"),
        ("merge linked.barecat -o out.barecat --symlink", "out.barecat"),
        ("subset linked.barecat -o out.barecat", "out.barecat"),
        ("sync linked.barecat out", "out"),
        ("sync linked.barecat out.barecat", "out.barecat"),
        ("mount linked.barecat mnt -q", "out"),
        ("shell linked.barecat -c get@cat@out -c get@dog@out -c get@notes.txt@out", "out"),
        ("extract linked.barecat -C out", "out"),
    ],
)
def test_links_are_followed_only_where_that_is_wanted(
    linked: dict[str, bytes], said: Said, monkeypatch: pytest.MonkeyPatch, command: str, out: str
) -> None:
    monkeypatch.setattr(mounting, "_load", CopyOfMount)
    Path("mnt").mkdir()
    words = [word.replace("@", " ") for word in command.split()]
    assert "linked.barecat-shard-00000: this is a symbolic link" in said(*words, code=2)
    assert not Path(out).exists() or not _contents(out)
    said(*words, "--follow-links", *(["--force"] if words[0] == "extract" else []))
    assert _contents(out) == linked


def test_index_reads_through_links(linked: dict[str, bytes], said: Said) -> None:
    assert "--follow-links" in said("index", "linked.barecat", code=2)
    said("index", "linked.barecat", "--follow-links")
    assert not Path("apart/photos.barecat.annex").exists(), "the annex belongs to the archive that was named"
    with hr.open("linked.barecat", follow_links=True) as dataset:
        tile_index: Any = dataset.tile_index  # type: ignore[attr-defined]
        assert tile_index.count == JPEGS
    said("verify", "linked.barecat", "--follow-links")
    said("index", "linked.barecat", "--export", "linked.csv", "--follow-links")
    said("index", "apart/photos.barecat", "--export", "photos.csv")
    assert _rows_of_files("linked.csv") == _rows_of_files("photos.csv") != []
    assert "--import" in said("index", "linked.barecat", "--import", "linked.csv", "-f", "--follow-links", code=2)


@pytest.mark.parametrize("command", ["cat notes.txt", "verify", "ls -l", "cd cat"])
def test_commands_of_the_shell_follow_links(linked: dict[str, bytes], said: Said, command: str) -> None:
    said("shell", "linked.barecat", "--follow-links", "-c", command)


@pytest.mark.parametrize(
    "words", [("shell", "linked.barecat", "-w", "-c", "mkdir new"), ("sync", "photos/", "linked.barecat", "--delete")]
)
def test_nothing_is_written_through_links(linked: dict[str, bytes], said: Said, words: tuple[str, ...]) -> None:
    Path("photos/new").write_text("new")
    before = _contents("apart")
    assert "headrace merge --follow-links" in said(*words, "--follow-links", code=2)
    assert _contents("apart") == before


@pytest.mark.parametrize("name", ["photos", "photos.zip"])
def test_convert_says_what_has_no_links_to_follow(photos: Path, said: Said, name: str) -> None:
    said("convert", "photos", "photos.zip")
    assert "is for what is read from a .barecat" in said("convert", name, "out.barecat", "--follow-links", code=2)


def test_a_path_that_is_a_link_has_its_shards_elsewhere(linked: dict[str, bytes], photos: Path) -> None:
    (photos / "short.barecat").symlink_to("apart/photos.barecat")
    link_archives(["short.barecat"], "again.barecat")
    assert _contents("again.barecat") == linked


@pytest.mark.parametrize("ending", ["beton", "barecat", "ffr"])
def test_no_annex_is_written_through_a_link(photos: Path, ending: str) -> None:
    path = photos / f"x.{ending}"
    hr.convert(photos / "photos.barecat", path, decode="bytes" if ending == "ffr" else None)
    annex = Path(f"{path}.annex")
    annex.unlink(missing_ok=True)
    (photos / "mine").write_text("mine")
    annex.symlink_to("mine")
    for follow_links in (False, True):
        with pytest.raises(AnnexError, match="symbolic link"):
            hr.index(path, fresh=True, follow_links=follow_links)
    assert (photos / "mine").read_text() == "mine"
