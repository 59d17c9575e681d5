"""Batches as arrays of CuPy, with a CuPy that needs no GPU; tests/gpu has those with a real one."""

from __future__ import annotations

import gc
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.unit.frameworks.fake_cupy import Device, Event, FakeCupy, Stream, ndarray
from tests.unit.loader.tools import CROP, LABELS_ONLY, contents, values_of, write_rows

import headrace as hr
from headrace import Loader, ops
from headrace.errors import DeviceError, MissingExtraError
from headrace.frameworks.cupy import CupyOutput
from headrace.types import Batch, Padded, Ragged

if TYPE_CHECKING:
    from pathlib import Path

LARGE = (8, 64, 64, 3)


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> FakeCupy:
    fake = FakeCupy()
    monkeypatch.setitem(sys.modules, "cupy", fake)
    return fake


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rows(tmp_path_factory.mktemp("cupy") / "x.beton")


def as_arrays(batch: Any) -> list[Any]:
    """What the memory holds now, as it would be without CuPy."""

    def array_of(value: Any) -> Any:
        if isinstance(value, Padded | Ragged):
            return type(value)(*map(array_of, value))
        return value.on_host().copy() if isinstance(value, ndarray) else value

    return values_of([array_of(value) for value in batch])


# -- values -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("collate", ["list", "pad", "offsets"])
def test_batches_have_the_values_of_numpys(cupy: FakeCupy, path: Path, collate: Any) -> None:
    options: dict[str, Any] = {"order": "random", "pipelines": {"image": CROP}, "collate": collate}
    found = []
    for batch in Loader(path, 5, framework="cupy", **options):
        cupy.current.run()  # which waits for the copies
        found.append(as_arrays(batch))
        assert type(batch.text) is {"list": list, "pad": Padded, "offsets": Ragged}[collate]
    assert found == contents(Loader(path, 5, **options))


@pytest.mark.parametrize("are_copies_early", [False, True])
@pytest.mark.parametrize("layout", ["NHWC", "channels_last"])
def test_a_gpu_that_is_far_behind_gets_the_right_values(
    cupy: FakeCupy, tmp_path: Path, layout: Any, are_copies_early: bool
) -> None:
    """The consumer's work runs when somebody waits for it; by then the batch is gone, and others were made."""
    rows = [(np.full((80, 80, 3), i, np.uint8), i) for i in range(60)]
    hr.write(tmp_path / "x.beton", rows, fields={"image": hr.Image(mode="raw"), "label": hr.Int()})
    pipelines = {"image": [ops.Resize(64), ops.ToLayout(layout)]}
    found: list[Any] = []
    loader = Loader(tmp_path / "x.beton", 2, framework="cupy", pipelines=pipelines, batches_ahead=1)
    for batch in loader:
        images, labels = batch.image.on_host(), batch.label.on_host()
        cupy.current.add(lambda images=images, labels=labels: found.append((images.copy(), labels.copy())))
        del batch
        if are_copies_early:
            loader._output._stream.run()
    cupy.current.run()
    expected = list(Loader(tmp_path / "x.beton", 2, pipelines=pipelines))
    assert len(found) == len(expected) == 30
    for (images, labels), batch in zip(found, expected, strict=True):
        np.testing.assert_array_equal(images, batch.image)
        np.testing.assert_array_equal(labels, batch.label)
    assert len(cupy.allocated) <= 20  # eight on their way back, and a few at hand, of two sizes; not 60


def test_strides_are_kept_and_odd_arrays_copied(cupy: FakeCupy) -> None:
    output = CupyOutput()
    base = np.arange(2 * 4 * 5 * 3).reshape(2, 4, 5, 3)
    for array in (
        base.transpose(0, 3, 1, 2),
        base[:, ::2],
        base[::-1],
        base[:0],
        base.astype(">i2"),
        base[0, 0, 0, 0:1],
    ):
        sent = output.receive(output.send(Batch(("x",), (array,)), {})).x
        cupy.current.run()
        np.testing.assert_array_equal(sent.on_host(), array)
    assert output.receive(output.send(Batch(("x",), (base.transpose(0, 3, 1, 2),)), {})).x.strides == (480, 8, 120, 24)


# -- memory that the native decoder fills -------------------------------------------------------------------------


def test_memory_is_used_again_only_when_the_consumers_work_is_done(cupy: FakeCupy) -> None:
    output = CupyOutput("cuda:0")
    seen: list[int] = []
    first = output.empty(LARGE, "float16", None)
    address = first.data.ptr
    first.on_host()[:] = 7  # by the native decoder, on streams of its own
    batch = output.receive(output.send(Batch(("x",), (output.transposed(first, (0, 3, 1, 2)),)), {}))
    assert batch.x.shape == (8, 3, 64, 64)
    assert batch.x.data.ptr == address
    values = batch.x.on_host()
    cupy.current.add(lambda: seen.append(int(values.sum(dtype=np.int64))))
    del first, batch
    other = output.empty(LARGE, "float16", None)
    assert other.data.ptr != address
    other.on_host()[:] = 1
    cupy.current.run()
    assert seen == [7 * values.size]
    assert output.empty(LARGE, "float16", None).data.ptr == address


def test_memory_that_was_not_given_out_is_free_at_once(cupy: FakeCupy) -> None:
    output = CupyOutput()
    address = output.empty(LARGE, "uint8", None).data.ptr
    assert output.empty(LARGE, "uint8", None).data.ptr == address


def test_a_queue_does_not_fill_the_gpu(cupy: FakeCupy) -> None:
    output = CupyOutput()
    for _ in range(50):
        output.receive(output.send(Batch(("x",), (output.empty(LARGE, "uint8", None),)), {}))
    assert len(cupy.allocated) <= 9


def test_sizes_that_never_come_again_take_no_memory(cupy: FakeCupy) -> None:
    output = CupyOutput()
    for rows in range(1, 60):
        output.empty((rows, 4096), "uint8", None)
    assert sum(output._memory._free.counts().values()) <= 16


def test_what_is_garbage_in_a_ring_ends_well(cupy: FakeCupy, monkeypatch: pytest.MonkeyPatch) -> None:
    """CuPy's events and streams end with their objects, and the process ends when one that is gone is asked."""
    asked_too_late: list[str] = []

    def ends(kind: type, calls: tuple[str, ...]) -> None:
        def end(self: Any) -> None:
            self.is_gone = True

        def checked(name: str) -> Any:
            call = getattr(kind, name)

            def run(self: Any, *args: Any) -> Any:
                if any(getattr(each, "is_gone", False) for each in (self, *args)):
                    asked_too_late.append(f"{kind.__name__}.{name}")
                return call(self, *args)

            return run

        monkeypatch.setattr(kind, "__del__", end, raising=False)
        for name in calls:
            monkeypatch.setattr(kind, name, checked(name))

    ends(Event, ("synchronize", "record"))
    ends(Stream, ("add",))
    for _ in range(20):
        cupy.current = Stream()
        output = CupyOutput()
        kept = [output.receive(output.send(Batch(("x",), (output.empty(LARGE, "uint8", None),)), {})) for _ in range(3)]
        output.empty(LARGE, "uint8", None)
        ring: list[Any] = [output, kept, cupy.current]
        ring.append(ring)
        cupy.current = Stream()
        del output, kept, ring
        gc.collect()
    assert asked_too_late == []


def test_a_batch_that_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", FakeCupy(free_bytes=1000))
    with pytest.raises(
        DeviceError, match=r"^a batch of shape .* takes 96.0 KiB, which CuPy cannot have: Out of memory"
    ):
        CupyOutput().empty(LARGE, "uint8", None)
    with pytest.raises(DeviceError, match=r"^cuda:0: a batch of shape .* cannot have: .*Use a smaller batch_size"):
        CupyOutput().send(Batch(("x",), (np.zeros(LARGE, np.uint8),)), {})


def test_memory_for_batches_is_what_is_free_or_unused_or_theirs(cupy: FakeCupy) -> None:
    output = CupyOutput()
    native: Any = SimpleNamespace(room_bytes=70_000)
    assert output.room_bytes(native) == 70_000 + cupy.unused_bytes
    kept = [output.empty((1000,), "uint8", None) for _ in range(2)]
    assert output.room_bytes(native) == 70_000 + cupy.unused_bytes + 2 * 1024
    del kept  # ours all the same
    assert output.room_bytes(native) == 70_000 + cupy.unused_bytes + 2 * 1024


# -- devices ------------------------------------------------------------------------------------------------------


def test_each_process_of_a_launcher_has_a_gpu_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", FakeCupy(devices=2))
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert [CupyOutput(device).gpu for device in (None, "cuda", "cuda:0")] == [1, 1, 0]


@pytest.mark.parametrize(
    ("device", "number"), [(None, 0), ("cuda", 0), ("gpu", 0), ("cuda:1", 1), (1, 1), (Device(1), 1)]
)
def test_devices(monkeypatch: pytest.MonkeyPatch, device: Any, number: int) -> None:
    monkeypatch.setitem(sys.modules, "cupy", FakeCupy(devices=2))
    output = CupyOutput(device)
    assert output.gpu == output.device.id == number
    assert output.is_device


@pytest.mark.parametrize(("device", "error", "problem"), [
    ("cuda:2", ValueError, "device='cuda:2', but CuPy finds 2 GPUs here"),
    ("cpu", ValueError, "device='cpu', but CuPy's arrays are on a GPU"),
    (1.5, TypeError, "device must be text such as 'cuda:1', a number or a cupy.cuda.Device, got 1.5"),
])  # fmt: skip
def test_devices_that_are_none(
    monkeypatch: pytest.MonkeyPatch, path: Path, device: Any, error: type[Exception], problem: str
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", FakeCupy(devices=2))
    with pytest.raises(error, match=problem):
        Loader(path, 5, framework="cupy", device=device, pipelines=LABELS_ONLY)


def test_without_a_gpu_or_without_cupy(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    monkeypatch.setitem(sys.modules, "cupy", FakeCupy(devices=0))
    with pytest.raises(ValueError, match="framework='cupy', but CuPy finds no GPU here: cudaErrorNoDevice"):
        Loader(path, 5, device="cupy")
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(MissingExtraError, match=r"framework='cupy'\) needs the 'cupy' package.*headrace\[cupy\]"):
        Loader(path, 5, framework="cupy")
