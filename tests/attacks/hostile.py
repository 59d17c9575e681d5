"""Hostile files, small, each made by a function that gets an empty folder and gives the path to open.

``folder / ".." / "home"`` stands for what belongs to the user and must never change.
"""

from __future__ import annotations

import bz2
import io
import json
import os
import pickle
import sqlite3
import struct
import tarfile
import zipfile
import zlib
from collections import OrderedDict
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from tests.helpers import image_file, patch_jpeg_frame, picture

import headrace as hr
from headrace._native import crc32c
from headrace.formats import index
from headrace.formats.barecat import Archive

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["HOSTILE"]

PAGE = 1 << 21
HOSTILE: dict[str, Callable[[Path], Path]] = {}
EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 16 16\n%%EndComments\n(/etc/passwd) (r) file\n%%EOF\n"


def hostile(make: Callable[[Path], Path]) -> Callable[[Path], Path]:
    HOSTILE[make.__name__] = make
    return make


# -- archives: what lies beside them --------------------------------------------------------------------------------


def archive(folder: Path, name: str = "x.barecat") -> Path:
    path = folder / name
    with Archive(path, "x") as made:
        made["d/cat.txt"] = b"meow"
        made["d/dog.jpg"] = image_file(picture(1, 8, 8), "JPEG")
    return path


def beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def user_version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


def undo(path: Path, shard: int, offset: int, data: bytes, size: int | None = None) -> Path:
    version = user_version(path)
    head = struct.pack("<8sII", b"HDRUNDO1", version, crc32c(struct.pack("<I", version)))
    record = struct.pack("<IIQQ", shard, crc32c(data), offset, len(data) if size is None else size)
    beside(path, "-undo").write_bytes(head + record + data)
    return path


@hostile
def undo_into_a_link(folder: Path) -> Path:
    path = archive(folder)
    beside(path, "-shard-00001").symlink_to(folder.parent / "home" / "settings")
    return undo(path, 1, 0, b"touch PWNED #")


@hostile
def undo_of_shard_0(folder: Path) -> Path:
    return undo(archive(folder), 0, 0, b"owned")


@hostile
def undo_of_a_missing_shard(folder: Path) -> Path:
    return undo(archive(folder), 77, 1 << 40, b"owned")


@hostile
def undo_of_absurd_size(folder: Path) -> Path:
    return undo(archive(folder), 0, 0, b"owned", size=1 << 62)


@hostile
def shard_0_is_a_link_to_nothing(folder: Path) -> Path:
    path = archive(folder)
    shard = beside(path, "-shard-00000")
    shard.unlink()
    shard.symlink_to(folder.parent / "home" / "autostart")
    return undo(path, 0, 0, b"owned")


@hostile
def shard_is_a_link(folder: Path) -> Path:
    path = archive(folder)
    shard = beside(path, "-shard-00000")
    shard.unlink()
    shard.symlink_to(folder.parent / "home" / "settings")
    return path


@hostile
def journal_with_super_journal(folder: Path) -> Path:
    path = archive(folder)
    page = path.read_bytes()[:4096]
    pages = path.stat().st_size // 4096
    magic = bytes.fromhex("d9d505f920a163d7")
    checksum = (1 + sum(page[i] for i in range(4096 - 200, 0, -200))) & 0xFFFFFFFF
    head = (magic + struct.pack(">IIIII", 1, 1, pages, 512, 4096)).ljust(512, b"\0")
    name = os.fsencode((folder.parent / "home" / "settings").absolute())
    tail = struct.pack(">I", (1 << 30) // 4096 + 1) + name + struct.pack(">II", len(name), sum(name)) + magic
    beside(path, "-journal").write_bytes(head + struct.pack(">I", 1) + page + struct.pack(">I", checksum) + tail)
    return path


@hostile
def journal_of_an_empty_index(folder: Path) -> Path:
    path = folder / "x.barecat"
    path.write_bytes(b"")
    beside(path, "-journal").write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + bytes(600))
    return path


@hostile
def journal_is_a_link(folder: Path) -> Path:
    path = archive(folder)
    beside(path, "-journal").symlink_to(folder.parent / "home" / "settings")
    return path


@hostile
def wal_with_content(folder: Path) -> Path:
    path = archive(folder)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = wal")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute("UPDATE config SET value_int = value_int")
        connection.execute("PRAGMA user_version = 5")
        connection.commit()
        log, index_bytes = beside(path, "-wal").read_bytes(), path.read_bytes()
    path.write_bytes(index_bytes)
    beside(path, "-wal").write_bytes(log)
    return path


@hostile
def replace_note_that_leads_out(folder: Path) -> Path:
    path = archive(folder)
    note = {"by": "../home/settings", "index": [1, 1], "shards": [[0, 1, 1]]}
    beside(path, "-replace").write_text(json.dumps(note))
    return path


@hostile
def replace_note_of_missing_files(folder: Path) -> Path:
    path = archive(folder)
    note = {"by": ".x.barecat.00000000.incomplete", "index": [1, 1], "shards": [[0, 1, 1], [-1, 1, 1], [1 << 70, 1, 1]]}
    beside(path, "-replace").write_text(json.dumps(note))
    return path


@hostile
def replace_note_by_a_link(folder: Path) -> Path:
    path = archive(folder)
    hidden = folder / ".x.barecat.0badc0de.incomplete"
    hidden.symlink_to(folder.parent / "home" / "settings")
    status = hidden.lstat()
    note = {"by": hidden.name, "index": [status.st_size, status.st_mtime_ns], "shards": []}
    beside(path, "-replace").write_text(json.dumps(note))
    return path


def _pipe_beside(ending: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = archive(folder)
        beside(path, ending).unlink(missing_ok=True)
        os.mkfifo(beside(path, ending))
        return path

    return make


for _ending in ("-undo", "-replace", "-journal", "-wal", "-shard-00000", "-shard-00001", ".annex"):
    HOSTILE[f"pipe_as{_ending.replace('-', '_').replace('.', '_')}"] = _pipe_beside(_ending)


def _pipe(name: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        os.mkfifo(folder / name)
        return folder / name

    return make


for _name in ("x.barecat", "x.beton", "x.ffr", "x.tar", "x.zip"):
    HOSTILE[f"pipe_called_{_name.replace('.', '_')}"] = _pipe(_name)


@hostile
def shard_is_a_directory(folder: Path) -> Path:
    path = archive(folder)
    beside(path, "-shard-00000").unlink()
    beside(path, "-shard-00000").mkdir()
    return path


@hostile
def index_is_a_directory(folder: Path) -> Path:
    (folder / "x.barecat").mkdir()
    return folder / "x.barecat"


@hostile
def annex_is_a_link(folder: Path) -> Path:
    path = archive(folder)
    beside(path, ".annex").symlink_to(folder.parent / "home" / "settings")
    return path


# -- archives: the index --------------------------------------------------------------------------------------------

_ENDLESS = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c) "
_FILE = "0 AS shard, 0 AS offset, 1 AS size, NULL AS crc32c, NULL AS mode, NULL AS uid, NULL AS gid, NULL AS mtime_ns"
_DIR = "0 AS num_subdirs, 0 AS num_files, 0 AS num_files_tree, 0 AS size_tree, NULL AS mode, NULL AS uid, NULL AS gid"
_SCHEMAS = {
    "endless_files": "DROP TABLE files; CREATE VIEW files AS "
    f"{_ENDLESS} SELECT 'd/f' || i AS path, 'd' AS parent, {_FILE} FROM c",
    "endless_directories": "DROP TABLE dirs; CREATE VIEW dirs AS "
    f"{_ENDLESS} SELECT 'd' || i AS path, '' AS parent, {_DIR}, NULL AS mtime_ns FROM c",
    "files_that_never_come": "DROP TABLE files; CREATE VIEW files AS "
    f"{_ENDLESS} SELECT 'f' AS path, '' AS parent, {_FILE} FROM c WHERE i < 0",
    "config_that_never_comes": "DROP TABLE config; CREATE VIEW config AS "
    f"{_ENDLESS} SELECT 'schema_version_major' AS key, NULL AS value_text, 0 AS value_int FROM c WHERE i < 0",
    "huge_paths": "DROP TABLE files; CREATE VIEW files AS "
    f"SELECT CAST(zeroblob(900000000) AS TEXT) AS path, '' AS parent, {_FILE}",
    "heavy_config": "ALTER TABLE config RENAME TO old; CREATE TABLE config (key TEXT, value_text TEXT, "
    "value_int INTEGER GENERATED ALWAYS AS (length(hex(zeroblob(499999999))) * 0 + k) VIRTUAL, k INTEGER); "
    "INSERT INTO config(key, k) SELECT key, value_int FROM old; DROP TABLE old",
    "endless_trigger": "CREATE TRIGGER evil AFTER INSERT ON files BEGIN INSERT INTO dirs(path) "
    f"{_ENDLESS} SELECT hex(randomblob(1000)) FROM c; END",
    "statistics_that_lie": "UPDATE dirs SET num_files_tree = 9223372036854775807, size_tree = 9223372036854775807",
    "sizes_that_lie": "UPDATE files SET size = 9223372036854775807, offset = 9223372036854775807",
    "negative_places": "UPDATE files SET shard = -1, offset = -5, size = -3",
    "odd_numbers": "UPDATE files SET mode = 9223372036854775807, uid = -9223372036854775808, "
    "mtime_ns = 9223372036854775807",
    "texts_for_numbers": "UPDATE files SET size = 'many', shard = x'00', crc32c = 'abc'",
    "blobs_for_paths": "UPDATE files SET path = x'ff00fe' WHERE path = 'd/cat.txt'",
    "shared_bytes": "UPDATE files SET offset = 0, size = 3, crc32c = NULL",
    "no_tables": "PRAGMA foreign_keys = 0; DROP TABLE files; DROP TABLE dirs; DROP TABLE config",
}


def _schema(script: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = archive(folder)
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(f"PRAGMA foreign_keys = 0; {script};")
            connection.commit()
        return path

    return make


for _name, _script in _SCHEMAS.items():
    HOSTILE[f"index_with_{_name}"] = _schema(_script)
for _number, _path in enumerate([".", "..", "a/..", "a/.", "/", "a//", "../../home/settings", "/etc", "a\0b", ""]):
    _quoted = f"CAST(x'{_path.encode().hex()}' AS TEXT)"
    HOSTILE[f"index_with_odd_directory_{_number}"] = _schema(f"INSERT OR IGNORE INTO dirs(path) VALUES ({_quoted})")
    HOSTILE[f"index_with_odd_file_{_number}"] = _schema(
        f"UPDATE OR IGNORE files SET path = {_quoted} WHERE path = 'd/cat.txt'"
    )


@hostile
def index_cut_short(folder: Path) -> Path:
    path = archive(folder)
    os.truncate(path, path.stat().st_size // 2)
    return path


@hostile
def pictures_that_are_programs(folder: Path) -> Path:
    path = folder / "x.barecat"
    with Archive(path, "x") as made:
        made["cat.png"] = EPS
        made["cat.jpg"] = EPS
        made["deep.json"] = b"[" * 100_000
        made["bomb.pkl"] = pickle.dumps(print)
        made["cat\x1b]0;owned\x07\u202e\x9b.txt"] = b"\x1b[2J\xc2\x9b"
    return path


# -- datasets -------------------------------------------------------------------------------------------------------


def beton(folder: Path, *, field: str = "PLACEHOLDER_NAME", annex: bool = False) -> Path:
    path = folder / "x.beton"
    hr.write(path, [(b"one", b"two")], fields={"a": hr.Bytes(), field: hr.Bytes()}, annex=annex, page_size=PAGE)
    return path


def patched(path: Path, old: bytes, new: bytes) -> Path:
    data = path.read_bytes()
    path.write_bytes(data.replace(old, new.ljust(len(old), b"\0")))
    return path


for _number, _field in enumerate([b"/../../../PWNED", b"..", b"a/b", b"a\nb", b"\x1b[2J", b""]):
    HOSTILE[f"field_name_{_number}"] = lambda folder, name=_field: patched(beton(folder), b"PLACEHOLDER_NAME", name)


@hostile
def arrays_of_absurd_shape(folder: Path) -> Path:
    path = folder / "x.beton"
    samples = [(np.arange(4, dtype=np.int64), i) for i in range(64)]
    fields = {"a": hr.NDArray("int64", (4,)), "n": hr.Int()}
    hr.write(path, samples, fields=fields, annex=False, page_size=PAGE)
    data = bytearray(path.read_bytes())
    struct.pack_into("<Q", data, 24 + 17, 1 << 26)
    path.write_bytes(data)
    return path


@hostile
def samples_without_end(folder: Path) -> Path:
    path = beton(folder)
    data = bytearray(path.read_bytes())
    struct.pack_into("<Q", data, 8, (1 << 63) - 1)
    path.write_bytes(data)
    return path


@hostile
def many_samples_in_a_hole(folder: Path) -> Path:
    path = folder / "x.beton"
    count = 100_000_000
    hr.write(path, [(1,)], fields={"n": hr.Int()}, annex=False, page_size=PAGE)
    head = bytearray(path.read_bytes()[: 24 + 1041])
    table = -(-(len(head) + 8 * count) // PAGE) * PAGE
    struct.pack_into("<QQ", head, 8, count, table)
    path.write_bytes(head)
    os.truncate(path, table)
    return path


@hostile
def annex_of_deep_json(folder: Path) -> Path:
    path = beton(folder, field="b", annex=False)
    made = Path(index(path, names=["a"]))
    data = bytearray(made.read_bytes())
    at = data.find(b"[[")
    if at >= 0:
        data[at : at + 2] = b"[" * 2
    made.write_bytes(data)
    return path


@hostile
def annex_full_of_zeros(folder: Path) -> Path:
    path = beton(folder, field="b")
    beside(path, ".annex").write_bytes(bytes(100_000))
    return path


def ffr(folder: Path, samples: list[bytes]) -> Path:
    count = len(samples)
    head = struct.pack("<q", count) + b"".join(struct.pack("<I", zlib.crc32(sample)) for sample in samples)
    at = 12 + 12 * count
    for sample in samples:
        head += struct.pack("<q", at)
        at += len(sample)
    path = folder / "x.ffr"
    path.write_bytes(struct.pack("<I", zlib.crc32(head)) + head + b"".join(samples))
    return path


@hostile
def packed_names_that_grow(folder: Path) -> Path:
    tree = OrderedDict({"n" * 1_000_000: OrderedDict((f"{i:x}", 0) for i in range(20_000))})
    return ffr(folder, [b"x", b"piouhjgbr" + pickle.dumps(tree, 4)])


@hostile
def packed_names_that_lead_out(folder: Path) -> Path:
    tree = OrderedDict({"..": OrderedDict({"home": OrderedDict({"settings": 0})})})
    return ffr(folder, [b"x", b"piouhjgbr" + pickle.dumps(tree, 4)])


@hostile
def packed_index_that_doubles(folder: Path) -> Path:
    doubling = b"\x80\x02]q\x00" + b"".join(b"]q%c(h%ch%ce" % (i + 1, i, i) for i in range(60)) + b"."
    return ffr(folder, [b"x", b"piouhjgbr" + doubling])


@hostile
def samples_of_absurd_number(folder: Path) -> Path:
    path = folder / "x.ffr"
    path.write_bytes(struct.pack("<Iq", 0, (1 << 62)) + bytes(100))
    return path


# -- tar, zip, folders ----------------------------------------------------------------------------------------------


@hostile
def tar_with_a_huge_header(folder: Path) -> Path:
    path = folder / "x.tar.bz2"
    head = tarfile.TarInfo("././@LongLink")
    head.type, head.size = tarfile.GNUTYPE_LONGNAME, 4 << 30
    piece = bz2.compress(b"a" * (1 << 20))
    tail = bz2.compress(tarfile.TarInfo("a.txt").tobuf() + bytes(1024))
    path.write_bytes(bz2.compress(head.tobuf(tarfile.GNU_FORMAT)) + piece * 4096 + tail)
    return path


@hostile
def tar_that_leads_out(folder: Path) -> Path:
    path = folder / "x.tar"
    with tarfile.open(path, "w") as file:
        for name in ("../home/settings", "/tmp/owned", "a/../../home/settings", "ok.txt"):
            member = tarfile.TarInfo(name)
            member.size = 5
            file.addfile(member, io.BytesIO(b"owned"))
        for kind, name, target in (
            (tarfile.SYMTYPE, "out", "../home"),
            (tarfile.SYMTYPE, "round", "round"),
            (tarfile.LNKTYPE, "hard", "../home/settings"),
            (tarfile.CHRTYPE, "device", ""),
            (tarfile.FIFOTYPE, "pipe", ""),
        ):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, target
            file.addfile(member)
        member = tarfile.TarInfo("out/settings")
        member.size = 5
        file.addfile(member, io.BytesIO(b"owned"))
    return path


@hostile
def zip_bomb(folder: Path) -> Path:
    path = folder / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("../home/settings", b"owned")
        with file.open("zeros", "w", force_zip64=True) as member:
            for _ in range(200):
                member.write(bytes(1 << 20))
    data = path.read_bytes()
    path.write_bytes(data.replace(struct.pack("<I", 200 << 20), struct.pack("<I", 10)))
    return path


def pictures(folder: Path) -> Path:
    (folder / "in" / "a").mkdir(parents=True)
    (folder / "in" / "a" / "1.jpg").write_bytes(image_file(picture(3, 8, 8), "JPEG"))
    return folder / "in"


@hostile
def folder_of_links_that_go_round(folder: Path) -> Path:
    path = pictures(folder)
    for name, target in (("l1", ".."), ("l2", ".."), ("l3", ".")):
        (path / "a" / name).symlink_to(target)
    return path


@hostile
def folder_with_dev_zero(folder: Path) -> Path:
    path = pictures(folder)
    (path / "a" / "2.jpg").symlink_to("/dev/zero")
    return path


@hostile
def folder_with_a_pipe(folder: Path) -> Path:
    path = pictures(folder)
    os.mkfifo(path / "a" / "2.jpg")
    return path


@hostile
def folder_of_odd_pictures(folder: Path) -> Path:
    path = pictures(folder)
    jpeg = image_file(picture(4, 16, 16), "JPEG")
    (path / "a" / "program.png").write_bytes(EPS)
    (path / "a" / "deep.jpg").write_bytes(patch_jpeg_frame(jpeg, precision=12))
    (path / "a" / "large.jpg").write_bytes(patch_jpeg_frame(jpeg, height=65535, width=65535))
    (path / "a" / "cut.jpg").write_bytes(jpeg[: len(jpeg) // 2])
    (path / "a" / "name\x1b[2J\u202e.jpg").write_bytes(jpeg)
    return path
