from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from headrace.annex import (
    Annex,
    Names,
    checksums_section,
    json_section,
    names_section,
    read_checksums,
    read_json,
    read_names,
    side_path,
    write_annex,
)
from headrace.errors import AnnexError
from headrace.storage import LocalFile


def annex_of(name: str, pieces: Any, num_samples: int = 3) -> Annex:
    out = bytearray()
    write_annex(
        lambda buffers: [out.extend(memoryview(b).cast("B")) for b in buffers] and None,
        {name: pieces},
        num_samples=num_samples,
        dataset_size=lambda size: 1,
        dataset_fingerprint=lambda size: 2,
    )
    data = np.frombuffer(bytes(out), np.uint8)
    facts = {"num_samples": num_samples, "dataset_size": 1, "dataset_fingerprint": 2}
    annex = Annex.find(LocalFile("x", mapped=data), **facts)
    assert annex is not None
    return annex


def names_of(*names: str) -> Names:
    raw = [name.encode("utf-8", "surrogateescape") for name in names]
    lengths = np.array([len(r) for r in raw], np.uint32)
    found = read_names(annex_of("names", names_section(lengths, raw), len(names)))
    assert found is not None
    return found


def test_names_are_a_sequence() -> None:
    names = names_of("a/1.jpg", "", "ü中.png", "a/1.jpg")
    assert isinstance(names, Sequence)
    assert list(names) == ["a/1.jpg", "", "ü中.png", "a/1.jpg"]
    assert names[-2] == "ü中.png"
    assert names[1:3] == ["", "ü中.png"]
    assert (names.index("a/1.jpg"), names.index("a/1.jpg", 1), names.count("a/1.jpg")) == (0, 3, 2)
    assert "" in names
    with pytest.raises(ValueError, match="no sample is called 'x'"):
        names.index("x")
    with pytest.raises(IndexError):
        names[4]


def test_names_that_are_not_utf8_come_back() -> None:
    name = b"caf\xe9.jpg".decode("utf-8", "surrogateescape")
    assert list(names_of(name)) == [name]


@pytest.mark.parametrize(
    ("offsets", "text"),
    [([0, 1, 2], b"ab"), ([1, 1, 2, 2], b"ab"), ([0, 2, 1, 2], b"ab"), ([0, 1, 2, 3], b"ab"), ([0, 0, 0, 2**63], b"")],
)
def test_wrong_offsets_of_names(offsets: list[int], text: bytes) -> None:
    section = [np.array(offsets, "<u8").view(np.uint8), text]
    with pytest.raises(AnnexError, match="section 'names' has"):
        read_names(annex_of("names", section))


def test_checksums_round_trip() -> None:
    table = np.arange(6, dtype="<u4").reshape(3, 2)
    annex = annex_of("checksums", checksums_section(2, [table.tobytes()]))
    np.testing.assert_array_equal(read_checksums(annex, 2), table)


@pytest.mark.parametrize("columns", [1, 3])
def test_checksums_of_another_schema(columns: int) -> None:
    annex = annex_of("checksums", checksums_section(2, [bytes(24)]))
    with pytest.raises(AnnexError, match="section 'checksums' has 32 bytes"):
        read_checksums(annex, columns)


@pytest.mark.parametrize("head", [b"\2\0\2\0\0\0\0\0", b"\1\0\1\0\0\0\0\0"])
def test_checksums_of_another_kind(head: bytes) -> None:
    with pytest.raises(AnnexError, match="algorithm"):
        read_checksums(annex_of("checksums", [head, bytes(24)]), 2)


@pytest.mark.parametrize("value", [None, {}, {"a": ["ü", 1.5, None]}, "text", {"bad \udce9 name": 1}])
def test_json_round_trip(value: Any) -> None:
    assert read_json(annex_of("metadata", json_section(value)), "metadata") == value


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b"[" * 100_000])
def test_text_that_is_not_json(text: bytes) -> None:
    with pytest.raises(AnnexError, match="section 'metadata' is not JSON"):
        read_json(annex_of("metadata", [text]), "metadata")


def test_sections_that_are_not_there() -> None:
    annex = annex_of("other", [b""])
    assert read_names(annex) is None
    assert read_checksums(annex, 1) is None
    assert read_json(annex, "metadata") is None


def test_where_a_side_annex_is() -> None:
    assert side_path("a/b.beton") == "a/b.beton.annex"
