"""The section ``files``: what was written comes back, and what is wrong with it is told."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
import pytest

from headrace.annex import FILES, Annex, FileSums, write_annex
from headrace.errors import AnnexError
from headrace.storage import LocalFile

if TYPE_CHECKING:
    from headrace.types import Buffer


def annex_of(section: list[Buffer], num_samples: int) -> Annex:
    out = bytearray()

    def write(pieces: object) -> None:
        for piece in pieces:  # type: ignore[attr-defined]
            out.extend(memoryview(piece).cast("B"))

    write_annex(
        write,
        {FILES: section},
        num_samples=num_samples,
        dataset_size=lambda _: 5,
        dataset_fingerprint=lambda _: 7,
    )
    data = np.frombuffer(bytes(out), np.uint8)
    found = Annex.find(
        LocalFile("x.annex", mapped=data), num_samples=num_samples, dataset_size=5, dataset_fingerprint=7
    )
    assert found is not None
    return found


def sums_of(fields: tuple[str, ...], count: int) -> FileSums:
    numbers = np.arange(count * len(fields)).reshape(count, len(fields))
    return FileSums(fields, (numbers + (1 << 40)).astype(np.uint64), (numbers + 9).astype(np.uint32))


@pytest.mark.parametrize(("fields", "count"), [(("image",), 3), (("größe", "b/c", "d"), 5), (("a",), 0)])
def test_round_trip(fields: tuple[str, ...], count: int) -> None:
    known = sums_of(fields, count)
    found = FileSums.read(annex_of(list(known.section()), count))
    assert found is not None
    assert found.fields == fields
    np.testing.assert_array_equal(found.sizes, known.sizes)
    np.testing.assert_array_equal(found.checksums, known.checksums)


def test_there_may_be_none() -> None:
    out = annex_of([b"x"], 1)
    out._rows.clear()
    assert FileSums.read(out) is None


@pytest.mark.parametrize(
    ("section", "message"),
    [
        (b"", "not what its head says"),
        (b"\1\0\0\0", "not what its head says"),
        (struct.pack("<HHI", 0, 0, 8) + b"[]      ", "not what its head says"),
        (struct.pack("<HHI", 1, 0, 8) + b'["a"]   ' + bytes(23), "not what its head says"),
        (struct.pack("<HHI", 1, 0, 2**32 - 8) + b'["a"]   ' + bytes(24), "not what its head says"),
        (struct.pack("<HHI", 1, 0, 8) + b'["a"    ' + bytes(24), "does not name its fields"),
        (struct.pack("<HHI", 1, 0, 8) + b"[1]     " + bytes(24), "should name 1 field"),
        (struct.pack("<HHI", 1, 0, 8) + b'{"a":1} ' + bytes(24), "should name 1 field"),
        (struct.pack("<HHI", 2, 0, 16) + b'["a", "a"]      ' + bytes(48), "should name 2 fields"),
    ],
)
def test_hostile(section: bytes, message: str) -> None:
    with pytest.raises(AnnexError, match=message):
        FileSums.read(annex_of([section], 2))
