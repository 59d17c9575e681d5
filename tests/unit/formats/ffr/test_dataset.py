from __future__ import annotations

import io
import json
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.helpers import picture

import headrace as hr
from headrace import ops
from headrace._native import RangeReader
from headrace.codecs import jpeg
from headrace.errors import ClosedError, CorruptSampleError, MissingExtraError
from headrace.formats.ffr import FfrDataset, FfrWriter, pack_folder
from headrace.storage import cold

if TYPE_CHECKING:
    from pathlib import Path

SAMPLES = [bytes([i]) * (i * 7) for i in range(40)]


def write(path: Path, samples: list[Any]) -> Path:
    with FfrWriter(path) as writer:
        writer.append_many(samples)
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path / "x.ffr", SAMPLES)


def test_a_sequence(path: Path) -> None:
    dataset = hr.open(path)
    assert isinstance(dataset, FfrDataset)
    assert isinstance(dataset, hr.Dataset)
    assert len(dataset) == 40
    assert dict(dataset.schema) == {"data": hr.Bytes()}
    assert dataset.keys is None
    assert dataset[3].data == SAMPLES[3]
    assert [s.data for s in dataset[[5, -1]]] == [SAMPLES[5], SAMPLES[-1]]
    assert [s.data for s in dataset[2:9:3]] == SAMPLES[2:9:3]
    assert dataset.view(4, "data").tobytes() == SAMPLES[4]
    assert "40 samples (data: bytes)" in repr(dataset)
    for bad in (40, -41):
        with pytest.raises(IndexError):
            dataset[bad]
    with pytest.raises(KeyError, match="the only field is data"):
        dataset.read_bytes([0], "image")


def test_pickled_closed_and_recognised(path: Path, tmp_path: Path) -> None:
    dataset = hr.open(path, decode="bytes", cold=True)
    other = pickle.loads(pickle.dumps(dataset))
    assert other[7].data == dataset[7].data
    assert other.fingerprint == dataset.fingerprint
    assert hr.open(write(tmp_path / "y.ffr", SAMPLES[::-1])).fingerprint != dataset.fingerprint
    with dataset:
        pass
    for call in (lambda: dataset[0], dataset.check_file, lambda: dataset.read_bytes([0], "data")):
        with pytest.raises(ClosedError):
            call()


def test_lists_and_folders(path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    write(folder / "b.ffr", SAMPLES[20:])
    write(folder / "a.ffr", SAMPLES[:20])
    (folder / "notes.txt").write_text("ignored")
    for opened in (hr.open(folder), hr.open([folder / "a.ffr", str(folder / "b.ffr")]), hr.open(folder, format="ffr")):
        assert [s.data for s in opened] == SAMPLES
        assert opened.verify().samples_checked == 40
        assert [s.data for s in pickle.loads(pickle.dumps(opened))] == SAMPLES
    with pytest.raises(FileNotFoundError):
        hr.open([folder / "a.ffr", folder / "c.ffr"])
    with pytest.raises(ValueError, match="empty list"):
        hr.open([])


def test_codecs(tmp_path: Path) -> None:
    path = write(tmp_path / "x.ffr", [json.dumps(v).encode() for v in ({"a": 1}, [2], "ä")])
    assert [s.data for s in hr.open(path, decode="json")] == [{"a": 1}, [2], "ä"]
    assert hr.open(path, decode="text")[1].data == "[2]"
    arrays = [np.arange(3), np.zeros((2, 0)), np.float32(3)]
    files = []
    for array in arrays:
        files.append(io.BytesIO())
        np.save(files[-1], array)
    found = hr.open(write(tmp_path / "x.ffr", [file.getvalue() for file in files]), decode="npy")
    assert all(
        np.array_equal(s.data, array) and s.data.dtype == array.dtype for s, array in zip(found, arrays, strict=True)
    )
    with pytest.raises(ValueError, match="decode must be one of bytes, json"):
        hr.open(path, decode="yaml")


def test_pickle_only_by_name_and_consent(tmp_path: Path) -> None:
    path = write(tmp_path / "x.ffr", [pickle.dumps({"a": {1, 2}}), b"not a pickle"])
    with pytest.raises(ValueError, match=r"runs code that the file contains.*allow_pickle=True"):
        hr.open(path, decode="pickle")
    dataset = hr.open(path, decode="pickle", allow_pickle=True)
    assert dataset[0].data == {"a": {1, 2}}
    with pytest.raises(
        CorruptSampleError, match=r"x\.ffr: sample 1, field 'data': the value cannot be decoded \(pickle"
    ):
        dataset[1]
    assert hr.open(path, allow_pickle=True)[1].data == b"not a pickle"
    objects = io.BytesIO()
    np.save(objects, np.array([object()]), allow_pickle=True)
    with pytest.raises(CorruptSampleError, match="allow_pickle=False"):
        hr.open(write(path, [objects.getvalue()]), decode="npy")[0]


def test_msgpack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "x.ffr", [b"\x81\xa1a\x01", b"\x93\x01\x02\x03", b"\xc1"])
    with monkeypatch.context() as patch:
        patch.setitem(__import__("sys").modules, "msgpack", None)
        with pytest.raises(MissingExtraError, match=r"pip install 'headrace\[msgpack\]'"):
            hr.open(path, decode="msgpack")
    pytest.importorskip("msgpack")
    dataset = hr.open(path, decode="msgpack")
    assert [dataset[0].data, dataset[1].data] == [{"a": 1}, [1, 2, 3]]
    with pytest.raises(CorruptSampleError, match="msgpack"):
        dataset[2]


def test_verify_decodes(tmp_path: Path) -> None:
    path = write(tmp_path / "x.ffr", [b"{}", b"{", b"[]"])
    assert hr.open(path, decode="json").verify().ok
    report = hr.open(path, decode="json").verify(decode=True)
    assert report.bad_samples == (1,)
    images = write(tmp_path / "y.ffr", [jpeg.encode(picture(i, 20, 30)) for i in range(3)])
    assert hr.open(images, decode="image").verify(decode=True).images_decoded == 3


# -- loader --------------------------------------------------------------------------------------------------------


def test_loader_of_bytes(path: Path) -> None:
    batches = list(hr.Loader(path, 32, drop_last=False))
    assert [value for batch in batches for value in batch.data] == SAMPLES
    padded = next(iter(hr.Loader(path, 40, collate="pad"))).data
    assert padded.lengths.tolist() == [len(s) for s in SAMPLES]
    assert padded.values[5, : 5 * 7].tobytes() == SAMPLES[5]
    joined = next(iter(hr.Loader(path, 40, collate="offsets", order="random"))).data
    assert sorted(
        joined.values[a:b].tobytes() for a, b in zip(joined.offsets, joined.offsets[1:], strict=False)
    ) == sorted(SAMPLES)


def test_the_plan_says_how_samples_are_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def plan(**options: Any) -> str:
        return hr.Loader(FfrDataset(path, **options), 4).plan().splitlines()[-1]

    queue = RangeReader(str(path), direct=True)
    past = " past the page cache" if queue.is_direct else ""  # some file systems refuse
    assert plan() == f"bytes: from the page cache, or else read by {queue.engine}"
    assert plan(cold=True) == f"bytes: read{past} by {queue.engine}"
    assert plan(cold=False) == "bytes: from the mapped file"
    monkeypatch.setattr(cold, "available_bytes", lambda: 1)
    assert plan() == f"bytes: from the page cache, or else read{past} by {queue.engine}"


def test_without_a_queue_the_plan_says_mapped(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError("none left")

    monkeypatch.setattr(cold._native, "RangeReader", refuse)
    assert hr.Loader(FfrDataset(path, cold=True), 4).plan().endswith("bytes: from the mapped file")


def test_loader_of_pictures(tmp_path: Path) -> None:
    path = write(tmp_path / "x.ffr", [jpeg.encode(picture(i, 20 + i, 30)) for i in range(8)])
    dataset = hr.open(path, decode="jpeg")
    assert dataset[2].image.shape == (22, 30, 3)
    loader = hr.Loader(dataset, 4, pipelines={"image": [ops.CenterCrop(16), ops.ToLayout("NCHW")]})
    assert [batch.image.shape for batch in loader] == [(4, 3, 16, 16)] * 2
    assert loader.state_dict()


def test_loader_meets_damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptSampleError, match="sample 39"):
        list(hr.Loader(path, 8))
    loader = hr.Loader(path, 8, on_error="skip")
    assert len([value for batch in loader for value in batch.data]) == 40
    assert [error.sample for error in loader.errors] == [39]
    assert len(list(hr.Loader(path, 8, verify=False))) == 5


def test_loader_of_a_packed_folder(tmp_path: Path) -> None:
    folder = tmp_path / "f"
    folder.mkdir()
    for i, sample in enumerate(SAMPLES):
        (folder / f"{i:02d}").write_bytes(sample)
    pack_folder(folder, tmp_path / "f.ffr")
    dataset = hr.open(tmp_path / "f.ffr")
    assert [v for batch in hr.Loader(dataset, 10) for v in batch.data] == SAMPLES
