"""Sets of files by tasks of a real Ray cluster: the same as by one process, whoever is killed."""

from __future__ import annotations

import contextlib
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

import headrace as hr
from headrace.errors import BrokenPicturesError, FormatError
from headrace.formats.ray_tasks import open_tasks
from headrace.testing.columns import picture_of

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.ray,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed"),
]

COUNT = 60


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with open_tasks(address=None, workers=2, needed_by="the tests") as tasks:
        yield tasks


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("source") / "in.beton")
    fields = {"image": hr.Image(mode="proportion"), "label": hr.Int(), "text": hr.Text()}
    samples = [(picture_of(i, 20 + i, 30), i, "x" * (i * i)) for i in range(COUNT)]
    hr.write(path, samples, fields=fields, names=[f"n{i}" for i in range(COUNT)], workers=1)
    return path


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Pictures that take a while to encode."""
    path = str(tmp_path_factory.mktemp("photos") / "in.beton")
    rng = np.random.default_rng(5)
    samples = [(rng.integers(0, 255, (900, 1200, 3), np.uint8), i) for i in range(48)]
    hr.write(path, samples, fields={"image": hr.Image(mode="raw"), "label": hr.Int()})
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in sorted(os.listdir(folder))}


def by_both(source: str, folder: Path, name: str, **options: Any) -> tuple[dict[str, bytes], dict[str, bytes]]:
    found = []
    for engine in ("local", "ray"):
        (folder / engine).mkdir()
        hr.convert(source, folder / engine / name, engine=engine, **options)  # type: ignore[arg-type]
        found.append(contents(folder / engine))
    return found[0], found[1]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("t-%02d.tar", {"shard_samples": 7}),
        ("t-%02d.tar", {"shard_size": 20_000, "shuffle_seed": 3}),
        ("t-%02d.beton", {"shard_samples": 7, "shuffle_seed": 3, "verify": True}),
        ("t-%02d.beton", {"shard_size": 20_000, "verify": True}),
        ("t-%02d.beton", {"shard_size": 20_000, "shard_samples": 9, "resume": True}),
        ("t-%02d.tar", {"shard_samples": 9, "resume": True, "verify": True, "limit": 50}),
        ("t-%02d.npz", {"shard_size": 30_000, "image_mode": "jpg", "max_side": 24}),
        ("t-%02d.beton", {"shard_samples": 100}),
    ],
)
def test_the_files_are_the_same_to_the_byte(
    cluster: Any, source: str, tmp_path: Path, name: str, options: dict[str, Any]
) -> None:
    local, by_tasks = by_both(source, tmp_path, name, **options)
    assert by_tasks == local
    assert len(local) > 1 or options == {"shard_samples": 100}


def folder_of_pictures(folder: Path, *, broken: tuple[int, ...]) -> str:
    folder.mkdir()
    for i in range(20):
        good = hr.Image(quality=90).encode(picture_of(i, 30, 40), i).payload
        assert good is not None
        (folder / f"{i:02}.jpg").write_bytes(b"no picture" if i in broken else good)
    return str(folder)


@pytest.mark.parametrize("limit", [{"shard_samples": 4}, {"shard_size": 3000}])
def test_broken_pictures_are_named_or_left_out_as_without_a_cluster(
    cluster: Any, tmp_path: Path, limit: dict[str, int]
) -> None:
    source = folder_of_pictures(tmp_path / "in", broken=(0, 5, 6, 17))
    told = []
    for engine in ("local", "ray"):
        with pytest.raises(BrokenPicturesError) as caught:
            hr.convert(source, tmp_path / "t-%02d.beton", engine=engine, **limit)  # type: ignore[arg-type]
        told.append((str(caught.value), caught.value.broken))
    assert told[0] == told[1]
    assert os.listdir(tmp_path) == ["in"]
    local, by_tasks = by_both(source, tmp_path, "t-%02d.beton", skip_broken=True, **limit)
    assert by_tasks == local
    assert len(hr.open(str(tmp_path / "ray" / "t-*.beton"))) == 16


def test_an_error_names_the_file_and_the_node_and_not_ray(cluster: Any, source: str, tmp_path: Path) -> None:
    damaged = tmp_path / "in.beton"
    data = bytearray(Path(source).read_bytes())
    with hr.open(source) as dataset:
        (text,) = dataset.read_bytes([33], "text")
        place = data.find(text)
    data[place + 5] ^= 1
    damaged.write_bytes(data)
    (tmp_path / "out").mkdir()
    with pytest.raises(hr.errors.WriteError, match=r"^t-04\.beton \(on node \S+\): sample 33 ") as caught:
        hr.convert(damaged, tmp_path / "out" / "t-%02d.beton", shard_samples=7, engine="ray")
    assert caught.value.sample == 33
    assert "ray::" not in str(caught.value)
    assert "Traceback" not in str(caught.value)
    assert os.listdir(tmp_path / "out") == []


def test_what_no_task_can_do_is_refused(source: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="--engine ray is for a set of files"):
        hr.convert(source, tmp_path / "x.beton", engine="ray")
    with pytest.raises(ValueError, match="engine must be 'local' or 'ray', got 'dask'"):
        hr.convert(source, tmp_path / "x-%d.beton", shard_samples=2, engine="dask")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="is that of a Ray cluster; give engine='ray'"):
        hr.verify(source, address="auto")
    assert os.listdir(tmp_path) == []


def damaged_set(source: str, folder: Path) -> str:
    folder.mkdir()
    hr.convert(source, folder / "t-%02d.beton", shard_samples=10)
    for number, place in ((1, -700), (4, 30)):
        path = folder / f"t-{number:02}.beton"
        data = bytearray(path.read_bytes())
        data[place] ^= 0xFF
        path.write_bytes(data)
    return str(folder / "t-*.beton")


def test_verify_gives_the_same_report(cluster: Any, source: str, tmp_path: Path) -> None:
    good = tmp_path / "good"
    good.mkdir()
    hr.convert(source, good / "t-%02d.beton", shard_samples=10)
    seen: list[int] = []
    for path in (str(good / "t-*.beton"), damaged_set(source, tmp_path / "bad"), source):
        for decode in (False, True):
            local = hr.verify(path, decode=decode)
            report = hr.verify(path, decode=decode, engine="ray", progress=lambda done, *_: seen.append(done))
            assert report == local
            assert report.ok == ("bad" not in path)
    assert max(seen) == COUNT


def test_paths_are_those_of_this_process(
    cluster: Any, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged_set(source, tmp_path / "bad")
    monkeypatch.chdir(tmp_path)
    assert hr.verify("bad/t-*.beton", engine="ray") == hr.verify("bad/t-*.beton")
    hr.convert(source, "bad/u-%d.tar", shard_samples=30, engine="ray")
    assert len(hr.open("bad/u-*.tar")) == COUNT


def test_index_makes_the_same_annexes(cluster: Any, source: str, tmp_path: Path) -> None:
    for engine in ("local", "ray"):
        folder = tmp_path / engine
        folder.mkdir()
        hr.convert(source, folder / "t-%02d.beton", shard_samples=10, annex=False, names=False)
        where = hr.index(str(folder / "t-*.beton"), engine=engine)  # type: ignore[arg-type]
        assert where == str(folder / "t-05.beton.annex")
    assert contents(tmp_path / "ray") == contents(tmp_path / "local")
    assert len(contents(tmp_path / "ray")) == 12
    (tmp_path / "ray" / "t-03.beton").write_bytes(b"nothing")
    with pytest.raises(FormatError, match=r"t-03\.beton.*\(on node "):
        hr.index(str(tmp_path / "ray" / "t-*.beton"), engine="ray")


def workers_of(driver: int) -> list[int]:
    """Processes that run a task for a process of this machine."""
    parents, titles = {}, {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            status = Path(f"/proc/{name}/stat").read_text()
            titles[int(name)] = Path(f"/proc/{name}/cmdline").read_bytes()
        except OSError:
            continue
        parents[int(name)] = int(status.rpartition(")")[2].split()[1])

    def descends(number: int) -> bool:
        while number > 1 and number != driver:
            number = parents.get(number, 0)
        return number == driver

    return [number for number, title in titles.items() if title.startswith(b"ray::_call") and descends(number)]


@pytest.mark.parametrize("limit", [{"shard_samples": 6}, {"shard_size": 400_000}])
def test_a_worker_that_is_killed_is_made_up_for(
    cluster: Any, photos: str, tmp_path: Path, limit: dict[str, int]
) -> None:
    (tmp_path / "local").mkdir()
    options: dict[str, Any] = {"image_mode": "jpg", "max_side": 400, **limit}
    hr.convert(photos, tmp_path / "local" / "t-%02d.beton", **options)
    for attempt in range(20):  # work that is done before anybody could be killed shows nothing
        target = tmp_path / f"ray{attempt}"
        target.mkdir()
        with killing_workers() as killed:
            hr.convert(photos, target / "t-%02d.beton", engine="ray", **options)
        assert contents(target) == contents(tmp_path / "local")
        if killed:
            return
    pytest.fail("no worker was found to be killed")


@contextlib.contextmanager
def killing_workers() -> Iterator[list[int]]:
    """Kill up to three workers of this process's Ray, one after the other, while they work."""
    killed: list[int] = []
    is_done = threading.Event()

    def kill_some() -> None:
        while len(killed) < 3 and not is_done.wait(0.05):
            for number in workers_of(os.getpid())[:1]:
                with contextlib.suppress(ProcessLookupError):  # it has ended by itself
                    os.kill(number, signal.SIGKILL)
                    killed.append(number)

    killer = threading.Thread(target=kill_some)
    killer.start()
    try:
        yield killed
    finally:
        is_done.set()
        killer.join()


DRIVER = """
import glob, os, signal, sys
import headrace as hr
def progress(done, total, size_bytes):
    if len(glob.glob(sys.argv[2].replace("%02d", "??"))) >= int(sys.argv[4]):
        os.kill(os.getpid(), signal.SIGKILL)
hr.convert(sys.argv[1], sys.argv[2], resume=True, engine="ray", workers=2, progress=progress, **eval(sys.argv[3]))
"""


@pytest.fixture
def short_folder() -> Iterator[str]:
    """For temporary files of other processes: Ray's sockets need short paths."""
    with tempfile.TemporaryDirectory(prefix="r") as folder:
        yield folder


def run_driver(folder: str, *arguments: str) -> int:
    environment = {**os.environ, "TMPDIR": folder}
    return subprocess.run(
        [sys.executable, "-c", DRIVER, *arguments], env=environment, timeout=150, check=False
    ).returncode


@pytest.mark.parametrize("limit", [{"shard_samples": 6}, {"shard_size": 90_000}])
def test_a_driver_that_is_killed_leaves_what_is_complete(
    photos: str, tmp_path: Path, short_folder: str, limit: dict[str, int]
) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir()
    parts.mkdir()
    options: dict[str, Any] = {"image_mode": "jpg", "max_side": 200, **limit}
    hr.convert(photos, whole / "t-%02d.tar", **options)
    target = str(parts / "t-%02d.tar")
    assert run_driver(short_folder, photos, target, repr(options), "2") == -signal.SIGKILL
    assert ".t-%02d.tar.convert.json" in os.listdir(parts)
    there = {name: (parts / name).stat().st_mtime_ns for name in os.listdir(parts) if name.startswith("t-")}
    assert 0 < len(there) < len(contents(whole))
    assert run_driver(short_folder, photos, target, repr(options), "999") == 0
    assert contents(parts) == contents(whole)
    kept = [name for name, before in there.items() if (parts / name).stat().st_mtime_ns == before]
    assert kept
    assert os.listdir(short_folder) == []


def test_one_process_goes_on_with_what_a_cluster_began(photos: str, tmp_path: Path, short_folder: str) -> None:
    options: dict[str, Any] = {"image_mode": "jpg", "max_side": 200, "shard_samples": 6}
    (tmp_path / "whole").mkdir()
    (tmp_path / "parts").mkdir()
    hr.convert(photos, tmp_path / "whole" / "t-%02d.tar", **options)
    target = str(tmp_path / "parts" / "t-%02d.tar")
    run_driver(short_folder, photos, target, repr(options), "3")
    hr.convert(photos, target, resume=True, **options)
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")


def test_ctrl_c_leaves_nothing(photos: str, tmp_path: Path, short_folder: str) -> None:
    words = ["convert", photos, str(tmp_path / "t-%02d.beton"), "--shard-samples", "4", "--engine", "ray", "-j", "2"]
    command = [sys.executable, "-m", "headrace", *words, "--image-mode", "jpg", "--max-side", "400"]
    environment = {**os.environ, "TMPDIR": short_folder}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as driver:
        while not list(tmp_path.glob(".*/t-*.beton")):
            assert driver.poll() is None
            time.sleep(0.05)
        driver.send_signal(signal.SIGINT)
        _, told = driver.communicate(timeout=60)
    assert (driver.returncode, told) == (130, "headrace: interrupted; nothing unfinished was left behind\n")
    assert os.listdir(tmp_path) == []
    assert os.listdir(short_folder) == []


def test_the_command_joins_a_cluster_and_leaves_it_running(cluster: Any, source: str, tmp_path: Path) -> None:
    address = cluster.ray.get_runtime_context().gcs_address
    out = str(tmp_path / "t-%02d.beton")
    for words in (
        ["convert", source, out, "--shard-samples", "20"],
        ["index", str(tmp_path / "t-*.beton"), "--embed"],
        ["verify", str(tmp_path / "t-*.beton")],
    ):
        command = [sys.executable, "-m", "headrace", *words, "--engine", "ray", "--address", address]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert "ok (60 samples" in done.stdout
    assert cluster.ray.is_initialized()
    assert hr.verify(source, engine="ray").ok


def test_an_address_where_nobody_answers(tmp_path: Path, source: str) -> None:
    command = [sys.executable, "-m", "headrace", "verify", source, "--engine", "ray", "--address", "127.0.0.1:1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 2
    assert "headrace: error: no Ray cluster answers at 127.0.0.1:1" in done.stderr
    assert "Traceback" not in done.stderr
