"""Writing to a real S3 server: complete or absent, proven, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.remote.fault_proxy import Fault, FaultProxy
from tests.remote.signed_request import unfinished_uploads

import headrace as hr
from headrace.cli.main import main
from headrace.codecs import jpeg
from headrace.errors import RemoteError
from headrace.storage import upload as upload_module
from headrace.storage.upload import Upload

if TYPE_CHECKING:
    from pathlib import Path

    from tests.remote.conftest import Bucket

SAMPLES = [(f"text {i}", i, np.random.default_rng(i).bytes(30_000)) for i in range(100)]
FIELDS = {"text": hr.Text(), "label": hr.Int(), "data": hr.Bytes()}
NAMES = [f"{i:03}" for i in range(100)]
PART = 1 << 20


@pytest.fixture(autouse=True)
def folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Small parts; and nothing may stay in the temporary folder."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(upload_module, "_PART_BYTES", PART)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    yield temporary
    assert os.listdir(temporary) == []


def names_in(bucket: Bucket) -> list[str]:
    return sorted(str(path.relative_to(bucket.folder)) for path in bucket.folder.rglob("*") if path.is_file())


def write(bucket: Bucket, name: str = "x.beton", **options: Any) -> None:
    given = {"fields": FIELDS, "names": NAMES, "storage_options": bucket.storage_options} | options
    hr.write(bucket.url(name), SAMPLES, **given)


@pytest.mark.parametrize("name", ["x.beton", "x.parquet", "x.arrow", "x.tfrecord", "x.tar", "x.zip", "x.npz", "x.h5"])
def test_the_objects_are_the_files_that_would_be_written_here(bucket: Bucket, tmp_path: Path, name: str) -> None:
    (tmp_path / "here").mkdir()
    hr.write(tmp_path / "here" / name, SAMPLES, fields=FIELDS, names=NAMES)
    write(bucket, f"a/b/{name}")
    made = {path.name: path.read_bytes() for path in (tmp_path / "here").iterdir()}
    assert names_in(bucket) == sorted(f"a/b/{one}" for one in made)
    if name != "x.h5":  # which has times in it
        assert {one: (bucket.folder / "a" / "b" / one).read_bytes() for one in made} == made
    with hr.open(bucket.folder / "a" / "b" / name) as dataset:
        assert [sample.label for sample in dataset[:3]] == [0, 1, 2]
    assert unfinished_uploads(bucket) == []


def test_a_barecat_with_shards(bucket: Bucket) -> None:
    files = [name.encode() * 10_000 for name in NAMES]
    hr.write(
        bucket.url("x.barecat"),
        files,
        fields={"data": hr.Bytes()},
        names=NAMES,
        shard_size="1M",
        storage_options=bucket.storage_options,
    )
    assert names_in(bucket) == ["x.barecat", *(f"x.barecat-shard-0000{i}" for i in range(3))]
    with hr.open(bucket.folder / "x.barecat") as dataset:
        assert [sample.bytes for sample in dataset] == files


def test_a_set_of_files(bucket: Bucket) -> None:
    write(bucket, "train-%03d.beton", shard_samples=40)
    assert names_in(bucket) == ["train-000.beton", "train-001.beton", "train-002.beton"]
    with hr.open(bucket.folder / "train-*.beton") as dataset:
        assert [sample.label for sample in dataset] == list(range(100))
    with pytest.raises(FileExistsError, match=r"train-000\.beton exists"):
        write(bucket, "train-%03d.beton", shard_samples=50)
    write(bucket, "train-%03d.beton", shard_samples=50, force=True)
    assert names_in(bucket) == ["train-000.beton", "train-001.beton"]


def test_what_is_there_is_refused_without_force(bucket: Bucket) -> None:
    write(bucket)
    before = (bucket.folder / "x.beton").read_bytes()
    with pytest.raises(FileExistsError, match=r"s3://.*/x\.beton exists; give force=True"):
        write(bucket, indices=[0])
    assert (bucket.folder / "x.beton").read_bytes() == before
    write(bucket, indices=[0], force=True)
    with hr.open(bucket.folder / "x.beton") as dataset:
        assert len(dataset) == 1


def test_a_sample_that_cannot_be_written_leaves_nothing(bucket: Bucket, proxy: FaultProxy) -> None:
    with pytest.raises(hr.errors.WriteError):
        hr.write(bucket.url("x.beton"), ["no number"], fields={"n": hr.Int()}, storage_options=bucket.storage_options)
    assert names_in(bucket) == []
    assert proxy.exchanges(methods=("PUT", "POST")) == []


def test_errors_name_the_url(bucket: Bucket) -> None:
    with pytest.raises(TypeError, match=r"^s3://bucket-\d+/x\.beton: a beton does not take nonsense"):
        write(bucket, nonsense=1)


@pytest.mark.parametrize("after", [0, 1, 2])
def test_an_upload_that_is_cut_at_a_part_leaves_nothing(bucket: Bucket, proxy: FaultProxy, after: int) -> None:
    proxy.add(Fault(match="/x.tar", methods=("PUT",), after=after, status=403))
    with pytest.raises(RemoteError, match=r"x\.tar"):
        write(bucket, "x.tar", annex=False)
    assert names_in(bucket) == []
    assert unfinished_uploads(bucket) == []


def test_a_completion_that_fails_leaves_nothing(bucket: Bucket, proxy: FaultProxy) -> None:
    proxy.add(Fault(match="/x.tar", methods=("POST",), after=1, status=403))
    with pytest.raises(RemoteError, match=r"x\.tar"):
        write(bucket, "x.tar", annex=False)
    assert names_in(bucket) == []
    assert unfinished_uploads(bucket) == []


def test_a_store_that_is_busy_is_asked_again(bucket: Bucket, proxy: FaultProxy) -> None:
    proxy.add(Fault(match="/x.beton", methods=("PUT",), every=2, times=3, status=503))
    write(bucket)
    with hr.open(bucket.folder / "x.beton") as dataset:
        assert len(dataset) == 100
    assert unfinished_uploads(bucket) == []


def test_the_object_beside_goes_when_the_main_one_fails(bucket: Bucket, proxy: FaultProxy) -> None:
    proxy.add(Fault(match="/x.tar", methods=("PUT",), after=1, status=403))
    with pytest.raises(RemoteError):
        write(bucket, "x.tar")
    assert [one.status for one in proxy.exchanges("x.tar.annex", ("PUT",))] == [200]
    assert names_in(bucket) == []


@pytest.mark.parametrize("name", ["x.beton", "x.tar"])
def test_a_corrupted_upload_is_noticed(bucket: Bucket, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    put = Upload._put

    def put_damaged(self: Upload, fd: int) -> None:
        put(self, fd)
        if self._key == name:
            with open(bucket.folder / name, "r+b") as file:
                file.seek(100_000)
                file.write(b"damage")

    monkeypatch.setattr(Upload, "_put", put_damaged)
    with pytest.raises(RemoteError, match=r"bytes 0 to 1048575 are not what was sent.*Write it again"):
        write(bucket, name)
    assert names_in(bucket) == []


def test_wrong_credentials(bucket: Bucket) -> None:
    options = bucket.storage_options | {"secret_access_key": "wrong"}
    with pytest.raises(RemoteError, match="s3://"):
        write(bucket, storage_options=options)
    assert names_in(bucket) == []


_INTERRUPTED = """
import sys, headrace as hr
from headrace.storage import upload
upload._PART_BYTES = 1 << 20
hr.write(sys.argv[1], [bytes([i]) * 1_000_000 for i in range(40)], fields={"data": hr.Bytes()})
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_process_that_is_stopped_in_the_middle(bucket: Bucket, proxy: FaultProxy, folders: Path, how: Any) -> None:
    proxy.latency_s = 0.3
    environment = os.environ | bucket.environment | {"TMPDIR": str(folders)}
    command = [sys.executable, "-c", _INTERRUPTED, bucket.url("x.beton")]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    end_s = time.monotonic() + 60
    while len(proxy.exchanges("x.beton", ("PUT",))) < 10 and time.monotonic() < end_s:
        time.sleep(0.02)
    process.send_signal(how)
    process.wait(60)
    assert not (bucket.folder / "x.beton").exists()
    if how == signal.SIGINT:
        assert names_in(bucket) == []
        assert unfinished_uploads(bucket) == []
        assert os.listdir(folders) == []
    else:
        proxy.latency_s = 0
        write(bucket, "y.beton")  # takes away what the other one has left here
        assert os.listdir(folders) == []


def run(bucket: Bucket, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headrace", *arguments]
    done = subprocess.run(command, env=os.environ | bucket.environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done


@pytest.mark.slow
def test_the_command_creates_and_converts(bucket: Bucket, tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    for i in range(5):
        (photos / f"{i}.jpg").write_bytes(jpeg.encode(np.full((8, 8, 3), i, np.uint8)))
    run(bucket, "create", bucket.url("photos.barecat"), str(photos))
    assert "exists" in run(bucket, "create", bucket.url("photos.barecat"), str(photos), code=2).stderr
    run(bucket, "create", bucket.url("photos.ffr"), str(photos))
    run(bucket, "convert", str(photos), bucket.url("photos.tar"), "--verify")
    run(bucket, "convert", str(photos), bucket.url("set-%02d.beton"), "--shard-samples", "2", "-q")
    assert names_in(bucket) == [
        *("photos.barecat", "photos.barecat-shard-00000", "photos.ffr", "photos.tar"),
        *("set-00.beton", "set-01.beton", "set-02.beton"),
    ]


def test_convert_says_what_was_written(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in bucket.environment.items():
        monkeypatch.setenv(name, value)
    write(bucket)
    assert hr.convert(bucket.folder / "x.beton", bucket.url("y.tar")).samples is None
    assert hr.convert(bucket.folder / "x.beton", bucket.url("y.npz"), verify=True).samples == 100
    with pytest.raises(ValueError, match="resume= or --resume is for a set of files"):
        hr.convert(bucket.folder / "x.beton", bucket.url("y.beton"), resume=True)
    with pytest.raises(ValueError, match="would be a folder of a store"):
        hr.convert(bucket.folder / "y.tar", bucket.url("folder"))
    with pytest.raises(ValueError, match=r"s3://.*/z\.ffr can hold one field"):
        hr.convert(bucket.folder / "x.beton", bucket.url("z.ffr"))
    assert hr.convert(bucket.folder / "x.beton", bucket.url("z.npz"), dry_run=True).samples == 100
    assert names_in(bucket) == ["x.beton", "y.npz", "y.tar"]


@pytest.mark.parametrize(
    "arguments",
    [
        *(["add", "URL", "x"], ["rm", "URL", "x"], ["mv", "URL", "x", "y"], ["defrag", "URL"], ["repair", "URL"]),
        *(["merge", "-o", "URL", "x.tar"], ["sync", ".", "URL"], ["index", "URL", "--import", "x.csv"]),
    ],
)
def test_verbs_that_change_something_in_place_say_what_to_do(
    bucket: Bucket, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    (bucket.folder / "x.barecat").write_bytes(b"x")
    given = [bucket.url("x.barecat") if one == "URL" else one for one in arguments]
    assert main(given) == 2
    assert "is in a store, where datasets are written whole and not changed" in capsys.readouterr().err
    assert names_in(bucket) == ["x.barecat"]
