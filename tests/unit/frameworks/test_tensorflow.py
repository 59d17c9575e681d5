"""Loaders as datasets of TensorFlow. Run in processes of their own: TensorFlow has threads and is slow to import."""

from __future__ import annotations

import gc
import importlib.util
import os
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.helpers import image_file, picture, write_all_fields
from tests.unit.loader.tools import (
    COUNT,
    CROP,
    LABELS_ONLY,
    contents,
    damage,
    headrace_threads,
    labels,
    values_of,
    wait_until,
    write_rows,
)

import headrace as hr
from headrace import Loader, ops
from headrace.errors import MissingExtraError
from headrace.frameworks.tensorflow import to_tf_dataset
from headrace.types import Padded

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None, reason="TensorFlow is not installed"),
]


@pytest.fixture(scope="module")
def tf() -> Any:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    return pytest.importorskip("tensorflow")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rows(tmp_path_factory.mktemp("tensorflow") / "x.beton")


def as_arrays(element: Any) -> list[Any]:
    """An element as the loader's batch would be."""

    def array_of(value: Any) -> Any:
        if isinstance(value, Padded):
            return Padded(*map(array_of, value))
        array = value.numpy()
        return [item.decode() for item in array] if array.dtype == object else array

    return values_of([array_of(value) for value in element])


# -- values -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("collate", ["list", "pad"])
def test_elements_have_the_values_of_the_batches(tf: Any, path: Path, collate: Any) -> None:
    options: dict[str, Any] = {"order": "random", "pipelines": {"image": CROP}, "collate": collate, "drop_last": False}
    dataset = to_tf_dataset(Loader(path, 5, **options))
    assert [as_arrays(element) for element in dataset] == contents(Loader(path, 5, **options))


def test_values_of_different_lengths_are_ragged_tensors(tf: Any, path: Path) -> None:
    options: dict[str, Any] = {"pipelines": {"image": None, "array": None}, "collate": "offsets"}
    loader = Loader(path, 5, **options)
    dataset = to_tf_dataset(loader, elements="dict")
    assert dataset.element_spec["text"] == tf.RaggedTensorSpec([5, None], tf.uint8, 1, tf.int64)
    for element, batch in zip(dataset, Loader(path, 5, **options), strict=True):
        assert list(element) == ["label", "text"]
        np.testing.assert_array_equal(element["text"].values, batch.text.values)
        np.testing.assert_array_equal(element["text"].row_splits, batch.text.offsets)


def test_lists_of_arrays_are_ragged_tensors(tf: Any, path: Path) -> None:
    def cut(labels: np.ndarray) -> list[np.ndarray]:
        return [np.full((label % 3, 2), label, np.float32) for label in labels]

    pipelines: dict[str, Any] = LABELS_ONLY | {"label": [ops.Apply(cut)]}
    dataset = to_tf_dataset(Loader(path, 5, pipelines=pipelines))
    assert dataset.element_spec == (tf.RaggedTensorSpec([5, None, 2], tf.float32, 1, tf.int64),)
    (element,) = next(iter(dataset))
    assert element.to_list() == [[], [[1, 1]], [[2, 2], [2, 2]], [], [[4, 4]]]


@pytest.mark.parametrize(("drop_last", "rows"), [(True, 5), (False, None)])
def test_the_spec_says_what_comes(tf: Any, path: Path, drop_last: bool, rows: int | None) -> None:
    loader = Loader(path, 5, pipelines={"image": CROP}, collate={"text": "pad"}, drop_last=drop_last)
    assert to_tf_dataset(loader).element_spec == (
        tf.TensorSpec([rows, 16, 16, 3], tf.uint8),
        tf.TensorSpec([rows], tf.int64),
        tf.TensorSpec([rows, 2, 3], tf.float32),
        Padded(tf.TensorSpec([rows, None], tf.uint8), tf.TensorSpec([rows], tf.int64)),
    )


def test_sides_that_the_ops_do_not_fix_are_open(tf: Any, tmp_path: Path) -> None:
    rows = [(np.zeros((4 + i // 3, 5, 3), np.uint8),) for i in range(6)]  # alike in a batch, others in the next
    hr.write(tmp_path / "x.beton", rows, fields={"image": hr.Image(mode="raw")})
    dataset = to_tf_dataset(Loader(tmp_path / "x.beton", 3))
    assert dataset.element_spec == (tf.TensorSpec([3, None, None, 3], tf.uint8),)
    assert [images.shape.as_list() for (images,) in dataset] == [[3, 4, 5, 3], [3, 5, 5, 3]]
    behind = to_tf_dataset(Loader(tmp_path / "x.beton", 3, pipelines={"image": [ops.Resize(4), ops.Apply(np.float16)]}))
    assert behind.element_spec == (tf.TensorSpec([3, 4, 4, 3], tf.float16),)  # as the first batch is


def test_sizes_may_change_with_the_epoch(tf: Any, path: Path) -> None:
    pipelines: dict[str, Any] = LABELS_ONLY | {"image": [ops.RandomResizedCrop({0: 8, 1: (16, 8)})], "label": None}
    dataset = to_tf_dataset(Loader(path, 5, pipelines=pipelines))
    assert dataset.element_spec == (tf.TensorSpec([5, None, 8, 3], tf.uint8),)
    shapes = [images.shape.as_list() for (images,) in dataset.repeat(2)]
    assert shapes == [[5, 8, 8, 3]] * 7 + [[5, 16, 8, 3]] * 7


def test_every_field_has_a_type(tf: Any, tmp_path: Path) -> None:
    write_all_fields(tmp_path / "all.beton")
    pipelines: dict[str, Any] = {"raw": [ops.Resize(4)], "jpg": [ops.Resize(4)]}
    with pytest.raises(ValueError, match="TensorFlow has no type for the output 'doc', values of Python such as"):
        to_tf_dataset(Loader(tmp_path / "all.beton", 4, pipelines=pipelines))
    loader = Loader(tmp_path / "all.beton", 4, pipelines=pipelines, collate={"doc": "offsets"})
    spec = to_tf_dataset(loader, elements="dict").element_spec
    assert (spec["text"], spec["blob"]) == (tf.TensorSpec([4], tf.string), tf.TensorSpec([4], tf.string))
    assert isinstance(spec["doc"], tf.RaggedTensorSpec)
    element = next(iter(to_tf_dataset(loader, elements="dict")))
    assert element["blob"].numpy().tolist() == loader[0].blob


# -- memory -------------------------------------------------------------------------------------------------------


def test_tensors_lie_on_the_memory_of_the_loader(tf: Any, tmp_path: Path) -> None:
    rows = [(np.full((80, 80, 3), i, np.uint8), i) for i in range(80)]
    hr.write(tmp_path / "x.beton", rows, fields={"image": hr.Image(mode="raw"), "label": hr.Int()})
    seen: dict[int, int] = {}

    def note(images: np.ndarray) -> np.ndarray:
        seen[int(images[0, 0, 0, 0])] = images.ctypes.data
        return images

    pipelines = {"image": [ops.Resize(64), ops.Apply(note)], "label": None}
    dataset = to_tf_dataset(Loader(tmp_path / "x.beton", 8, pipelines=pipelines, batches_ahead=1))
    kept = []
    for number, (images,) in enumerate(dataset):
        assert np.asarray(memoryview(images)).ctypes.data == seen[8 * number]
        kept.append(images)
    for number, images in enumerate(kept):  # and none was overwritten
        assert images.numpy()[:, 0, 0, 0].tolist() == [8 * number + i for i in range(8)]


# -- epochs -------------------------------------------------------------------------------------------------------


def test_each_pass_is_an_epoch(tf: Any, path: Path) -> None:
    options: dict[str, Any] = {"order": "random", "pipelines": LABELS_ONLY}
    loader, expected = Loader(path, 5, **options), Loader(path, 5, **options)
    dataset = to_tf_dataset(loader)
    assert len(dataset) == len(loader) == 7
    epochs = [labels(expected) for _ in range(4)]
    assert [label.numpy().tolist() for (label,) in dataset] == epochs[0]
    assert [label.numpy().tolist() for (label,) in dataset.repeat(2)] == epochs[1] + epochs[2]
    for _ in dataset.take(1):
        pass
    assert loader.epoch == 3
    assert wait_until(lambda: not headrace_threads())  # a loop that was left early is closed


def test_a_resumed_epoch_is_as_long_as_what_is_left(tf: Any, path: Path) -> None:
    options: dict[str, Any] = {"order": "random", "pipelines": LABELS_ONLY}
    begun = Loader(path, 5, **options)
    batches = iter(begun)
    next(batches), next(batches)
    resumed = Loader(path, 5, **options)
    resumed.load_state_dict(begun.state_dict())
    dataset = to_tf_dataset(resumed)
    assert dataset.cardinality() == tf.data.UNKNOWN_CARDINALITY
    assert [label.numpy().tolist() for (label,) in dataset] == [batch.label.tolist() for batch in batches]
    assert len(list(dataset)) == 7


def test_keras_trains_on_it(tf: Any, path: Path) -> None:
    pipelines: dict[str, Any] = {"image": [*CROP, ops.Normalize([120] * 3, [60] * 3)], "array": None, "text": None}
    loader = Loader(path, 5, order="random", pipelines=pipelines)
    layers = [tf.keras.layers.Flatten(), tf.keras.layers.Dense(1)]
    model = tf.keras.Sequential([tf.keras.Input((16, 16, 3)), *layers])
    model.compile("sgd", "mse", jit_compile=False)
    history = model.fit(to_tf_dataset(loader), epochs=2, shuffle=False, verbose=0)
    assert len(history.history["loss"]) == 2
    assert loader.epoch == 2


def test_the_recipe_of_barecats_documentation_runs(tf: Any, tmp_path: Path) -> None:
    from headrace.compat import barecat

    with barecat.Barecat(str(tmp_path / "x.barecat"), readonly=False) as archive:
        for number in range(6):
            archive[f"class{number % 2}/{number}.jpg"] = image_file(picture(number, 30, 40), "JPEG")

    def make_dataset(archive_path: str) -> Any:
        bc = barecat.Barecat(archive_path, threadsafe=True)
        paths = list(bc.index.iter_all_filepaths())  # iter_all_paths, as printed there, has directories, too

        def generator() -> Any:
            for path in paths:
                yield bc[path], path.split("/")[0]

        text = tf.TensorSpec(shape=(), dtype=tf.string)
        dataset = tf.data.Dataset.from_generator(generator, output_signature=(text, text))

        def decode(data: Any, label: Any) -> Any:
            image = tf.image.resize(tf.io.decode_jpeg(data, channels=3), [16, 16])
            return tf.cast(image, tf.float32) / 255.0, label

        return dataset.map(decode, num_parallel_calls=tf.data.AUTOTUNE)

    images, labels = next(iter(make_dataset(str(tmp_path / "x.barecat")).batch(6)))
    assert images.shape == (6, 16, 16, 3)
    assert sorted(labels.numpy().tolist()) == [b"class0"] * 3 + [b"class1"] * 3


# -- what goes wrong ----------------------------------------------------------------------------------------------


def test_an_error_of_the_loader_arrives(tf: Any, path: Path, tmp_path: Path) -> None:
    bad = damage(path, tmp_path / "bad.beton", images=[22])
    dataset = to_tf_dataset(Loader(bad, 5, pipelines={"image": CROP}))
    with pytest.raises(tf.errors.OpError, match=r"bad.beton: sample 22, field 'image'"):
        list(dataset)
    gc.collect()
    assert wait_until(lambda: not headrace_threads())
    skipping = Loader(bad, 5, pipelines={"image": CROP}, on_error="skip")
    assert sum(len(label) for _, label, *_ in to_tf_dataset(skipping)) == COUNT // 5 * 5
    assert [error.sample for error in skipping.errors] == [22]


def test_loaders_that_do_not_fit_are_told_at_once(tf: Any, path: Path) -> None:
    loader = Loader(path, 5, pipelines=LABELS_ONLY)
    object.__setattr__(loader.options, "framework", "jax")
    with pytest.raises(ValueError, match=r"takes a loader of numpy arrays, and its framework is 'jax'"):
        to_tf_dataset(loader)
    with pytest.raises(ValueError, match="elements must be 'tuple' or 'dict', got 'list'"):
        to_tf_dataset(Loader(path, 5, pipelines=LABELS_ONLY), elements="list")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="has no batches, so nothing is known of their types"):
        to_tf_dataset(Loader(path, 5, pipelines=LABELS_ONLY, indices=[], drop_last=False))

    def pictures(labels: np.ndarray) -> list[np.ndarray]:
        return [np.zeros((2 + label % 2, 3 + label % 2, 3), np.uint8) for label in labels]

    with pytest.raises(ValueError, match=r"'label': .* only their first axes differ.*collate={'label': 'pad'}"):
        to_tf_dataset(Loader(path, 5, pipelines=LABELS_ONLY | {"label": [ops.Apply(pictures)]}))


def test_tensorflow_that_is_not_installed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    with pytest.raises(MissingExtraError, match=r"to_tf_dataset\(\) needs the 'tensorflow' .*headrace\[tensorflow\]"):
        to_tf_dataset(Loader(path, 5, pipelines=LABELS_ONLY))
