"""What lies beside an archive when it is written or repaired: what a killed writer left, and what was planted."""

from __future__ import annotations

import os
import shutil
import sqlite3
import struct
from typing import TYPE_CHECKING

import pytest

import headrace as hr
from headrace._native import crc32c
from headrace.cli.main import main
from headrace.errors import FormatError, UnfinishedError
from headrace.formats.barecat import Archive
from headrace.formats.barecat.archive import new_archive

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FILES = {f"d/{i:03d}": f"content {i} ".encode() * (i % 30 + 1) for i in range(200)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "archive"
    folder.mkdir()
    with Archive(folder / "x.barecat", "x") as archive:
        archive.update(FILES)
    return folder / "x.barecat"


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    file = tmp_path / "thesis.txt"
    file.write_bytes(b"three years of work " * 500)
    return file


def undo(path: Path, *records: tuple[int, int, bytes], version: int | None = None) -> None:
    """A file of old bytes that fits the index."""
    with sqlite3.connect(path) as index:
        number = index.execute("PRAGMA user_version").fetchone()[0] if version is None else version
    index.close()
    parts = [struct.pack("<8sII", b"HDRUNDO1", number, crc32c(struct.pack("<I", number)))]
    parts += [struct.pack("<IIQQ", shard, crc32c(data), offset, len(data)) + data for shard, offset, data in records]
    path.with_name(path.name + "-undo").write_bytes(b"".join(parts))


def shown(path: Path) -> dict[str, bytes | str]:
    """All files of the folder, byte by byte."""
    return {
        file.name: str(os.readlink(file)) if file.is_symlink() else file.read_bytes() if file.is_file() else "?"
        for file in path.parent.iterdir()
    }


def refused(path: Path, match: str) -> None:
    """Writers and repair refuse, and nothing is changed."""
    before = shown(path)
    with pytest.raises(UnfinishedError, match=match):
        Archive(path, "r+")
    with pytest.raises(FormatError, match=match):
        hr.repair(path)
    assert shown(path) == before


def killed(path: Path, work: Callable[[Archive], None], **options: bool) -> None:
    """A writer that is killed before it commits."""
    child = os.fork()
    if child == 0:
        archive = Archive(path, "r+", **options)  # type: ignore[arg-type]
        work(archive)
        archive.editor.shards.flush()
        os._exit(0)
    os.waitpid(child, 0)


def overwrite(archive: Archive) -> None:
    """Change most pages of the index, more than SQLite keeps in memory, and bytes of the shard."""
    archive.editor.execute("PRAGMA cache_size = 2")
    for name in list(FILES)[::2]:
        archive.update_file(name, b"new")
    archive.rename("d", "moved" * 40)


def test_bytes_for_a_shard_that_is_a_link(path: Path, victim: Path) -> None:
    before = victim.read_bytes()
    os.symlink(victim, f"{path}-shard-00001")
    undo(path, (1, 0, b"touch PWNED #"))
    refused(path, "x.barecat-shard-00001 is a symbolic link")
    assert victim.read_bytes() == before


def test_a_first_shard_that_is_a_link(path: Path, tmp_path: Path) -> None:
    os.unlink(f"{path}-shard-00000")
    os.symlink(tmp_path / "fresh", f"{path}-shard-00000")
    undo(path, (0, 0, b"touch PWNED #"))
    for write in (lambda: Archive(path, "r+"), lambda: hr.repair(path)):
        with pytest.raises(FormatError, match="symbolic link"):
            write()
    assert not os.path.lexists(tmp_path / "fresh")


def test_a_shard_that_has_another_name_elsewhere(path: Path, tmp_path: Path) -> None:
    os.link(f"{path}-shard-00000", tmp_path / "elsewhere")
    undo(path, (0, 0, b"evil"))
    refused(path, "has other names, too")


@pytest.mark.parametrize(
    ("record", "match"),
    [
        ((7, 0, b"evil"), "shard 7, which does not exist"),
        ((0, 1 << 40, b"evil"), "has no place for"),
        ((0, (1 << 64) - 2, b"evil"), "has no place for"),
        ((1 << 31, 0, b"evil"), "has no place for"),
        ((0, 0, b"evil"), "checksums are right as they are"),
    ],
)
def test_bytes_that_belong_nowhere(path: Path, record: tuple[int, int, bytes], match: str) -> None:
    undo(path, record)
    refused(path, match)


def test_bytes_for_a_gap_are_not_written(path: Path) -> None:
    with Archive(path, "r+") as archive:
        info = archive.stat("d/007")
        del archive["d/007"]
    shard = path.with_name("x.barecat-shard-00000")
    before = shard.read_bytes()
    undo(path, (0, info.offset, b"evil"))  # type: ignore[union-attr]
    hr.repair(path)
    assert shard.read_bytes() == before
    assert not os.path.exists(f"{path}-undo")


def test_what_is_no_file_of_old_bytes(path: Path) -> None:
    path.with_name("x.barecat-undo").write_bytes(b"the notes of somebody")
    refused(path, "is no file of old bytes")


@pytest.mark.parametrize("ending", ["-undo", "-journal"])
@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_leftovers_that_are_no_files(path: Path, victim: Path, ending: str, kind: str) -> None:
    place = f"{path}{ending}"
    {"pipe": os.mkfifo, "link": lambda name: os.symlink(victim, name), "folder": os.mkdir}[kind](place)
    before = victim.read_bytes()
    refused(path, "and a regular file is needed")
    assert victim.read_bytes() == before


@pytest.mark.parametrize("ending", ["-replace", "-wal", "-shm", "-shard-00000", "-shard-00003"])
@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_nothing_is_written_through_a_link_or_waits_for_a_pipe(
    path: Path, victim: Path, ending: str, kind: str
) -> None:
    place = f"{path}{ending}"
    if os.path.exists(place):
        os.unlink(place)
    os.mkfifo(place) if kind == "pipe" else os.symlink(victim, place)
    before, content = shown(path), victim.read_bytes()
    with pytest.raises(FormatError, match=r"link|pipe"):
        Archive(path, "r+")
    assert shown(path) == before
    assert victim.read_bytes() == content


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_leftovers_of_somebody_else(path: Path) -> None:
    undo(path, (0, 0, b"evil"))
    os.chown(f"{path}-undo", 12345, -1)
    refused(path, "does not belong to the owner of the index")
    os.unlink(f"{path}-undo")
    with open(f"{path}-replace", "w") as note:
        note.write('{"by": ".x.barecat.01234567.incomplete", "index": [1, 1], "shards": []}')
    path.with_name(".x.barecat.01234567.incomplete").write_bytes(b"x")
    os.chown(path.with_name(".x.barecat.01234567.incomplete"), 12345, -1)
    before = shown(path)
    for write in (lambda: Archive(path, "r+"), lambda: hr.repair(path)):
        with pytest.raises(FormatError, match="belongs to somebody else"):
            write()
    assert shown(path) == before


def journal(path: Path, super_journal: bytes = b"") -> bytes:
    """A hot journal that restores the first page as it is, and perhaps names a super-journal."""
    magic = bytes.fromhex("d9d505f920a163d7")
    page = path.read_bytes()[:4096]
    checksum = (1 + sum(page[i] for i in range(4096 - 200, 0, -200))) & 0xFFFFFFFF
    head = magic + struct.pack(">IIIII", 1, 1, os.path.getsize(path) // 4096, 512, 4096)
    body = head.ljust(512, b"\0") + struct.pack(">I", 1) + page + struct.pack(">I", checksum)
    if super_journal:
        lock_page = 0x40000000 // 4096 + 1
        tail = struct.pack(">II", len(super_journal), sum(super_journal))
        body += struct.pack(">I", lock_page) + super_journal + tail + magic
    return body


def test_a_journal_that_names_a_super_journal(path: Path, victim: Path) -> None:
    path.with_name("x.barecat-journal").write_bytes(journal(path, os.fsencode(victim)))
    refused(path, "names a super-journal")
    assert victim.exists()


def test_a_journal_of_another_archive(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.barecat"
    with Archive(other, "x") as archive:
        archive.update({f"e/{i}": b"other" for i in range(500)})
    killed(other, lambda archive: archive.editor.execute("PRAGMA cache_size = 2") or archive.rename("e", "f" * 200))
    shutil.copy(f"{other}-journal", f"{path}-journal")
    before = shown(path)
    with pytest.raises(FormatError):
        Archive(path, "r+")
    with pytest.raises(FormatError):
        hr.repair(path)
    assert shown(path) == before
    os.unlink(f"{path}-journal")
    assert dict(Archive(path).items()) == FILES


def test_a_killed_writer_is_undone_on_request(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    killed(path, overwrite)
    assert os.path.getsize(f"{path}-journal") > 4096
    before = shown(path)
    with pytest.raises(UnfinishedError, match="headrace repair"):
        Archive(path)
    assert shown(path) == before
    os.chmod(path, 0o640)
    assert main(["repair", str(path)]) == 0
    said = capsys.readouterr().out
    assert "taken out of the index" in said
    assert "overwritten bytes were put back" in said
    assert sorted(os.listdir(path.parent)) == ["x.barecat", "x.barecat-shard-00000"]
    assert path.stat().st_mode & 0o777 == 0o640
    assert dict(Archive(path).items()) == FILES
    assert Archive(path).verify().ok
    assert main(["repair", str(path), "--json"]) == 0
    assert '"done": []' in capsys.readouterr().out


def test_a_writer_goes_on_after_one_that_was_killed(path: Path) -> None:
    killed(path, overwrite)
    with Archive(path, "r+") as archive:
        archive["after"] = b"it goes on"
    assert dict(Archive(path).items()) == {**FILES, "after": b"it goes on"}
    assert Archive(path).verify().ok


def test_a_killed_writer_with_a_write_ahead_log(path: Path) -> None:
    def work(archive: Archive) -> None:
        archive["committed"] = b"1"
        archive.commit()
        overwrite(archive)

    killed(path, work, wal=True)
    assert os.path.getsize(f"{path}-wal")
    hr.repair(path)
    assert sorted(os.listdir(path.parent)) == ["x.barecat", "x.barecat-shard-00000"]
    assert dict(Archive(path).items()) == {**FILES, "committed": b"1"}
    assert Archive(path).verify().ok


def test_repair_changes_nothing_where_the_result_is_not_sound(path: Path) -> None:
    killed(path, overwrite)
    os.truncate(f"{path}-shard-00000", 100)
    before = shown(path)
    with pytest.raises(FormatError, match="has no bytes"):
        hr.repair(path)
    assert shown(path) == before


def test_repair_removes_what_no_process_needs(path: Path) -> None:
    for name in (".x.barecat.0123abcd.incomplete", ".x.barecat.0123abcd.incomplete-shard-00000"):
        path.with_name(name).write_bytes(b"x")
    path.with_name("x.barecat-shard-00000.new").write_bytes(b"x")
    assert len(hr.repair(path).done) == 3
    assert sorted(os.listdir(path.parent)) == ["x.barecat", "x.barecat-shard-00000"]


def test_repair_says_that_it_removed_old_bytes_which_do_not_count(path: Path) -> None:
    left = path.with_name(f"{path.name}-undo")
    left.write_bytes(b"HDR")  # its writer was killed before anything was overwritten
    assert hr.repair(path).done == (f"{left.name} was removed: it held no bytes that are still needed",)
    assert not left.exists()
    assert hr.repair(path).done == ()


def test_repair_of_other_formats(tmp_path: Path) -> None:
    hr.write(tmp_path / "x.beton", [b"1"], fields={"data": hr.Bytes()})
    left = tmp_path / ".x.beton.0123abcd.unfinished"
    left.write_bytes(b"half of it")
    assert "was removed" in hr.repair(tmp_path / "x.beton").done[0]
    assert not left.exists()
    with pytest.raises(FileNotFoundError):
        hr.repair(tmp_path / "y.beton")


def test_a_path_that_is_a_link_leads_to_the_archive(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.barecat"
    link.symlink_to(path)
    with Archive(link, "r+") as archive:
        archive["more"] = b"1"
    killed(link, overwrite)
    assert os.path.exists(f"{path}-undo")
    hr.repair(link)
    assert dict(Archive(path).items()) == {**FILES, "more": b"1"}
    with new_archive(link) as archive:
        archive["new"] = b"2"
    assert link.is_symlink()
    assert dict(Archive(path).items()) == {"new": b"2"}
