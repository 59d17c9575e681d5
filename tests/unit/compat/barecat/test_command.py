"""The command: flags, texts and exit codes."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from headrace._native import crc32c
from headrace.compat.barecat import Barecat
from headrace.compat.barecat.cli import legacy
from headrace.compat.barecat.cli.main import main
from headrace.compat.commands import COMMANDS

from .conftest import CONTENT

BIN = Path(sys.modules["headrace.compat"].__file__ or "").parent / "_bin"


class Command:
    """Runs the command in a folder with some files."""

    def __init__(self, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
        self._captured = capfdbinary
        self.out = self.err = ""

    def __call__(self, *words: str) -> int:
        try:
            main(words)
            code = 0
        except SystemExit as error:
            code = int(error.code or 0)
        sys.stdout.flush()
        captured = self._captured.readouterr()
        self.out, self.err = captured.out.decode(), captured.err.decode()
        return code

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.chdir(tmp_path)
    for name, data in CONTENT.items():
        file = tmp_path / "src" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    (tmp_path / "src/void").mkdir()
    return Command(capfdbinary)


ALL = sorted(f"src/{name}" for name in CONTENT)


def files(path: str) -> list[str]:
    with Barecat(path) as bc:
        assert bc.verify_integrity()
        return sorted(bc)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], ALL),
        (["-s", "1M"], ALL),
        (["-j", "4"], ALL),
        (["--physical-order"], ALL),
        (["--exclude", "**/*.txt"], [name for name in ALL if not name.endswith(".txt")]),
        (["--exclude", "src/dir/**", "--exclude=src/dir"], ["src/a.txt", "src/other/empty"]),
        (["-i", "src", "-i", "src/*.txt"], ["src/a.txt"]),
    ],
)
def test_creating(run: Command, options: list[str], expected: list[str]) -> None:
    assert run("create", "x.barecat", *options, "src") == 0, run.err
    assert files("x.barecat") == expected
    assert run("create", "x.barecat", "src") == 1
    assert "exists" in run.err
    assert run("c", "-f", *options, "x.barecat", "src") == 0
    assert files("x.barecat") == expected


def test_creating_keeps_metadata_and_leaves_dead_links_out(run: Command) -> None:
    os.symlink("nowhere", "src/dead")
    os.utime("src/void", ns=(5, 10**18))
    assert run("create", "x.barecat", "src") == 0
    assert "left out: src/dead" in run.err
    with Barecat("x.barecat") as bc:
        assert bc.index.lookup_dir("src/void").mtime_ns == 10**18
        assert bc.index.lookup_file("src/a.txt").mode == os.stat("src/a.txt").st_mode


def test_names_from_elsewhere(run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("list").write_text("src/a.txt\nsrc/dir/b.txt\n")
    assert run("create", "x.barecat", "-T", "list") == 0
    assert files("x.barecat") == ["src/a.txt", "src/dir/b.txt"]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"src/dir/.hidden\0src/other/empty\0\n")))
    assert run("add", "x.barecat", "-T", "-", "-0") == 0
    assert len(files("x.barecat")) == 4
    assert run("create", "y.barecat") == 1
    assert "No input" in run.err
    assert run("create", "y.barecat", "nothing") == 0
    assert "nothing: does not exist" in run.err
    target = os.path.abspath("z.barecat")
    assert run("create", target, "-C", "src", ".") == 0
    assert files(target) == sorted(CONTENT)


def test_what_is_left_out_is_said(run: Command) -> None:
    os.mkfifo("src/pipe")
    Path("src/broken").symlink_to("nowhere")
    assert run("create", "src/z.barecat", "src") == 0
    assert run.err.count("left out: ") == 4  # and index and shard of the archive
    assert sorted(files("src/z.barecat")) == sorted(f"src/{name}" for name in CONTENT)


def test_names_do_not_lead_up(run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("src/dir")
    assert run("create", "x.barecat", "../../src/a.txt", "../other") == 0
    assert "src/a.txt" in files("x.barecat")
    assert "other/empty" in files("x.barecat")


def test_files_before_a_missing_one_are_kept(run: Command) -> None:
    Path("list").write_text("src/a.txt\nnope\nsrc/dir/b.txt\n")
    for workers in ("1", "4"):
        assert run("create", "-f", "x.barecat", "-T", "list", "-j", workers) == 1
        assert files("x.barecat") == ["src/a.txt"]


def test_intact_files_of_a_damaged_archive_are_extracted(run: Command, filled: str) -> None:
    with open(f"{filled}-shard-00000", "r+b") as shard:
        first = shard.read(1)
        shard.seek(0)
        shard.write(bytes([first[0] ^ 1]))
    assert run("extract", filled, "-C", "out") == 1
    assert "1 files are damaged" in run.err
    assert len([p for p in Path("out").rglob("*") if p.is_file()]) == len(CONTENT) - 1
    for number, words in enumerate([("--pattern", "**/*.txt"), ("-i", "**/*.txt", "-x", "**")]):
        assert run("extract", filled, "-C", f"some{number}", *words) == 1
        assert "1 files are damaged" in run.err
        assert [str(p) for p in Path(f"some{number}").rglob("*") if p.is_file()] == [f"some{number}/dir/b.txt"]
    assert run("extract", filled, "-C", "none", "--pattern", "no*") == 0
    assert not Path("none").exists()
    assert run("convert", filled, "x.tar") == 1
    assert not Path("x.tar").exists()
    assert run("convert", "--stdout", filled, "tar") == 1


def test_broken_tars_and_zips_are_one_line(run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("bad.zip").write_bytes(b"nothing")
    assert run("convert", "bad.zip", "x.barecat") == 1
    assert run.err == "Error: bad.zip: it cannot be read (File is not a zip file).\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"nothing")))
    assert run("convert", "--stdin", "tar.gz", "y.barecat") == 1
    assert "standard input: it cannot be read" in run.err


def test_adding(run: Command) -> None:
    assert run("add", "x.barecat", "src/a.txt") == 1
    assert "barecat add -c" in run.err
    assert run("add", "-c", "x.barecat", "src/a.txt", "-s", "1K") == 0
    assert run("a", "x.barecat", "src/dir/b.txt") == 0
    assert run("a", "x.barecat", "src/dir/b.txt") == 1
    with Barecat("x.barecat") as bc:
        assert bc.shard_size_limit == 1024
    assert files("x.barecat") == ["src/a.txt", "src/dir/b.txt"]


def test_listing(run: Command, filled: str) -> None:
    assert run("ls", filled) == 0
    assert run.lines == ["a.txt", "dir/", "other/"]
    assert run("list", filled, "dir", "a.txt") == 0
    assert run.lines == [".hidden", "b.txt", "sub/", "a.txt"]
    assert run("l", "-R", filled) == 0
    assert sorted(run.lines) == sorted(CONTENT)
    assert run("t", filled, "dir/*") == 0
    assert run.lines == ["dir/sub/", "dir/b.txt"]
    assert run("ls", filled, "no") == 0
    assert run.lines == ["ls: no: No such file or directory"]
    assert run("ls", filled, "-l") == 0
    assert run.lines[0] == f"total {sum(map(len, CONTENT.values()))}"
    assert run.lines[1].endswith(" a.txt")
    assert run("ls", "--jsonl", filled) == 0
    rows = [json.loads(line) for line in run.lines]
    assert [row["type"] for row in rows] == ["file", "dir", "dir"]
    assert rows[1]["num_files_tree"] == 3


def test_contents(run: Command, filled: str) -> None:
    assert run("cat", filled, "dir/b.txt") == 0
    assert run.out == "second file"
    assert run("cat", filled, "no") == 1
    assert "not found" in run.err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], [".", *CONTENT, "dir", "dir/sub", "other"]),
        (["-name", "*.txt"], ["a.txt", "dir/b.txt"]),
        (["dir", "-type", "f"], ["dir/b.txt", "dir/sub/c.bin", "dir/.hidden"]),
        (["-type", "d", "-maxdepth", "1"], [".", "dir", "other"]),
        (["-size", "+10", "-type", "f"], ["dir/b.txt", "dir/sub/c.bin"]),
        (["-size", "-5", "-type", "f"], ["dir/.hidden", "other/empty"]),
        (["-size=11"], ["dir/b.txt"]),
        (["-path", "dir/*.txt"], ["dir/b.txt"]),
        (["-wholename", "*/sub"], ["dir/sub"]),
    ],
)
def test_searching(run: Command, filled: str, words: list[str], expected: list[str]) -> None:
    assert run("find", filled, *words) == 0, run.err
    assert sorted(run.lines) == sorted(expected)
    assert run("find", filled, *words, "-print0") == 0
    assert sorted(run.out.split("\0")[:-1]) == sorted(expected)


def test_sizes_and_trees(run: Command, filled: str) -> None:
    assert run("du", filled) == 0
    assert run.lines == ["10240\tdir/sub", "10257\t.", "10252\tdir", "0\tother"]
    assert run("du", "-a", "-d", "1", filled, "dir") == 0
    assert "11\tdir/b.txt" in run.lines
    assert run("du", "-sH", filled) == 0
    assert run.lines == ["10.0K\t."]
    assert run("du", filled, "no") == 0
    assert "No such file" in run.err
    assert run("du", "-s", filled, "no") == 1
    assert run("tree", filled) == 0
    assert run.lines[:5] == [".", "├── dir", "│   ├── sub", "│   │   └── c.bin", "│   ├── .hidden"]
    assert run.lines[-1] == "4 directories, 5 files"
    assert run("tree", "-d", "-L", "1", filled) == 0
    assert run.lines == [".", "├── dir", "└── other", "", "3 directories"]


def test_extracting(run: Command, filled: str) -> None:
    assert run("extract", filled, "-C", "out") == 0
    assert {str(p.relative_to("out")): p.read_bytes() for p in Path("out").rglob("*") if p.is_file()} == CONTENT
    assert run("x", filled, "-C", "out") == 0
    assert run("x", filled, "a.txt") == 0
    assert run.out == "first"
    assert run("x", filled, "dir", "--directory=part") == 0
    assert Path("part/dir/sub/c.bin").exists()
    assert not Path("part/a.txt").exists()
    assert run("x", filled, "no") == 1
    assert run("x", filled, "--pattern", "dir/", "-C", "p") == 0
    assert sorted(p.name for p in Path("p").rglob("*") if p.is_file()) == ["b.txt", "c.bin"]
    assert run("x", filled, "-i", "**/c.*", "-x", "dir/", "-C", "r") == 0
    assert sorted(p.name for p in Path("r").rglob("*") if p.is_file()) == ["a.txt", "c.bin", "empty"]
    assert run("x", filled, "--pattern", "*", "-x", "y") == 1
    assert "incompatible" in run.err


def test_verifying(run: Command, filled: str) -> None:
    assert run("verify", filled) == 0
    assert run.out == "Verified 5 files (10.0K), all checksums OK.\n"
    assert run("verify", "--quick", filled) == 0
    assert run.out == "Verified 5 files (quick check), all OK.\n"
    with open(f"{filled}-shard-00000", "r+b") as shard:
        shard.write(b"?")
    assert run("verify", filled) == 1
    assert "CRC32C mismatch for file: a.txt\n" in run.out
    assert "failed" in run.err
    assert run("verify", "--quick", filled) == 0
    os.unlink(f"{filled}-shard-00000")
    assert run("verify", filled) == 1


def test_gaps_and_shards(run: Command, filled: str) -> None:
    with Barecat(filled, readonly=False) as bc:
        del bc["dir/b.txt"]
    assert run("defrag", "-n", filled) == 0
    assert "Freeable space:      11" in run.lines
    assert "  Shard 0: 1 gaps, 11 total" in run.lines
    for option in ("--smart", "--quick", ""):
        assert run("defrag", filled, *filter(None, [option])) == 0
    assert run("reshard", filled, "-s", "10K") == 0
    assert len(files(filled)) == 4
    assert run("reshard", filled) == 2
    assert run("reshard", filled, "-s", "5") == 1


def test_merging(run: Command, filled: str) -> None:
    assert run("merge", filled, "-o", "m.barecat", "--prefix", "p", "--as-subdirs") == 0
    assert files("m.barecat") == sorted(f"p/x/{name}" for name in CONTENT)
    assert run("merge", filled, "-o", "m.barecat") == 1
    assert "-a to append" in run.err
    assert run("merge", filled, "-a", "-o", "m.barecat") == 0
    assert len(files("m.barecat")) == 10
    assert run("merge", filled, filled, "-f", "-o", "m.barecat") == 1
    assert "--ignore-duplicates" in run.err
    assert run("merge", filled, filled, "-f", "--ignore-duplicates", "-o", "m.barecat") == 0
    assert run("merge", filled, "-f", "-o", "m.barecat", "--symlink") == 0
    assert os.path.islink("m.barecat-shard-00000")
    assert run("merge", filled, "-a", "--symlink", "-o", "n") == 1
    assert run("merge", "x.tar", "--symlink", "-o", "n") == 1
    assert run("subset", filled, "-o", "s.barecat", "-x", "dir/", "-i", "**") == 0
    assert files("s.barecat") == ["a.txt", "other/empty"]
    assert run("subset", filled, "-o", "s.barecat", "--pattern", "dir/") == 1
    assert run("subset", filled, "-f", "-o", "s.barecat", "--pattern", "dir/") == 0
    assert files("s.barecat") == ["dir/.hidden", "dir/b.txt", "dir/sub/c.bin"]


def test_converting(run: Command, filled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("convert", filled, "x.tar.gz", "--root-dir", "top") == 0
    assert run("convert", filled, "x.tar.gz") == 1
    assert run("convert", "x.tar.gz", "y.barecat") == 0
    assert files("y.barecat") == sorted(f"top/{name}" for name in CONTENT)
    assert run("convert", "x.tar.gz", "y.barecat", "-f", "-s", "1M") == 0
    assert run("convert", filled, "z.barecat") == 1
    assert run("convert", "a.tar", "b.zip") == 1
    assert run("convert", "--wrap", "x.tar.gz", "w.barecat") == 1
    assert run("convert", filled, "x.tar") == 0
    assert run("convert", "--wrap", "x.tar", "w.barecat") == 0
    assert files("w.barecat") == sorted(CONTENT)
    assert run("convert", "--stdin", "rar", "w2") == 1
    assert run("convert", "--stdout", filled, "zip") == 1
    assert run("convert", "no.tar", "n.barecat") == 1
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(Path("x.tar").read_bytes())))
    assert run("convert", "--stdin", "tar", "in.barecat") == 0
    assert files("in.barecat") == sorted(CONTENT)


def test_a_tar_on_standard_output(filled: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "headrace.compat.barecat", "convert", "--stdout", filled, "tar.gz"]
    result = subprocess.run(command, capture_output=True, check=True, timeout=60)
    with tarfile.open(fileobj=io.BytesIO(result.stdout)) as tar:
        member = tar.extractfile("dir/b.txt")
        assert member is not None
        assert member.read() == b"second file"


def test_tables(run: Command, filled: str) -> None:
    assert run("index-to-csv", filled) == 0
    assert run.lines[:2] == ['"path","shard","offset","size","crc32c"', f'"a.txt",0,0,5,{crc32c(b"first")}']
    assert run("to-ncdu-json", filled) == 0
    head, tree = json.loads(run.out)[2:]
    assert head["progname"] == "barecat"
    assert tree[0]["name"] == "/"
    assert {"name": "a.txt", "asize": 5, "dsize": 5, "ino": 0} in tree


def test_syncing(run: Command) -> None:
    assert run("rsync", "-v", "src/", "x.barecat::") == 0
    assert sorted(run.lines) == sorted(f"add: {name}" for name in CONTENT)
    assert run("rsync", "-n", "--delete", "--exclude", "*.txt", "x.barecat::dir/", "out") == 0
    assert sorted(run.lines) == ["would extract: out/.hidden", "would extract: out/sub/c.bin"]
    assert run("rsync", "src") == 1
    assert run("rsync", "src", "elsewhere") == 1


@pytest.mark.parametrize("command", ["browse", "ncdu"])
def test_browsing_is_left_to_headrace(run: Command, filled: str, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    calls: list[list[str]] = []
    monkeypatch.setattr("headrace.cli.main.main", lambda words: calls.append(words) or 3)
    assert run(command, filled) == 3
    assert calls == [["browse", filled]]
    assert run(command, "no.barecat") == 1
    assert run("mount", filled, "dir", "-o", "ro,fg") == 3
    assert run("mount", filled, "dir") == 3
    assert calls[1:] == [["mount", filled, "dir"], ["mount", filled, "dir", "--background"]]


def test_usage(run: Command, filled: str) -> None:
    assert run() == 0
    assert "commands" in run.out
    assert run("bogus") == 2
    assert run("create") == 2
    assert run("ls", "no.barecat") == 1
    assert run("upgrade", filled) == 0
    assert run("completion-script", "bash") == 0
    assert "_barecat_options" in Path(run.out.strip()).read_text()
    assert run("completion-script", "fish") == 2
    assert run("mount", filled, "m", "-o", "rw") == 1
    for command in ("--help", "-h"):
        assert run(command) == 0


@pytest.mark.parametrize(
    ("function", "words", "check"),
    [
        (legacy.extract, ["--file", "x.barecat", "--target-directory", "o"], lambda: Path("o/a.txt").exists()),
        (legacy.verify_integrity, ["x.barecat", "--quick"], None),
        (legacy.defrag, ["x.barecat", "--quick"], None),
        (legacy.index_to_csv, ["x.barecat"], None),
        (legacy.print_ncdu_json, ["x.barecat"], None),
        (legacy.extract_single, ["--barecat-file", "x.barecat", "--path", "a.txt"], None),
        (legacy.merge, ["x.barecat", "--output", "m.barecat"], lambda: len(files("m.barecat")) == 5),
        (legacy.merge_symlink, ["x.barecat", "--output", "m.barecat"], lambda: len(files("m.barecat")) == 5),
        (legacy.barecat2archive, ["x.barecat", "t.tar"], lambda: tarfile.is_tarfile("t.tar")),
        (legacy.create_recursive, ["--file", "c.barecat", "src"], lambda: files("c.barecat") == sorted(CONTENT)),
    ],
)
def test_older_commands(
    run: Command, filled: str, monkeypatch: pytest.MonkeyPatch, function: Any, words: list[str], check: Any
) -> None:
    monkeypatch.setattr("sys.argv", ["barecat-x", *words])
    with pytest.warns(DeprecationWarning, match="deprecated"):
        function()
    assert check is None or check()


def test_older_commands_that_make_archives(run: Command, filled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"src/a.txt\nsrc/dir\n")))
    monkeypatch.setattr("sys.argv", ["barecat-create", "--file", "n.barecat", "--shard-size-limit", "1M"])
    with pytest.warns(DeprecationWarning, match="deprecated"):
        legacy.create()
    assert files("n.barecat") == ["src/a.txt"]
    run("convert", filled, "t.tar")
    monkeypatch.setattr("sys.argv", ["archive2barecat", "t.tar", "a.barecat"])
    with pytest.warns(DeprecationWarning, match="deprecated"):
        legacy.archive2barecat()
    assert files("a.barecat") == sorted(CONTENT)


def test_the_commands_are_there_as_programs(filled: str) -> None:
    assert {path.name for path in BIN.iterdir()} == set(COMMANDS)
    assert all(os.access(path, os.X_OK) for path in BIN.iterdir())
    environment = {**os.environ, "HEADRACE_PYTHON": sys.executable}
    result = subprocess.run([BIN / "barecat", "cat", filled, "a.txt"], env=environment, capture_output=True, timeout=60)
    assert (result.returncode, result.stdout) == (0, b"first")
    result = subprocess.run([BIN / "barecat-verify", "no"], env=environment, capture_output=True, timeout=60)
    assert result.returncode == 1
