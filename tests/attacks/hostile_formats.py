"""Hostile, damaged and sound files of the formats of other tools, each made in an empty folder as in ``hostile``."""

from __future__ import annotations

import gzip
import io
import os
import shutil
import struct
import tarfile
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from tests.helpers import image_file, picture

from headrace._native import crc32c

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Maker = Callable[[Path], Path]

__all__ = [
    "ENDINGS",
    "GOLDEN",
    "HOSTILE_FORMATS",
    "LARGE",
    "ODD_FILES",
    "SOUND",
    "damaged",
    "golden",
    "odd_file",
]

GOLDEN = Path(__file__).parents[1] / "golden" / "formats"
SOUND = (
    "plain.npz",
    "packed.npz",
    "fortran.npy",
    "table.h5",
    "groups.parquet",
    "file.arrow",
    "feather.feather",
    "hf_saved",
    "wds-0001.tar",
    "wds-one.tar.gz",
    "examples.tfrecord",
    "examples.tfrecord.gz",
    "examples.zlib.tfrecord",
    "images.rec",
    "stream.msgpack",
    "table.lmdb",
    "classes.zip",
    "files.csv",
    "files.jsonl",
)
ENDINGS = (
    *("tar", "tar.gz", "tar.zst", "zip", "tfrecord", "tfrecord.gz", "rec", "npy", "npz", "parquet", "arrow", "feather"),
    *("h5", "lmdb", "msgpack", "jsonl", "csv", "tsv"),
)
HOSTILE_FORMATS: dict[str, Maker] = {}
ESCAPES = "\x1b[31m\x1b]0;t\x07\u202e\n\r"


def hostile(make: Maker) -> Maker:
    HOSTILE_FORMATS[make.__name__] = make
    return make


# -- files that were fine once ----------------------------------------------------------------------------------------


def golden(folder: Path, name: str) -> Path:
    """A golden file with what belongs to it."""
    wanted = {"images.rec": ["images.idx"], "files.csv": ["files"], "files.jsonl": ["files"]}.get(name, [])
    for one in (name, *wanted):
        source = GOLDEN / one
        (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / one)
    return folder / name


def damaged(name: str, how: str) -> Maker:
    """A golden file that is whole, cut, full of flipped bits, or with zeros in the middle."""

    def make(folder: Path) -> Path:
        path = golden(folder, name)
        file = next(path.glob("*.arrow")) if path.is_dir() else path
        data = bytearray(file.read_bytes())
        if how == "cut":
            del data[len(data) * 2 // 3 :]
        elif how == "flipped":
            for at in range(17, len(data), 97):
                data[at] ^= 1 << at % 8
        elif how == "holes":
            data[len(data) // 2 : len(data) * 3 // 4] = bytes(len(data) * 3 // 4 - len(data) // 2)
        file.write_bytes(data)
        return path

    return make


ODD_FILES: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "one byte": lambda path: path.write_bytes(b"\x01"),
    "zeros": lambda path: path.write_bytes(bytes(5000)),
    "letters": lambda path: path.write_bytes(b"a" * 5000),
    "0xff": lambda path: path.write_bytes(b"\xff" * 5000),
    "pipe": os.mkfifo,
    "directory": lambda path: path.mkdir(),
    "link to a device": lambda path: path.symlink_to("/dev/zero"),
    "link to nothing": lambda path: path.symlink_to("nothing"),
    "link to itself": lambda path: path.symlink_to(path.name),
}
"""What may stand under the name of a file, made under that name."""


def odd_file(ending: str, what: str) -> Maker:
    """Something under the name of a file."""

    def make(folder: Path) -> Path:
        path = folder / f"x.{ending}"
        ODD_FILES[what](path)
        return path

    return make


# -- tar --------------------------------------------------------------------------------------------------------------


def tar_of(path: Path, members: Iterable[tuple[tarfile.TarInfo, bytes]], form: int = tarfile.GNU_FORMAT) -> Path:
    with tarfile.open(path, "w", format=form) as file:
        for member, data in members:
            member.size = len(data)
            file.addfile(member, io.BytesIO(data))
    return path


def named(name: str, data: bytes = b"x") -> tuple[tarfile.TarInfo, bytes]:
    return tarfile.TarInfo(name), data


@hostile
def tar_of_escapes(folder: Path) -> Path:
    return tar_of(folder / "x.tar", [named(f"a{ESCAPES}.txt"), named(f"b{ESCAPES}.txt"), named("c.\x1b[2Jjpg")])


@hostile
def tar_of_webdataset_names_that_lead_out(folder: Path) -> Path:
    return tar_of(folder / "x.tar", [named("../home/1.txt"), named("../home/1.cls", b"1"), named("/etc/2.txt")])


@hostile
def tar_of_keys_that_come_apart(folder: Path) -> Path:
    names = ("1.txt", "2.txt", "1.cls", "2.cls", "1.txt", "3.json", "3.", ".4", "5")
    return tar_of(folder / "x.tar", [named(name, b"1") for name in names])


@hostile
def tar_in_a_tar_in_a_tar(folder: Path) -> Path:
    inner = tar_of(folder / "inner", [named("a.txt")]).read_bytes()
    for _ in range(20):
        inner = tar_of(folder / "inner", [named("a.tar", inner)]).read_bytes()
    (folder / "inner").unlink()
    return tar_of(folder / "x.tar", [named("a.tar", inner)])


@hostile
def tar_of_sparse_files(folder: Path) -> Path:
    path = tar_of(folder / "x.tar", [named("a.txt", bytes(512)), named("b.txt")])
    data = bytearray(path.read_bytes())
    data[156:157] = b"S"
    data[386:410] = b"%011o\0%011o\0" % (0, 512)
    data[483:495] = b"%011o\0" % (1 << 32)
    data[148:156] = b" " * 8
    data[148:156] = b"%06o\0 " % sum(data[:512])
    path.write_bytes(data)
    return path


@hostile
def tar_of_pax_headers_that_lie(folder: Path) -> Path:
    members = []
    for i, (key, value) in enumerate(
        (
            ("size", "9223372036854775807"),
            ("size", "-5"),
            ("path", "../" * 50 + "home/settings"),
            ("path", "a\0b"),
            ("GNU.sparse.major", "1"),
            ("GNU.sparse.realsize", "99999999999999"),
            ("mtime", "nan"),
            ("hdrcharset", "BINARY"),
            ("linkpath", "/etc/passwd"),
        )
    ):
        member, data = named(f"{i}.txt")
        member.pax_headers = {key: value}
        members.append((member, data))
    return tar_of(folder / "x.tar", members, tarfile.PAX_FORMAT)


@hostile
def tar_of_pax_lengths_that_lie(folder: Path) -> Path:
    body = b"99999999999999999999 path=x\n" + b"0 =\n" + b"-3 a=b\n"
    head = tarfile.TarInfo("././@PaxHeader")
    head.type, head.size = tarfile.XHDTYPE, len(body)
    data = head.tobuf(tarfile.USTAR_FORMAT) + body.ljust(512, b"\0") + tarfile.TarInfo("a.txt").tobuf() + bytes(1024)
    (folder / "x.tar").write_bytes(data)
    return folder / "x.tar"


@hostile
def tar_of_a_size_in_base_256(folder: Path) -> Path:
    path = tar_of(folder / "x.tar", [named("a.txt", b"x" * 600)])
    data = bytearray(path.read_bytes())
    data[124:136] = b"\xff" * 12
    data[148:156] = b" " * 8
    data[148:156] = b"%06o\0 " % sum(data[:512])
    path.write_bytes(data)
    return path


@hostile
def tar_of_links(folder: Path) -> Path:
    members = [named("a.txt")]
    for kind, name, target in (
        (tarfile.SYMTYPE, "s.txt", "../home/settings"),
        (tarfile.LNKTYPE, "h.txt", "/etc/passwd"),
        (tarfile.SYMTYPE, "d", "../home"),
        (tarfile.CHRTYPE, "c.txt", ""),
        (tarfile.FIFOTYPE, "p.txt", ""),
    ):
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, target
        members.append((member, b""))
    return tar_of(folder / "x.tar", [*members, named("d/settings", b"owned")])


def _bomb(path: Path, head: bytes) -> Path:
    """A gzip of 3 GB in some kilobytes: members of zeros, again and again."""
    piece = gzip.compress(bytes(16 << 20), mtime=0)
    path.write_bytes(gzip.compress(head, mtime=0) + piece * 192)
    return path


def tar_gz_bomb(folder: Path) -> Path:
    member = tarfile.TarInfo("a.txt")
    member.size = 3 << 30
    return _bomb(folder / "x.tar.gz", member.tobuf())


def tfrecord_gz_bomb(folder: Path) -> Path:
    length = struct.pack("<Q", 3 << 30)
    return _bomb(folder / "x.tfrecord.gz", length + struct.pack("<I", masked(length)))


LARGE: dict[str, Maker] = {"tar.gz": tar_gz_bomb, "tfrecord.gz": tfrecord_gz_bomb}
"""Those that take seconds to refuse: a gigabyte is unpacked first."""


# -- zip, npy, npz ----------------------------------------------------------------------------------------------------


@hostile
def zip_of_names(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "x.zip", "w") as file:
        for name in ("../home/settings", "/tmp/owned", "a/../../b.txt", f"c{ESCAPES}.txt", "d\\..\\e.txt", "C:/f.txt"):
            file.writestr(name, b"owned")
    return folder / "x.zip"


@hostile
def zip_of_names_inside_with_escapes(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "x.zip", "w") as file:
        file.writestr(f"c{ESCAPES}.txt", b"owned")
    return folder / "x.zip"


@hostile
def zip_with_a_link(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "x.zip", "w") as file:
        link = zipfile.ZipInfo("out")
        link.external_attr = 0o120777 << 16
        file.writestr(link, "../home")
        file.writestr("out/settings", b"owned")
    return folder / "x.zip"


class Shout:
    """What a pickle would run."""

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str]]:
        return os.system, ("touch OWNED ../home/OWNED",)


@hostile
def npy_of_a_pickle(folder: Path) -> Path:
    np.save(folder / "x.npy", np.array([Shout(), 1], object), allow_pickle=True)
    return folder / "x.npy"


@hostile
def npz_of_a_pickle(folder: Path) -> Path:
    np.savez(folder / "x.npz", a=np.array([Shout()], object), b=np.arange(1))
    return folder / "x.npz"


@hostile
def npy_of_absurd_shape(folder: Path) -> Path:
    text = b"{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904, 4611686018427387904), }"
    head = b"\x93NUMPY\x01\0" + struct.pack("<H", 118) + text.ljust(117) + b"\n"
    (folder / "x.npy").write_bytes(head + bytes(800))
    return folder / "x.npy"


@hostile
def npy_whose_header_is_code(folder: Path) -> Path:
    text = b"__import__('os').system('touch ../home/OWNED')"
    head = b"\x93NUMPY\x01\0" + struct.pack("<H", 118) + text.ljust(117) + b"\n"
    (folder / "x.npy").write_bytes(head + bytes(800))
    return folder / "x.npy"


@hostile
def npy_of_a_deep_header(folder: Path) -> Path:
    text = b"(" * 60000
    (folder / "x.npy").write_bytes(b"\x93NUMPY\x01\0" + struct.pack("<H", len(text)) + text)
    return folder / "x.npy"


@hostile
def npz_of_names(folder: Path) -> Path:
    np.savez(folder / "x.npz", **{"../../home/x": np.arange(3), f"b{ESCAPES}": np.arange(3)})
    return folder / "x.npz"


# -- TFRecord, RecordIO, MessagePack ----------------------------------------------------------------------------------


def masked(data: bytes) -> int:
    value = crc32c(data)
    return ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF


def tfrecord_of(path: Path, records: Iterable[bytes]) -> Path:
    parts = []
    for record in records:
        length = struct.pack("<Q", len(record))
        parts += [length, struct.pack("<I", masked(length)), record, struct.pack("<I", masked(record))]
    path.write_bytes(b"".join(parts))
    return path


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def message(number: int, data: bytes, size: int | None = None) -> bytes:
    return varint(number << 3 | 2) + varint(len(data) if size is None else size) + data


@hostile
def tfrecord_of_lengths_that_overflow(folder: Path) -> Path:
    feature = message(1, message(1, b"abc"))
    entry = message(1, message(1, b"a") + message(2, feature))
    bad = [
        message(1, message(1, message(1, b"a") + message(2, feature, (1 << 64) - 1))),
        message(1, entry, 1 << 62),
        message(1, message(1, message(1, b"a", 1 << 63) + message(2, feature))),
        b"\xff" * 11,
        message(1, entry) + b"\x0b" * 50,
    ]
    return tfrecord_of(folder / "x.tfrecord", [message(1, entry), *bad])


@hostile
def tfrecord_of_deep_groups(folder: Path) -> Path:
    deep = b"a"
    for _ in range(3000):
        deep = message(1, deep)
    return tfrecord_of(folder / "x.tfrecord", [deep])


@hostile
def tfrecord_of_names(folder: Path) -> Path:
    entries = [
        message(1, message(1, name) + message(2, message(1, message(1, b"abc"))))
        for name in (b"../../home/x", ESCAPES.encode(), b"", b"\xff\xfe")
    ]
    return tfrecord_of(folder / "x.tfrecord", [message(1, b"".join(entries))])


@hostile
def tfrecord_of_an_absurd_length(folder: Path) -> Path:
    length = struct.pack("<Q", (1 << 64) - 17)
    (folder / "x.tfrecord").write_bytes(length + struct.pack("<I", masked(length)) + bytes(100))
    return folder / "x.tfrecord"


@hostile
def recordio_of_absurd_labels(folder: Path) -> Path:
    parts = []
    for flag, data in ((0xFFFFFFFF, b"abc"), (1 << 30, b""), (5, bytes(4)), (0, b"\xff\xd8")):
        record = struct.pack("<IfQQ", flag, 1.0, 0, 0) + data
        parts += [struct.pack("<II", 0xCED7230A, len(record)), record, bytes(-len(record) % 4)]
    (folder / "x.rec").write_bytes(b"".join(parts))
    return folder / "x.rec"


@hostile
def recordio_of_parts_without_end(folder: Path) -> Path:
    (folder / "x.rec").write_bytes(struct.pack("<II", 0xCED7230A, 1 << 29 | 24) + bytes(24))
    with open(folder / "x.rec", "ab") as file:
        file.write((struct.pack("<II", 0xCED7230A, 2 << 29 | 0)) * 100_000)
    return folder / "x.rec"


@hostile
def recordio_with_keys_that_lie(folder: Path) -> Path:
    path = golden(folder, "images.rec")
    lines = ["5\t99999999999999999999999999", "-1\t-8", "a\tb", f"{ESCAPES}\t0", "1\t3", "2\t0", "2\t0"]
    (folder / "images.idx").write_text("\n".join(lines))
    return path


@hostile
def recordio_with_keys_of_a_pipe(folder: Path) -> Path:
    path = golden(folder, "images.rec")
    (folder / "images.idx").unlink()
    os.mkfifo(folder / "images.idx")
    return path


@hostile
def msgpack_depth_bomb(folder: Path) -> Path:
    (folder / "x.msgpack").write_bytes((b"\x81\xa1a" + b"\x91" * 1_000_000 + b"\xc0") * 2)
    return folder / "x.msgpack"


@hostile
def msgpack_of_absurd_counts(folder: Path) -> Path:
    (folder / "x.msgpack").write_bytes(b"\x81\xa1a\x01" + b"\x81\xa1a\xdd\xff\xff\xff\xff" + b"\xdf\xff\xff\xff\xff")
    return folder / "x.msgpack"


@hostile
def msgpack_of_mixed_values(folder: Path) -> Path:
    values = (b"\x01", b"\xa1x", b"\xc4\x01x", b"\xc0", b"\xcb\x7f\xf8" + bytes(6), b"\xcf" + b"\xff" * 8, b"\xd4\x05x")
    (folder / "x.msgpack").write_bytes(b"".join(b"\x81\xa1a" + value for value in values))
    return folder / "x.msgpack"


@hostile
def msgpack_of_names(folder: Path) -> Path:
    name = ESCAPES.encode() + b"../"
    (folder / "x.msgpack").write_bytes(b"\x82" + bytes([0xA0 | len(name)]) + name + b"\x01\x05\x06")
    return folder / "x.msgpack"


# -- pictures ---------------------------------------------------------------------------------------------------------


@hostile
def pictures_that_grow(folder: Path) -> Path:
    """A PNG of a megabyte that has a gigabyte of pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    row = bytes(1 + 3 * 30_000)
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(row * 100) + packer.flush(zlib.Z_FULL_FLUSH)
    total = len(row) * 12_000
    pixels = b"\x78\x9c" + packed * 120 + packer.flush() + struct.pack(">I", total % 65521 << 16 | 1)
    head = struct.pack(">IIBBBBB", 30_000, 12_000, 8, 2, 0, 0, 0)
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    jpeg = image_file(picture(1, 8, 8), "JPEG")
    return tar_of(folder / "x.tar", [named("1.png", png), named("1.cls", b"0"), named("2.png", jpeg), named("2.cls")])
