"""The verbs on archives."""

from __future__ import annotations

import json
import sys
from io import BytesIO, TextIOWrapper
from typing import TYPE_CHECKING

import pytest

from headrace.cli.main import main
from headrace.formats.barecat import Archive

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src" / "cat").mkdir(parents=True)
    (tmp_path / "src" / "void").mkdir()
    for i in range(3):
        (tmp_path / "src" / "cat" / f"{i}.bin").write_bytes(bytes(1000 * (i + 1)))
    (tmp_path / "src" / "note\n.txt").write_text("hello")
    assert main(["create", "x.barecat", "src", "-q", "-s", "4K"]) == 0
    return tmp_path


def out_of(capsys: pytest.CaptureFixture[str], *args: str, code: int = 0) -> str:
    capsys.readouterr()
    assert main(list(args)) == code
    captured = capsys.readouterr()
    return captured.out if code != 2 else captured.err


def test_listing(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert out_of(capsys, "ls", "x.barecat") == "src/\n"
    assert out_of(capsys, "ls", "-R", "x.barecat", "src/cat").split() == [f"src/cat/{i}.bin" for i in range(3)]
    assert "src/note\\n.txt" in out_of(capsys, "ls", "-lR", "x.barecat")
    rows = json.loads(out_of(capsys, "ls", "--json", "x.barecat", "**/*.bin"))
    assert [row["size"] for row in rows] == [1000, 2000, 3000]
    assert "└── void/" in out_of(capsys, "tree", "x.barecat", "-L", "2", "-d")
    assert out_of(capsys, "find", "x.barecat", "--name", "*.bin", "--size", "+1k") == "src/cat/1.bin\nsrc/cat/2.bin\n"
    assert out_of(capsys, "find", "x.barecat", "src", "--type", "d", "--maxdepth", "1", "-0") == "src/cat\0src/void\0"
    assert out_of(capsys, "find", "x.barecat", "--path", "**/cat/0*") == "src/cat/0.bin\n"
    assert out_of(capsys, "du", "x.barecat", "-L", "1") == "6005\tsrc\n6005\t.\n"
    assert json.loads(out_of(capsys, "du", "-s", "x.barecat", "src/cat", "--json"))[0]["size_bytes"] == 6000
    assert "1000" in out_of(capsys, "du", "-a", "x.barecat", "src/cat")
    assert "nothing matches" in out_of(capsys, "ls", "x.barecat", "*.nope", code=2)
    assert "does not exist" in out_of(capsys, "ls", "x.barecat", "nope", code=2)


def test_changing(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "src" / "new.txt").write_text("new")
    assert "1 files" in out_of(capsys, "add", "x.barecat", "src/new.txt")
    assert "exists already" in out_of(capsys, "add", "x.barecat", "src/new.txt", code=2)
    out_of(capsys, "add", "x.barecat", "src/new.txt", "--replace")
    out_of(capsys, "mv", "x.barecat", "src/new.txt", "src/void")
    assert Archive("x.barecat")["src/void/new.txt"] == b"new"
    assert "give -r" in out_of(capsys, "rm", "x.barecat", "src/void/new.txt", "src/cat", code=2)
    assert Archive("x.barecat").exists("src/void/new.txt")
    out_of(capsys, "rm", "-r", "x.barecat", "src/cat", "src/void/new.txt")
    assert list(Archive("x.barecat")) == ["src/note\n.txt"]
    gaps = json.loads(out_of(capsys, "defrag", "-n", "x.barecat", "--json"))
    assert gaps["path"] == "x.barecat"
    for how in ([], ["--smart"], ["--quick", "--max-seconds", "9"]):
        out_of(capsys, "defrag", "x.barecat", *how)
    out_of(capsys, "reshard", "x.barecat", "-s", "1K")
    about = json.loads(out_of(capsys, "info", "x.barecat", "--json"))
    assert (about["files"], about["shards"], about["gap_bytes"], about["shard_size_limit"]) == (1, 1, 0, 1024)
    assert "limit 1.0 KiB" in out_of(capsys, "info", "x.barecat")


def test_extract_and_cat(place: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["cat", "x.barecat", "src/note\n.txt"]) == 0
    assert capsysbinary.readouterr().out == b"hello"
    assert main(["extract", "x.barecat", "-C", "out", "-q"]) == 0
    assert (place / "out" / "src" / "cat" / "2.bin").read_bytes() == bytes(3000)
    assert (place / "out" / "src" / "void").is_dir()
    assert main(["extract", "x.barecat", "-C", "out", "-q"]) == 2
    assert main(["extract", "x.barecat", "-C", "out", "-q", "--force"]) == 0
    assert main(["extract", "x.barecat", "-C", "part", "**/1.bin", "src/void"]) == 0
    assert sorted(p.name for p in (place / "part").rglob("*")) == ["1.bin", "cat", "src", "void"]


def test_merge_and_subset(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out_of(capsys, "subset", "x.barecat", "-o", "s.barecat", "-i", "**/*.bin", "-x", "**")
    assert len(Archive("s.barecat")) == 3
    assert "exists" in out_of(capsys, "merge", "x.barecat", "-o", "s.barecat", code=2)
    out_of(capsys, "merge", "x.barecat", "s.barecat", "-o", "m.barecat", "--ignore-duplicates")
    out_of(capsys, "merge", "s.barecat", "-o", "m.barecat", "--append", "--as-subdirs", "--prefix", "p")
    assert len(Archive("m.barecat")) == 7
    out_of(capsys, "merge", "x.barecat", "-o", "l.barecat", "--symlink")
    assert out_of(capsys, "verify", "l.barecat").startswith("l.barecat: ok")
    assert "from itself" in out_of(capsys, "merge", "m.barecat", "-o", "m.barecat", "--append", code=2)


def test_merge_of_tar_zip_and_folders(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out_of(capsys, "convert", "src", "a.tar.gz")
    out_of(capsys, "convert", "src", "b.zip")
    assert "16 files" in out_of(
        capsys, "merge", "a.tar.gz", "b.zip", "src/", "x.barecat", "-o", "m.barecat", "--as-subdirs"
    )
    archive = Archive("m.barecat")
    assert {name.partition("/")[0] for name in archive} == {"a", "b", "src", "x"}
    assert archive["a/note\n.txt"] == archive["b/note\n.txt"] == archive["src/note\n.txt"] == b"hello"
    assert archive.stat("a/void").is_dir()
    assert archive.verify().ok
    out_of(capsys, "merge", "a.tar.gz", "-o", "part.barecat", "-i", "cat/1.*", "-x", "**")
    assert list(Archive("part.barecat")) == ["cat/1.bin"]
    assert "--ignore-duplicates" in out_of(capsys, "merge", "a.tar.gz", "b.zip", "-o", "n.barecat", code=2)
    out_of(capsys, "merge", "a.tar.gz", "b.zip", "-o", "n.barecat", "--ignore-duplicates")
    assert len(Archive("n.barecat")) == 4


def test_what_cannot_be_merged_says_what_to_do(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out_of(capsys, "convert", "src", "a.tar")
    out_of(capsys, "convert", "src", "a.ffr")
    assert "headrace convert a.ffr a.barecat" in out_of(capsys, "merge", "a.ffr", "-o", "m.barecat", code=2)
    assert "a.tar has none" in out_of(capsys, "merge", "a.tar", "-o", "m.barecat", "--symlink", code=2)
    assert "none.tar does not exist" in out_of(capsys, "merge", "a.tar", "none.tar", "-o", "m.barecat", code=2)
    assert "--max-size" in out_of(capsys, "merge", "a.tar", "-o", "m.barecat", "--max-size", "1K", code=2)
    (place / "broken.tar.gz").write_bytes(b"nothing of the kind")
    broken = "broken.tar.gz: it cannot be read (it is not a tar, plain or compressed)"
    assert broken in out_of(capsys, "merge", "broken.tar.gz", "-o", "m.barecat", code=2)
    assert not list(place.glob("*m.barecat*"))


def test_verify(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "x.barecat-shard-00001").unlink()
    printed = out_of(capsys, "verify", "x.barecat", code=1)
    assert "src/cat/2.bin: this shard is missing" in printed
    assert out_of(capsys, "verify", "--quick", "x.barecat", code=1)
    (place / "x.barecat").write_bytes(b"SQLite format 3\0" + bytes(100))
    assert "BAD" in out_of(capsys, "verify", "x.barecat", code=1)


def test_create_from_a_list(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(b"src/cat/1.bin\0src/note\n.txt\0")))
    out_of(capsys, "create", "y.barecat", "-0", "-T", "-", "-j", "2")
    assert sorted(Archive("y.barecat")) == ["src/cat/1.bin", "src/note\n.txt"]
    (place / "list").write_text("src/cat/0.bin\nsrc/cat/2.bin\n")
    out_of(capsys, "create", "z.barecat", "-T", "list", "--exclude", "2.*")
    assert list(Archive("z.barecat")) == ["src/cat/0.bin"]
    assert "exists" in out_of(capsys, "create", "z.barecat", "src", code=2)
    assert "nothing to pack" in out_of(capsys, "create", "n.barecat", code=2)
    assert not (place / "n.barecat").exists()
    assert "for archives" in out_of(capsys, "create", "n.beton", "src", "-s", "1K", code=2)
    assert "--max-side is for .beton" in out_of(capsys, "create", "n.barecat", "src", "--max-side", "9", code=2)


def test_the_index_as_a_table(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(Archive("x.barecat").files()), sorted(d[:5] for d in Archive("x.barecat").dirs())
    assert "8 rows" in out_of(capsys, "index", "x.barecat", "--export", "t.csv")
    assert "exists" in out_of(capsys, "index", "x.barecat", "--import", "t.csv", code=2)
    (place / "x.barecat").unlink()
    out_of(capsys, "index", "x.barecat", "--import", "t.csv")
    archive = Archive("x.barecat")
    assert (sorted(archive.files()), sorted(d[:5] for d in archive.dirs())) == before
    assert archive.verify().ok
    (place / "t.csv").write_text((place / "t.csv").read_text().replace("1000", "many", 1))
    assert "not a line" in out_of(capsys, "index", "x.barecat", "--import", "t.csv", "--force", code=2)
    assert Archive("x.barecat").verify().ok
    assert not list(place.glob("*.import*"))
    assert "nothing to index" in out_of(capsys, "index", "x.barecat", code=2)


def test_create_in_the_folder_that_is_packed(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out_of(capsys, "create", "y.barecat", "-C", "src", "cat", "void")
    names = [f"cat/{i}.bin" for i in range(3)]
    assert sorted(Archive("y.barecat")) == names
    out_of(capsys, "add", "y.barecat", "-C", "src/cat", "0.bin")
    assert sorted(Archive("y.barecat")) == ["0.bin", *names]
    assert "nothing to add" in out_of(capsys, "add", "y.barecat", code=2)
    monkeypatch.chdir(place / "src")
    for _ in range(2):
        out_of(capsys, "create", "here.barecat", ".", "--force")
        assert sorted(Archive("here.barecat")) == [*names, "note\n.txt"]
    out_of(capsys, "add", "here.barecat", ".", "--replace")
    assert sorted(Archive("here.barecat")) == [*names, "note\n.txt"]
    for _ in range(2):
        out_of(capsys, "sync", "./", "here.barecat")
        assert sorted(Archive("here.barecat")) == [*names, "note\n.txt"]
    assert "lies in" in out_of(capsys, "convert", ".", "there.barecat", code=2)


def test_words_after_two_dashes_are_names(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "-odd").write_text("dash")
    out_of(capsys, "create", "-q", "--", "-x.barecat", "-odd")
    assert out_of(capsys, "ls", "--", "-x.barecat") == "-odd\n"
    assert out_of(capsys, "cat", "--", "-x.barecat", "-odd") == "dash"
    out_of(capsys, "mv", "--", "-x.barecat", "-odd", "--")
    assert list(Archive("-x.barecat")) == ["--"]


def test_conditions_as_of_find(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert out_of(capsys, "find", "x.barecat", "-name", "1.*") == "src/cat/1.bin\n"
    for dashes in ("-", "--"):
        small = out_of(capsys, "find", "x.barecat", f"{dashes}type", "f", f"{dashes}size", "-6")
        assert small == "src/note\\n.txt\n"
    assert out_of(capsys, "find", "x.barecat", "-path", "src/cat/*", "-maxdepth", "3", "-print0").count("\0") == 3


def test_what_is_damaged_is_left_out_and_named(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open("x.barecat-shard-00000", "r+b") as shard:
        shard.write(b"!")
    code = main(["extract", "x.barecat", "-C", "out"])
    captured = capsys.readouterr()
    assert code == 2
    assert captured.err.count("left out:") == 1
    assert "1 file is damaged and not written; headrace verify x.barecat" in captured.err
    assert len([p for p in (place / "out").rglob("*") if p.is_file()]) == 3
    (place / "x.barecat-shard-00001").unlink()
    assert "files are damaged" in out_of(capsys, "extract", "x.barecat", "-C", "out", "-f", code=2)


def test_summaries_and_hints(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert out_of(capsys, "verify", "x.barecat").startswith("x.barecat: ok (4 files, ")
    assert "(4 files; structure only" in out_of(capsys, "verify", "x.barecat", "--quick")
    assert out_of(capsys, "reshard", "x.barecat", "-s", "8K") == "x.barecat: 1 shards of at most 8.0 KiB\n"
    assert "--replace" in out_of(capsys, "add", "x.barecat", "src", code=2)
    assert "headrace convert src x.tar.gz" in out_of(capsys, "create", "x.tar.gz", "src", code=2)
    assert main(["tree", "x.barecat", "nope"]) == 2
    assert capsys.readouterr().out == ""
    out_of(capsys, "subset", "x.barecat", "-o", "s.barecat")
    problem = out_of(capsys, "merge", "x.barecat", "s.barecat", "-o", "m.barecat", "--symlink", code=2)
    assert "m.barecat: src/" in problem
    assert "incomplete" not in problem
    assert not list(place.glob("*m.barecat*"))


def test_names_do_not_reach_the_terminal_raw(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "evil").mkdir()
    (place / "evil" / "\x1b[31mred").write_bytes(b"1")
    out_of(capsys, "create", "evil.ffr", "evil")
    assert out_of(capsys, "ls", "evil.ffr") == "0  \\x1b[31mred\n"
    out_of(capsys, "create", "evil.barecat", "evil")
    assert "\x1b" not in out_of(capsys, "ls", "-lR", "evil.barecat")
    with open("evil.barecat-shard-00000", "r+b") as shard:
        shard.write(b"2")
    assert "evil/\\x1b[31mred: checksum" in out_of(capsys, "verify", "evil.barecat", code=1)
    assert "\x1b" not in out_of(capsys, "cat", "evil.barecat", "evil/\x1b[31mred", code=2)
