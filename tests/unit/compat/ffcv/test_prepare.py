"""Files whose pages the caller fills, between prepare() and finalize()."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.unit.compat.ffcv.tools import write  # noqa: E402

import headrace as hr  # noqa: E402
from headrace.compat.ffcv import DatasetWriter  # noqa: E402
from headrace.compat.ffcv.fields import BytesField, IntField  # noqa: E402
from headrace.compat.ffcv.memory_allocator import MemoryAllocator  # noqa: E402
from headrace.errors import HeadraceError  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

NAME = "a name of more than sixteen letters"


class OwnBytes(BytesField):
    """A field of a user's own: its files have nothing that FFCV's have not."""


def sample(i: int) -> tuple[Any, ...]:
    return i, np.full(300_000 * (i % 4), i, np.uint8)


def fill(writer: DatasetWriter) -> list[tuple[int, int, int]]:
    """What a program does that was made from FFCV's own writer."""
    allocator = MemoryAllocator(writer.fname, writer.data_region_start, writer.page_size)
    metadata = np.frombuffer(writer.metadata_sm.buf, writer.metadata_type, writer.num_samples)
    with allocator:
        for i in range(writer.num_samples):
            for _ in range(2):  # a sample that a page has no room for begins anew on the next one
                try:
                    allocator.set_current_sample(i)
                    for name, field, value in zip(metadata.dtype.names, writer.fields.values(), sample(i), strict=True):
                        field.encode(metadata[name][i : i + 1], value, allocator.malloc)
                    break
                except MemoryError:
                    continue
    return allocator.allocations


def by_hand(path: Path, fields: dict[str, Any], count: int) -> None:
    writer = DatasetWriter(path, fields, page_size=1 << 21)
    writer.num_samples = count
    writer.prepare()
    writer.finalize(fill(writer))
    writer.metadata_sm.close()
    writer.metadata_sm.unlink()


@pytest.mark.parametrize("count", [0, 1, 23])
def test_the_bytes_are_those_of_a_file_written_at_once(tmp_path: Path, count: int) -> None:
    fields = {"n": IntField(), NAME: OwnBytes()}
    by_hand(tmp_path / "hand.beton", fields, count)
    write(tmp_path / "once.beton", fields, count, sample, page_size=1 << 21, num_workers=1)
    assert (tmp_path / "hand.beton").read_bytes() == (tmp_path / "once.beton").read_bytes()


def test_the_file_is_read_back(tmp_path: Path) -> None:
    by_hand(tmp_path / "x.beton", {"n": IntField(), "v": BytesField()}, 23)
    dataset = hr.open(tmp_path / "x.beton")
    assert [s.n for s in dataset] == list(range(23))
    assert [bytes(s.v) for s in dataset] == [sample(i)[1].tobytes() for i in range(23)]
    assert hr.verify(tmp_path / "x.beton").ok


def test_a_file_that_was_not_completed_is_refused(tmp_path: Path) -> None:
    writer = DatasetWriter(tmp_path / "x.beton", {"n": IntField(), "v": BytesField()})
    writer.num_samples = 5
    writer.prepare()
    writer.metadata_sm.close()
    writer.metadata_sm.unlink()
    with pytest.raises(RuntimeError, match=r"x\.beton: metadata_sm was closed before finalize\(\)"):
        writer.finalize([])
    with pytest.raises(HeadraceError, match=r"x\.beton"):
        hr.open(tmp_path / "x.beton")


def test_finalize_needs_prepare(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"x: finalize\(\) ends what prepare\(\) began"):
        DatasetWriter(tmp_path / "x", {"n": IntField()}).finalize([])
