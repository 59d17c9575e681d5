"""Bad days of networks, stores, disks and processes: no wrong sample, no hang, and errors that say what to do."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tests.faults.disks import mounted, why_no_mounts
from tests.remote import reader
from tests.remote.datasets import Stored, digests, store_arrays
from tests.remote.fault_proxy import Fault

import headrace as hr
from headrace.errors import ChangedError, HeadraceError, RemoteError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.remote.conftest import Bucket
    from tests.remote.fault_proxy import FaultProxy

PATIENT = {"retry_config": {"retry_timeout": timedelta(seconds=60)}}
IMPATIENT = {
    "retry_config": {"retry_timeout": timedelta(seconds=4), "max_retries": 3},
    "client_options": {"allow_http": True, "timeout": timedelta(seconds=2)},
}
CACHE_BYTES = 64 << 20


@pytest.fixture
def stored(bucket: Bucket, tmp_path: Path) -> Stored:
    """About 24 MB in pages of 2 MiB, with a checksum for each value."""
    return store_arrays(bucket, tmp_path, samples=600, page_size=2 << 20)


@pytest.fixture
def expected(stored: Stored) -> list[str]:
    """The batches of the local file."""
    with stored.open_local() as here:
        return digests(_loader(here))


def _loader(dataset: Any) -> hr.Loader:
    return hr.Loader(dataset, 16, order="quasi_random", seed=3, workers=2, drop_last=False)


def _until_an_error(loader: hr.Loader, between: Callable[[int], None] = lambda _: None) -> tuple[list[str], Any]:
    """The batches that came, and the error that ended them, if one did."""
    found: list[str] = []
    try:
        for batch in loader:
            found += digests([batch])
            between(len(found))
    except HeadraceError as error:
        return found, error
    return found, None


# The network and the store


@pytest.mark.parametrize(
    "fault",
    [
        Fault(delay_s=1.0, every=4, times=4),
        Fault(status=503, every=2, times=6),
        Fault(status=500, after=1, times=5),
        Fault(cut_after=100_000, every=3, times=5),
        Fault(cut_after=0, after=2, times=4),
        Fault(short_by=1000, every=3, times=5),
        Fault(status=503, methods=("GET", "HEAD"), times=4),
    ],
    ids=[
        "latency spikes",
        "503 now and then",
        "500 in a row",
        "cut bodies",
        "no bodies",
        "short bodies",
        "503 at first",
    ],
)
def test_faults_that_pass_are_not_seen(fault: Fault, stored: Stored, expected: list[str], proxy: FaultProxy) -> None:
    proxy.add(fault)
    with stored.open(store=PATIENT) as there:
        assert digests(_loader(there)) == expected
    assert proxy.befell > 0


def test_a_storm_of_503(stored: Stored, expected: list[str], proxy: FaultProxy) -> None:
    with stored.open(store=PATIENT) as there:
        proxy.add(Fault(status=503, times=20))
        assert digests(_loader(there)) == expected
    assert sum(one.status == 503 for one in proxy.exchanges()) >= 1


def test_a_slow_network_gives_the_same(stored: Stored, expected: list[str], proxy: FaultProxy) -> None:
    proxy.bytes_per_s, proxy.latency_s = 20e6, 0.05
    with stored.open() as there:
        assert digests(_loader(there)) == expected


@pytest.mark.parametrize("number", range(1, 6))
def test_corrupted_bodies_give_no_wrong_sample(
    number: int, stored: Stored, expected: list[str], proxy: FaultProxy
) -> None:
    proxy.add(Fault(match=stored.local.name, corrupt=True, after=number, times=1))
    try:
        there = stored.open()
    except HeadraceError:
        return
    with there:
        found, error = _until_an_error(_loader(there))
    assert proxy.befell == 1
    assert found == expected[: len(found)]
    assert error is not None or found == expected


def test_a_corrupted_body_does_not_stay_in_the_cache(
    stored: Stored, expected: list[str], proxy: FaultProxy, tmp_path: Path
) -> None:
    cache = {"cache_dir": tmp_path / "cache", "cache_size": CACHE_BYTES}
    proxy.add(Fault(match=stored.local.name, corrupt=True, after=2, times=1))
    with contextlib.suppress(HeadraceError), stored.open(**cache) as there:
        _until_an_error(_loader(there))
    assert proxy.befell == 1
    proxy.clear()
    with stored.open(**cache) as there:
        found, error = _until_an_error(_loader(there))
    assert found == expected[: len(found)]
    assert error is None, error


def test_silence_in_the_middle_of_an_epoch(stored: Stored, expected: list[str], proxy: FaultProxy) -> None:
    proxy.bytes_per_s = 12e6
    with stored.open(store=PATIENT) as there:
        found, error = _until_an_error(_loader(there), lambda n: proxy.silence(3.0) if n == 3 else None)
    assert error is None
    assert found == expected


@pytest.mark.slow
def test_a_minute_without_network(stored: Stored, expected: list[str], proxy: FaultProxy) -> None:
    proxy.bytes_per_s = 12e6
    with stored.open() as there:
        found, error = _until_an_error(_loader(there), lambda n: proxy.silence(60.0) if n == 3 else None)
    assert error is None
    assert found == expected


@pytest.mark.parametrize("fault", [Fault(status=503), Fault(cut_after=1000), Fault(delay_s=60.0)], ids=str)
def test_faults_that_do_not_pass_are_told(fault: Fault, stored: Stored, expected: list[str], proxy: FaultProxy) -> None:
    with stored.open(store=IMPATIENT) as there:
        proxy.add(fault)
        start = time.monotonic()
        found, error = _until_an_error(_loader(there))
        assert time.monotonic() - start < 40
    assert found == expected[: len(found)]
    assert isinstance(error, RemoteError)
    assert stored.url in str(error)


def test_an_endpoint_that_nobody_listens_at(stored: Stored) -> None:
    with pytest.raises(RemoteError, match=stored.local.name):
        stored.open(store={**IMPATIENT, "endpoint": "http://127.0.0.1:9"})


@pytest.mark.parametrize("code", ["ExpiredToken", "AccessDenied", "InvalidAccessKeyId"])
def test_credentials_that_expire(code: str, stored: Stored, expected: list[str], proxy: FaultProxy) -> None:
    with stored.open() as there:
        loader = _loader(there)
        proxy.add(Fault(status=403, code=code, methods=("GET", "HEAD"), after=1))
        found, error = _until_an_error(loader)
        assert found == expected[: len(found)]
        assert isinstance(error, RemoteError)
        assert "credentials" in str(error)
        state = loader.state_dict()
    proxy.clear()
    with stored.open() as there:
        loader = _loader(there)
        loader.load_state_dict(state)
        assert found + digests(loader) == expected


def test_wrong_credentials_are_told_at_once(stored: Stored) -> None:
    start = time.monotonic()
    with pytest.raises(RemoteError, match="credentials"):
        stored.open(store={"secret_access_key": "another"})
    assert time.monotonic() - start < 5


# The object


@pytest.mark.parametrize("is_cached", [False, True], ids=["no cache", "cache"])
@pytest.mark.parametrize("what", ["deleted", "replaced", "replaced by as many bytes"])
def test_an_object_that_changes_during_an_epoch(
    what: str, is_cached: bool, stored: Stored, expected: list[str], proxy: FaultProxy, tmp_path: Path
) -> None:
    cache = {"cache_dir": tmp_path / "cache", "cache_size": CACHE_BYTES} if is_cached else {}
    with stored.open(**cache) as there:
        proxy.add(Fault(match=stored.local.name, after=1, times=1, then=lambda: _change(stored, what)))
        found, error = _until_an_error(_loader(there))
    assert found == expected[: len(found)]
    assert isinstance(error, ChangedError), error
    assert stored.url in str(error)


@pytest.mark.parametrize("what", ["deleted", "replaced", "replaced by as many bytes"])
def test_an_object_that_changes_between_two_samples(what: str, stored: Stored) -> None:
    with stored.open() as there:
        _ = there[0]
        _change(stored, what)
        with pytest.raises(ChangedError, match=stored.local.name):
            _ = [there[index] for index in (599, 300, 450)]


def test_a_cache_keeps_versions_apart(stored: Stored, expected: list[str], bucket: Bucket, tmp_path: Path) -> None:
    cache = {"cache_dir": tmp_path / "cache", "cache_size": CACHE_BYTES}
    with stored.open(**cache) as there:
        assert digests(_loader(there)) == expected
    (tmp_path / "other").mkdir()
    other = store_arrays(bucket, tmp_path / "other", samples=500)
    with other.open(**cache) as there, other.open_local() as here:
        assert digests(_loader(there)) == digests(_loader(here))


def _change(stored: Stored, what: str) -> None:
    if what == "deleted":
        stored.object_path.unlink()
        return
    data = bytearray(stored.object_path.read_bytes())
    changed = bytes(255 - byte for byte in data[len(data) // 2 :]) + b"\0" * (what == "replaced")
    beside = stored.object_path.with_suffix(".new")
    beside.write_bytes(bytes(data[: len(data) // 2]) + changed)
    os.replace(beside, stored.object_path)


# The disk of the cache


def _read_through(stored: Stored, cache: Path) -> list[str]:
    with stored.open(cache_dir=cache, cache_size=CACHE_BYTES) as there:
        return digests(_loader(there))


def _read_with_a_cache_that_fails(stored: Stored, cache: Path, expected: list[str]) -> None:
    with pytest.warns(RuntimeWarning, match="cannot be stored in this cache"):
        found = _read_through(stored, cache)
    assert found == expected


def test_the_disk_of_the_cache_is_full(stored: Stored, expected: list[str], tmp_path: Path) -> None:
    if reason := why_no_mounts():
        pytest.skip(reason)
    disk = tmp_path / "disk"
    disk.mkdir()
    with mounted(disk, "-t", "tmpfs", "-o", "size=10m,mode=700", "tmpfs"):
        _read_with_a_cache_that_fails(stored, disk / "cache", expected)


def test_the_disk_of_the_cache_is_read_only(stored: Stored, expected: list[str], tmp_path: Path) -> None:
    if reason := why_no_mounts():
        pytest.skip(reason)
    disk = tmp_path / "disk"
    disk.mkdir()
    with mounted(disk, "-t", "tmpfs", "-o", "size=64m,mode=700,ro", "tmpfs"):
        _read_with_a_cache_that_fails(stored, disk / "cache", expected)


# Processes


def _finish(process: Any) -> tuple[int, list[str]]:
    printed, said = process.communicate(timeout=120)
    assert process.returncode in (0, -signal.SIGKILL), said
    return process.returncode, printed.split()


def test_two_processes_start_cold_on_one_cache(
    stored: Stored, expected: list[str], proxy: FaultProxy, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    both = [reader.start(stored, cache, cache_size=CACHE_BYTES) for _ in range(2)]
    assert [_finish(process) for process in both] == [(0, expected)] * 2
    assert proxy.sent_bytes(stored.local.name) <= 1.1 * stored.size_bytes
    proxy.clear()
    assert _finish(reader.start(stored, cache, cache_size=CACHE_BYTES)) == (0, expected)
    assert proxy.sent_bytes(stored.local.name) < 1 << 20


@pytest.mark.parametrize("requests", [1, 4, 6])
def test_a_reader_is_killed(
    requests: int, stored: Stored, expected: list[str], proxy: FaultProxy, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    proxy.bytes_per_s = 10e6
    process = reader.start(stored, cache, cache_size=CACHE_BYTES)
    while len(proxy.exchanges(stored.local.name)) < requests:
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    code, found = _finish(process)
    assert code == -signal.SIGKILL
    assert found == expected[: len(found)]
    proxy.clear()
    _assert_cache_serves(stored, expected, cache)


@pytest.mark.parametrize("after", [0, 3])
def test_a_process_is_killed_while_it_stores_a_block(
    after: int, stored: Stored, expected: list[str], tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    code, found = _finish(reader.start(stored, cache, cache_size=CACHE_BYTES, die_after=after))
    assert code == -signal.SIGKILL
    assert found == expected[: len(found)]
    _assert_cache_serves(stored, expected, cache)


def _assert_cache_serves(stored: Stored, expected: list[str], cache: Path) -> None:
    for _ in range(2):
        assert _read_through(stored, cache) == expected
    assert {path.name for path in cache.iterdir()} == {"headrace-blocks", "headrace-cache"}
    assert sum(path.stat().st_blocks * 512 for path in cache.iterdir()) <= CACHE_BYTES


def test_a_forked_process_is_told_to_spawn(stored: Stored) -> None:
    with stored.open() as there:
        _ = there[0]
        child = os.fork()
        if child == 0:
            os._exit(_exit_code_of_opening(stored))
        deadline = time.monotonic() + 30
        while (ended := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < deadline:
            time.sleep(0.05)
        if ended[0] == 0:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        assert ended[0] == child
        assert os.waitstatus_to_exitcode(ended[1]) == 0


def _exit_code_of_opening(stored: Stored) -> int:
    try:
        stored.open()
    except RemoteError as error:
        return 0 if "spawn" in str(error) else 5
    except BaseException:
        return 4
    return 3
