"""Targets that are whole files of the formats of other tools: checksums are made right, then everything is read.

Each takes any bytes as the file; ``seed_files`` gives small ones that are sound.
"""

from __future__ import annotations

import functools
import json
import os
import struct
from typing import TYPE_CHECKING

import numpy as np
from tests.helpers import image_file, picture

import headrace as hr
from headrace._native import crc32c

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["ENDINGS", "file_target", "right_tar", "seed_files"]

ENDINGS = ("parquet", "arrow", "h5", "lmdb", "msgpack", "jsonl", "csv", "tfrecord", "rec", "idx", "wds", "places")
"""Names of targets; those that are no endings: keys beside a .rec, a tar of samples, places in an annex."""

_LENGTH = struct.Struct("<QI")
_JPEG = image_file(picture(1, 8, 8), "JPEG")
_FIELDS: dict[str, hr.Field] = {"image": hr.Image(), "label": hr.Int(), "text": hr.Text(), "json": hr.Json()}
_ROWS = [(_JPEG, 1, "a", {"k": [1, None]}), (_JPEG, -2, "bc", "x"), (_JPEG, 3, "", [])]


def file_target(name: str, put: Callable[[str, bytes], Path], use: Callable[[Path], None]) -> Callable[[bytes], None]:
    """What is done with the bytes of an input."""

    def run(data: bytes) -> None:
        if name == "idx":
            put("keys.idx", data)
            path = put("keys.rec", _written(put, "rec"))
        elif name == "places":
            put("x.msgpack.annex", _with_checksums(data))
            path = put("x.msgpack", _written(put, "msgpack"))
        else:
            ending = "tar" if name == "wds" else name
            made = _tfrecord(data) if name == "tfrecord" else right_tar(data) if name == "wds" else data
            path = put(f"file.{ending}", made)
        use(path)

    return run


def seed_files(name: str, put: Callable[[str, bytes], Path]) -> list[bytes]:
    """Sound inputs."""
    if name == "idx":
        return [b"0\t0\n1\t828\n", b"5\t0\n", b"a\tb\n"]
    if name == "places":
        return [_annex(put)]
    plain = [b"", b"\0" * 64]
    if name == "jsonl":
        return [b'{"a": 1, "b": "x"}\n{"a": 2, "b": "y"}\n', json.dumps({"a": [1, {"b": None}]}).encode(), *plain]
    if name == "csv":
        return [b'a,b\n1,"x\n"\n2,y\n', b"__key__,a\nx,1.5\n", *plain]
    return [_written(put, "tar" if name == "wds" else name), *plain]


@functools.cache
def _written(put: Callable[[str, bytes], Path], ending: str) -> bytes:
    """The bytes of a small sound file."""
    path = put(f"seed.{ending}", b"").with_name(f"seed-{os.getpid()}.{ending}")
    fields, rows = dict(_FIELDS), list(_ROWS)
    if ending == "lmdb":
        fields, rows = {"image": hr.Image()}, [(row[0],) for row in _ROWS]
    if ending == "rec":
        fields, rows = {"image": hr.Image(), "label": hr.Float()}, [row[:2] for row in _ROWS]
    hr.write(path, rows, fields=fields, names=list("abc"), force=True)
    return path.read_bytes()


def _annex(put: Callable[[str, bytes], Path]) -> bytes:
    path = put("annexed.msgpack", _written(put, "msgpack"))
    with open(hr.index(path, fresh=True), "rb") as file:
        return file.read()


def _with_checksums(data: bytes) -> bytes:
    from tests.fuzz.targets import right_checksums

    return right_checksums(data)


def _tfrecord(data: bytes) -> bytes:
    """The checksums of records made right, as far as their lengths lead."""
    whole, at = bytearray(data), 0
    while at + _LENGTH.size <= len(whole):
        (size,) = struct.unpack_from("<Q", whole, at)
        struct.pack_into("<I", whole, at + 8, _masked(whole[at : at + 8]))
        end = at + _LENGTH.size + size
        if end + 4 > len(whole):
            break
        struct.pack_into("<I", whole, end, _masked(whole[at + _LENGTH.size : end]))
        at = end + 4
    return bytes(whole)


def _masked(data: bytearray) -> int:
    value = crc32c(np.frombuffer(bytes(data), np.uint8))
    return ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF


def right_tar(data: bytes) -> bytes:
    """A tar whose headers have the checksums that they should have, where they look like headers."""
    whole = bytearray(data)
    for at in range(0, len(whole) - 511, 512):
        if whole[at + 257 : at + 262] == b"ustar":
            whole[at + 148 : at + 156] = b" " * 8
            whole[at + 148 : at + 156] = b"%06o\0 " % sum(whole[at : at + 512])
    return bytes(whole)
