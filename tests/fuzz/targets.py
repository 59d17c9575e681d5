"""What is fuzzed through Python: each target takes any bytes, and HeadraceError is all that may come out of it.

A target is a function of bytes. Where a format has checksums, the target makes them right: behind a wrong one nothing
would be reached. ``SEEDS`` gives valid inputs to start from.

    python -m tests.fuzz.campaign --seconds 1200 TARGET     coverage-guided, needs atheris
    pytest tests/fuzz                                       the seeds and the stored inputs once
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gzip
import io
import pickle
import shutil
import sqlite3
import struct
import tarfile
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from tests.fuzz.file_targets import ENDINGS, file_target, right_tar, seed_files
from tests.helpers import DESCRIPTOR_SIZE, HEADER, image_file, picture, write_all_fields

import headrace as hr
from headrace._native import crc32c
from headrace.codecs import image, npy
from headrace.codecs.pickle_values import RefusedPickleError, load_values
from headrace.errors import HeadraceError
from headrace.formats import index
from headrace.formats.barecat import Archive
from headrace.formats.ffr import PackedFolder
from headrace.formats.ffr.packed_index import INDEX_MAGIC, build_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["SEEDS", "TARGETS", "right_checksums"]

GOLDEN = Path(__file__).parents[1] / "golden"
MAX_VALUES = 8
MAX_CONTENT = 1 << 20


@functools.cache
def folder() -> Path:
    """A folder for this process."""
    made = Path(tempfile.mkdtemp(prefix="headrace-fuzz-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def put(name: str, data: bytes) -> Path:
    """A new file with these bytes; not the old one, which may still be mapped."""
    path = folder() / name
    path.unlink(missing_ok=True)
    path.write_bytes(data)
    return path


def use(path: Path, **options: object) -> None:
    """Everything that a user may do with a dataset."""
    try:
        dataset = hr.open(path, **options)
    except HeadraceError:
        return
    with contextlib.closing(dataset):
        some = list(range(min(len(dataset), MAX_VALUES)))
        calls: list[Callable[[], object]] = [functools.partial(dataset.__getitem__, i) for i in some]
        calls += [lambda: dataset[some], lambda: dataset.keys and list(dataset.keys[:9]), lambda: repr(dataset)]
        calls += [lambda: dataset.class_names, lambda: dataset.fingerprint]
        calls += [lambda: dataset.verify(decode=True, workers=1)]
        calls += [
            functools.partial(dataset.read_bytes, some, name)
            for name, field in dataset.schema.items()
            if field.has_payload
        ]
        for call in calls:
            with contextlib.suppress(HeadraceError):
                call()


# -- .beton: numbers that are put into a valid file -----------------------------------------------------------------

_EDIT = struct.Struct("<BHBQ")


@functools.cache
def beton_bases() -> list[bytes]:
    """Small files of all kinds of fields."""
    names = ("all_fields", "img_jpg_var", "ndarrays", "bytes_json")
    bases = [gzip.decompress((GOLDEN / "beton" / f"{name}.beton.gz").read_bytes()) for name in names]
    path = folder() / "base.beton"
    write_all_fields(path, 3, names=list("abc"), class_names={"label": ["x"]}, metadata={"k": 1})
    return [*bases, path.read_bytes()]


def beton(data: bytes) -> None:
    """Input: number of the file u8, then edits: region u8, position u16, bytes to write u8, value u64."""
    bases = beton_bases()
    if not data:
        return
    file = bytearray(bases[data[0] % len(bases)])
    regions = list(beton_regions(file))
    for at in range(1, len(data) - _EDIT.size + 1, _EDIT.size):
        region, position, width, value = _EDIT.unpack_from(data, at)
        first, end = regions[region % len(regions)]
        patch = value.to_bytes(8, "little")[: 1 + width % 8]
        start = first + position % max(1, end - first)
        file[start : start + len(patch)] = patch[: len(file) - start]
    use(put("x.beton", bytes(file)))


def beton_regions(file: bytearray) -> Iterator[tuple[int, int]]:
    """Header, descriptors, metadata, payloads, annex and table."""
    _, fields, _, _, table = HEADER.unpack_from(file)
    metadata = HEADER.size + DESCRIPTOR_SIZE * fields
    rows = np.frombuffer(bytes(file[table:]), "<u8").reshape(-1, 3)
    yield 0, HEADER.size
    yield HEADER.size, metadata
    yield metadata, metadata + 2048
    if len(rows):
        yield int(rows[:, 1].min()), int((rows[:, 1] + rows[:, 2]).max())
    yield max(0, table - 2048), table
    yield table, len(file)


# -- .ffr, packed folders, annexes ----------------------------------------------------------------------------------


def ffr(data: bytes) -> None:
    """Input: a file without the checksum of its header."""
    count = int.from_bytes(data[:8], "little")
    end = min(8 + 12 * count, len(data))
    use(put("x.ffr", struct.pack("<I", zlib.crc32(data[:end])) + data), packed=False)


def packed(data: bytes) -> None:
    """Input: the pickle at the end of a packed folder of four empty files."""
    last = INDEX_MAGIC + data
    start = 12 + 12 * 5
    head = struct.pack("<q5I5q", 5, 0, 0, 0, 0, zlib.crc32(last), *[start] * 5)
    path = put("x.ffr", struct.pack("<I", zlib.crc32(head)) + head + last)
    with contextlib.suppress(HeadraceError), PackedFolder(path) as files:
        names = files.list(recursive=True, folders=False)
        files.read(names[:MAX_VALUES])
    use(path)


_ROW = struct.Struct("<16sQQII")
_TRAILER = struct.Struct("<8sHHIQQQII12sI")


@functools.cache
def annex_base() -> tuple[bytes, bytes]:
    """A dataset and the annex beside it."""
    path = folder() / "plain.beton"
    write_all_fields(path, 3, annex=False)
    made = Path(index(path, names=list("abc")))
    return path.read_bytes(), made.read_bytes()


def annex(data: bytes) -> None:
    """Input: an annex, whose checksums are made right."""
    put("y.beton.annex", right_checksums(data))
    use(put("y.beton", annex_base()[0]))


def right_checksums(data: bytes) -> bytes:
    """An annex with all its checksums as they should be."""
    whole = bytearray(data)
    if len(whole) >= _TRAILER.size:
        end = len(whole) - _TRAILER.size
        count = min(struct.unpack_from("<I", whole, end + 12)[0], end // _ROW.size)
        first = end - count * _ROW.size
        for at in range(first, end, _ROW.size):
            _, offset, size, _, _ = _ROW.unpack_from(whole, at)
            if offset <= first and size <= first - offset:
                struct.pack_into("<I", whole, at + 32, crc32c(whole[offset : offset + size]))
        struct.pack_into("<I", whole, end + 44, crc32c(whole[first:end]))
        struct.pack_into("<I", whole, end + 60, crc32c(whole[end : end + 60]))
    return bytes(whole)


# -- .npy and .npz --------------------------------------------------------------------------------------------------


def npy_file(data: bytes) -> None:
    """Input: a .npy without its first eight bytes, which say what it is."""
    use(put("x.npy", b"\x93NUMPY\x01\x00" + data))


def npz_file(data: bytes) -> None:
    """Input: a .npz."""
    use(put("x.npz", data))


def _npz_seeds() -> list[bytes]:
    fields = {"a": hr.NDArray("float32", (2,)), "t": hr.Text(), "n": hr.Int()}
    rows = [(np.zeros(2, np.float32), "x" * i, i) for i in range(3)]
    seeds = []
    for is_compressed in (False, True):
        path = folder() / "seed.npz"
        hr.write(path, rows, fields=fields, names=list("abc"), compressed=is_compressed, force=True)
        seeds.append(path.read_bytes())
    return [*seeds, npy.encode_npz({"x": [1, 2], "y": ["ab", "c"], "z": 3})]


# -- archives -------------------------------------------------------------------------------------------------------


@functools.cache
def archive_base() -> tuple[bytes, bytes]:
    """A small index with small pages, and the shard."""
    path = folder() / "base.barecat"
    with Archive(path, "x") as archive:
        for i in range(6):
            archive[f"d{i % 2}/{i}.txt"] = b"content %d" % i
        archive["p.jpg"] = image_file(picture(1, 9, 8), "JPEG")
    small = path.with_suffix(".small")
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA page_size = 512")
        connection.execute(f"VACUUM INTO '{small}'")
    return small.read_bytes(), Path(f"{path}-shard-00000").read_bytes()


def archive(data: bytes) -> None:
    """Input: the index of an archive."""
    put("x.barecat-shard-00000", archive_base()[1])
    path = put("x.barecat", data)
    with contextlib.suppress(HeadraceError), Archive(path) as opened:
        calls: list[Callable[[], object]] = [lambda: list(opened)[:MAX_VALUES], opened.verify]
        calls += [functools.partial(opened.__getitem__, name) for name in ("d0/0.txt", "d1/5.txt", "p.jpg", "none")]
        calls += [lambda: list(opened.walk("")), lambda: opened.listdir(""), lambda: list(opened.glob("**/*.txt"))]
        calls += [lambda: opened.read_many(["d0/0.txt", "d0/2.txt"])]
        for call in calls:
            with contextlib.suppress(HeadraceError, KeyError, OSError):
                call()
    use(path)


# -- containers of other tools --------------------------------------------------------------------------------------


def convert(path: Path) -> None:
    """Read all that is in a tar or zip, and write it into another container."""
    with contextlib.suppress(HeadraceError):
        hr.convert(path, folder() / "out.tar", force=True, max_bytes=MAX_CONTENT)


def tar(data: bytes) -> None:
    """Input: a tar, whose headers' checksums are made right where they look like headers."""
    convert(put("x.tar", right_tar(data)))


def zip_file(data: bytes) -> None:
    """Input: a zip."""
    convert(put("x.zip", data))
    use(put("x.zip", data))


# -- values ---------------------------------------------------------------------------------------------------------


def pickled(data: bytes) -> None:
    """Input: a pickle for the reader of plain values."""
    with contextlib.suppress(RefusedPickleError):
        load_values(data)


def array(data: bytes) -> None:
    """Input: a .npy or .npz."""
    for decode in (npy.decode, npy.decode_npz):
        with contextlib.suppress(ValueError):
            decode(data)


def any_picture(data: bytes) -> None:
    """Input: a picture of any kind."""
    for decode in (image.decode, image.decode_any):
        with contextlib.suppress(HeadraceError):
            decode(data)


TARGETS: dict[str, Callable[[bytes], None]] = {
    "beton": beton,
    "ffr": ffr,
    "packed": packed,
    "annex": annex,
    "npy": npy_file,
    "npz": npz_file,
    "archive": archive,
    "tar": tar,
    "zip": zip_file,
    "pickle": pickled,
    "array": array,
    "picture": any_picture,
    **{name: file_target(name, put, use) for name in ENDINGS},
}


def _beton_seeds() -> list[bytes]:
    edit = _EDIT.pack(0, 8, 3, 1 << 31) + _EDIT.pack(3, 100, 0, 255)
    return [bytes([number]) + edit for number in range(len(beton_bases()))]


def _tar_seeds() -> list[bytes]:
    seeds = []
    for form in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=form) as file:
            for name in ("a/b.txt", "d/" + "c" * 99, "ü"):
                member = tarfile.TarInfo(name)
                member.size = 3
                file.addfile(member, io.BytesIO(b"abc"))
            link = tarfile.TarInfo("link")
            link.type, link.linkname = tarfile.SYMTYPE, "a/b.txt"
            file.addfile(link)
        seeds.append(out.getvalue().rstrip(b"\0") + bytes(1024))
    return seeds


def _zip_seeds() -> list[bytes]:
    seeds = []
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", method) as file:
            file.writestr("a/b.txt", b"abc" * 30)
            file.writestr("d/", b"")
        seeds.append(out.getvalue())
    return seeds


def _pickle_seeds() -> list[bytes]:
    values = [{"a": [1, 2.5, (None, b"x")], "s": {1, 2}}, np.arange(6).reshape(2, 3), ["x"] * 3, 1 << 80]
    return [pickle.dumps(value, protocol) for value in values for protocol in (0, 2, 4)]


def _picture_seeds() -> list[bytes]:
    pixels = picture(2, 11, 7)
    return [image_file(pixels, kind) for kind in ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM")]


SEEDS: dict[str, Callable[[], list[bytes]]] = {
    "beton": _beton_seeds,
    "ffr": lambda: [path.read_bytes()[4:] for path in sorted((GOLDEN / "ffr" / "plain").glob("count_*.ffr"))],
    "packed": lambda: [pickle.dumps(build_tree(["a/0", "a/1", "b", "c"]), protocol) for protocol in (0, 2, 4)],
    "annex": lambda: [annex_base()[1]],
    "npy": lambda: [npy.encode(value)[8:] for value in (np.arange(4), np.zeros((2, 3), ">f4", "F"), ["ab", "c"])],
    "npz": _npz_seeds,
    "archive": lambda: [archive_base()[0]],
    "tar": _tar_seeds,
    "zip": _zip_seeds,
    "pickle": _pickle_seeds,
    "array": lambda: [npy.encode(np.arange(4)), npy.encode_npz({"x": [1, 2]})],
    "picture": _picture_seeds,
    **{name: functools.partial(seed_files, name, put) for name in ENDINGS},
}
