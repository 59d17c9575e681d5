"""Whatever is written to an .ffr comes back, in every way of writing and reading."""

from __future__ import annotations

import pickle
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.codecs.pickle_values import load_values
from headrace.formats.ffr import FfrReader, FfrWriter, PackedFolder
from headrace.formats.ffr import packed_index as index
from headrace.formats.ffr import writer as writing

samples = st.lists(st.binary(max_size=300) | st.integers(0, 70_000).map(bytes), max_size=40)
names = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=8).filter(
    lambda name: name not in (".", "..")
)
trees = st.recursive(st.just(None), lambda below: st.dictionaries(names, below, max_size=5), max_leaves=25)


@settings(max_examples=60, deadline=None)
@given(samples, st.booleans(), st.booleans(), st.sampled_from([None, True, False]), st.randoms())
def test_samples(values: list[bytes], knows_n: bool, is_held: bool, cold: bool | None, random: object) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        if not is_held:
            patch.setattr(writing, "_HELD_BYTES", 100)
            patch.setattr(writing, "_CHUNK_BYTES", 1000)
        path = Path(folder, "x.ffr")
        with FfrWriter(path, len(values) if knows_n else None) as writer:
            cut = random.randint(0, len(values))  # type: ignore[attr-defined]
            for value in values[:cut]:
                writer.append(value)
            writer.append_many(values[cut:])
        reader = FfrReader(path, cold=cold)
        order = np.array([random.randrange(len(values)) for _ in range(50)] if values else [], np.int64)  # type: ignore[attr-defined]
        expected = [values[i] for i in order]
        assert [sample.tobytes() for sample in reader.read(order)] == expected
        assert reader.read_bytes(order) == expected
        out = np.zeros(sum(map(len, expected)), np.uint8)
        reader.read_into(order, out)
        assert out.tobytes() == b"".join(expected)
        dataset = hr.open(path, packed=False)
        ragged = dataset.read_ragged(order, "data")
        assert ragged.values.tobytes() == b"".join(expected)
        assert dataset.verify().ok


@settings(max_examples=60, deadline=None)
@given(trees, st.integers(0, pickle.HIGHEST_PROTOCOL))
def test_indexes(shape: dict | None, protocol: int) -> None:
    count = 0

    def number(value: dict | None) -> object:
        nonlocal count
        if value is not None:
            return index.OrderedDict((name, number(below)) for name, below in value.items())
        count += 1
        return count - 1

    tree = number(shape or {})
    parsed = index._checked_tree(load_values(pickle.dumps(tree, protocol)), count, 1 << 20)
    assert parsed == tree
    assert len(index.list_files(parsed)) == count
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.ffr")
        with FfrWriter(path) as writer:
            writer.append_many(str(i).encode() for i in range(count))
            writer.append(index.pack_index(parsed))
        packed = PackedFolder(path)
        for name, number_ in index.list_files(parsed).items():
            assert packed.read_one(name).tobytes() == str(number_).encode()
            assert packed.is_file(name)
