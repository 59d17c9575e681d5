"""Whatever lies in an archive or beside it: to read it changes nothing, comes to an end, and fails with our errors."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import stat
import subprocess
import sys
import warnings
from typing import TYPE_CHECKING

import pytest
from tests.attacks import archives

import headrace as hr
from headrace.cli.main import main
from headrace.errors import HeadraceError, UnfinishedError
from headrace.formats.barecat import Archive

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.attacks.archives import Maker

LIMIT_S = 60
READING = [
    "info PATH",
    "ls PATH",
    "ls -lR PATH",
    "ls PATH [z-a]*",
    "tree PATH",
    "find PATH",
    "du -a PATH",
    "cat PATH d/dog.json",
    "verify PATH",
    "verify --quick PATH",
    "verify --decode PATH",
    "extract PATH -C OUT/files",
    "convert PATH OUT/x.tar",
    "merge PATH -o OUT/merged.barecat",
    "sync PATH:: OUT/synced/",
]


def snapshot(folder: Path) -> dict[str, tuple[object, ...]]:
    """All that can be seen of the files below a folder."""
    found: dict[str, tuple[object, ...]] = {}
    for file in sorted(folder.rglob("*")):
        status = file.lstat()
        content = ""
        if stat.S_ISREG(status.st_mode):
            content = hashlib.sha256(file.read_bytes()).hexdigest()
        elif stat.S_ISLNK(status.st_mode):
            content = os.readlink(file)
        is_folder = stat.S_ISDIR(status.st_mode)
        found[str(file)] = (status.st_ino, status.st_mode, is_folder or status.st_size, status.st_mtime_ns, content)
    return found


@contextlib.contextmanager
def unchanged(folder: Path) -> Iterator[None]:
    """Fail when anything is written below a folder, or when this takes too long."""
    before = snapshot(folder)

    def give_up(*_: object) -> None:
        raise TimeoutError("this goes on for ever")

    usual = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(LIMIT_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, usual)
    assert snapshot(folder) == before


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the archive is; what lies above it belongs to the user."""
    (tmp_path / "user" / "evil").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    return tmp_path / "user" / "evil"


def codes(folder: Path) -> dict[str, int]:
    """The exit codes of all verbs that read."""
    path, out = folder / archives.NAME, folder.parent.parent / "out"
    found = {}
    for line in READING:
        with unchanged(folder.parent), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found[line] = main([word.replace("PATH", str(path)).replace("OUT", str(out)) for word in line.split()])
    return found


def use(path: Path) -> None:
    """What a program does with an archive."""
    with Archive(path) as archive:
        for info in archive.files():
            archive[info.path]
        list(archive.walk())
        archive.verify()
        with archive.open("d/dog.json", "rb") as file:
            file.read()
    with hr.open(path) as dataset:
        dataset[0]


def expect_our_errors(path: Path) -> None:
    with unchanged(path.parent.parent), warnings.catch_warnings(), contextlib.suppress(HeadraceError, OSError):
        warnings.simplefilter("ignore")
        use(path)


@pytest.mark.parametrize("make", archives.UNFINISHED.values(), ids=archives.UNFINISHED)
def test_what_a_killed_writer_left(folder: Path, make: Maker, capsys: pytest.CaptureFixture[str]) -> None:
    make(folder)
    with unchanged(folder.parent), pytest.raises(UnfinishedError, match=r"headrace repair .*x\.barecat"):
        Archive(folder / archives.NAME)
    with unchanged(folder.parent), pytest.raises(UnfinishedError):
        hr.verify(folder / archives.NAME)
    assert set(codes(folder).values()) == {2}
    assert capsys.readouterr().err.count("headrace repair") == len(READING)


@pytest.mark.parametrize("make", archives.REFUSED.values(), ids=archives.REFUSED)
def test_what_is_refused_at_once(folder: Path, make: Maker) -> None:
    make(folder)
    with unchanged(folder.parent), pytest.raises(HeadraceError):
        Archive(folder / archives.NAME)
    assert set(codes(folder).values()) == {2}


SLOW = {"pages that come again"}  # each question goes on until it is stopped


@pytest.mark.parametrize(
    "make",
    [pytest.param(make, id=name, marks=[pytest.mark.slow] * (name in SLOW)) for name, make in archives.ODD.items()],
)
def test_what_can_be_opened(folder: Path, make: Maker) -> None:
    make(folder)
    expect_our_errors(folder / archives.NAME)
    assert set(codes(folder).values()) <= {0, 1, 2}


def test_the_same_without_any_attack(folder: Path) -> None:
    path = archives.plain(folder)
    with unchanged(folder.parent):
        use(path)
    assert {line for line, code in codes(folder).items() if code} == {"ls PATH [z-a]*"}


def test_links_are_followed_where_that_is_wanted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archives.link("-shard-00000")(folder)
    path = folder / archives.NAME
    with unchanged(folder.parent):
        assert main(["cat", str(path), "d/cat.txt"]) == 2
        assert "--follow-links" in capsys.readouterr().err
        assert main(["cat", str(path), "d/cat.txt", "--follow-links"]) == 0
        assert capsys.readouterr().out == "meow"
        assert main(["verify", str(path)]) == 1
        assert main(["verify", str(path), "--follow-links"]) == 0
        assert hr.verify(path, follow_links=True).ok
        with Archive(path, follow_links=True) as archive:
            assert archive["d/cat.txt"] == b"meow"


def test_a_path_that_is_a_link_is_followed(folder: Path, tmp_path: Path) -> None:
    path = archives.plain(folder)
    (tmp_path / "linked.barecat").symlink_to(path)
    with unchanged(tmp_path), Archive(tmp_path / "linked.barecat") as archive:
        assert archive["d/cat.txt"] == b"meow"
        assert archive.verify().ok
    assert main(["verify", str(tmp_path / "linked.barecat")]) == main(["info", str(tmp_path / "linked.barecat")]) == 0


def test_links_to_all_files_of_an_archive(folder: Path, tmp_path: Path) -> None:
    path = archives.plain(folder)
    for file in folder.iterdir():
        (tmp_path / file.name).symlink_to(file)
    for follow_links in (False, True):
        with Archive(tmp_path / path.name, follow_links=follow_links) as archive:
            assert archive["d/cat.txt"] == b"meow"


SHORTER = """
import os, sys
from headrace.errors import HeadraceError
from headrace.formats.barecat import Archive
path, size = sys.argv[1], int(sys.argv[2])
archive = Archive(path)
if sys.argv[3] == "warm":
    archive.listdir("d1"), archive["d1/000001"]
os.truncate(path, size)
for ask in (lambda: archive["d7/000007"], lambda: archive.listdir("d7"), lambda: list(archive.walk()),
            lambda: list(archive.files()), lambda: list(archive.files("path")), lambda: archive.verify()):
    try:
        ask()
    except (HeadraceError, OSError):
        pass
"""


@pytest.mark.parametrize("size", [4096, 40_960])
@pytest.mark.parametrize("how", ["warm", "cold"])
def test_an_index_that_becomes_shorter(folder: Path, size: int, how: str) -> None:
    path = folder / archives.NAME
    with Archive(path, "x", sync=False) as archive:
        archive.update({f"d{i % 50}/{i:06}": b"x" for i in range(3000)})
    command = [sys.executable, "-c", SHORTER, str(path), str(size), how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    assert (done.returncode, done.stderr) == (0, "")
