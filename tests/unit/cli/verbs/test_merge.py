"""``headrace merge``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headrace.formats.barecat import Archive

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Said = Callable[..., str]


def test_merge(place: Path, said: Said) -> None:
    said("subset", "x.barecat", "-o", "s.barecat", "-i", "**/*.bin", "-x", "**")
    assert "exists" in said("merge", "x.barecat", "-o", "s.barecat", code=2)
    said("merge", "x.barecat", "s.barecat", "-o", "m.barecat", "--ignore-duplicates")
    said("merge", "s.barecat", "-o", "m.barecat", "--append", "--as-subdirs", "--prefix", "p")
    assert len(Archive("m.barecat")) == 7
    said("merge", "x.barecat", "-o", "l.barecat", "--symlink")
    assert said("verify", "l.barecat", "--follow-links").startswith("l.barecat: ok")
    assert "from itself" in said("merge", "m.barecat", "-o", "m.barecat", "--append", code=2)


def test_merge_of_tar_zip_and_folders(place: Path, said: Said) -> None:
    said("convert", "src", "a.tar.gz")
    said("convert", "src", "b.zip")
    assert "16 files" in said("merge", "a.tar.gz", "b.zip", "src/", "x.barecat", "-o", "m.barecat", "--as-subdirs")
    archive = Archive("m.barecat")
    assert {name.partition("/")[0] for name in archive} == {"a", "b", "src", "x"}
    assert archive["a/note\n.txt"] == archive["b/note\n.txt"] == archive["src/note\n.txt"] == b"hello"
    assert archive.stat("a/void").is_dir()
    assert archive.verify().ok
    said("merge", "a.tar.gz", "-o", "part.barecat", "-i", "cat/1.*", "-x", "**")
    assert list(Archive("part.barecat")) == ["cat/1.bin"]
    assert "--ignore-duplicates" in said("merge", "a.tar.gz", "b.zip", "-o", "n.barecat", code=2)
    said("merge", "a.tar.gz", "b.zip", "-o", "n.barecat", "--ignore-duplicates")
    assert len(Archive("n.barecat")) == 4


def test_what_cannot_be_merged_says_what_to_do(place: Path, said: Said) -> None:
    said("convert", "src", "a.tar")
    said("convert", "src", "a.ffr")
    assert "headrace convert a.ffr a.barecat" in said("merge", "a.ffr", "-o", "m.barecat", code=2)
    assert "a.tar has none" in said("merge", "a.tar", "-o", "m.barecat", "--symlink", code=2)
    assert "none.tar does not exist" in said("merge", "a.tar", "none.tar", "-o", "m.barecat", code=2)
    assert "--max-size" in said("merge", "a.tar", "-o", "m.barecat", "--max-size", "1K", code=2)
    (place / "broken.tar.gz").write_bytes(b"nothing of the kind")
    broken = "broken.tar.gz: it cannot be read (it is not a tar, plain or compressed)"
    assert broken in said("merge", "broken.tar.gz", "-o", "m.barecat", code=2)
    assert not list(place.glob("*m.barecat*"))


def test_links_that_meet_are_told_with_the_final_name(place: Path, said: Said) -> None:
    said("subset", "x.barecat", "-o", "s.barecat")
    problem = said("merge", "x.barecat", "s.barecat", "-o", "m.barecat", "--symlink", code=2)
    assert "m.barecat: src/" in problem
    assert "incomplete" not in problem
    assert not list(place.glob("*m.barecat*"))
