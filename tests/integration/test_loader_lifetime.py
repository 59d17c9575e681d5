"""Memory and threads: what is kept is never overwritten, what is dropped is used again, nothing is left behind."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.helpers import picture
from tests.unit.loader.tools import (
    headrace_threads,
    native_threads,
    resident_bytes,
    run_script,
    wait_until,
    write_pages,
    write_pictures,
)

from headrace import Loader, ops
from headrace.loader import loader as loader_module
from headrace.storage import allocate_pages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COUNT = 60
PIPELINES: dict[str, Any] = {"image": [ops.RandomResizedCrop(96), ops.RandomHorizontalFlip()]}  # 4 are 108 KiB


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pictures(tmp_path_factory.mktemp("lifetime") / "x.beton", [picture(i, 40, 50) for i in range(COUNT)])


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pages(tmp_path_factory.mktemp("lifetime") / "pages.beton")


@pytest.fixture
def allocated(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of the slots that loaders make."""
    sizes: list[int] = []

    def note(size_bytes: int) -> np.ndarray:
        sizes.append(size_bytes)
        return allocate_pages(size_bytes)

    monkeypatch.setattr(loader_module, "allocate_pages", note)
    return sizes


# -- slots --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("last", [[], [ops.ToLayout("NCHW")], [ops.Normalize([9] * 3, [5] * 3, "float16")]])
def test_kept_batches_are_never_overwritten(path: Path, last: list[Any]) -> None:
    pipelines = {"image": PIPELINES["image"] + last}
    loader = Loader(path, 4, order="random", pipelines=pipelines)
    kept = list(loader)
    loader.set_epoch(0)
    copies = [(batch.image.copy(), batch.label.copy()) for batch in loader]
    for batch, (image, label) in zip(kept, copies, strict=True):
        np.testing.assert_array_equal(batch.image, image)
        np.testing.assert_array_equal(batch.label, label)
    assert not any(np.shares_memory(a.image, b.image) for i, a in enumerate(kept) for b in kept[:i])


@pytest.mark.parametrize("ahead", [1, 3])
def test_no_more_slots_than_batches_ahead_and_two(path: Path, allocated: list[int], ahead: int) -> None:
    loader = Loader(path, 4, workers=4, batches_ahead=ahead, pipelines=PIPELINES)
    for _ in range(4):
        batches = iter(loader)
        for _ in range(len(loader)):
            next(batches)  # and dropped at once
    assert allocated[0] == 4 * 96 * 96 * 3
    assert 1 <= len(allocated) <= ahead + 2


def test_a_loop_uses_its_slots_again(path: Path, allocated: list[int]) -> None:
    loader = Loader(path, 4, batches_ahead=2, pipelines=PIPELINES)
    addresses = [batch.image.ctypes.data for _ in range(3) for batch in loader]
    assert len(addresses) == 45
    assert len(set(addresses)) <= 5  # the loop variable holds one while the next is fetched


@pytest.mark.parametrize("view_of", [lambda image: image[1:2, 5], lambda image: image.T, np.asarray])
def test_a_slot_is_not_used_again_while_a_view_lives(path: Path, view_of: Any) -> None:
    loader = Loader(path, 4, batches_ahead=1, pipelines=PIPELINES)
    batches = iter(loader)
    view = view_of(next(batches).image)
    expected, address = view.copy(), view.ctypes.data
    for _ in range(2):
        for batch in batches:
            assert not batch.image.ctypes.data <= address < batch.image.ctypes.data + batch.image.nbytes
        batches = iter(loader)
    np.testing.assert_array_equal(view, expected)


def test_a_slot_is_not_used_again_while_a_tensor_lives(path: Path) -> None:
    torch = pytest.importorskip("torch")
    loader = Loader(path, 4, batches_ahead=1, pipelines=PIPELINES, device="cpu")
    batches = iter(loader)
    kept = next(batches).image[2, 5:9].permute(2, 0, 1)
    expected = kept.clone()
    for _ in range(2):
        for batch in batches:
            assert batch.image.untyped_storage().data_ptr() != kept.untyped_storage().data_ptr()
        batches = iter(loader)
    assert torch.equal(kept, expected)


def test_what_a_loader_made_outlives_it(path: Path) -> None:
    loader = Loader(path, 4, pipelines=PIPELINES)
    batch = next(iter(loader))
    expected = batch.image.copy()
    del loader
    gc.collect()
    other = list(Loader(path, 4, seed=9, pipelines=PIPELINES))
    np.testing.assert_array_equal(batch.image, expected)
    assert len(other) == 15


def test_peak_memory_is_that_of_the_batches_ahead(path: Path) -> None:
    code = """
        import sys
        from headrace import Loader, ops

        def memory_bytes(name):
            with open("/proc/self/status") as file:
                return next(int(line.split()[1]) for line in file if line.startswith(name)) * 1024

        pipelines = {"image": [ops.Resize(256), ops.ToDtype("float32")]}
        loader = Loader(sys.argv[1], 20, batches_ahead=3, pipelines=pipelines)
        before = memory_bytes("VmRSS")
        for _ in range(4):
            for batch in loader:
                size = batch.image.nbytes
        print(memory_bytes("VmHWM") - before, 5 * size + 64 * 2**20)
        """
    result = run_script(code, path)
    assert (result.returncode, result.stderr) == (0, "")
    used, allowed = map(int, result.stdout.split())
    assert used < allowed


@pytest.mark.parametrize("order", ["sequential", "random", "quasi_random"])
def test_memory_does_not_grow_with_the_number_of_batches(pages: Path, order: Any) -> None:
    loader = Loader(pages, 4, order=order, cache="4MB", pipelines={"blob": [ops.Apply(len)]})
    for _ in range(2):
        list(loader)
    before = resident_bytes()
    for _ in range(8):
        for _ in loader:
            pass
    assert resident_bytes() - before < 12 << 20


def test_pictures_of_many_sizes_do_not_fill_the_memory(tmp_path: Path, allocated: list[int]) -> None:
    sizes = [(150 + i, 160) for i in range(50)]
    file = write_pictures(tmp_path / "sizes.beton", [np.zeros((*size, 3), np.uint8) for size in sizes])
    loader = Loader(file, 1)
    kept = [batch.image.shape[1:3] for batch in loader]
    assert kept == sizes
    assert len(allocated) == 50
    assert len(loader._slots._free.counts()) <= 16


# -- threads ------------------------------------------------------------------------------------------------------


@pytest.fixture
def clean() -> Iterator[None]:
    """No thread of a loader before, and none afterwards, native ones included."""
    assert wait_until(lambda: not headrace_threads())
    before = native_threads()
    yield
    assert wait_until(lambda: not headrace_threads()), headrace_threads()
    assert wait_until(lambda: native_threads() <= before), native_threads()


def test_200_abandoned_iterators_leave_nothing(path: Path, clean: None) -> None:
    loader = Loader(path, 4, order="random", pipelines=PIPELINES)
    for _ in range(50):
        next(iter(loader))
    before = resident_bytes()
    for _ in range(150):
        next(iter(loader))
    assert headrace_threads() == []
    assert resident_bytes() - before < 8 << 20


def test_200_abandoned_iterators_with_a_cache_leave_nothing(pages: Path, clean: None) -> None:
    loader = Loader(pages, 2, order="quasi_random", cache=4 << 21)
    for _ in range(50):
        next(iter(loader))
    before = resident_bytes()
    for _ in range(150):
        next(iter(loader))
    assert headrace_threads() == []
    assert resident_bytes() - before < 12 << 20


def test_100_abandoned_loaders_leave_nothing(path: Path, clean: None) -> None:
    before = 0
    for number in range(100):
        batches = iter(Loader(path, 4, pipelines=PIPELINES))
        next(batches)
        if number == 30:
            before = resident_bytes()
    del batches
    assert wait_until(lambda: not headrace_threads())
    assert resident_bytes() - before < 16 << 20


@pytest.mark.parametrize("cache", ["os", "4MB"])
def test_an_op_that_raises_ends_all_threads(pages: Path, clean: None, cache: str) -> None:
    def fail(labels: np.ndarray) -> np.ndarray:
        if 9 in labels:
            raise ZeroDivisionError("bang")
        return labels

    loader = Loader(pages, 2, cache=cache, pipelines={"label": [ops.Apply(fail)]})
    with pytest.raises(ZeroDivisionError):
        list(loader)
    assert headrace_threads() == []


@pytest.mark.parametrize("cache", ["os", "4MB"])
def test_an_interrupt_in_the_loop_ends_all_threads(pages: Path, clean: None, cache: str) -> None:
    loader = Loader(pages, 2, cache=cache)

    def work() -> None:
        for _ in loader:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert wait_until(lambda: not headrace_threads())


@pytest.mark.parametrize("cache", ["os", "4MB"])
def test_deleting_a_loader_in_the_middle_ends_all_threads(pages: Path, clean: None, cache: str) -> None:
    loader = Loader(pages, 2, cache=cache)
    batches = iter(loader)
    next(batches)
    assert headrace_threads() != []
    del loader, batches
    assert wait_until(lambda: not headrace_threads())


def test_an_iterator_that_was_never_asked_has_no_threads(path: Path, clean: None) -> None:
    batches = iter(Loader(path, 2, pipelines=PIPELINES))
    assert headrace_threads() == []
    del batches


def test_a_generator_over_a_loader_may_be_closed(path: Path, clean: None) -> None:
    def generate() -> Iterator[Any]:
        yield from Loader(path, 2, pipelines=PIPELINES)

    generator = generate()
    next(generator)
    generator.close()  # type: ignore[attr-defined]
    assert headrace_threads() == []
