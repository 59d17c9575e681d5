"""TFRecord files: records, Examples of every kind, what is damaged, what is hostile."""

from __future__ import annotations

import gzip
import json
import multiprocessing
import pickle
import shutil
import struct
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import headrace as hr
from headrace import _native
from headrace.errors import CorruptSampleError, FormatError, HeadraceError, WriteError
from headrace.formats.open import find_format
from headrace.formats.tfrecord.features import ByteLists
from headrace.types import Dataset, missing_members

if TYPE_CHECKING:
    from headrace.formats.tfrecord import TfrecordDataset

GOLDEN = Path(__file__).parents[2] / "golden" / "formats"
TRUTH = [json.loads(str(text)) for text in np.load(GOLDEN / "truth.npy")]
JPEGS = [(GOLDEN / "truth" / f"{one['key']}.jpg").read_bytes() for one in TRUTH]


def varint(number: int) -> bytes:
    out = b""
    while number >= 0x80:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def feature(kind: int, *values: bytes) -> bytes:
    return field(kind, b"".join(field(1, value) for value in values))


def features(items: list[tuple[str, bytes]], number: int = 1) -> bytes:
    return field(number, b"".join(field(1, field(1, name.encode()) + field(2, value)) for name, value in items))


def floats(*values: float) -> bytes:
    return feature(2, struct.pack(f"<{len(values)}f", *values))


def ints(*values: int) -> bytes:
    return feature(3, b"".join(varint(value % 2**64) for value in values))


def masked(data: bytes) -> bytes:
    value = _native.crc32c(data)
    return struct.pack("<I", ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def framed(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + masked(length) + data + masked(data)


def make(path: Path, records: list[bytes]) -> Path:
    path.write_bytes(b"".join(map(framed, records)))
    return path


@pytest.mark.parametrize("name", ["examples.tfrecord", "examples.tfrecord.gz", "examples.zlib.tfrecord"])
def test_golden(name: str) -> None:
    dataset = hr.open(GOLDEN / name)
    assert not missing_members(dataset, Dataset)
    kinds = {name: one.kind for name, one in dataset.schema.items()}
    assert kinds == {
        "image/encoded": "image",
        "caption": "text",
        "image/class/label": "int",
        "score": "float",
        "box": "ndarray",
    }
    assert dataset.read_bytes(range(20), "image/encoded") == JPEGS
    for sample, truth in zip(dataset, TRUTH, strict=True):
        assert sample["image/class/label"] == truth["label"]
        assert sample.caption == truth["caption"]
        assert sample.score == np.float32(truth["score"])
        assert sample.box.tolist() == np.float32(truth["box"]).tolist()
    report = dataset.verify(decode=True)
    assert (report.ok, report.checksums_checked, report.images_decoded) == (True, 20, 20)


ALL: dict[str, tuple[Any, Any]] = {
    "n": (hr.Int(), -(2**63)),
    "x": (hr.Float(), 1.5),
    "image": (hr.Image(), JPEGS[0]),
    "raw": (hr.Image(mode="raw"), np.arange(60, dtype=np.uint8).reshape(4, 5, 3)),
    "data": (hr.Bytes(), b"\0\xff"),
    "text/one": (hr.Text(), "zwölf"),
    "meta": (hr.Json(), {"a": [1, None]}),
    "a": (hr.NDArray("int64", (2, 3)), np.array([[0, 1, -1], [2**40, -(2**63), 2**63 - 1]])),
    "b": (hr.NDArray("float32", (2, 2)), np.float32([[1, 2], [3, 4]])),
    "c": (hr.NDArray("uint8", (3,)), np.uint8([1, 2, 3])),
}


@pytest.mark.parametrize("ending", [".tfrecord", ".tfrecords.gz"])
def test_round_trip(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"x{ending}"
    fields = {name: kind for name, (kind, _) in ALL.items()}
    sample = {name: value for name, (_, value) in ALL.items()}
    options = {"class_names": {"n": ["cat", "dog"]}, "metadata": {"made": "here"}}
    hr.write(path, [sample] * 3, fields=fields, names=["p", "q", "r"], **options)
    dataset = hr.open(path)
    assert list(dataset.schema) == list(fields)
    assert dict(dataset.schema) == fields
    assert (list(dataset.keys or ()), dataset.class_names) == (["p", "q", "r"], options["class_names"])
    assert dataset.metadata == {"made": "here"}  # type: ignore[attr-defined]
    found = dict(dataset["q"])
    assert dataset.read_bytes([1], "image") == [JPEGS[0]]
    assert np.array_equal(found.pop("raw"), sample["raw"])
    for name, value in found.items():
        if name != "image":
            assert np.array_equal(value, sample[name]), name
    assert dataset.verify(decode=True).ok
    alone = hr.open(path, annex=False)
    assert [one.kind for one in alone.schema.values()][:4] == ["int", "float", "image", "image"]
    assert alone[0].a.shape == (6,)
    assert alone[0].c.tolist() == [1, 2, 3]


def test_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "x.tfrecord"
    hr.write(path, [], fields={"n": hr.Int(), "t": hr.Text()})
    dataset = hr.open(path)
    assert (len(dataset), list(dataset.schema)) == (0, ["n", "t"])
    assert dataset.read_values(np.empty(0, np.int64), "n").shape == (0,)  # type: ignore[union-attr]
    assert list(hr.open(path, annex=False).schema) == ["data"]


def test_what_a_file_cannot_hold(tmp_path: Path) -> None:
    with pytest.raises(WriteError, match="too large for a float of 32 bits"):
        hr.write(tmp_path / "x.tfrecord", [(1e300,)], fields={"x": hr.Float()})
    with pytest.raises(ValueError, match="do not pass annex=False"):
        hr.write(tmp_path / "x.tfrecord", [(1,)], fields={"x": hr.Int()}, annex=False, metadata=1)
    with pytest.raises(ValueError, match="names are kept in the annex"):
        hr.write(tmp_path / "x.tfrecord", [(1,)], fields={"x": hr.Int()}, annex=False, names=["a"])
    assert list(tmp_path.iterdir()) == []


def test_columns_of_all_shapes(tmp_path: Path) -> None:
    rows = [
        features(
            [("one", ints(3)), ("two", floats(1, 2)), ("many", ints(*range(i))), ("tags", feature(1, *[b"t"] * i))]
        )
        for i in range(3)
    ]
    dataset = hr.open(make(tmp_path / "x.tfrecord", rows))
    assert {name: one.kind for name, one in dataset.schema.items()} == {
        "one": "int",
        "two": "ndarray",
        "many": "json",
        "tags": "json",
    }
    assert [sample.many for sample in dataset] == [[], [0], [0, 1]]
    assert [sample.tags for sample in dataset] == [[], ["t"], ["t", "t"]]
    assert dataset[2].two.tolist() == [1, 2]
    assert dataset.read_bytes([2], "many") == [b"[0, 1]"]
    assert dataset.read_ragged(np.array([2]), "many").values.tobytes() == b"[0, 1]"


def test_features_that_are_missing_or_empty(tmp_path: Path) -> None:
    rows = [features([("a", ints(1))]), features([("b", feature(1, b"x")), ("c", b"")]), b""]
    dataset = hr.open(make(tmp_path / "x.tfrecord", rows))
    assert [dict(sample) for sample in dataset] == [
        {"a": [1], "b": [], "c": []},
        {"a": [], "b": ["x"], "c": []},
        {"a": [], "b": [], "c": []},
    ]


def test_other_encodings_of_the_same(tmp_path: Path) -> None:
    unpacked = field(3, b"\x08\x01\x08" + varint(2**64 - 2))  # two values, each with a tag
    mixed = field(3, b"\x08\x01") + field(3, field(1, varint(2**64 - 2)))  # two lists, which are joined
    fixed = field(2, b"\x0d" + struct.pack("<f", 0.5) + b"\x0d" + struct.pack("<f", 2))
    other_first = feature(1, b"gone") + floats(0.5, 2)  # one of: the last one counts
    unknown = b"\x98\x06\x05" + field(77, b"?") + b"\xa1\x06" + bytes(8) + b"\xa5\x06" + bytes(4)
    rows = [
        features([("i", ints(1, -2)), ("f", floats(0.5, 2))]),
        unknown + features([("f", fixed), ("i", unpacked)]) + unknown,
        features([("i", ints(9, 9)), ("f", other_first + unknown), ("i", mixed)]),  # the last i counts
        features([("i", ints(1, -2))]) + features([("f", floats(0.5, 2))]),  # messages that come twice are joined
    ]
    dataset = hr.open(make(tmp_path / "x.tfrecord", rows))
    assert dataset.read_values(np.arange(4), "i").tolist() == [[1, -2]] * 4  # type: ignore[union-attr]
    assert dataset.read_values(np.arange(4), "f").tolist() == [[0.5, 2]] * 4  # type: ignore[union-attr]


def test_sequence_examples(tmp_path: Path) -> None:
    def sequence(lists: list[tuple[str, list[bytes]]]) -> bytes:
        entries = [(name, b"".join(field(1, step) for step in steps)) for name, steps in lists]
        return features([("id", ints(7)), ("x", ints(1))]) + features(entries, 2)

    rows = [
        sequence([("x", [ints(i)] * 2), ("words", [feature(1, b"w")] * i), ("pairs", [floats(1, 2), floats(i)])])
        for i in range(3)
    ]
    dataset = hr.open(make(tmp_path / "x.tfrecord", rows))
    assert list(dataset.schema) == ["id", "x", "feature_lists/x", "words", "pairs"]
    sample = dataset[2]
    assert (sample.id, sample["feature_lists/x"].tolist(), sample.words) == (7, [2, 2], ["w", "w"])
    assert sample.pairs == [[1.0, 2.0], [2.0]]
    assert dataset[0].words == []


def test_lists_of_bytes_that_are_no_texts(tmp_path: Path) -> None:
    rows = [features([("frames", feature(1, *JPEGS[:i]))]) for i in range(3)]
    dataset = hr.open(make(tmp_path / "x.tfrecord", rows))
    assert dataset[2].frames == JPEGS[:2]
    hr.write(tmp_path / "y.tfrecord", dataset, fields=dataset.schema, annex=False)
    assert hr.open(tmp_path / "y.tfrecord")[2].frames == JPEGS[:2]
    with pytest.raises((TypeError, ValueError), match=r"ByteLists|byte_lists"):
        hr.write(tmp_path / "y.beton", dataset, fields=dataset.schema)
    assert isinstance(dataset.schema["frames"], ByteLists)


def test_records_of_any_bytes(tmp_path: Path) -> None:
    path = make(tmp_path / "x.tfrecord", [b"", b"one", json.dumps({"a": 1}).encode()])
    dataset = hr.open(path)
    assert [sample.data for sample in dataset[:2]] == [b"", b"one"]
    assert hr.open(make(tmp_path / "j.tfrecord", [b"[1]", b"2"]), decode="json")[:][1].data == 2
    with pytest.raises(FormatError, match=r"sample 1 cannot be read as a tf.train.Example.*examples=False"):
        hr.open(path, examples=True)
    golden = hr.open(GOLDEN / "examples.tfrecord", examples=False)
    assert list(golden.schema) == ["data"]
    assert len(golden[0].data) == 1898


def test_fields_and_decode(tmp_path: Path) -> None:
    rows = [features([("a", feature(1, b"[1]")), ("n", ints(1)), ("v", floats(1, 2, 3, 4))])]
    path = make(tmp_path / "x.tfrecord", rows)
    options: dict[str, Any] = {"fields": {"a": hr.Json(), "n": hr.Float(), "v": hr.NDArray("float32", (2, 2))}}
    sample = hr.open(path, **options)[0]
    assert (sample.a, sample.n, sample.v.tolist()) == ([1], 1.0, [[1, 2], [3, 4]])
    assert hr.open(path, fields={"a": hr.Bytes()})[0].a == b"[1]"
    assert hr.open(path, decode={"a": "json"})[0].a == [1]
    for name, wrong in {"n": hr.Text(), "v": hr.NDArray("float32", (3,)), "a": None}.items():
        if wrong is not None:
            with pytest.raises(ValueError, match=rf"fields\['{name}'\]"):
                hr.open(path, fields={name: wrong})
    with pytest.raises(ValueError, match="has no field q"):
        hr.open(path, fields={"q": hr.Int()})
    with pytest.raises(ValueError, match="allow_pickle"):
        hr.open(path, decode={"a": "pickle"})


def test_values_of_two_kinds(tmp_path: Path) -> None:
    rows = [features([("a", ints(1))]), features([("a", ints(1))]), features([("a", floats(1))])]
    with pytest.raises(FormatError, match=r"feature 'a' has values of more than one kind: those of sample 2"):
        hr.open(make(tmp_path / "x.tfrecord", rows))


def test_a_damaged_record_leaves_the_others(tmp_path: Path) -> None:
    path = tmp_path / "x.tfrecord"
    data = bytearray((GOLDEN / "examples.tfrecord").read_bytes())
    offsets = hr.open(GOLDEN / "examples.tfrecord").indexed.index.offsets  # type: ignore[attr-defined]
    data[int(offsets[0, 0]) + 3] ^= 0xFF  # the message cannot be read any more
    data[int(offsets[7, 1]) + 500] ^= 1  # in the middle of a picture
    path.write_bytes(data)
    dataset = hr.open(path)
    assert dataset[1].caption == TRUTH[1]["caption"]
    for bad in (0, 7):
        with pytest.raises(CorruptSampleError, match=rf"sample {bad}, field .*its record is damaged: checksum"):
            _ = dataset[bad]
    with pytest.raises(CorruptSampleError, match="sample 7"):
        dataset.image_spans(np.array([3, 7]), "image/encoded")
    with pytest.raises(CorruptSampleError, match="sample 7"):
        dataset.read_ragged(np.array([3, 7]), "image/encoded")
    with pytest.raises(CorruptSampleError, match="sample 7"):
        dataset.read_values(np.array([3, 7]), "image/class/label")
    assert dataset.with_checksums(False).read_values(np.array([7]), "image/class/label").tolist() == [TRUTH[7]["label"]]  # type: ignore[union-attr]
    report = dataset.verify()
    assert report.bad_samples == (0, 7)
    with pytest.raises(FormatError, match="do not fit 2 samples"):
        hr.index(path)


@pytest.mark.parametrize(
    ("cut", "problem"), [(5, "begins with 12 bytes"), (13, "announced"), (30, "announced"), (-1, "announced")]
)
def test_truncated(tmp_path: Path, cut: int, problem: str) -> None:
    first = framed(b"one")
    path = tmp_path / "x.tfrecord"
    path.write_bytes(first + framed(b"t" * 30)[:cut])
    with pytest.raises(FormatError, match=rf"{problem}.*1 record before it could be read \(at byte {len(first)}\)"):
        hr.open(path)


def test_lengths_that_lie(tmp_path: Path) -> None:
    for number in (2**64 - 1, 2**63, 2**40):
        length = struct.pack("<Q", number)
        path = tmp_path / "x.tfrecord"
        path.write_bytes(length + masked(length) + bytes(100))
        with pytest.raises(FormatError, match="are announced"):
            hr.open(path)
    path.write_bytes(struct.pack("<Q", 4) + bytes(100))
    with pytest.raises(FormatError, match="the length of a record has the checksum"):
        hr.open(path)


@pytest.mark.parametrize(
    "bad",
    [
        features([("a", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")]),  # a length beyond all
        features([("a", b"\x0a\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01")]),  # a number of eleven bytes
        features([("a", field(2, field(1, b"abc")))]),  # no whole floats
        features([("a", field(3, field(1, b"\x80")))]),  # a number that does not end
        features([("a", b"\x0b\x0c")]),  # a group
        field(1, field(1, field(1, b"a") + field(2, ints(1)) + field(2, ints(1)))),  # two values
        b"\x00\x01",  # field 0
    ],
)
def test_messages_that_lie(tmp_path: Path, bad: bytes) -> None:
    rows = [features([("a", feature(1, b"x"))]), bad]
    with pytest.raises(FormatError, match=r"sample 1 cannot be read as a tf.train.Example"):
        hr.open(make(tmp_path / "x.tfrecord", rows))


def test_numbers_of_too_many_bits_are_found_when_they_are_read(tmp_path: Path) -> None:
    rows = [features([("a", field(3, field(1, b"\xff" * 10 + b"\x01")))])]
    dataset = hr.open(make(tmp_path / "x.tfrecord", rows))
    with pytest.raises(CorruptSampleError, match="sample 0, field 'a'"):
        _ = dataset[0]


def test_too_many_features_for_their_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.formats.tfrecord.scan._LEAST_CELLS", 1000)
    rows = [features([(f"f{i}", ints(1))]) for i in range(100)]
    with pytest.raises(FormatError, match="too many features"):
        hr.open(make(tmp_path / "x.tfrecord", rows))
    rows = [features([(f"f{i}", ints(1)) for i in range(1100)])]
    with pytest.raises(FormatError, match="too many features"):
        hr.open(make(tmp_path / "x.tfrecord", rows))


@pytest.mark.parametrize("name", ["../x", "a//b", "a\x1b[31m", ""])
def test_hostile_names(tmp_path: Path, name: str) -> None:
    with pytest.raises(FormatError, match=r"no field can be called that|the same name, or none"):
        hr.open(make(tmp_path / "x.tfrecord", [features([(name, ints(1))])]))


@pytest.mark.parametrize("name", ["x.tfrecord-00000-of-00010", "x.data", "x.tfrecords"])
def test_found_by_name_or_content(tmp_path: Path, name: str) -> None:
    shutil.copy(GOLDEN / "examples.tfrecord", tmp_path / name)
    assert len(hr.open(tmp_path / name)) == 20
    (tmp_path / "e.tfrecord-00000-of-00010").touch()
    assert find_format(tmp_path / "e.tfrecord-00000-of-00010").name == "tfrecord"


def test_compressed_or_not_is_seen_from_the_content(tmp_path: Path) -> None:
    shutil.copy(GOLDEN / "examples.tfrecord.gz", tmp_path / "x.tfrecord")
    shutil.copy(GOLDEN / "examples.tfrecord.gz", tmp_path / "x.data")
    assert len(hr.open(tmp_path / "x.tfrecord")) == len(hr.open(tmp_path / "x.data")) == 20
    data = bytes(0x088B1F)  # its length begins as gzip does
    assert hr.open(make(tmp_path / "y.tfrecord", [data]))[0].data == data


@pytest.mark.parametrize("wbits", [15, 9])
def test_zlib(tmp_path: Path, wbits: int) -> None:
    packer = zlib.compressobj(wbits=wbits)
    packed = packer.compress((GOLDEN / "examples.tfrecord").read_bytes()) + packer.flush()
    for name in ("x.tfrecord", "x.data"):
        (tmp_path / name).write_bytes(packed)
        dataset = hr.open(tmp_path / name)
        assert find_format(tmp_path / name).name == "tfrecord"
        assert dataset.read_bytes(range(20), "image/encoded") == JPEGS
    path = tmp_path / "x.tfrecord"
    hr.index(path)
    assert hr.open(path).has_checksums
    assert hr.verify(path).ok
    twice = tmp_path / "twice.tfrecord"
    twice.write_bytes(packed + packed)
    assert len(hr.open(twice)) == 40
    for cut in (len(packed) // 2, len(packed) - 1):
        twice.write_bytes(packed[:cut])
        with pytest.raises(FormatError, match=r"cannot be unpacked by zlib .*end-of-stream"):
            hr.open(twice)
    twice.write_bytes(packed[:-1] + bytes([packed[-1] ^ 1]))
    with pytest.raises(FormatError, match=r"cannot be unpacked by zlib"):
        hr.open(twice)


def test_what_only_looks_like_zlib(tmp_path: Path) -> None:
    data = bytes(0x9C78)  # its length begins as zlib does
    path = make(tmp_path / "x.tfrecord", [data])
    assert hr.open(path)[0].data == data
    damaged = bytearray(path.read_bytes())
    damaged[9] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(FormatError, match="the length of a record has the checksum"):
        hr.open(path)
    path.write_bytes(zlib.compress(b""))
    assert len(hr.open(path)) == 0


def test_zlib_packs_much_into_little(tmp_path: Path) -> None:
    path = tmp_path / "x.tfrecord"
    record = bytes(5 << 20)
    path.write_bytes(zlib.compress(framed(record)))  # more comes out than fits into a piece
    assert hr.open(path)[0].data == record
    with pytest.raises(FormatError, match="max_unpacked_bytes"):
        hr.open(path, max_unpacked_bytes=1 << 20)


def _checksums_of(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Those of the annex, and those of what lies at its places."""
    indexed = hr.open(path).indexed  # type: ignore[attr-defined]
    index = indexed.index
    places = index.offsets.reshape(-1), index.sizes.reshape(-1)
    return indexed.checksums(), _native.crc32c_spans(indexed.file.mapped, *places).reshape(index.offsets.shape)


def test_checksums_are_made_in_the_pass_that_finds_the_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [features([("t", feature(1, bytes([i % 256]) * 50)), ("n", ints(i))]) for i in range(1500)]
    records.append(features([("t", feature(1, b"two", b"values")), ("late", floats(1.0))]))
    examples = make(tmp_path / "examples.tfrecord", records)
    plain = make(tmp_path / "plain.tfrecord", [b"\xff" * i for i in range(1100)])
    seen: list[tuple[int, int | None, int]] = []
    with monkeypatch.context() as patch:
        patch.setattr(_native, "crc32c_spans", None)  # no second pass
        for path in (examples, plain):
            hr.index(path, progress=lambda *about: seen.append(about))
    for path in (examples, plain):
        found, expected = _checksums_of(path)
        assert np.array_equal(found, expected)
        assert len(np.unique(found[:, 0])) > 1000
        assert hr.verify(path).ok
    assert seen[0][1] is None
    assert any(16 < done < 1100 for done, total, _ in seen if total is None)
    assert seen[-1][:2] == (1100, 1100)


def test_no_checksums_are_made_of_what_is_damaged(tmp_path: Path) -> None:
    for name, record in (("a", features([("n", ints(5))])), ("b", b"\xff" * 100)):
        path = make(tmp_path / f"{name}.tfrecord", [record] * 2000)
        data = bytearray(path.read_bytes())
        data[-5] ^= 1  # of the last record; as a number or as bytes it is as good as another
        path.write_bytes(data)
        with pytest.raises(FormatError, match="do not fit 1 sample"):
            hr.index(path)
        assert not path.with_name(f"{path.name}.annex").exists()


def test_samples_before_a_bad_one_come_first(tmp_path: Path) -> None:
    path = make(tmp_path / "x.tfrecord", [b"\xff" * 100] * 10)
    data = bytearray(path.read_bytes())
    data[116 * 6 + 50] ^= 1
    path.write_bytes(data)
    samples = iter(hr.open(path))
    assert [next(samples).data for _ in range(6)] == [b"\xff" * 100] * 6
    with pytest.raises(CorruptSampleError, match="sample 6"):
        next(samples)


def test_index_and_annex(tmp_path: Path) -> None:
    path = tmp_path / "x.tfrecord"
    shutil.copy(GOLDEN / "examples.tfrecord", path)
    hr.index(path, names=[str(i) for i in range(20)])
    dataset = hr.open(path)
    spans = dataset.image_spans(np.array([4, 1]), "image/encoded")
    assert spans.tile_indices is not None
    assert spans.checksums is not None
    assert dataset["4"].caption == TRUTH[4]["caption"]
    assert dataset.verify(decode=True).ok
    with open(path, "r+b") as file:
        file.seek(int(dataset.indexed.index.offsets[9, 1]) + 100)  # type: ignore[attr-defined]
        file.write(b"XX")
    with pytest.raises(CorruptSampleError, match="sample 9"):
        _ = dataset[9]
    assert dataset.verify().bad_samples == (9,)


@pytest.mark.parametrize("cold", [True, False])
def test_cold_and_warm_reads_are_the_same(cold: bool) -> None:
    dataset = hr.open(GOLDEN / "examples.tfrecord", cold=cold)
    assert dataset.read_bytes([3, 3, 0], "image/encoded") == [JPEGS[3], JPEGS[3], JPEGS[0]]
    assert dataset.read_values(np.array([5, 2]), "score").tolist() == [  # type: ignore[union-attr]
        np.float32(TRUTH[i]["score"]) for i in (5, 2)
    ]
    assert dataset.image_spans(np.array([5, 2]), "image/encoded").widths.all()


def _caption(dataset: TfrecordDataset) -> str:
    return str(dataset[3].caption)


@pytest.mark.parametrize("name", ["examples.tfrecord", "examples.tfrecord.gz"])
def test_threads_and_processes(name: str) -> None:
    dataset = hr.open(GOLDEN / name)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda i: dataset[i % 20].caption, range(200)))
    assert found == [TRUTH[i % 20]["caption"] for i in range(200)]
    assert pickle.loads(pickle.dumps(dataset))[3].caption == TRUTH[3]["caption"]
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(_caption, (dataset,)) == TRUTH[3]["caption"]


def test_a_loader_reads_it(tmp_path: Path) -> None:
    from headrace import ops

    hr.write(tmp_path / "x.beton", [(one,) for one in JPEGS], fields={"image/encoded": hr.Image()})
    crop = {"image/encoded": [ops.RandomResizedCrop(32)]}
    batches = [
        next(iter(hr.Loader(hr.open(path), 20, order="random", pipelines=crop)))["image/encoded"]
        for path in (GOLDEN / "examples.tfrecord", tmp_path / "x.beton")
    ]
    assert np.array_equal(*batches)


def test_bombs(tmp_path: Path) -> None:
    path = tmp_path / "x.tfrecord.gz"
    path.write_bytes(gzip.compress(framed(bytes(1 << 20))))
    with pytest.raises(FormatError, match="max_unpacked_bytes"):
        hr.open(path, max_unpacked_bytes=1 << 19)
    assert len(hr.open(path)) == 1


def test_no_mutation_brings_anything_but_an_error(tmp_path: Path) -> None:
    good = (GOLDEN / "examples.tfrecord").read_bytes()[:6000]
    offsets = hr.open(GOLDEN / "examples.tfrecord").indexed.index.offsets[:3, 0].tolist()  # type: ignore[attr-defined]
    records = [good[at : at + int.from_bytes(good[at - 12 : at - 4], "little")] for at in offsets]
    rng = np.random.default_rng(0)
    path = tmp_path / "x.tfrecord"
    for turn in range(400):
        if turn % 2:  # the frame is right, the message is not
            parts = [bytearray(record) for record in records]
            victim = parts[rng.integers(3)]
            for _ in range(rng.integers(1, 4)):
                victim[rng.integers(60)] = rng.integers(256)
            path.write_bytes(b"".join(framed(bytes(part)) for part in parts))
        else:
            data = bytearray(good)
            for _ in range(rng.integers(1, 4)):
                data[rng.integers(len(data))] = rng.integers(256)
            path.write_bytes(data[: rng.integers(len(data))] if turn % 4 else data)
        try:
            dataset = hr.open(path)
            dataset.verify(decode=True)
            _ = dataset[:]
        except HeadraceError:
            pass
