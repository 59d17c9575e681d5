"""Sets of files in a real S3 server: uploaded file by file, resumed after a kill, and never half a set for a whole."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.remote.fault_proxy import Fault, FaultProxy
from tests.remote.signed_request import unfinished_uploads

import headrace as hr
from headrace.errors import ArchiveBusyError, FormatError, RemoteError, WriteError
from headrace.formats.stored_shards import StoreShelf, UploadedPlace
from headrace.storage import RemotePath, StorageOptions
from headrace.storage import unfinished_uploads as unfinished_uploads_module
from headrace.storage import upload as upload_module
from headrace.transfer.comparison import Comparison

if TYPE_CHECKING:
    from pathlib import Path

    from tests.remote.conftest import Bucket

COUNT = 60
FIELDS = {"label": hr.Int(), "data": hr.Bytes()}
SAMPLES = [(i, np.random.default_rng(i).bytes(250_000)) for i in range(COUNT)]
NOTE = ".t-%02d.tar.convert.json"


@pytest.fixture(autouse=True)
def folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Small parts; and nothing may stay in the temporary folder."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(upload_module, "_PART_BYTES", 1 << 20)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    yield temporary
    assert os.listdir(temporary) == []


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source.beton"
    hr.write(path, SAMPLES, fields=FIELDS, names=[f"{i:03}" for i in range(COUNT)])
    return path


@pytest.fixture
def whole(source: Path, tmp_path: Path) -> dict[str, bytes]:
    """The files that the set must have."""
    folder = tmp_path / "whole"
    folder.mkdir()
    hr.convert(source, folder / "t-%02d.tar", shard_samples=10)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def convert(source: Path, bucket: Bucket, name: str = "t-%02d.tar", **options: Any) -> Any:
    given = {"shard_samples": 10, "storage_options": bucket.storage_options} | options
    return hr.convert(source, bucket.url(name), **given)


def objects_in(bucket: Bucket) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in bucket.folder.iterdir()}


@pytest.mark.parametrize("options", [{}, {"resume": True}, {"verify": True}, {"resume": True, "verify": True}])
def test_a_set_is_the_same_as_here(
    source: Path, whole: dict[str, bytes], bucket: Bucket, options: dict[str, Any]
) -> None:
    result = convert(source, bucket, **options)
    assert objects_in(bucket) == whole
    assert (result.samples, result.size_bytes) == (COUNT, sum(map(len, whole.values())))
    with hr.open(bucket.url("t-*.tar"), storage_options=bucket.storage_options) as dataset:
        assert [sample.label for sample in dataset] == list(range(COUNT))


def test_files_are_removed_here_as_they_are_sent(
    source: Path, bucket: Bucket, folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = [0]
    begin = UploadedPlace._begin

    def look(self: UploadedPlace, *arguments: int) -> None:
        begin(self, *arguments)
        made = [name for name in os.listdir(self._folder.path) if name.endswith(".tar")]
        most[0] = max(most[0], len(made))

    monkeypatch.setattr(UploadedPlace, "_begin", look)
    convert(source, bucket, shard_samples=5)
    assert most[0] == 1
    assert len(objects_in(bucket)) == 24


def test_readers_are_told_that_a_set_is_not_whole(source: Path, bucket: Bucket, proxy: FaultProxy) -> None:
    held, seen = threading.Event(), []
    proxy.add(Fault(match="/t-03.tar", methods=("PUT", "POST"), times=1, then=lambda: held.wait(60)))
    writer = threading.Thread(target=convert, args=(source, bucket))
    writer.start()
    try:
        while not (bucket.folder / "t-02.tar").exists():
            time.sleep(0.01)
        for pattern in ("t-*.tar", "*.tar", ""):
            with pytest.raises(FormatError, match=r"the set is not complete: s3://.*\.convert\.json.*--resume") as told:
                hr.open(bucket.url(pattern), storage_options=bucket.storage_options)
            seen.append(str(told.value))
        with hr.open(bucket.url("t-{00..02}.tar"), storage_options=bucket.storage_options) as some:
            assert len(some) == 30
    finally:
        held.set()
        writer.join()
    assert len(hr.open(bucket.url("t-*.tar"), storage_options=bucket.storage_options)) == COUNT
    assert all("headrace-secret" not in text for text in seen)


@pytest.mark.parametrize("options", [{}, {"resume": True}])
def test_what_fails_is_taken_back_or_kept(
    source: Path, whole: dict[str, bytes], bucket: Bucket, proxy: FaultProxy, options: dict[str, Any]
) -> None:
    proxy.add(Fault(match="/t-04.tar", methods=("PUT",), status=403))
    with pytest.raises(RemoteError, match=r"t-04\.tar"):
        convert(source, bucket, **options)
    assert unfinished_uploads(bucket) == []
    if not options:
        assert objects_in(bucket) == {}
        return
    kept = set(objects_in(bucket))
    assert NOTE in kept
    assert {name for name in kept if name.endswith(".tar")} == {f"t-0{i}.tar" for i in range(4)}
    proxy.clear()
    convert(source, bucket, **options)
    assert objects_in(bucket) == whole
    sent = {one.path.rpartition("/")[2] for one in proxy.exchanges("/t-", ("PUT", "POST"))}
    assert sent == {"t-04.tar", "t-04.tar.annex", "t-05.tar", "t-05.tar.annex"}


def test_objects_that_changed_since_are_made_again(source: Path, whole: dict[str, bytes], bucket: Bucket) -> None:
    def stop(done: int, total: int | None, size_bytes: int) -> None:
        if len(list(bucket.folder.glob("t-*.tar"))) >= 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert(source, bucket, resume=True, progress=stop, workers=1)
    (bucket.folder / "t-01.tar").write_bytes(b"something else")
    convert(source, bucket, resume=True)
    assert objects_in(bucket) == whole


def test_another_job_is_not_resumed(source: Path, bucket: Bucket, proxy: FaultProxy) -> None:
    proxy.add(Fault(match="/t-04.tar", methods=("PUT",), status=403))
    with pytest.raises(RemoteError):
        convert(source, bucket, resume=True)
    before = objects_in(bucket)
    with pytest.raises(ValueError, match="was begun with another limit, so it cannot be resumed"):
        convert(source, bucket, resume=True, limit=50)
    with pytest.raises(FileExistsError, match=r"convert\.json says that the set is being written.*--resume.*--force"):
        convert(source, bucket)
    assert objects_in(bucket) == before
    (bucket.folder / NOTE).write_text("{")
    with pytest.raises(FormatError, match="what an earlier run has noted cannot be read"):
        convert(source, bucket, resume=True)
    proxy.clear()
    convert(source, bucket, force=True)
    assert NOTE not in objects_in(bucket)


def test_who_is_taken_over_stops(source: Path, whole: dict[str, bytes], bucket: Bucket) -> None:
    def take_over(done: int, total: int | None, size_bytes: int) -> None:
        note = bucket.folder / NOTE
        if note.exists() and "t-01.tar" in note.read_text():
            note.write_text(json.dumps(json.loads(note.read_text()) | {"writer": "process 7 on another"}))

    with pytest.raises((ArchiveBusyError, WriteError), match="process 7 on another has taken over this set"):
        convert(source, bucket, resume=True, progress=take_over, workers=1)
    convert(source, bucket, resume=True)
    assert objects_in(bucket) == whole


def test_an_old_set_stays_until_the_new_one_is_made(
    source: Path, whole: dict[str, bytes], bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    convert(source, bucket, shard_samples=5)
    before = objects_in(bucket)
    with pytest.raises(FileExistsError, match=r"t-00\.tar exists; give force=True"):
        convert(source, bucket)
    monkeypatch.setattr(Comparison, "_compare", _differ)
    with pytest.raises(WriteError, match="This file was not uploaded"):
        convert(source, bucket, force=True, verify=True)
    assert objects_in(bucket) == before
    monkeypatch.undo()
    convert(source, bucket, force=True)
    assert objects_in(bucket) == whole


def _differ(self: Comparison, *arguments: Any) -> None:
    raise WriteError(f"it differs. {self.outcome}")


def test_a_set_that_was_half_replaced_says_so(
    source: Path, bucket: Bucket, proxy: FaultProxy, caplog: pytest.LogCaptureFixture
) -> None:
    convert(source, bucket)
    proxy.add(Fault(match="/t-02.tar", methods=("PUT",), status=403))
    with pytest.raises(RemoteError):
        convert(source, bucket, shard_samples=5, force=True)
    assert "a part of it was replaced; write it again with force" in caplog.text
    with pytest.raises(FormatError, match="the set is not complete"):
        hr.open(bucket.url("t-*.tar"), storage_options=bucket.storage_options)


@pytest.mark.slow
@pytest.mark.parametrize("limit", [["--shard-samples", "10"], ["--shard-size", "2400K"]])
def test_a_process_that_is_killed_is_resumed(
    source: Path, bucket: Bucket, proxy: FaultProxy, folders: Path, tmp_path: Path, limit: list[str]
) -> None:
    (tmp_path / "whole").mkdir()
    run = [sys.executable, "-c", _COMMAND, "convert", str(source)]
    subprocess.run([*run, str(tmp_path / "whole" / "t-%02d.tar"), *limit, "-q"], check=True)
    whole = {path.name: path.read_bytes() for path in (tmp_path / "whole").iterdir()}
    proxy.latency_s = 0.05
    environment = os.environ | bucket.environment | {"TMPDIR": str(folders)}
    command = [*run, bucket.url("t-%02d.tar"), *limit, "--resume", "-q"]
    for files in (2, 4):
        process = subprocess.Popen(command, env=environment)
        end_s = time.monotonic() + 60
        while not _is_sending(proxy, bucket, files) and process.poll() is None and time.monotonic() < end_s:
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        assert process.wait(60) == -signal.SIGKILL
        assert NOTE in objects_in(bucket)
        proxy.clear()
        proxy.latency_s = 0.05
    kept = {name: (bucket.folder / name).stat().st_mtime_ns for name in objects_in(bucket) if name.endswith(".tar")}
    subprocess.run(command, env=environment, check=True, timeout=100)
    assert objects_in(bucket) == whole
    assert unfinished_uploads(bucket) == []
    assert sum((bucket.folder / name).stat().st_mtime_ns == time_ns for name, time_ns in kept.items()) >= 4


@pytest.mark.slow
@pytest.mark.parametrize("words", [[], ["--resume"]])
def test_ctrl_c(source: Path, bucket: Bucket, proxy: FaultProxy, folders: Path, words: list[str]) -> None:
    proxy.latency_s = 0.05
    environment = os.environ | bucket.environment | {"TMPDIR": str(folders)}
    given = [str(source), bucket.url("t-%02d.tar"), "--shard-samples", "10", "-q", *words]
    command = [sys.executable, "-c", _COMMAND, "convert", *given]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        while not _is_sending(proxy, bucket, 2) and process.poll() is None:
            time.sleep(0.002)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
    assert (process.returncode, told) == (130, "headrace: interrupted; nothing unfinished was left behind\n")
    assert unfinished_uploads(bucket) == []
    assert os.listdir(folders) == []
    there = sorted(name for name in objects_in(bucket) if not name.endswith(".annex"))
    assert there == ([NOTE, *(f"t-0{i}.tar" for i in range(len(there) - 1))] if words else [])
    assert bool(there) == bool(words)


_COMMAND = """
import sys
from headrace.storage import upload
upload._PART_BYTES = 1 << 20
from headrace.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def _is_sending(proxy: FaultProxy, bucket: Bucket, files: int) -> bool:
    """So many files are there, and a part of the next one."""
    there = len(list(bucket.folder.glob("t-*.tar")))
    return there >= files and len(proxy.exchanges(f"/t-{there:02}.tar", ("PUT",))) > 1


def test_parts_that_a_killed_process_left_go_and_those_of_others_stay(bucket: Bucket) -> None:
    signer = unfinished_uploads_module._Signer.of(bucket.storage_options, bucket.name)
    assert signer is not None
    for key in ("a/t-07.tar", "a/t-07.tar.annex", "a/u-07.tar", "t-07.tar"):
        signer.ask("POST", f"/{key}", {"uploads": ""})
    assert len(unfinished_uploads(bucket)) == 4
    shelf = StoreShelf(RemotePath(bucket.url("a/t-%02d.tar"), _storage(bucket)))
    assert shelf.note == bucket.url("a/.t-%02d.tar.convert.json")
    shelf.abort_uploads()
    assert sorted(unfinished_uploads(bucket)) == ["a/u-07.tar", "t-07.tar"]


@pytest.mark.parametrize(
    "change", [{"secret_access_key": "wrong"}, {"skip_signature": "true"}, {"endpoint": "http://127.0.0.1:9"}]
)
def test_parts_that_cannot_be_looked_for_are_no_error(
    bucket: Bucket, caplog: pytest.LogCaptureFixture, change: dict[str, str]
) -> None:
    caplog.set_level("INFO")
    path = RemotePath(bucket.url("t-%02d.tar"), StorageOptions(store=bucket.storage_options | change))
    StoreShelf(path).abort_uploads()
    assert "parts of interrupted uploads may be left" in caplog.text
    assert "wrong" not in caplog.text


def _storage(bucket: Bucket) -> StorageOptions:
    return StorageOptions(store=bucket.storage_options)


def test_secrets_are_not_shown(bucket: Bucket) -> None:
    assert "headrace-secret" not in repr(_storage(bucket))
