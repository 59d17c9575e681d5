"""The page cache, counters of the disk, processes, orders, photographs."""

from __future__ import annotations

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pytest

from headrace.bench import page_cache
from headrace.bench.child import Child, ChildError, FreshProcesses
from headrace.bench.disk import check_room, disk_use
from headrace.bench.orders import buffered_order, order_of, randomness, shuffle_buffer
from headrace.bench.page_cache import forget, is_cached, why_warm_only
from headrace.bench.pictures import find_photographs, photo, photograph_bytes, photograph_count
from headrace.bench.rows import compared_rows
from headrace.bench.small_model import train_and_test
from headrace.bench.suite import Settings
from headrace.bench.suites.scaling import loader_memory, write_empty_beton
from headrace.bench.turns import in_turn, self_timed, take_turns
from headrace.codecs import jpeg

if TYPE_CHECKING:
    from pathlib import Path


def test_files_leave_the_page_cache(tmp_path: Path) -> None:
    if reason := why_warm_only(tmp_path):
        pytest.skip(reason)
    path = tmp_path / "x"
    path.write_bytes(bytes(1 << 20))
    assert is_cached(path)
    forget(tmp_path)
    assert not is_cached(path)
    before = disk_use(tmp_path)
    path.read_bytes()
    assert is_cached(path)
    assert (disk_use(tmp_path).since(before).size_bytes or 0) >= 1 << 19  # a few pages may have stayed
    assert os.listdir(tmp_path) == ["x"]


def test_warm_only_where_files_stay_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_cache, "is_cached", lambda path: True)
    assert why_warm_only(tmp_path).startswith("warm only: the system keeps files of this folder")
    monkeypatch.setattr(page_cache, "is_cached", lambda path: None)
    assert why_warm_only(tmp_path).startswith("warm only: ")


def test_too_little_room_says_how_much(tmp_path: Path) -> None:
    check_room(tmp_path, 1, suite="formats")
    with pytest.raises(OSError, match=r"formats writes up to 1024\.0 PiB, and .* are free.*--out"):
        check_room(tmp_path, 1 << 60, suite="formats")


def test_each_function_has_a_process_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "x.beton"
    write_empty_beton(path, 1000)
    with FreshProcesses() as fresh:
        used = [fresh.call(loader_memory, path=str(path))["memory_bytes"] for _ in range(3)]
    assert 0 < min(used) <= max(used) < min(used) + (4 << 20)  # nothing of one is left for the next


def test_a_function_that_fails_says_why(tmp_path: Path) -> None:
    with FreshProcesses() as fresh, pytest.raises(ChildError, match=r"missing\.beton"):
        fresh.call(loader_memory, path=str(tmp_path / "missing.beton"))


def test_a_child_that_fails_says_why() -> None:
    with (
        Child([sys.executable, "-c", "import sys; sys.exit('out of luck')"]) as child,
        pytest.raises(ChildError, match="code 1: out of luck"),
    ):
        child.ask({})


def test_a_child_answers_through_noise_and_ends_with_its_children() -> None:
    program = (
        "import subprocess, sys\n"
        "other = subprocess.Popen(['sleep', '600'])\n"
        "for line in sys.stdin: print('noise\\n{\"pid\": %d}' % other.pid, flush=True)\n"
    )
    with Child([sys.executable, "-c", program], cores=sorted(os.sched_getaffinity(0))[:1]) as child:
        pid = child.ask({"do": "it"})["pid"]
        assert len(os.sched_getaffinity(pid)) == 1
    for _ in range(200):  # a killed process may take a moment
        if not os.path.exists(f"/proc/{pid}"):
            return
        time.sleep(0.01)
    with open(f"/proc/{pid}/stat") as file:
        assert file.read().rpartition(")")[2].split()[0] == "Z"  # dead, and nobody has asked for it yet


def test_orders_and_how_random_they_are() -> None:
    pages = np.arange(2000) // 50
    found = {
        "sequential": randomness(order_of("sequential", pages, seed=0), pages, 50),
        "quasi": randomness(order_of("quasi_random", pages, seed=0, pool_pages=8), pages, 50),
        "random": randomness(order_of("random", pages, seed=0), pages, 50),
        "buffered": randomness(buffered_order(2000, shard_samples=50, buffer=100, seed=0), pages, 50),
    }
    assert found["sequential"].rank_correlation == 1
    assert abs(found["random"].rank_correlation) < 0.1
    assert found["sequential"].distance < found["buffered"].distance < found["random"].distance
    assert found["random"].page_mates < found["quasi"].page_mates < found["sequential"].page_mates
    for kind in ("sequential", "random", "quasi_random"):
        assert sorted(order_of(kind, pages, seed=3, pool_pages=4)) == list(range(2000))
    assert sorted(buffered_order(101, shard_samples=10, buffer=7, seed=1)) == list(range(101))
    assert list(shuffle_buffer(range(5), 1, 0)) == list(range(5))


def test_a_model_notices_the_order() -> None:
    rng = np.random.default_rng(0)
    in_order = train_and_test(2000, lambda epoch: np.arange(2000), 0)
    shuffled = train_and_test(2000, lambda epoch: rng.permutation(2000), 0)
    assert shuffled > 0.9
    assert in_order < shuffled - 0.1


def test_photographs_of_a_folder(tmp_path: Path) -> None:
    data = [jpeg.encode(photo(seed), quality=90) for seed in range(2)]
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.JPG").write_bytes(data[0])
    (tmp_path / "2.jpeg").write_bytes(data[1])
    (tmp_path / "broken.jpg").write_bytes(data[0][:20])
    (tmp_path / "notes.txt").write_text("no photograph")
    assert [path.name for path in find_photographs(tmp_path, 10)] == ["2.jpeg", "1.JPG"]
    assert photograph_bytes(str(tmp_path), 3) == [data[1], data[0], data[1]]


def test_fewer_large_photographs_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = jpeg.encode(photo(0), quality=90)
    (tmp_path / "1.jpg").write_bytes(data)
    settings = Settings(work=tmp_path, images=str(tmp_path), quick=True)
    assert photograph_count(settings, quick=256, full=2000) == 256
    monkeypatch.setattr("headrace.bench.pictures._QUICK_BYTES", 50 * len(data))
    assert photograph_count(settings, quick=256, full=2000) == 50
    assert photograph_count(replace(settings, samples=200), quick=256, full=2000) == 200
    assert photograph_count(replace(settings, images=None), quick=256, full=2000) == 256


def test_a_folder_without_photographs_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no JPEG file below"):
        find_photographs(tmp_path, 5)
    with pytest.raises(NotADirectoryError, match="is not a folder"):
        find_photographs(tmp_path / "missing", 5)


def test_the_store_gives_ranges_of_files_below_its_folder_alone(tmp_path: Path) -> None:
    (tmp_path / "store" / "bucket").mkdir(parents=True)
    (tmp_path / "store" / "bucket" / "a b").write_bytes(b"0123456789")
    (tmp_path / "secret").write_text("not for others")
    with Child([sys.executable, "-m", "headrace.bench.store_server", str(tmp_path / "store"), "0"]) as child:
        endpoint = child.ask()["endpoint"]
        assert urlopen(f"{endpoint}/bucket/a%20b").read() == b"0123456789"
        for said, expected, told in (
            ("bytes=2-4", b"234", "2-4"),
            ("bytes=8-", b"89", "8-9"),
            ("bytes=9-99", b"9", "9-9"),
        ):
            with urlopen(Request(f"{endpoint}/bucket/a%20b", headers={"Range": said})) as answer:
                assert (answer.status, answer.headers["Content-Range"]) == (206, f"bytes {told}/10")
                assert answer.read() == expected
        with urlopen(Request(f"{endpoint}/bucket/a%20b", method="HEAD")) as answer:
            assert (answer.headers["Content-Length"], answer.read()) == ("10", b"")
        for path in ("bucket/b", "bucket", "%2e%2e/secret", "../secret"):
            with pytest.raises(HTTPError, match="404"):
                urlopen(f"{endpoint}/{path}")


def test_a_network_of_a_known_rate_is_for_all_connections_together(tmp_path: Path) -> None:
    (tmp_path / "bucket").mkdir()
    (tmp_path / "bucket" / "x").write_bytes(bytes(1 << 20))
    words = [sys.executable, "-m", "headrace.bench.store_server", str(tmp_path), "0", str(8 << 20)]
    with Child(words) as child, ThreadPoolExecutor(4) as pool:
        url = f"{child.ask()['endpoint']}/bucket/x"
        start_s = time.monotonic()
        sizes = list(pool.map(lambda _: len(urlopen(url).read()), range(4)))
        taken_s = time.monotonic() - start_s
    assert sizes == [1 << 20] * 4
    assert taken_s > 0.45  # 4 MiB at 8 MiB a second


def test_who_comes_after_a_contender_waits_until_it_rests() -> None:
    program = (
        "import sys, threading, time\n"
        "def burn():\n"
        "    end = time.monotonic() + 1.0\n"
        "    while time.monotonic() < end: pass\n"
        "for line in sys.stdin:\n"
        "    threading.Thread(target=burn).start()\n"
        "    print('{}', flush=True)\n"
    )
    with Child([sys.executable, "-c", program]) as child:
        child.ask()
        start_s = time.monotonic()
        child.settle()
        assert time.monotonic() - start_s > 0.4
        child.ask()
        start_s = time.monotonic()
        child.settle(0.2)
        assert time.monotonic() - start_s < 0.9  # it does not wait for ever


def test_rounds_have_orders_of_their_own() -> None:
    names = list("abcde")
    rounds = [in_turn(names, turn) for turn in range(10)]
    assert rounds == [in_turn(names, turn) for turn in range(10)]
    assert [one[0] for one in rounds] == names * 2
    assert all(sorted(one) == names for one in rounds)
    assert len({one[one.index("a") - 1] for one in rounds if one[0] != "a"}) > 2  # who comes before it
    assert in_turn([], 3) == []


def test_who_takes_long_takes_part_in_the_last_rounds() -> None:
    done: list[str] = []

    def work(name: str) -> float:
        done.append(name)
        return float(len(done))

    contenders = {name: (lambda name=name: work(name)) for name in ("ours", "slow")}
    seconds, _ = self_timed(contenders, 3, last_rounds={"slow": 2})
    assert {name: len(taken) for name, taken in seconds.items()} == {"ours": 3, "slow": 2}
    assert done[:2] == ["ours", "ours"]
    ours, _ = compared_rows("x", {"ours": [9.0, 1.0, 1.0], "slow": [2.0, 3.0]}, ["slow"])
    assert ours.beside["slow"].low == 2.0


def test_made_up_photographs_are_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.bench.pictures._MOST_MADE_UP", 2)
    first, second, third = photograph_bytes(None, 3)
    assert first == third != second


def test_a_peer_that_fails_is_left_out_and_our_own_failure_is_not() -> None:
    def fails() -> float:
        raise ChildError("out of luck")

    assert self_timed({"ours": lambda: 1.0, "theirs": fails}, 2, ["theirs"]) == (
        {"ours": [1.0, 1.0]},
        {"theirs": "out of luck"},
    )
    with pytest.raises(ChildError, match="out of luck"):
        self_timed({"ours": fails}, 2, ["theirs"])


def test_each_round_begins_with_another_contender_and_sizes_count() -> None:
    begun: list[str] = []
    contenders = {name: (lambda item, name=name: begun.append(name)) for name in "ab"}
    take_turns(contenders, lambda turn: [turn], 2)
    assert begun == ["a", "b", "b", "a", "a", "b"]
    clock = iter(range(100))
    seconds = take_turns(
        {"a": lambda item: None}, lambda turn: [4], 1, size=float, clock=lambda: next(clock), longest_s=9
    )
    assert seconds == {"a": [0.5]}  # two ticks for an item of four
