from __future__ import annotations

import gc
import multiprocessing
import os
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.range_server import RangeServer, serve

from headrace.errors import ChangedError, ClosedError, RemoteError
from headrace.storage import RemotePath, StorageOptions, StoredStream, check_mapping, is_mapped_file, mapping_faults
from headrace.storage.block_memory import BLOCK_BYTES, BlockMemory
from headrace.storage.remote_file import RemoteFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytest.importorskip("obstore")
SIZE = 5 * BLOCK_BYTES + 12_345
LARGE = 20 * BLOCK_BYTES  # enough for spans to come as ranges


def _bytes(size: int) -> bytes:
    return np.random.default_rng(1).integers(0, 256, size, np.uint8).tobytes()


@pytest.fixture(scope="module")
def data() -> bytes:
    return _bytes(LARGE)


@pytest.fixture
def server(data: bytes) -> Iterator[RangeServer]:
    with serve(data[:SIZE]) as server:
        yield server


@pytest.fixture
def large(data: bytes) -> Iterator[RangeServer]:
    with serve(data) as server:
        yield server


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> BlockMemory:
    memory = BlockMemory(1 << 30)
    monkeypatch.setattr("headrace.storage.remote_file.shared_memory", lambda: memory)
    return memory


@pytest.fixture(autouse=True)
def _no_threads_left() -> Iterator[None]:
    yield
    gc.collect()
    _eventually(lambda: not [one.name for one in threading.enumerate() if one.name.startswith("headrace-remote")])


def _eventually(condition: Callable[[], bool]) -> None:
    for _ in range(500):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it did not become true within 5 s")


def _open(server: RangeServer, **options: Any) -> RemoteFile:
    return RemoteFile(RemotePath(server.url, StorageOptions(store={"retry_timeout": 20, **options})))


def _u64(*numbers: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return np.array(numbers, np.uint64)


def _spans(file: RemoteFile, *spans: tuple[int, int]) -> list[bytes]:
    base, starts = file.region(_u64(*(a for a, _ in spans)), _u64(*(b for _, b in spans)))
    return [base[s : s + n].tobytes() for s, (_, n) in zip(starts.tolist(), spans, strict=True)]


class TestHold:
    def test_opening_is_one_request_that_brings_the_beginning(self, server: RangeServer) -> None:
        file = _open(server)
        assert file.size_bytes == SIZE
        assert file.hold(0, 1000).tobytes() == server.data[:1000]
        assert server.ranges == [(0, 65536)]
        assert not file.is_local
        file.close()

    def test_what_is_held_comes_once_and_stays(self, server: RangeServer, memory: BlockMemory) -> None:
        memory.budget_bytes = 0
        file = _open(server)
        held = file.hold(3_000_000, 3_100_000)
        assert held.tobytes() == server.data[3_000_000:3_100_000]
        assert file.hold(3_000_000, 3_100_000).tobytes() == held.tobytes()
        assert file.stats.requests == 2
        assert server.sent_bytes < 65536 + 100_000 + 2 * 65536
        assert _spans(file, (3_050_000, 9)) == [server.data[3_050_000:][:9]]
        assert file.stats.requests == 2
        file.close()
        assert held.tobytes() == server.data[3_000_000:3_100_000]

    def test_all_of_it(self, server: RangeServer) -> None:
        file = _open(server)
        assert file.hold(0, SIZE).tobytes() == server.data
        assert file.mapped.tobytes() == server.data
        assert server.sent_bytes == SIZE
        file.check()
        file.close()

    def test_what_was_not_held_is_an_error_afterwards(self, server: RangeServer) -> None:
        file = _open(server)
        assert file.mapped[2_000_000] == 0
        assert mapping_faults(file.mapped) == 1
        assert not is_mapped_file(file.mapped)
        with pytest.raises(RemoteError, match="had not been brought"):
            file.check()
        with pytest.raises(RemoteError, match="had not been brought"):
            check_mapping(file.mapped, file.path)
        file.close()

    @pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537])
    def test_small_objects(self, size: int) -> None:
        with serve(_bytes(size)) as server:
            file = _open(server)
            assert file.hold(0, size).tobytes() == server.data
            assert _spans(file, (0, size)) == [server.data]
            assert server.sent_bytes == size
            file.close()

    def test_use_after_closing(self, server: RangeServer) -> None:
        file = _open(server)
        file.close()
        file.close()
        for use in (lambda: file.mapped, lambda: file.hold(0, 1), lambda: file.region(_u64(0), _u64(1))):
            with pytest.raises(ClosedError):
                use()


class TestRegion:
    def test_blocks_stay_as_long_as_the_array(self, server: RangeServer, memory: BlockMemory) -> None:
        memory.budget_bytes = BLOCK_BYTES
        file = _open(server)
        base, starts = file.region(_u64(0), _u64(SIZE))
        part = base[int(starts[0]) :][5:1005]
        del base
        assert memory.size_bytes == SIZE
        assert part.tobytes() == server.data[5:1005]
        del part
        gc.collect()
        _eventually(lambda: memory.size_bytes <= BLOCK_BYTES)
        assert _spans(file, (0, 100)) == [server.data[:100]]
        file.check()
        file.close()
        assert memory.size_bytes == 0

    def test_no_byte_comes_twice(self, server: RangeServer, memory: BlockMemory) -> None:
        file = _open(server)
        threads = [threading.Thread(target=_spans, args=(file, (0, SIZE))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert server.sent_bytes == SIZE
        assert _spans(file, (77, 10_000_000)) == [server.data[77:][:10_000_000]]
        assert server.sent_bytes == SIZE
        file.close()

    def test_spans_far_apart_come_as_ranges(self, large: RangeServer, memory: BlockMemory) -> None:
        file = _open(large)
        spans = [(40_000_000, 5_000), (7, 3), (40_010_000, 5_000), (70_000_000, 100), (9, 0)]
        assert _spans(file, *spans) == [large.data[a : a + n] for a, n in spans]
        assert sorted(large.ranges[1:]) == [(7, 10), (40_000_000, 40_015_000), (70_000_000, 70_000_100)]
        assert memory.size_bytes == 0
        file.close()

    def test_one_span_after_the_other_comes_in_blocks_ahead(self, large: RangeServer, memory: BlockMemory) -> None:
        file = _open(large)
        stream = StoredStream(file)
        read = b"".join(stream.read(50_000) or b"" for _ in range(400))
        assert read == large.data[: len(read)]
        assert file.stats.requests < 12
        file.close()

    def test_spans_beyond_the_end(self, server: RangeServer) -> None:
        file = _open(server)
        for offset, size in [(SIZE, 1), (0, SIZE + 1), (2**64 - 1, 2), (5, 2**64 - 1)]:
            with pytest.raises(ValueError, match="beyond"):
                file.region(_u64(offset), _u64(size))
        base, _ = file.region(_u64(SIZE), _u64(0))
        assert base is file.mapped
        file.close()


class TestAnnounce:
    def test_a_region_takes_from_announcements_and_blocks_and_fetches_the_rest(
        self, large: RangeServer, memory: BlockMemory
    ) -> None:
        file = _open(large)
        first, second = file.announce(_u64(1 << 20), _u64(3000)), file.announce(_u64(5 << 20, 7 << 20), _u64(10, 20))
        blocks = file.announce(_u64(3 * BLOCK_BYTES), _u64(BLOCK_BYTES))
        for announced in (first, second, blocks):
            assert announced is not None
            announced.wait()
        large.ranges.clear()
        here = [((3 * BLOCK_BYTES) + 7, 11), (7 << 20, 20), (0, 0), ((1 << 20) + 5, 100), (5 << 20, 10)]
        assert _spans(file, *here) == [large.data[start : start + size] for start, size in here]
        assert large.ranges == []
        more = [(60 << 20, 40), *here, (64 << 20, 50)]
        assert _spans(file, *more) == [large.data[start : start + size] for start, size in more]
        assert sorted(large.ranges) == [(60 << 20, (60 << 20) + 40), (64 << 20, (64 << 20) + 50)]
        file.close()

    def test_a_region_takes_over_what_was_announced(self, large: RangeServer, memory: BlockMemory) -> None:
        file = _open(large)
        offsets, sizes = _u64(30_000_000, 60_000_000), _u64(1000, 2000)
        announced = file.announce(offsets, sizes)
        assert announced is not None
        announced.wait()
        assert announced.size_bytes == 3000
        asked = file.stats.requests
        assert _spans(file, (60_000_500, 5)) == [large.data[60_000_500:][:5]]
        assert file.stats.requests == asked
        announced.close()
        announced.close()
        file.close()

    def test_blocks(self, server: RangeServer, memory: BlockMemory) -> None:
        memory.budget_bytes = 0
        file = _open(server)
        announced = file.announce(_u64(BLOCK_BYTES), _u64(2 * BLOCK_BYTES))
        assert announced is not None
        assert announced.size_bytes == 2 * BLOCK_BYTES
        announced.wait()
        sent = server.sent_bytes
        assert _spans(file, (BLOCK_BYTES, 100)) == [server.data[BLOCK_BYTES:][:100]]
        assert server.sent_bytes == sent
        announced.close()
        _eventually(lambda: memory.size_bytes == 0)
        file.close()

    @pytest.mark.parametrize("part", [1.0, 0.6])
    def test_blocks_that_are_used_up_go_at_once_if_all_of_them_was_used(
        self, part: float, large: RangeServer, memory: BlockMemory
    ) -> None:
        memory.budget_bytes = 4 * BLOCK_BYTES
        file = _open(large)
        announced = file.announce(_u64(0), _u64(int(2 * part * BLOCK_BYTES)))
        assert announced is not None
        announced.wait()
        assert announced.size_bytes == memory.size_bytes == 2 * BLOCK_BYTES
        announced.close(used_up=True)
        announced.close(used_up=True)
        kept_bytes = 0 if part == 1 else 2 * BLOCK_BYTES  # another page may have the rest
        _eventually(lambda: memory.size_bytes == kept_bytes)
        assert _spans(file, (5, 100)) == [large.data[5:105]]
        file.close()
        assert memory.object_bytes == 0

    def test_nothing_to_bring(self, server: RangeServer) -> None:
        file = _open(server)
        assert file.announce(_u64(5), _u64(100)) is None
        file.close()

    def test_one_that_is_closed_lets_go_of_what_is_on_its_way(self, server: RangeServer, memory: BlockMemory) -> None:
        file = _open(server)
        server.gate.clear()
        server.fault = lambda number: "stall"
        announced = file.announce(_u64(0), _u64(SIZE))
        assert announced is not None
        waiter: list[BaseException] = []
        thread = threading.Thread(target=_note_error, args=(announced.wait, waiter))
        thread.start()
        _eventually(lambda: server.busiest > 1)
        begin_s = time.monotonic()
        announced.close()
        thread.join()
        assert time.monotonic() - begin_s < 5
        assert isinstance(waiter[0], ClosedError)
        _eventually(lambda: memory.size_bytes == 0)
        server.fault = lambda number: None
        assert _spans(file, (0, 100)) == [server.data[:100]]
        file.close()

    def test_requests_at_a_time_are_bounded(self, large: RangeServer, memory: BlockMemory) -> None:
        file = _open(large)
        offsets = np.arange(100, dtype=np.uint64) * np.uint64(400_000)
        announced = file.announce(offsets, np.full(100, 1000, np.uint64))
        assert announced is not None
        announced.wait()
        assert 2 <= large.busiest <= 16
        announced.close()
        file.close()


def _note_error(call: Callable[[], object], errors: list[BaseException]) -> None:
    try:
        call()
    except BaseException as error:
        errors.append(error)


class TestFaults:
    @pytest.mark.parametrize("fault", ["cut", "short", "long", "shifted", 500, 503, 429])
    def test_passing_ones_are_survived(self, fault: str | int, server: RangeServer, memory: BlockMemory) -> None:
        server.fault = lambda number: fault if number % 3 else None
        file = _open(server)
        assert _spans(file, (0, SIZE)) == [server.data]
        file.close()

    @pytest.mark.parametrize("fault", ["cut", "short", 503])
    def test_lasting_ones_are_told_after_a_time(self, fault: str | int, server: RangeServer) -> None:
        file = _open(server, retry_timeout=0.5)
        server.fault = lambda number: fault
        with pytest.raises(RemoteError, match="did not answer as it should") as caught:
            file.hold(1_000_000, 1_000_001)
        assert caught.value.url == server.url
        server.fault = lambda number: None
        assert file.hold(1_000_000, 1_000_001).tobytes() == server.data[1_000_000:1_000_001]
        file.close()

    @pytest.mark.parametrize(("status", "words"), [(403, "does not let us in"), (401, "let us in"), (400, "Trouble")])
    def test_those_that_do_not_pass_are_told_at_once(self, status: int, words: str, server: RangeServer) -> None:
        server.fault = lambda number: status
        begin_s = time.monotonic()
        with pytest.raises(RemoteError, match=words):
            _open(server)
        assert time.monotonic() - begin_s < 5

    def test_a_missing_object(self, server: RangeServer) -> None:
        server.fault = lambda number: 404
        with pytest.raises(FileNotFoundError):
            _open(server)

    def test_no_secret_is_told(self, server: RangeServer) -> None:
        server.fault = lambda number: 403
        with pytest.raises(RemoteError) as caught:
            RemoteFile(RemotePath(server.url.replace("//", "//me:hidden@") + "?X-Signature=hidden"))
        assert "hidden" not in str(caught.value)
        assert "hidden" not in caught.value.url

    @pytest.mark.parametrize("minds_conditions", [True, False])
    @pytest.mark.parametrize("etag", ['"two"', 'W/"two"', None])
    def test_another_object(self, etag: str | None, minds_conditions: bool, server: RangeServer) -> None:
        file = _open(server)
        server.etag, server.minds_conditions = etag, minds_conditions
        with pytest.raises(ChangedError, match="changed while it was in use"):
            file.hold(1_000_000, 1_000_001)
        file.close()

    def test_weak_versions_are_no_condition(self, server: RangeServer) -> None:
        server.etag = 'W/"weak"'
        server.fault = lambda number: None
        file = _open(server)
        assert file.hold(1_000_000, 1_000_001).tobytes() == server.data[1_000_000:1_000_001]
        file.close()

    def test_an_object_that_was_deleted_or_cut(self, server: RangeServer) -> None:
        file = _open(server)
        server.fault = lambda number: 404
        with pytest.raises(ChangedError, match="deleted"):
            file.hold(1_000_000, 1_000_001)
        server.fault = lambda number: None
        server.data = server.data[:100_000]
        with pytest.raises(ChangedError):
            file.hold(1_000_000, 1_000_001)
        file.close()

    def test_a_size_that_cannot_be(self, server: RangeServer) -> None:
        class Huge(bytes):
            def __len__(self) -> int:
                return 1 << 62

        server.data = Huge(server.data)
        with pytest.raises(RemoteError, match="not so many addresses"):
            _open(server)

    def test_closing_wakes_who_waits(self, server: RangeServer) -> None:
        file = _open(server)
        server.gate.clear()
        server.fault = lambda number: "stall"
        errors: list[BaseException] = []
        thread = threading.Thread(target=_note_error, args=(lambda: file.hold(1_000_000, 2_000_000), errors))
        thread.start()
        _eventually(lambda: server.busiest >= 1 and file.stats.requests == 1)
        time.sleep(0.1)
        begin_s = time.monotonic()
        file.close()
        thread.join()
        assert time.monotonic() - begin_s < 5
        assert isinstance(errors[0], ClosedError)


def test_a_file_that_is_dropped_ends_its_thread(server: RangeServer) -> None:
    file = _open(server)
    array = file.hold(0, 100)
    del file
    gc.collect()
    _eventually(lambda: not [one for one in threading.enumerate() if one.name == "headrace-remote"])
    assert array.tobytes() == server.data[:100]


def _in_child(file: RemoteFile, queue: Any) -> None:
    held = file.hold(0, 10).tobytes()
    try:
        file.hold(1_000_000, 1_000_001)
    except RemoteError as error:
        queue.put((held, str(error)))
    file.close()
    os._exit(0)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_gets_an_error(server: RangeServer) -> None:
    file = _open(server)
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=_in_child, args=(file, queue))
    child.start()
    child.join(20)
    assert child.exitcode == 0
    held, message = queue.get()
    assert held == server.data[:10]
    assert "spawn" in message
    assert file.hold(1_000_000, 1_000_001).tobytes() == server.data[1_000_000:1_000_001]
    file.close()
