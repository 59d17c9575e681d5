"""The tfrecord package and TensorFlow read what we write, and the other way round."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import headrace as hr

if TYPE_CHECKING:
    from pathlib import Path

FIELDS: dict[str, Any] = {
    "image/encoded": hr.Bytes(),
    "label": hr.Int(),
    "score": hr.Float(),
    "box": hr.NDArray("float32", (4,)),
    "counts": hr.NDArray("int64", (3,)),
    "caption": hr.Text(),
}
ROWS = [
    (bytes(range(256)) * (i + 1), i - 2, i / 4, np.float32([i, 0.5, -1, 2]), np.array([i, -i, 2**40]), f"größe {i}")
    for i in range(5)
]


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    hr.write(tmp_path / "ours.tfrecord", ROWS, fields=FIELDS)
    return tmp_path / "ours.tfrecord"


def test_the_tfrecord_package_reads_ours(ours: Path) -> None:
    reader = pytest.importorskip("tfrecord.reader")
    kinds = dict(zip(FIELDS, ("byte", "int", "float", "float", "int", "byte"), strict=True))
    found = list(reader.tfrecord_loader(str(ours), None, kinds))
    assert len(found) == len(ROWS)
    for sample, row in zip(found, ROWS, strict=True):
        assert bytes(sample["image/encoded"]) == row[0]
        assert (sample["label"].tolist(), sample["score"].tolist()) == ([row[1]], [row[2]])
        assert np.array_equal(sample["box"], row[3])
        assert np.array_equal(sample["counts"], row[4])
        assert bytes(sample["caption"]).decode() == row[5]


def test_we_read_what_the_tfrecord_package_writes(tmp_path: Path) -> None:
    package = pytest.importorskip("tfrecord")
    path = tmp_path / "x.tfrecord"
    writer = package.TFRecordWriter(str(path))
    for i in range(4):
        context = {"n": (i, "int"), "name": (b"a%d" % i, "byte")}
        steps = {"v": ([[i, 2], [3, 4]], "int"), "words": ([[b"x"]] * i, "byte")}
        if i < 2:
            writer.write(context | {"list": ([1.5] * (i + 1), "float")})
        else:
            writer.write(context, steps)
    writer.close()
    dataset = hr.open(path)
    assert [sample.n for sample in dataset] == [0, 1, 2, 3]
    assert [sample.name for sample in dataset] == ["a0", "a1", "a2", "a3"]
    assert [sample.list for sample in dataset] == [[1.5], [1.5, 1.5], [], []]
    assert [sample.v for sample in dataset] == [[], [], [[2, 2], [3, 4]], [[3, 2], [3, 4]]]
    assert dataset[3].words == ["x", "x", "x"]
    assert dataset.verify().ok


def test_sequences_of_one_shape_are_arrays(tmp_path: Path) -> None:
    package = pytest.importorskip("tfrecord")
    writer = package.TFRecordWriter(str(tmp_path / "x.tfrecord"))
    for i in range(3):
        writer.write({"n": (i, "int")}, {"v": ([[i, 2, 3], [4, 5, 6]], "float")})
    writer.close()
    sample = hr.open(tmp_path / "x.tfrecord")[2]
    assert sample.v.tolist() == [[2, 2, 3], [4, 5, 6]]


@pytest.mark.frameworks
def test_tensorflow_reads_ours_and_we_read_tensorflows(ours: Path, tmp_path: Path) -> None:
    tf = pytest.importorskip("tensorflow")
    spec = {
        "image/encoded": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
        "box": tf.io.FixedLenFeature([4], tf.float32),
    }
    found = [tf.io.parse_single_example(record, spec) for record in tf.data.TFRecordDataset(str(ours))]
    assert [one["image/encoded"].numpy() for one in found] == [row[0] for row in ROWS]
    assert [int(one["label"]) for one in found] == [row[1] for row in ROWS]
    for kind in ("", "GZIP"):
        path = tmp_path / f"theirs.tfrecord{'.gz' if kind else ''}"
        with tf.io.TFRecordWriter(str(path), kind) as writer:
            for row in ROWS:
                feature = {
                    "a": tf.train.Feature(bytes_list=tf.train.BytesList(value=[row[0]])),
                    "b": tf.train.Feature(int64_list=tf.train.Int64List(value=[row[1], 7])),
                }
                writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
        dataset = hr.open(path)
        assert [sample.a for sample in dataset] == [row[0] for row in ROWS]
        assert [sample.b.tolist() for sample in dataset] == [[row[1], 7] for row in ROWS]
