"""Loaders and iterators of a user's own, as public programs write them."""

from __future__ import annotations

import gc
import threading
import weakref
from queue import Queue
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.unit.compat.ffcv.tools import Calling, write  # noqa: E402

from headrace.compat.ffcv.fields import IntField, RGBImageField  # noqa: E402
from headrace.compat.ffcv.fields.decoders import IntDecoder  # noqa: E402
from headrace.compat.ffcv.loader import Loader, OrderOption  # noqa: E402
from headrace.compat.ffcv.loader.epoch_iterator import (  # noqa: E402
    QUASIRANDOM_ERROR_MSG,
    EpochIterator,
    select_buffer,
)
from headrace.compat.ffcv.pipeline.compiler import Compiler  # noqa: E402
from headrace.compat.ffcv.transforms import ToTensor  # noqa: E402
from headrace.compat.ffcv.utils import chunks  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

COUNT = 20


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    fields = {"image": RGBImageField(), "label": IntField()}
    return write(
        tmp_path_factory.mktemp("own") / "x.beton", fields, COUNT, lambda i: (np.full((4, 6, 3), i, np.uint8), i)
    )


def labels(batches: Any) -> list[list[int]]:
    found = []
    for image, label in batches:
        assert (image[:, 0, 0, 0] == label[:, 0]).all()
        found.append(label[:, 0].tolist())
    return found


class OwnIter(Loader):
    """Replaces ``__iter__`` with what FFCV's does."""

    kind: Any = EpochIterator

    def __iter__(self) -> Any:
        Compiler.set_num_threads(self.num_workers)
        order = self.next_traversal_order()
        selected_order = order[: len(self) * self.batch_size]
        self.next_epoch += 1
        if self.code is None or self.recompile:
            self.generate_code()
        return self.kind(self, selected_order)


@pytest.mark.parametrize("order", list(OrderOption))
@pytest.mark.parametrize("os_cache", [True, False])
def test_iter_as_ffcv_has_it(path: Path, order: OrderOption, os_cache: bool) -> None:
    options: dict[str, Any] = {"order": order, "seed": 3, "os_cache": os_cache, "drop_last": False}
    own, plain = OwnIter(path, 6, 2, **options), Loader(path, 6, 2, **options)
    for _ in range(2):
        assert labels(own) == labels(plain)
    assert own.next_epoch == 2
    assert own.pipelines == {}


@pytest.mark.parametrize("order", [[7, 3, 3, 19, 0], np.array([5, 1, 2], np.uint64), (4,), np.arange(0)])
def test_the_order_is_a_list_of_samples(path: Path, order: Any) -> None:
    expected = [list(map(int, chunk)) for chunk in chunks(order, 2)]
    assert labels(EpochIterator(Loader(path, 2, 2), order)) == expected


@pytest.mark.parametrize(
    ("order", "error"), [([20], IndexError), ([-1], IndexError), ([[1]], ValueError), ([0.5], ValueError)]
)
def test_samples_that_are_not_there(path: Path, order: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="indices must be"):
        EpochIterator(Loader(path, 2, 2), order)


def test_a_loader_with_an_order_and_a_length_of_its_own(path: Path) -> None:
    class Weighted(Loader):
        def __init__(self, *arguments: Any, weights: Any, **options: Any) -> None:
            self.weights = weights
            super().__init__(*arguments, **options)

        def next_traversal_order(self) -> Any:
            return np.random.default_rng(self.next_epoch).choice(COUNT, 8, p=self.weights)

        def __len__(self) -> int:
            return 2

    weights = np.zeros(COUNT)
    weights[[2, 5]] = 0.5
    loader = Weighted(path, 4, 2, weights=weights)
    first, second = labels(loader), labels(loader)
    assert [len(batch) for batch in first] == [4, 4]
    assert {label for batch in first + second for label in batch} == {2, 5}
    assert first != second


def test_a_loader_that_collates_what_comes(path: Path) -> None:
    class Collating(Loader):
        def collate(self, batch: Sequence[Any]) -> dict[str, Any]:
            return dict(zip(self.pipeline_specs, batch, strict=True))

        def __iter__(self) -> Any:
            return map(self.collate, super().__iter__())

    assert [batch["label"].tolist() for batch in Collating(path, 10, 2)] == [
        [[i] for i in range(10)],
        [[i] for i in range(10, 20)],
    ]


class Indexed(EpochIterator):
    """Notes the samples of each batch: ``run_pipeline`` is called for it, in a thread."""

    def __init__(self, loader: Loader, order: Any) -> None:
        self.seen: Queue[Any] = Queue()
        super().__init__(loader, order)

    def run_pipeline(self, b_ix: int, batch_indices: Any, batch_slot: int, cuda_event: Any) -> Any:
        self.seen.put((b_ix, batch_slot, np.array(batch_indices)))
        return super().run_pipeline(b_ix, batch_indices, batch_slot, cuda_event)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("os_cache", [True, False])
def test_run_pipeline_of_ones_own(path: Path, os_cache: bool) -> None:
    class WithIndices(OwnIter):
        kind = Indexed

    loader = WithIndices(path, 3, 2, order=OrderOption.RANDOM, seed=1, batches_ahead=2, os_cache=os_cache)
    batches = iter(loader)
    assert batches.is_alive()
    for number, (image, label) in enumerate(batches):
        b_ix, slot, indices = batches.seen.get_nowait()
        assert (b_ix, slot) == (number, number % 4)
        assert indices.tolist() == label[:, 0].tolist() == image[:, 0, 0, 0].tolist()
    assert number == 5
    with pytest.raises(StopIteration):
        next(batches)
    assert not batches.is_alive()


class ByHand(EpochIterator, Thread):
    """Batches of any size; sets up by itself what the thread needs."""

    def __init__(self, loader: Any, batches: Any) -> None:
        Thread.__init__(self, daemon=True)
        self.loader = loader
        self.metadata = loader.reader.metadata
        self.current_batch_slot = 0
        self.batches = batches
        self.iter_ixes = iter(batches)
        self.closed = False
        self.output_queue = Queue(self.loader.batches_ahead)
        self.terminate_event = Event()
        self.memory_context = self.loader.memory_manager.schedule_epoch(batches)
        self.memory_context.__enter__()
        self.storage_state = self.memory_context.state
        self.cuda_streams = [None for _ in range(self.loader.batches_ahead + 2)]
        self.memory_allocations = self.loader.graph.allocate_memory(
            max(map(len, batches), default=0), self.loader.batches_ahead + 2
        )
        self.start()

    def __next__(self) -> Any:
        result = self.output_queue.get()
        if result is None:
            self.close()
            raise StopIteration
        _, result = result
        return result


@pytest.mark.timeout(60)
def test_a_sampler_of_batches(path: Path) -> None:
    class Sampled(Loader):
        def __init__(self, *arguments: Any, batch_sampler: Any, **options: Any) -> None:
            self.batch_sampler: Any = []
            super().__init__(*arguments, **options)
            self.batch_sampler = batch_sampler

        def next_traversal_order(self) -> Any:
            return list(self.batch_sampler)

        def __iter__(self) -> Any:
            Compiler.set_num_threads(self.num_workers)
            order = self.next_traversal_order()
            self.next_epoch += 1
            return ByHand(self, order)

        def __len__(self) -> int:
            return len(self.batch_sampler)

    sampler = [[3, 1], [9], [19, 18, 17, 0]]
    loader = Sampled(path, 2, 2, batch_sampler=sampler)
    assert len(loader) == 3
    for _ in range(2):
        assert labels(loader) == sampler


class Staged(EpochIterator):
    """Runs the stages of the loader's code by itself."""

    def run_pipeline(self, b_ix: int, batch_indices: Any, batch_slot: int, cuda_event: Any) -> Any:
        self.memory_context.start_batch(b_ix)
        code, outputs = self.loader.code
        memory = {
            f"memory_{k}": select_buffer(v, batch_slot, len(batch_indices))
            for k, v in self.memory_allocations["operation"].items()
        }
        shared = {
            f"shared_memory_{k}": select_buffer(v, batch_slot, len(batch_indices))
            for k, v in self.memory_allocations["shared"].items()
        }
        known = {"batch_indices": batch_indices, "storage_state": self.storage_state, "metadata": self.metadata}
        known |= memory | shared
        for stage_code, define_outputs in code:
            results = stage_code(**known)
            for node_id, result in zip(define_outputs, results, strict=True):
                known[f"result_{node_id}"] = result
        return tuple(known[f"result_{x}"] for x in outputs)


@pytest.mark.timeout(60)
def test_stages_run_by_hand(path: Path) -> None:
    class ByStages(OwnIter):
        kind = Staged

    options: dict[str, Any] = {"order": OrderOption.RANDOM, "seed": 5, "drop_last": False}
    assert labels(ByStages(path, 6, 2, **options)) == labels(Loader(path, 6, 2, **options))


@pytest.mark.timeout(60)
def test_batches_taken_from_the_queue(path: Path) -> None:
    class AfterBatch(EpochIterator):
        def __next__(self) -> Any:
            result = self.output_queue.get()
            if result is None:
                self.close()
                raise StopIteration
            slot, result = result
            assert (self.cuda_streams[slot] is None) is (not torch.cuda.is_available())
            return tuple(result)

    class After(OwnIter):
        kind = AfterBatch

    assert labels(After(path, 5, 2)) == [list(range(i, i + 5)) for i in range(0, COUNT, 5)]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", [Indexed, Staged])
def test_an_exception_in_the_thread_reaches_the_consumer(path: Path, kind: Any) -> None:
    def fail(values: Any) -> Any:
        raise ZeroDivisionError("here")

    class Failing(OwnIter):
        pass

    Failing.kind = kind
    loader = Failing(path, 5, 2, pipelines={"image": None, "label": [IntDecoder(), Calling(fail), ToTensor()]})
    with pytest.raises(ZeroDivisionError, match="here"):
        next(iter(loader))


@pytest.mark.timeout(60)
def test_a_loop_that_is_left_early(path: Path) -> None:
    before = threading.active_count()
    batches = Indexed(Loader(path, 2, 2), np.arange(COUNT))
    next(batches)
    batches.close()
    assert not batches.is_alive()
    assert threading.active_count() == before
    let_go = EpochIterator(Loader(path, 2, 2), np.arange(COUNT))
    next(let_go)
    gone = weakref.ref(let_go)
    del let_go
    gc.collect()
    assert gone() is None


def test_code_is_another_when_it_is_made_anew(path: Path) -> None:
    loader = Loader(path, 2, 2)
    code = loader.code
    list(loader)
    assert loader.code == code
    loader.generate_code()
    assert loader.code != code


def test_select_buffer() -> None:
    memory = np.arange(24).reshape(2, 4, 3)
    assert select_buffer(None, 1, 2) is None
    assert select_buffer(memory, 1, 2).tolist() == [[12, 13, 14], [15, 16, 17]]
    assert [part.shape for part in select_buffer((memory, memory[:, :, 0]), 0, 3)] == [(3, 3), (3,)]


def test_what_to_do_when_memory_is_short(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Any) -> Any:
        raise MemoryError

    loader = Loader(path, 2, 2, os_cache=False)
    monkeypatch.setattr(type(loader.memory_manager.schedule_epoch([])), "__enter__", fail)
    with pytest.raises(MemoryError) as caught:
        iter(loader)
    assert caught.value.__notes__ == [QUASIRANDOM_ERROR_MSG]
    assert "QUASI_RANDOM" in QUASIRANDOM_ERROR_MSG


def test_draws_go_on_from_epoch_to_epoch(path: Path) -> None:
    from headrace.compat.ffcv.fields.decoders import SimpleRGBImageDecoder
    from headrace.compat.ffcv.transforms import RandomBrightness

    pipelines = {"image": [SimpleRGBImageDecoder(), RandomBrightness(0.5, 1.0), ToTensor()], "label": None}
    own, plain = (
        OwnIter(path, COUNT, 2, seed=1, pipelines=pipelines),
        Loader(path, COUNT, 2, seed=1, pipelines=pipelines),
    )
    first, second = next(iter(own))[0], next(iter(own))[0]
    assert not torch.equal(first, second)
    assert torch.equal(first, next(iter(plain))[0])
    assert torch.equal(second, next(iter(plain))[0])
