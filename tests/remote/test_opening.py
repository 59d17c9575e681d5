"""URLs wherever a path is taken: one object, lists, patterns, folders; the verbs of the command; options of stores."""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
import subprocess
import sys
import tarfile
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.helpers import image_file

import headrace as hr
from headrace.cli.main import main
from headrace.errors import FormatError, RemoteError, UnknownFormatError
from headrace.formats.barecat import Archive

if TYPE_CHECKING:
    from pathlib import Path

    from tests.remote.conftest import Bucket
    from tests.remote.fault_proxy import FaultProxy
    from tests.remote.rclone_server import RcloneServer

COUNT = 24
FIELDS: dict[str, Any] = {"image": hr.Image(), "n": hr.Int()}
PICTURES = [
    image_file(np.random.default_rng(i).integers(0, 256, (24, 32, 3), np.uint8), "JPEG", quality=90)
    for i in range(COUNT)
]
SAMPLES = [(picture, i) for i, picture in enumerate(PICTURES)]
TABLES = ("x.beton", "x.npz", "x.parquet", "x.arrow", "x.feather", "x.tfrecord", "x.msgpack", "x.tar", "x.zip")


def opened(bucket: Bucket, name: Any, **options: Any) -> Any:
    path = bucket.url(name) if isinstance(name, str) else [bucket.url(one) for one in name]
    return hr.open(path, storage_options=bucket.storage_options, **options)


def write_shards(bucket: Bucket, count: int = 4, ending: str = "beton") -> list[str]:
    names = [f"shards/train-{i}.{ending}" for i in range(count)]
    (bucket.folder / "shards").mkdir()
    for i, name in enumerate(names):
        hr.write(bucket.folder / name, range(i * 10, i * 10 + 10), fields={"n": hr.Int()})
    return names


def listings(proxy: FaultProxy) -> list[Any]:
    return [one for one in proxy.exchanges() if one.path.count("/") == 1]  # of a bucket, and not of an object


@pytest.mark.parametrize("name", TABLES)
def test_an_object_is_read_as_its_file_is(bucket: Bucket, name: str, tmp_path: Path) -> None:
    hr.write(tmp_path / name, SAMPLES, fields=FIELDS, names=[f"s{i}" for i in range(COUNT)])
    for file in tmp_path.iterdir():
        shutil.copy(file, bucket.folder)
    rng = np.random.default_rng(0)
    with hr.open(tmp_path / name) as here, opened(bucket, name) as there:
        assert (here.is_local, there.is_local) == (True, False)
        assert here.schema == there.schema
        assert here.fingerprint == there.fingerprint
        assert (here.keys is None) == (there.keys is None)
        indices = rng.integers(0, COUNT, 17)
        for field in here.schema:
            for one, other in zip(here.read_values(indices, field), there.read_values(indices, field), strict=True):
                np.testing.assert_array_equal(one, other)
        coming = there.announce(indices, list(there.schema))
        if coming is not None:
            coming.wait()
            coming.close()
        with pickle.loads(pickle.dumps(there)) as again:
            assert again.read_bytes([3], "image" if "image" in here.schema else "jpg") == [PICTURES[3]]
    report = hr.verify(bucket.url(name), decode=True, storage_options=bucket.storage_options)
    assert report.ok
    assert report.samples_checked == COUNT


@pytest.mark.parametrize("order", ["sequential", "random", "quasi_random"])
@pytest.mark.parametrize("name", ["x.npz", "x.parquet", "x.arrow", "x.barecat"])
def test_a_loader_gives_the_same_batches(bucket: Bucket, name: str, order: Any, tmp_path: Path) -> None:
    if name == "x.barecat":
        hr.write(tmp_path / name, PICTURES, fields={"image": FIELDS["image"]})
    else:
        hr.write(tmp_path / name, SAMPLES, fields=FIELDS)
    for file in tmp_path.iterdir():
        shutil.copy(file, bucket.folder)
    options: dict[str, Any] = {"order": order, "seed": 3, "pipelines": {"image": [hr.ops.CenterCrop(16)]}}
    here = list(hr.Loader(tmp_path / name, 5, **options))
    there = list(hr.Loader(bucket.url(name), 5, storage_options=bucket.storage_options, **options))
    assert len(here) == len(there) == COUNT // 5
    for one, other in zip(here, there, strict=True):
        np.testing.assert_array_equal(one.image, other.image)


def test_a_state_goes_on_with_another_storage(bucket: Bucket, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(400).reshape(100, 4))
    shutil.copy(tmp_path / "x.npy", bucket.folder)
    os.utime(bucket.folder / "x.npy", (1, 1))
    here = hr.Loader(tmp_path / "x.npy", 10, order="random", seed=1)
    batches = iter(here)
    next(batches)
    there = hr.Loader(opened(bucket, "x.npy"), 10, order="random", seed=1)
    there.load_state_dict(here.state_dict())
    np.testing.assert_array_equal(next(iter(there)).data, next(batches).data)


def test_a_pattern_is_found_by_one_list(bucket: Bucket, proxy: FaultProxy) -> None:
    write_shards(bucket, 12)
    (bucket.folder / "shards" / "train-3.beton.annex.old").write_bytes(b"?")
    with opened(bucket, "shards/train-*.beton") as dataset:
        assert [sample.n for sample in dataset[[0, 25, 119]]] == [0, 25, 119]
        assert len(dataset) == 120
    assert len(listings(proxy)) == 1
    with opened(bucket, "**/train-[0-1].beton") as dataset:
        assert len(dataset) == 20


def test_brace_lists_and_lists_are_opened_without_a_list(bucket: Bucket, proxy: FaultProxy) -> None:
    names = write_shards(bucket)
    with opened(bucket, "shards/train-{3..0}.beton") as dataset:
        assert dataset[0].n == 30
    with opened(bucket, names) as dataset:
        assert len(dataset) == 40
    assert not listings(proxy)


def test_many_objects_are_opened_at_a_time(bucket: Bucket, proxy: FaultProxy) -> None:
    write_shards(bucket, 24)
    proxy.latency_s = 0.1
    start_s = time.monotonic()
    with opened(bucket, "shards/train-{0..23}.beton") as dataset:
        assert len(dataset) == 240
    requests = len(proxy.exchanges("train-"))
    assert time.monotonic() - start_s < 0.5 * requests * proxy.latency_s


def test_a_folder_ends_in_a_slash(bucket: Bucket) -> None:
    write_shards(bucket)
    with opened(bucket, "shards/") as dataset:
        assert len(dataset) == 40
    np.save(bucket.folder / "shards" / "x.npy", np.eye(3))
    with pytest.raises(UnknownFormatError, match=r"all files in it are of one format.*beton, npy"):
        opened(bucket, "shards/")
    with pytest.raises(FileNotFoundError, match="nothing in this folder"):
        opened(bucket, "empty/")


def test_what_is_missing_is_told_as_of_files(bucket: Bucket, tmp_path: Path) -> None:
    write_shards(bucket)
    for name in ("no.beton", "no.npy", "no.parquet", "no.arrow", "no.barecat", "no.tar", "no", "{0,1}.beton", "*.tar"):
        with pytest.raises(FileNotFoundError, match=r"no|0|\*"):
            opened(bucket, name)
    with pytest.raises(FileNotFoundError, match="train-4"):
        opened(bucket, "shards/train-{0..4}.beton")
    with pytest.raises(FileNotFoundError, match=r"no\.tar"):
        hr.convert(bucket.url("no.tar"), tmp_path / "x.beton", storage_options=bucket.storage_options)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["x.h5", "x.jsonl", "x.csv", "x.lmdb"])
def test_other_formats_say_what_to_do(bucket: Bucket, name: str) -> None:
    (bucket.folder / name).write_bytes(b"whatever")
    with pytest.raises(FormatError, match=r"cannot be read from a store.*(Copy it|convert it)"):
        opened(bucket, name)
    with pytest.raises(FormatError, match="cannot be read from a store"):
        hr.verify(bucket.url(name), storage_options=bucket.storage_options)


def test_a_name_that_lies_is_explained(bucket: Bucket) -> None:
    np.save(bucket.folder / "x.npy", np.eye(3))
    os.rename(bucket.folder / "x.npy", bucket.folder / "x.beton")
    with pytest.raises(FormatError, match=r"this is a .npy file, though its name ends in .beton"):
        opened(bucket, "x.beton")
    os.rename(bucket.folder / "x.beton", bucket.folder / "x")
    with opened(bucket, "x") as dataset:
        assert len(dataset) == 3


def test_a_web_server_gives_objects_and_no_lists(bucket: Bucket, web: RcloneServer) -> None:
    write_shards(bucket)
    with hr.open(f"{web.url}/{bucket.name}/shards/train-{{0..3}}.beton") as dataset:
        assert len(dataset) == 40
    with pytest.raises(RemoteError, match="gives no list"):
        hr.open(f"{web.url}/{bucket.name}/shards/train-*.beton")


def test_the_options_are_checked(bucket: Bucket, tmp_path: Path) -> None:
    write_shards(bucket)
    for wrong in ({"cache_size": "1G"}, {"cache_dir": tmp_path, "cache_size": "much"}):
        with pytest.raises(ValueError, match="cache_"):
            opened(bucket, "shards/train-0.beton", **wrong)
    with pytest.raises(TypeError, match="storage_options"):
        hr.open(bucket.url("shards/train-0.beton"), storage_options=["a"])  # type: ignore[arg-type]
    with hr.open(bucket.folder / "shards" / "train-0.beton", storage_options={"region": "x"}) as dataset:
        assert len(dataset) == 10
    with hr.open(f"file://{bucket.folder}/shards/train-0.beton") as dataset:
        assert len(dataset) == 10


# Archives


def write_archive(bucket: Bucket) -> None:
    with Archive(bucket.folder / "x.barecat", "x", shard_size=4000) as archive:
        for i in range(COUNT):
            archive[f"{'ab'[i % 2]}/{i}.jpg"] = PICTURES[i]
        archive["empty.txt"] = b""


def test_an_archive_is_read_and_not_changed(bucket: Bucket) -> None:
    write_archive(bucket)
    with opened(bucket, "x.barecat") as dataset, hr.open(bucket.folder / "x.barecat") as local:
        assert dataset.keys == local.keys
        assert dataset.read_bytes(range(COUNT), "image") == local.read_bytes(range(COUNT), "image")
        url = dataset.path
        with Archive(url) as archive:
            assert archive["a/0.jpg"] == PICTURES[0]
            assert archive["empty.txt"] == b""
            assert archive.read_many(["b/1.jpg", "a/2.jpg"]) == [PICTURES[1], PICTURES[2]]
        with pytest.raises(ValueError, match="not changed"):
            Archive(url, "a")
    assert hr.verify(url).ok


def test_a_missing_or_damaged_shard_is_named(bucket: Bucket) -> None:
    write_archive(bucket)
    shard = bucket.folder / "x.barecat-shard-00001"
    data = bytearray(shard.read_bytes())
    data[100] ^= 1
    shard.write_bytes(data)
    report = hr.verify(bucket.url("x.barecat"), storage_options=bucket.storage_options)
    assert len(report.bad_samples) == 1
    shard.unlink()
    with opened(bucket, "x.barecat") as dataset, pytest.raises(FormatError, match="shard is missing"):
        dataset.read_bytes(range(COUNT), "image")


# The command and convert


def options_of(bucket: Bucket) -> list[str]:
    given = {name: value for name, value in bucket.storage_options.items() if isinstance(value, str)}
    return [word for name, value in given.items() for word in ("--storage-option", f"{name}={value}")]


def test_verbs_take_urls(bucket: Bucket, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    write_archive(bucket)
    hr.write(bucket.folder / "x.parquet", SAMPLES, fields=FIELDS)
    options = options_of(bucket)
    assert main(["info", bucket.url("x.parquet"), "--json", *options]) == 0
    assert json.loads(capsysbinary.readouterr().out)["samples"] == COUNT
    for words in (["ls", "x.parquet", "0:3"], ["verify", "x.parquet", "--decode"], ["ls", "-l", "x.barecat", "a"]):
        verb, *rest = (bucket.url(word) if word.startswith("x.") else word for word in words)
        assert main([verb, *rest, *options]) == 0
    capsysbinary.readouterr()
    assert main(["cat", bucket.url("x.parquet"), "5", "image", "--stored", *options]) == 0
    assert capsysbinary.readouterr().out == PICTURES[5]
    assert main(["cat", bucket.url("x.barecat"), "b/7.jpg", *options]) == 0
    assert capsysbinary.readouterr().out == PICTURES[7]
    assert main(["extract", bucket.url("x.barecat"), "-C", str(tmp_path / "out"), *options]) == 0
    assert (tmp_path / "out" / "a" / "4.jpg").read_bytes() == PICTURES[4]
    assert main(["convert", bucket.url("x.parquet"), str(tmp_path / "y.beton"), "--verify", *options]) == 0
    with hr.open(tmp_path / "y.beton") as dataset:
        assert dataset.read_bytes(range(COUNT), "image") == PICTURES


def test_a_bad_option_gets_a_word(bucket: Bucket, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["info", bucket.url("x.tar"), "--storage-option", "region"])
    assert "'region' is not a pair KEY=VALUE" in capsys.readouterr().err
    assert main(["info", bucket.url("x.tar"), "--cache-size", "1G"]) == 2
    assert "--cache-dir" in capsys.readouterr().err


def test_the_environment_says_how_a_store_is_reached(bucket: Bucket) -> None:
    hr.write(bucket.folder / "x.npz", SAMPLES, fields=FIELDS)
    command = [sys.executable, "-m", "headrace", "info", bucket.url("x.npz")]
    done = subprocess.run(command, env=os.environ | bucket.environment, capture_output=True, text=True, check=False)
    assert f"{COUNT} samples" in done.stdout, done.stderr


@pytest.mark.parametrize("ending", ["tar", "tar.gz", "zip"])
def test_containers_are_converted_as_files_and_as_samples(bucket: Bucket, tmp_path: Path, ending: str) -> None:
    source = tmp_path / "source"
    for i in range(COUNT):
        (source / "ab"[i % 2]).mkdir(parents=True, exist_ok=True)
        (source / "ab"[i % 2] / f"{i}.jpg").write_bytes(PICTURES[i])
    hr.convert(source, bucket.folder / f"x.{ending}")
    url, options = bucket.url(f"x.{ending}"), bucket.storage_options
    assert hr.convert(url, tmp_path / "files", target_kind="folder", storage_options=options).files == COUNT
    assert (tmp_path / "files" / "b" / "3.jpg").read_bytes() == PICTURES[3]
    assert hr.convert(url, tmp_path / "x.beton", storage_options=options).samples == COUNT
    with hr.open(tmp_path / "x.beton") as dataset:
        assert dataset.class_names["label"] == ["a", "b"]
        assert sorted(dataset.read_bytes(range(COUNT), "image")) == sorted(PICTURES)


def test_a_set_is_converted(bucket: Bucket, proxy: FaultProxy, tmp_path: Path) -> None:
    write_shards(bucket)
    for name in ("shards/train-*.beton", "shards/"):
        hr.convert(bucket.url(name), tmp_path / "x.beton", storage_options=bucket.storage_options, force=True)
        with hr.open(tmp_path / "x.beton") as dataset:
            assert [sample.n for sample in dataset] == list(range(40))


def test_links_of_a_tar_become_files(bucket: Bucket, tmp_path: Path) -> None:
    with tarfile.open(bucket.folder / "x.tar", "w") as tar:
        info = tarfile.TarInfo("a.txt")
        info.size = 5
        tar.addfile(info, io.BytesIO(b"hello"))
        link = tarfile.TarInfo("b.txt")
        link.type, link.linkname = tarfile.SYMTYPE, "a.txt"
        tar.addfile(link)
    hr.convert(bucket.url("x.tar"), tmp_path / "out", target_kind="folder", storage_options=bucket.storage_options)
    assert (tmp_path / "out" / "b.txt").read_bytes() == b"hello"


# Datasets of datasets


def test_sets_announce_what_their_parts_need(bucket: Bucket, tmp_path: Path) -> None:
    np.save(bucket.folder / "big.npy", np.random.default_rng(0).random((9000, 1000)))
    hr.write(tmp_path / "n.beton", range(9000), fields={"n": hr.Int()})
    with opened(bucket, "big.npy") as big, hr.open(tmp_path / "n.beton") as numbers:
        pair = hr.zip_fields([big, numbers])
        some = hr.subset(big, [*range(5000, 9000), 3])
        sets: list[Any] = [hr.concat([big, big]), some, hr.mix([big, big], [1, 1]), pair]
        for dataset in sets:
            assert not dataset.is_local
            coming = dataset.announce(np.array([2000, 3500]), ["data"])
            assert coming is not None
            assert coming.size_bytes >= 2 * 8000
            coming.wait()
            coming.close()
        assert pair.announce(np.array([0, 1]), ["n"]) is None
        np.testing.assert_array_equal(sets[1][-1].data, big[3].data)
