"""Golden files of pyarrow, exactly as the truth says."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from tests.unit.formats.arrow.tables import FILES, GOLDEN, photo

import headrace
from headrace.fields import Float, Image, Int, Json, NDArray, Text

TRUTH = [json.loads(text) for text in np.load(GOLDEN / "truth.npy")]
PARTS = {"parts-00000-of-00002.parquet": 0, "parts-00001-of-00002.parquet": 10}


@pytest.mark.parametrize("name", [*FILES, *PARTS])
def test_every_value_is_as_the_truth_says(name: str) -> None:
    first = PARTS.get(name, 0)
    with headrace.open(GOLDEN / name) as dataset:
        assert len(dataset) == (10 if name in PARTS else 20)
        assert dict(dataset.schema) == {
            "image": Image(),
            "label": Int(),
            "score": Float(),
            "caption": Text(),
            "box": NDArray("float32", (4,)),
            "meta": Json(),
        }
        assert dataset.class_names == {"label": ["neg", "zero", "one", "two", "three"]}
        assert dataset.keys is None
        for i, sample in enumerate(dataset):
            assert_is(sample, TRUTH[first + i])
        every = np.arange(len(dataset))
        assert dataset.read_bytes(every, "image") == [photo(first + i) for i in every]
        assert dataset.verify(decode=True).ok


def assert_is(sample: Any, truth: dict[str, Any]) -> None:
    assert (sample.label, sample.score, sample.caption, sample.meta) == tuple(
        truth[name] for name in ("label", "score", "caption", "meta")
    )
    np.testing.assert_array_equal(sample.box, np.float32(truth["box"]))
    np.testing.assert_array_equal(sample.image, headrace.codecs.jpeg.decode(photo(int(truth["key"]))))


@pytest.mark.parametrize("name", FILES)
def test_any_order_is_the_same_samples(name: str) -> None:
    dataset = headrace.open(GOLDEN / name)
    order = np.random.default_rng(1).integers(0, 20, 64)
    np.testing.assert_array_equal(dataset.read_values(order, "label"), [TRUTH[i]["label"] for i in order])
    assert dataset.read_values(order, "caption") == [TRUTH[i]["caption"] for i in order]
    assert dataset.read_values(order, "meta") == [TRUTH[i]["meta"] for i in order]
    assert dataset.read_bytes(order, "image") == [photo(i) for i in order]
    np.testing.assert_array_equal(dataset.read_values(order, "box"), np.float32([TRUTH[i]["box"] for i in order]))
    ragged = dataset.read_ragged(order, "image")
    assert ragged.values.tobytes() == b"".join(photo(i) for i in order)
    spans = dataset.image_spans(order, "image")
    for i, start, size in zip(order, spans.offsets.tolist(), spans.sizes.tolist(), strict=True):
        assert spans.base[start : start + size].tobytes() == photo(i)
    assert [sample.label for sample in dataset[-3:]] == [TRUTH[i]["label"] for i in (17, 18, 19)]


def test_mapped_files_are_not_copied_and_others_keep_to_their_parts() -> None:
    mapped, groups = headrace.open(GOLDEN / "file.arrow"), headrace.open(GOLDEN / "groups.parquet")
    assert headrace.storage.is_mapped_file(mapped.image_spans(np.arange(20), "image").base)
    assert mapped.page_numbers() is not None  # as from a store, where the order must be the same
    assert "mapped" in mapped.reading
    pages = groups.page_numbers()
    assert pages is not None
    assert pages.tolist() == [0] * 7 + [1] * 7 + [2] * 6
    assert groups.page_size is None
    assert "row group" in groups.reading
    assert headrace.open(GOLDEN / "feather.feather").page_numbers() is not None  # compressed


@pytest.mark.parametrize("name", FILES)
def test_the_loader_gives_the_same_batches(name: str) -> None:
    def batches(path: str, order: Any) -> list[Any]:
        loader = headrace.Loader(
            headrace.open(GOLDEN / path),
            batch_size=5,
            order=order,
            seed=4,
            pipelines={"image": [headrace.ops.RandomResizedCrop(16)]},
        )
        return [(batch.image, batch.label, batch.box) for batch in loader]

    for got, expected in zip(batches(name, "random"), batches("groups.parquet", "random"), strict=True):
        for one, other in zip(got, expected, strict=True):
            np.testing.assert_array_equal(one, other)
    assert len(batches(name, "quasi_random")) == 4
