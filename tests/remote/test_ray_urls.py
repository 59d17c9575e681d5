"""Sets in a real S3 server by tasks of a real Ray cluster: the same bytes, and secrets that nobody prints."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.integration.test_ray_tasks import workers_of
from tests.remote.fault_proxy import Fault, FaultProxy
from tests.remote.rclone_server import SECRET_KEY
from tests.remote.signed_request import unfinished_uploads

import headrace as hr
from headrace.cli.main import main
from headrace.errors import RemoteError
from headrace.formats.ray_tasks import open_tasks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.remote.conftest import Bucket

pytestmark = [
    pytest.mark.ray,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed"),
]

COUNT = 24
SAMPLES = [(i, np.random.default_rng(i).bytes(60_000)) for i in range(COUNT)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two processes, which were started without a variable about stores."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        with open_tasks(address=None, workers=2, needed_by="the tests") as tasks:
            yield tasks
            _check_logs(tasks.ray)


def _check_logs(ray: Any) -> None:
    """Ray's own files do not have the secret."""
    folder = Path(ray._private.worker._global_node.get_session_dir_path())
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    assert files
    assert [path for path in files if SECRET_KEY.encode() in path.read_bytes()] == []


@pytest.fixture
def source(bucket: Bucket) -> str:
    names = [f"{i:02}" for i in range(COUNT)]
    hr.write(bucket.folder / "in.beton", SAMPLES, fields={"label": hr.Int(), "data": hr.Bytes()}, names=names)
    return bucket.url("in.beton")


def made_here(bucket: Bucket, folder: Path, **options: Any) -> dict[str, bytes]:
    folder.mkdir()
    hr.convert(bucket.folder / "in.beton", folder / "t-%02d.tar", **options)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def objects_in(bucket: Bucket) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in bucket.folder.iterdir() if path.name != "in.beton"}


@pytest.mark.parametrize("limit", [{"shard_samples": 5}, {"shard_size": 200_000}])
@pytest.mark.parametrize("options", [{}, {"resume": True, "verify": True}])
def test_urls_on_both_sides(
    cluster: Any, bucket: Bucket, source: str, tmp_path: Path, limit: dict[str, int], options: dict[str, Any]
) -> None:
    reached = bucket.storage_options
    result = hr.convert(source, bucket.url("t-%02d.tar"), engine="ray", storage_options=reached, **limit, **options)
    assert result.samples == COUNT
    assert objects_in(bucket) == made_here(bucket, tmp_path / "here", **limit)
    assert unfinished_uploads(bucket) == []


def test_the_environment_reaches_the_processes(
    cluster: Any, bucket: Bucket, source: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in bucket.environment.items():
        monkeypatch.setenv(name, value)
    for words in (
        ["convert", source, bucket.url("t-%02d.tar"), "--shard-samples", "8", "--no-names"],
        ["verify", bucket.url("t-*.tar")],
        ["index", bucket.url("t-*.tar"), "--fresh"],
        ["verify", bucket.url("in.beton")],
    ):
        assert main([*words, "--engine", "ray"]) == 0, capsys.readouterr().err
    told = capsys.readouterr()
    assert SECRET_KEY not in told.out + told.err
    assert sorted(objects_in(bucket)) == sorted(
        [f"t-0{i}.tar" for i in range(3)] + [f"t-0{i}.tar.annex" for i in range(3)]
    )


def test_annexes_by_tasks(cluster: Any, bucket: Bucket, source: str) -> None:
    for number in range(3):
        hr.convert(bucket.folder / "in.beton", bucket.folder / f"x-{number}.tar")
    hr.index(bucket.url("x-*.tar"), engine="ray", storage_options=bucket.storage_options)
    assert len(list(bucket.folder.glob("x-*.annex"))) == 3
    report = hr.verify(bucket.url("x-*.tar"), engine="ray", storage_options=bucket.storage_options)
    assert report.ok
    assert report.samples_checked == 3 * COUNT
    assert report.checksums_checked > 0


def test_errors_of_tasks_have_no_secrets(cluster: Any, bucket: Bucket, source: str, proxy: FaultProxy) -> None:
    proxy.add(Fault(match="/t-02.tar", methods=("PUT", "POST"), status=403, code="AccessDenied"))
    with pytest.raises(RemoteError, match=r"t-02\.tar.*does not let us in") as told:
        hr.convert(
            source, bucket.url("t-%02d.tar"), engine="ray", shard_samples=5, storage_options=bucket.storage_options
        )
    assert SECRET_KEY not in str(told.value) + repr(told.value)
    assert objects_in(bucket) == {}
    wrong = bucket.storage_options | {"secret_access_key": "another-secret"}
    with pytest.raises(RemoteError) as refused:
        hr.verify(source, engine="ray", storage_options=wrong)
    assert "another-secret" not in str(refused.value)


def test_a_worker_that_is_killed_while_it_uploads_is_made_up_for(
    cluster: Any, bucket: Bucket, source: str, proxy: FaultProxy, tmp_path: Path
) -> None:
    whole = made_here(bucket, tmp_path / "here", shard_samples=5)
    proxy.latency_s = 0.2
    killed: list[int] = []

    def kill_who_uploads() -> None:
        end_s = time.monotonic() + 60
        while not killed and time.monotonic() < end_s:
            if proxy.exchanges("/t-", ("PUT", "POST")):
                killed.extend(workers_of(os.getpid())[:1])
                for number in killed:
                    os.kill(number, signal.SIGKILL)
            time.sleep(0.01)

    killer = threading.Thread(target=kill_who_uploads)
    killer.start()
    hr.convert(source, bucket.url("t-%02d.tar"), engine="ray", shard_samples=5, storage_options=bucket.storage_options)
    killer.join()
    assert killed
    assert objects_in(bucket) == whole
    assert unfinished_uploads(bucket) == []


_DRIVER = """
import sys
import headrace as hr
hr.convert(sys.argv[1], sys.argv[2], engine="ray", shard_samples=2, resume=True, workers=2)
"""


@pytest.mark.slow
def test_a_driver_that_is_killed_is_resumed_by_one_process(
    bucket: Bucket, source: str, proxy: FaultProxy, tmp_path: Path
) -> None:
    whole = made_here(bucket, tmp_path / "here", shard_samples=2)
    proxy.latency_s = 0.05
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        environment = os.environ | bucket.environment | {"TMPDIR": short}
        command = [sys.executable, "-c", _DRIVER, source, bucket.url("t-%02d.tar")]
        driver = subprocess.Popen(command, env=environment)
        while driver.poll() is None and len(list(bucket.folder.glob("t-*.tar"))) < 3:
            time.sleep(0.01)
        driver.send_signal(signal.SIGKILL)
        assert driver.wait(60) == -signal.SIGKILL
        time.sleep(3)  # its processes end by themselves
    assert 0 < len(list(bucket.folder.glob("t-*.tar"))) < len(whole)
    proxy.clear()
    reached = bucket.storage_options
    hr.convert(source, bucket.url("t-%02d.tar"), shard_samples=2, resume=True, storage_options=reached)
    assert objects_in(bucket) == whole
    assert unfinished_uploads(bucket) == []
