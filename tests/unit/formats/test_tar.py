"""Tars: WebDataset's samples, plain files, what is odd and what is hostile."""

from __future__ import annotations

import io
import json
import logging
import multiprocessing
import os
import pickle
import random
import shutil
import tarfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace import _native
from headrace.codecs import jpeg
from headrace.errors import CorruptSampleError, FormatError, HeadraceError
from headrace.fields import Bytes, Float, Image, Int, Json, NDArray, Text
from headrace.formats.decodes import Coded
from headrace.formats.spans import unpacked
from headrace.formats.tar import TarDataset
from headrace.types import Dataset, missing_members

GOLDEN = Path(__file__).parents[2] / "golden" / "formats"
TRUTH = [json.loads(line) for line in np.load(GOLDEN / "truth.npy")]
FIELDS = {
    "image": Image(),
    "label": Int(),
    "caption": Text(),
    "meta": Json(),
    "box": NDArray("float32", (4,)),
    "blob": Bytes(),
    "score": Float(),
}


def make_tar(path: Path, files: dict[str, bytes] | list[tuple[Any, bytes]], **options: Any) -> Path:
    with tarfile.open(path, "w", **options) as tar:
        for name, data in files.items() if isinstance(files, dict) else files:
            info = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def samples(count: int = 12) -> list[dict[str, Any]]:
    return [
        {
            "image": jpeg.encode(np.full((20 + i, 30, 3), 9 * i, np.uint8)),
            "label": i - 3,
            "caption": f"é {i}",
            "meta": {"i": [i, None]},
            "box": np.arange(4, dtype=np.float32) / (i + 1),
            "blob": bytes(range(i)),
            "score": i / 3,
        }
        for i in range(count)
    ]


def picture(value: int) -> bytes:
    return jpeg.encode(np.full((8, 8, 3), value, np.uint8))


# What comes out


def test_golden_shards_are_as_the_truth_says() -> None:
    done = 0
    for number in range(3):
        dataset = hr.open(GOLDEN / f"wds-{number:04d}.tar")
        assert not missing_members(dataset, Dataset)
        assert dataset.schema == {
            "box.npy": NDArray("float32", (4,)),
            "cls": Int(),
            "jpg": Image(),
            "json": Json(),
            "txt": Text(),
        }
        for i, sample in enumerate(dataset):
            truth = TRUTH[done + i]
            assert (sample.cls, sample.txt, sample.json) == (truth["label"], truth["caption"], truth["meta"])
            assert sample["box.npy"].tolist() == truth["box"]
            assert dataset.read_bytes([i], "jpg") == [(GOLDEN / "truth" / f"{truth['key']}.jpg").read_bytes()]
            assert (dataset.keys or ())[i] == f"dir.x/{truth['key']}"
        done += len(dataset)
    assert done == len(TRUTH)


def test_the_golden_compressed_shard(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "headrace"):
        dataset = hr.open(GOLDEN / "wds-one.tar.gz")
    assert "unpacked whole" in caplog.text
    assert "wds-one.tar.gz" in caplog.text
    assert [sample.cls for sample in dataset] == [truth["label"] for truth in TRUTH]
    assert list(dataset.keys or ()) == [truth["key"] for truth in TRUTH]
    assert pickle.loads(pickle.dumps(dataset))[7].cls == TRUTH[7]["label"]


@pytest.mark.parametrize("ending", ["tar", "tar.gz", "tgz", "tar.bz2", "tar.xz", "tar.zst", "zip"])
def test_everything_comes_back(tmp_path: Path, ending: str) -> None:
    path, rows = tmp_path / f"x.{ending}", samples()
    names = [f"cat/{i}.x.jpg" for i in range(len(rows))]
    classes = {"label": [f"c{i}" for i in range(3)]}
    hr.write(path, rows, fields=FIELDS, names=names, class_names=classes, metadata={"a": 1})
    dataset: Any = hr.open(path)
    assert dataset.schema == FIELDS
    assert list(dataset.keys) == names
    assert (dataset.class_names, dataset.metadata) == (classes, {"a": 1})
    for i, row in enumerate(rows):
        sample = dataset[i]
        for name in ("label", "caption", "meta", "blob", "score"):
            assert sample[name] == row[name]
        assert np.array_equal(sample.box, row["box"])
        assert dataset.read_bytes([i], "image") == [row["image"]]
    assert dataset[names[5]].label == 2
    report = dataset.verify(decode=True)
    assert (report.ok, report.images_decoded) == (True, 12)
    assert report.checksums_checked >= 12 * 7


@pytest.mark.parametrize("ending", ["tar", "tar.gz", "zip"])
def test_the_same_samples_give_the_same_bytes(tmp_path: Path, ending: str) -> None:
    for name in ("a", "b"):
        hr.write(tmp_path / f"{name}.{ending}", samples(), fields=FIELDS)
    assert (tmp_path / f"a.{ending}").read_bytes() == (tmp_path / f"b.{ending}").read_bytes()


def test_without_its_annex(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    hr.write(path, samples(), fields=FIELDS, annex=False, names=[f"a.b/{i}.jpg" for i in range(12)])
    assert os.listdir(tmp_path) == ["x.tar"]
    dataset = hr.open(path)
    assert list(dataset.schema) == ["jpg", "cls", "caption.txt", "json", "npy", "blob", "score.txt"]
    assert list(dataset.keys or ())[:2] == ["a.b/0", "a.b/1"]
    assert dataset[4].cls == 1


def test_from_a_shard_to_a_shard_nothing_changes(tmp_path: Path) -> None:
    source = hr.open(GOLDEN / "wds-0001.tar")
    hr.write(tmp_path / "x.tar", source)
    copy = hr.open(tmp_path / "x.tar", annex=False)
    assert (copy.schema, list(copy.keys or ())) == (source.schema, list(source.keys or ()))
    for name in ("jpg", "txt", "box.npy"):
        assert copy.read_bytes(range(9), name) == source.read_bytes(range(9), name)


def test_raw_pictures_are_png(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 255, (5, 7, 3), np.uint8)
    hr.write(tmp_path / "x.tar", [(pixels,)], fields={"image": Image(mode="raw")})
    with tarfile.open(tmp_path / "x.tar") as tar:
        assert tar.getnames() == ["000000000.png"]
    assert np.array_equal(hr.open(tmp_path / "x.tar")[0].image, pixels)


def test_fields_with_one_ending_and_odd_names(tmp_path: Path) -> None:
    fields = {"a": Text(), "b": Text(), "Label": Int(), "x.npy": NDArray("int16", (2,))}
    names = ["../up", ".hidden", "a/../b", "a/b"]
    path = tmp_path / "x.tar"
    hr.write(path, [(str(i), "b", i, [i, i]) for i in range(4)], fields=fields, names=names)
    with tarfile.open(path) as tar:
        assert tar.getnames()[:4] == ["up.a.txt", "up.b.txt", "up.label.cls", "up.x.npy"]
        assert tar.getnames()[4::4] == ["_hidden.a.txt", "a/b.a.txt", "a/b-3.a.txt"]
    dataset = hr.open(path)
    assert (list(dataset.schema), list(dataset.keys or ())) == (list(fields), names)
    with pytest.raises(ValueError, match=r"two fields.*end in \.x"):
        hr.write(tmp_path / "y.tar", [], fields={"x": Bytes(), "X": Bytes(), "x.x": Bytes()})
    assert sorted(os.listdir(tmp_path)) == ["x.tar", "x.tar.annex"]


def test_no_samples(tmp_path: Path) -> None:
    hr.write(tmp_path / "x.tar", [], fields=FIELDS)
    dataset = hr.open(tmp_path / "x.tar")
    assert (len(dataset), dataset.schema) == (0, FIELDS)


def test_arrays_that_differ(tmp_path: Path) -> None:
    buffers = []
    for i in range(3):
        out = io.BytesIO()
        np.save(out, np.arange(i + 1))
        buffers.append(out.getvalue())
    path = make_tar(tmp_path / "x.tar", {f"{i}.npy": data for i, data in enumerate(buffers)})
    dataset = hr.open(path)
    assert dataset.schema == {"npy": Coded("npy")}
    assert dataset[2].npy.tolist() == [0, 1, 2]
    hr.write(tmp_path / "y.tar", dataset)
    assert hr.open(tmp_path / "y.tar")[2].npy.tolist() == [0, 1, 2]


# Plain files


def test_plain_files_are_a_folder_of_pictures(tmp_path: Path) -> None:
    files = {f"{name}/{i}.JPG": picture(i) for name in ("dog", "cat") for i in range(3)}
    path = make_tar(tmp_path / "x.tar", {**files, "readme.txt": b"hello", ".x/1.jpg": b"", "__MACOSX/a.jpg": b""})
    dataset = hr.open(path)
    assert list(dataset.schema) == ["image", "label"]
    assert list(dataset.keys or ()) == list(files)
    assert dataset.class_names == {"label": ["cat", "dog"]}
    assert [sample.label for sample in dataset] == [1, 1, 1, 0, 0, 0]
    hr.index(path)
    again = hr.open(path)
    assert again.has_checksums
    assert (again.schema, again.class_names) == (dataset.schema, dataset.class_names)
    assert again.verify(decode=True).ok


def test_checksums_are_made_in_the_pass_that_finds_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {f"{i:04}.{end}": f"{i}".encode() * 300 * (end == "txt") for i in range(600) for end in ("txt", "bin")}
    path = make_tar(tmp_path / "x.tar", {**files, "left-out": b"?"})
    seen: list[tuple[int, int | None, int]] = []
    with monkeypatch.context() as patch:
        patch.setattr(_native, "crc32c_spans", None)  # no second pass
        hr.index(path, progress=lambda *about: seen.append(about))
    dataset: Any = hr.open(path)
    index = dataset.indexed.index
    expected = _native.crc32c_spans(dataset.indexed.file.mapped, index.offsets.reshape(-1), index.sizes.reshape(-1))
    assert dataset.indexed.checksums().reshape(-1).tolist() == expected.tolist()
    assert dataset.verify().ok
    assert 0 < seen[0][2] < path.stat().st_size
    assert seen[-1] == (600, 600, path.stat().st_size)


def test_options_that_there_are_not(tmp_path: Path) -> None:
    path = make_tar(tmp_path / "x.tar", {"a.txt": b"x"})
    with pytest.raises(TypeError, match=r"no option 'grouped'; the options are .*group"):
        hr.open(path, grouped=True)


def test_group_and_decode_say_otherwise(tmp_path: Path) -> None:
    path = make_tar(tmp_path / "x.tar", {f"a/{i}.{end}": b"1" for i in range(3) for end in ("txt", "cls")})
    assert list(hr.open(path).schema) == ["txt", "cls"]
    hr.index(path)
    plain = hr.open(path, group=False)
    assert (len(plain), list(plain.schema)) == (6, ["bytes", "label"])
    assert not plain.has_checksums
    assert list(hr.open(path, group=True).schema) == ["txt", "cls"]
    raw = hr.open(path, decode="bytes")
    assert (len(raw), list(raw.schema), raw[0].bytes) == (6, ["bytes"], b"1")
    assert hr.open(path, fields={"cls": Text()})[0].cls == "1"
    binary = make_tar(tmp_path / "y.tar", {f"{i}.{end}": b"[1]" for i in range(3) for end in ("bin", "x")})
    assert hr.open(binary, decode={"bin": "json"})[1].bin == [1]
    assert hr.open(binary, decode="json")[1].x == [1]
    with pytest.raises(ValueError, match="allow_pickle"):
        hr.open(binary, decode="pickle")


def test_classes_that_are_words_are_text(tmp_path: Path) -> None:
    path = make_tar(tmp_path / "x.tar", {"1.cls": b"cat", "2.cls": b"7"})
    assert [sample.cls for sample in hr.open(path)] == ["cat", "7"]


# What is odd about tars


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_names_of_every_kind(tmp_path: Path, form: int) -> None:
    names = ["a.txt", "d" * 80 + "/" + "e" * 60 + "/b.txt", "./x//c.txt"]
    if form != tarfile.USTAR_FORMAT:
        names += ["é" * 90 + "/" + "f" * 120 + ".txt"]
    path = make_tar(tmp_path / "x.tar", {name: name.encode() for name in names}, format=form)
    dataset = hr.open(path, group=True)
    wanted = [name.replace("./x//", "x/").removesuffix(".txt") for name in names]
    assert list(dataset.keys or ()) == wanted
    assert [sample.txt for sample in dataset] == names


def test_pax_global_headers_and_old_tars(tmp_path: Path) -> None:
    path = make_tar(tmp_path / "x.tar", {"a.txt": b"1"}, format=tarfile.PAX_FORMAT, pax_headers={"comment": "x"})
    assert hr.open(path)[0].txt == "1"
    data = bytearray(make_tar(tmp_path / "y.tar", {"a.txt": b"1"}, format=tarfile.USTAR_FORMAT).read_bytes())
    data[156] = 0
    data[257:512] = bytes(255)
    data[148:156] = b" " * 8
    data[148:156] = b"%06o\0 " % sum(data[:512])
    (tmp_path / "y.tar").write_bytes(data)
    assert hr.open(tmp_path / "y.tar")[0].txt == "1"


def test_what_is_no_file_is_left_out_and_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def special(name: str, kind: bytes) -> tarfile.TarInfo:
        info = tarfile.TarInfo(name)
        info.type, info.linkname = kind, "a.txt"
        return info

    members: list[tuple[Any, bytes]] = [("a.txt", b"1"), (special("d", tarfile.DIRTYPE), b"")]
    kinds = {"l": tarfile.SYMTYPE, "h": tarfile.LNKTYPE, "p": tarfile.FIFOTYPE, "c": tarfile.CHRTYPE}
    members += [(special(f"{name}.txt", kind), b"") for name, kind in kinds.items()]
    members += [(special("s.txt", tarfile.GNUTYPE_SPARSE), b"x" * 600), ("b.txt", b"2")]
    path = make_tar(tmp_path / "x.tar", members)
    dataset = hr.open(path)
    assert [sample.txt for sample in dataset] == ["1", "2"]
    for word in ("2 members left out, a link", "a device", "a pipe", "sparse"):
        assert word in caplog.text


def test_two_tars_in_one_file_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    one = make_tar(tmp_path / "x.tar", {"a.txt": b"1"}).read_bytes()
    (tmp_path / "x.tar").write_bytes(one[:2048] + make_tar(tmp_path / "y.tar", {"b.txt": b"2"}).read_bytes())
    assert len(hr.open(tmp_path / "x.tar")) == 1
    assert "another tar" in caplog.text


def test_nested_tars_are_bytes(tmp_path: Path) -> None:
    inner = make_tar(tmp_path / "in.tar", {"a.txt": b"1"}).read_bytes()
    path = make_tar(tmp_path / "x.tar", {"a.tar": inner, "b.tar": inner})
    assert hr.open(path)[1].tar == inner


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([("a.txt", b"1"), ("a.TXT", b"2")], r"a\.TXT: its sample has a file of this ending already"),
        (
            [("a.txt", b""), ("b.txt", b""), ("a.cls", b"")],
            r"a\.cls: other files of its sample.*sort=name",
        ),
        (
            [("a.txt", b""), ("a.cls", b""), ("b.txt", b"")],
            r"sample 1 \(b\) has no .*\.cls.*In Python.*group=False.*command line.*headrace convert",
        ),
        ([("../a.txt", b"")], r"leads out of the archive.*'\.\./a\.txt'"),
        ([("/a.txt", b"")], "absolute path"),
        ([], "there are no files in it, so there are no samples. Was the right file named"),
        ([(f"a.{i}", b"") for i in range(1100)], r"more than 1024 different endings.*group=False"),
    ],
)
def test_bad_names(tmp_path: Path, files: list[tuple[Any, bytes]], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        hr.open(make_tar(tmp_path / "x.tar", files))


def test_two_plain_files_of_one_name(tmp_path: Path) -> None:
    path = make_tar(tmp_path / "x.tar", [("a/b.jpg", b""), ("a/c.jpg", b""), ("a/b.jpg", b"")])
    with pytest.raises(FormatError, match="two files of the name a/b"):
        hr.open(path, group=False)


# Damage


@pytest.mark.parametrize(
    ("cut", "message"),
    [(700, r"512 bytes.*|should be there"), (1024, "without the block of zeros"), (0, "without the block of zeros")],
)
def test_truncated(tmp_path: Path, cut: int, message: str) -> None:
    path = make_tar(tmp_path / "x.tar", {"a.txt": b"1" * 512})
    os.truncate(path, cut)
    with pytest.raises(FormatError, match=message) as caught:
        hr.open(path)
    assert caught.value.offset == cut
    assert "truncate -s +1024" in str(caught.value)


def test_a_wrong_header_checksum_names_the_byte(tmp_path: Path) -> None:
    path = make_tar(tmp_path / "x.tar", {"a.txt": b"1", "b.txt": b"2"})
    hr.index(path)
    with open(path, "r+b") as file:
        file.seek(1024 + 3)
        file.write(b"X")
    with pytest.raises(FormatError, match="checksum is wrong") as caught:
        TarDataset(path, annex=False)
    assert caught.value.offset == 1024


def test_verify_looks_at_headers_again(tmp_path: Path) -> None:
    path = make_tar(tmp_path / "x.tar", {f"{i:04}.txt": bytes(3000) for i in range(800)})
    hr.index(path)
    with open(path, "r+b") as file:
        file.seek(3584 * 333 + 3)
        file.write(b"X")
    dataset = hr.open(path)
    report = dataset.verify()
    assert [(problem.sample, "checksum is wrong" in problem.message) for problem in report.problems] == [(None, True)]


def test_a_broken_value_is_one_sample(tmp_path: Path) -> None:
    path = make_tar(tmp_path / "x.tar", {f"{i}.{end}": b"1" for i in range(40) for end in ("jpg", "cls")})
    dataset = hr.open(path)
    with pytest.raises(CorruptSampleError, match="sample 3, field 'jpg'"):
        _ = dataset[3]
    assert len(dataset.verify(decode=True).bad_samples) == 40


def test_bombs_and_broken_compression(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hr.write(tmp_path / "x.tar.gz", [(bytes(5 << 20),)], fields={"bin": Bytes()}, annex=False)
    with pytest.raises(FormatError, match="max_unpacked_bytes"):
        hr.open(tmp_path / "x.tar.gz", max_unpacked_bytes=1 << 20)
    monkeypatch.setattr(unpacked, "_FREE_BYTES", 1 << 20)
    with pytest.raises(FormatError, match="the limit"):
        hr.open(tmp_path / "x.tar.gz")
    for ending in ("tar.gz", "tar.bz2", "tar.xz", "tar.zst"):
        path = tmp_path / f"y.{ending}"
        hr.write(path, samples(), fields=FIELDS, annex=False)
        os.truncate(path, path.stat().st_size * 2 // 3)
        with pytest.raises(FormatError, match="cannot be unpacked"):
            hr.open(path)


@pytest.mark.parametrize("name", ["wds-0002.tar", "wds-one.tar.gz", "classes.zip"])
def test_mutated_files_raise_only_our_errors(tmp_path: Path, name: str) -> None:
    data = (GOLDEN / name).read_bytes()
    rng = random.Random(7)
    for _ in range(60 if name.endswith("gz") else 250):
        broken = bytearray(data)
        for _ in range(rng.choice((1, 2, 8))):
            at = rng.randrange(len(broken))
            broken[at - at % 512 + rng.randrange(512) if rng.random() < 0.5 and at < len(broken) - 1024 else at] = (
                rng.randrange(256)
            )
        if rng.random() < 0.3:
            del broken[rng.randrange(len(broken)) :]
        path = tmp_path / name
        path.write_bytes(broken)
        try:
            with hr.open(path) as dataset:
                for i in range(len(dataset)):
                    _ = dataset[i]
        except HeadraceError:
            pass


# Other processes, threads, the loader, the verbs


def _label(dataset: Any) -> int:
    return int(dataset[7].label)


@pytest.mark.parametrize("ending", ["tar", "tar.gz", "zip"])
def test_threads_fork_and_pickling(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"x.{ending}"
    hr.write(path, samples(), fields=FIELDS)
    dataset = hr.open(path)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(_label, (dataset,)) == 4
    assert pickle.loads(pickle.dumps(dataset)).fingerprint == dataset.fingerprint
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append([s.label for s in dataset])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[i - 3 for i in range(12)]] * 4


@pytest.mark.parametrize("ending", ["tar", "tar.gz", "zip"])
def test_the_loader_gives_the_same_as_from_a_beton(tmp_path: Path, ending: str) -> None:
    from headrace import ops

    def batches(name: str) -> list[Any]:
        hr.write(tmp_path / name, samples(), fields=FIELDS)
        crop = {"image": [ops.RandomResizedCrop(16)]}
        return list(hr.Loader(hr.open(tmp_path / name), 4, order="random", seed=3, pipelines=crop))

    for one, other in zip(batches(f"x.{ending}"), batches("x.beton"), strict=True):
        assert np.array_equal(one.image, other.image)
        assert np.array_equal(one.box, other.box)
        assert (list(one.label), list(one.caption)) == (list(other.label), list(other.caption))


def test_the_index_of_a_large_tar_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from headrace.formats.spans import indexed_file

    monkeypatch.setattr(indexed_file, "_WORTH_KEEPING_BYTES", 0)
    path = tmp_path / "x.tar"
    shutil.copy(GOLDEN / "wds-0000.tar", path)
    hr.open(path, group=False)
    assert os.listdir(tmp_path) == ["x.tar"]
    keys = list(hr.open(path).keys or ())
    assert sorted(os.listdir(tmp_path)) == ["x.tar", "x.tar.annex"]
    monkeypatch.setattr("headrace.formats.tar.dataset.scan_files", None)
    dataset = hr.open(path)
    assert (list(dataset.keys or ()), dataset[2].cls) == (keys, TRUTH[2]["label"])


def test_the_verbs(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    from headrace.cli.main import main

    monkeypatch.chdir(tmp_path)
    shutil.copy(GOLDEN / "wds-0000.tar", "x.tar")
    for line, word in (
        ("info x.tar", b"9 samples"),
        ("ls -l x.tar 0:2", b"dir.x/000001"),
        ("cat x.tar dir.x/000003 cls", str(TRUTH[3]["label"]).encode()),
        ("index x.tar -q", b""),
        ("verify x.tar --decode", b"9"),
        ("extract x.tar -C out -q", b""),
    ):
        assert main(line.split()) == 0, line
        assert word in capsysbinary.readouterr().out
    wanted = (GOLDEN / "truth" / "000004.jpg").read_bytes()
    assert any(path.read_bytes() == wanted for path in Path("out").rglob("*.jpg"))


def test_an_aborted_writer_leaves_nothing(tmp_path: Path) -> None:
    for ending in ("tar", "tar.zst", "zip"):
        with pytest.raises(hr.errors.WriteError):
            hr.write(tmp_path / f"x.{ending}", [("a",), (3,)], fields={"t": Text()})
    assert os.listdir(tmp_path) == []


def test_replacing_a_tar_takes_its_annex_along(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    hr.write(path, [("a",)], fields={"t": Text()})
    hr.write(path, [("b",)], fields={"t": Text()}, force=True, annex=False)
    assert os.listdir(tmp_path) == ["x.tar"]
    with pytest.raises(ValueError, match="annex=False"):
        hr.write(path, [("b",)], fields={"t": Text()}, force=True, annex=False, metadata=1)
