"""Batches as arrays of JAX. Run in processes of their own: JAX has threads, and complains of every later fork."""

from __future__ import annotations

import gc
import importlib.util
import json
import pickle
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from weakref import finalize

import numpy as np
import pytest
from tests.unit.loader.tools import (
    COUNT,
    CROP,
    LABELS_ONLY,
    contents,
    labels,
    run_script,
    values_of,
    wait_until,
    write_rows,
)

import headrace as hr
from headrace import Loader, ops
from headrace._native import NativeError
from headrace.loader.slots import SlotPool
from headrace.storage import allocate_pages
from headrace.types import Batch, Padded, Ragged

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="JAX is not installed"),
]
LARGE = (8, 64, 64, 3)  # of the pool, not of numpy


@pytest.fixture(scope="module")
def jax() -> Any:
    return pytest.importorskip("jax")


@pytest.fixture
def x64(jax: Any) -> Iterator[None]:
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rows(tmp_path_factory.mktemp("jax") / "x.beton")


def as_arrays(batch: Any) -> list[Any]:
    """The batch as it would be without JAX."""

    def array_of(value: Any) -> Any:
        if isinstance(value, Padded | Ragged):
            return type(value)(*map(array_of, value))
        return value if isinstance(value, list) else np.asarray(value)

    return values_of([array_of(value) for value in batch])


def address_of(array: Any) -> int:
    return int(array.unsafe_buffer_pointer())


def sent(value: np.ndarray, device: Any = "cpu") -> Any:
    """An array as the loader gives it out."""
    from headrace.frameworks.jax import JaxOutput

    output = JaxOutput(device)
    return output.receive(output.send(Batch(("x",), (value,)), {})).x


# -- arrays -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("collate", ["list", "pad", "offsets"])
def test_arrays_have_the_values_of_numpys(jax: Any, path: Path, collate: Any) -> None:
    options: dict[str, Any] = {"order": "random", "pipelines": {"image": CROP}, "collate": collate}
    batches = list(Loader(path, 5, framework="jax", **options))
    assert [as_arrays(batch) for batch in batches] == contents(Loader(path, 5, **options))
    batch = batches[0]
    assert batch.keys() == ("image", "label", "array", "text")
    assert all(isinstance(value, jax.Array) for value in (batch.image, batch.label, batch.array))
    assert type(batch.text) is {"list": list, "pad": Padded, "offsets": Ragged}[collate]
    if collate != "list":
        assert all(isinstance(part, jax.Array) for part in batch.text)


@pytest.mark.parametrize("how", [{"framework": "jax"}, {"device": "jax"}, {"framework": "jax", "device": "cpu:0"}])
def test_ways_to_ask_for_it(jax: Any, path: Path, how: dict[str, Any]) -> None:
    loader = Loader(path, 5, pipelines=LABELS_ONLY, **how)
    assert loader.options.framework == "jax"
    assert [batch.label.tolist() for batch in loader] == labels(Loader(path, 5, pipelines=LABELS_ONLY))
    assert loader[1].label.devices() == {jax.devices()[0]}
    assert loader[1].label.committed == ("device" in how and how["device"] != "jax")


def test_a_device_of_jax(jax: Any, path: Path) -> None:
    batch = Loader(path, 5, framework="jax", device=jax.devices("cpu")[0], pipelines={"image": CROP})[0]
    assert batch.image.devices() == {jax.devices("cpu")[0]}


@pytest.mark.parametrize(("device", "problem"), [
    ("cuda:0", "device='cuda:0', but JAX finds only cpu here"),
    ("abacus", "device='abacus', but JAX finds only cpu here"),
    ("cpu:7", "device='cpu:7', but JAX finds 1 of 'cpu' here, counted from 0"),
    ("cpu:x", "device must be a kind and perhaps a number, such as 'cpu' or 'cuda:1', got 'cpu:x'"),
])  # fmt: skip
def test_a_device_that_is_not_there_is_told_at_once(jax: Any, path: Path, device: str, problem: str) -> None:
    if device.startswith("cuda") and jax.devices()[0].platform != "cpu":
        pytest.skip("there is a GPU")
    with pytest.raises(ValueError, match=problem):
        Loader(path, 5, framework="jax", device=device)


def test_a_device_must_be_text_or_a_device(jax: Any, path: Path) -> None:
    with pytest.raises(TypeError, match=r"device must be text such as 'cpu' or 'cuda:1', or a jax.Device, got 3"):
        Loader(path, 5, framework="jax", device=3)


def test_modules_of_torch_are_refused(path: Path) -> None:
    class Module:
        def __call__(self, value: Any) -> Any:
            return value

        forward = state_dict = __call__

    with pytest.raises(ValueError, match="pipelines have modules of torch, and framework is 'jax'"):
        Loader(path, 5, framework="jax", pipelines={"image": [*CROP, Module()]})


def test_a_loader_of_jax_pickles_and_resumes(path: Path) -> None:
    options: dict[str, Any] = {"order": "random", "pipelines": LABELS_ONLY}
    loader = Loader(path, 5, framework="jax", device="cpu", **options)
    assert [as_arrays(b) for b in pickle.loads(pickle.dumps(loader))] == [as_arrays(b) for b in loader]
    batches = iter(loader)
    next(batches)
    state = json.loads(json.dumps(loader.state_dict()))
    resumed = Loader(path, 5, **options)  # the framework is no part of where a loader stands
    resumed.load_state_dict(state)
    assert labels(resumed) == [batch.label.tolist() for batch in batches]


# -- memory -------------------------------------------------------------------------------------------------------


def test_arrays_lie_on_the_memory_of_the_loader(tmp_path: Path) -> None:
    rows = [(np.full((80, 80, 3), i, np.uint8), i) for i in range(12)]
    hr.write(tmp_path / "x.beton", rows, fields={"image": hr.Image(mode="raw"), "label": hr.Int()})
    for device, layout in ((None, "NHWC"), (None, "NCHW"), ("cpu", "NHWC"), ("cpu", "channels_last")):
        seen: list[int] = []

        def note(images: np.ndarray, seen: list[int] = seen) -> np.ndarray:
            seen.append(images.ctypes.data)
            return images

        pipelines = {"image": [ops.Resize(64), ops.ToLayout(layout), ops.Apply(note)], "label": None}
        batches = list(Loader(tmp_path / "x.beton", 6, framework="jax", device=device, pipelines=pipelines))
        assert [address_of(batch.image) for batch in batches] == seen
        assert np.asarray(batches[1].image[:, 0, 0, 0]).tolist() == [6, 7, 8, 9, 10, 11]


@pytest.mark.parametrize(("device", "axes"), [(None, (0, 1, 2, 3)), ("cpu", (0, 1, 2, 3)), ("cpu", (0, 3, 1, 2))])
def test_memory_returns_to_the_pool_when_jax_has_let_go_of_it(jax: Any, device: Any, axes: tuple[int, ...]) -> None:
    pool = SlotPool(keep=1)
    array = pool.take(LARGE, "uint8")
    array[:] = np.arange(array.size, dtype=np.uint64).reshape(LARGE) % 251
    address, expected = array.ctypes.data, array.transpose(axes).copy()
    held = sent(array.transpose(axes), device)
    assert address_of(held) == address
    del array
    other = pool.take(LARGE, "uint8")
    assert other.ctypes.data != address
    other[:] = 99
    np.testing.assert_array_equal(np.asarray(held), expected)
    view = np.asarray(held)
    del held
    gc.collect()
    if view.ctypes.data == address:  # it holds the memory, too; with the axes in another order it is a copy
        assert pool.take(LARGE, "uint8").ctypes.data != address
    np.testing.assert_array_equal(view, expected)
    del view
    assert wait_until(lambda: pool.take(LARGE, "uint8").ctypes.data == address)


@pytest.mark.parametrize("device", [None, "cpu"])
def test_memory_stays_while_work_is_queued_on_it(jax: Any, device: Any) -> None:
    """The array is gone, but JAX runs asynchronously and has not read it yet."""
    pool = SlotPool(keep=4)

    @jax.jit
    def slow(x: Any) -> Any:
        busy = jax.lax.fori_loop(0, 40, lambda _, m: jax.numpy.tanh(m @ m), x[0, :, :, 0] / 255.0)
        return busy.sum() * 0 + x.astype("float32").sum()

    shape, was_queued = (4, 512, 512, 3), False
    for value in range(10):
        array = pool.take(shape, "uint8")
        array[:] = value
        address = array.ctypes.data
        given = sent(array, device)
        if not value:
            slow(given).block_until_ready()  # compiled
        result = slow(given)
        del array, given
        other = pool.take(shape, "uint8")
        if not result.is_ready():  # on a busy machine it may be
            was_queued = True
            assert other.ctypes.data != address
        other[:] = 200
        assert float(result) == value * other.size
        del other
        if was_queued:
            break
    assert was_queued
    free = lambda: [array.ctypes.data for array in [pool.take(shape, "uint8") for _ in range(3)]]  # noqa: E731
    assert wait_until(lambda: address in free())


def test_donated_memory_is_not_in_two_hands(jax: Any) -> None:
    pool = SlotPool(keep=1)
    array = pool.take(LARGE, "uint8")
    array[:] = 5
    given = sent(array)
    del array
    result = jax.jit(lambda x: x + 1, donate_argnums=0)(given).block_until_ready()
    del given
    gc.collect()
    pool.take(LARGE, "uint8")[:] = 77
    assert np.unique(np.asarray(result)).tolist() == [6]


@pytest.mark.parametrize("device", [None, "cpu"])
def test_arrays_that_jax_cannot_take_as_they_are(device: Any) -> None:
    large = np.arange(100_000, dtype=np.int32)
    read_only = large.copy()
    read_only.flags.writeable = False
    odd = [large[::-1], large[1:], large[::2], large.astype(">i4"), read_only, large[:0], large[:1].reshape(())]
    odd += [
        np.broadcast_to(large[:1], (4, 1000)),
        large.astype(np.complex64),
        large > 3,
        (large % 9).astype(np.float16),
    ]
    for array in odd:
        found = sent(array, device)
        assert found.dtype == array.dtype.newbyteorder("=")
        np.testing.assert_array_equal(np.asarray(found), array)
    words = np.array(["a", "b"])
    assert sent(words) is words
    long = np.zeros(3, np.longdouble)
    assert sent(long) is long


# -- numbers of 64 bits -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_integers_become_32_bits_where_they_fit(jax: Any, dtype: str) -> None:
    limits = np.iinfo(dtype.replace("64", "32"))
    for values in ([limits.min, limits.max], []):
        found = sent(np.array(values, dtype))
        assert found.dtype == dtype.replace("64", "32")
        assert found.tolist() == values


@pytest.mark.parametrize(("values", "dtype"), [([2**31], "int64"), ([-(2**31) - 1, 0], "int64"), ([2**32], "uint64")])
def test_integers_that_do_not_fit_are_an_error(jax: Any, values: list[int], dtype: str) -> None:
    with pytest.raises(
        ValueError, match=r"the output 'x' is u?int64 with numbers from .* to .*jax_enable_x64"
    ) as caught:
        sent(np.array(values, dtype))
    assert str(values[0]) in str(caught.value)


@pytest.mark.parametrize(("dtype", "op"), [("float64", r"ops.ToDtype\('float32'\)"), ("complex128", "ops.Apply")])
def test_numbers_are_not_rounded_silently(jax: Any, dtype: str, op: str) -> None:
    with pytest.raises(ValueError, match=f"the output 'x' is {dtype}, and JAX would round it .* add {op}"):
        sent(np.zeros(3, dtype))  # zeros would do, but the next batch would not


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("dtype", ["int64", "uint64", "float64", "complex128"])
def test_with_x64_they_stay(dtype: str) -> None:
    assert sent(np.array([2**40], dtype)).dtype == dtype


def test_a_loader_says_which_output_does_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "x.beton"
    hr.write(path, [(2**31 + i, i / 3) for i in range(8)], fields={"n": hr.Int(), "x": hr.Float()})
    with pytest.raises(ValueError, match="the output 'n' is int64 with numbers from 2147483648 to 2147483651"):
        Loader(path, 4, framework="jax", pipelines={"x": None})[0]
    with pytest.raises(ValueError, match="the output 'x' is float64"):
        next(iter(Loader(path, 4, framework="jax", pipelines={"n": None})))
    (x,) = Loader(path, 4, framework="jax", pipelines={"n": None, "x": [ops.ToDtype("float32")]})[0]
    assert x.dtype == np.float32


# -- a GPU that is not there --------------------------------------------------------------------------------------


class HostMemory:
    """Stands for memory of the native decoder: has ``__dlpack__`` and nothing else."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


class Decoder:
    """Stands for the native decoder: counts what is in others' hands, what came back, and what it may use again."""

    def __init__(self) -> None:
        self.came_back: list[int] = []
        self.free: list[int] = []
        self.made = 0

    def empty(self, shape: tuple[int, ...], dtype: str) -> HostMemory:
        self.made += 1
        array = allocate_pages(int(np.prod(shape))).view(dtype).reshape(shape)
        finalize(array.base if array.base is not None else array, self.came_back.append, self.made)
        return HostMemory(array)

    def returned(self) -> Any:
        if not self.came_back:
            return None
        pieces, self.came_back = self.came_back, []

        class Returned:
            pass

        returned = Returned()
        finalize(returned, self.free.extend, pieces)
        return returned


class Queue:
    """Stands for JAX's queue: a mark is ready when the test says so."""

    def __init__(self) -> None:
        self.marks: list[Queue.Mark] = []

    class Mark:
        def __init__(self) -> None:
            self.is_done = False

        def is_ready(self) -> bool:
            return self.is_done

        def block_until_ready(self) -> None:
            self.is_done = True

    def __call__(self) -> Mark:
        self.marks.append(Queue.Mark())
        return self.marks[-1]


def gpu_output() -> Any:
    from headrace.frameworks.jax import JaxOutput

    output = JaxOutput("cpu")
    output.gpu = 0
    return output


def test_jax_takes_pictures_of_the_native_decoder_as_they_are(jax: Any) -> None:
    output, decoder = gpu_output(), Decoder()
    memory = output.empty(LARGE, "uint8", decoder)
    memory.array[:] = 7
    address = memory.array.ctypes.data
    batch = output.receive(output.send(Batch(("x",), (memory,)), {}))
    assert address_of(batch.x) == address
    assert np.unique(np.asarray(batch.x)).tolist() == [7]


def test_memory_is_used_again_when_jaxs_queue_is_past_it(jax: Any) -> None:
    output, decoder, queue = gpu_output(), Decoder(), Queue()
    output._mark = queue
    batch = output.send(Batch(("x",), (output.empty(LARGE, "uint8", decoder),)), {})
    output.empty(LARGE, "uint8", decoder)  # let go of unsent: it comes back, too
    gc.collect()
    assert decoder.came_back == [2]
    del batch
    assert wait_until(lambda: gc.collect() is not None and len(decoder.came_back) == 2)
    held = [output.empty(LARGE, "uint8", decoder)]
    assert (len(queue.marks), decoder.free) == (1, [])
    held.append(output.empty(LARGE, "uint8", decoder))
    assert (len(queue.marks), decoder.free) == (1, [])  # nothing came back meanwhile
    queue.marks[0].is_done = True
    held.append(output.empty(LARGE, "uint8", decoder))
    assert sorted(decoder.free) == [1, 2]


def test_a_queue_of_jax_does_not_fill_the_gpu(jax: Any) -> None:
    output, decoder, queue = gpu_output(), Decoder(), Queue()
    output._mark = queue
    for _ in range(50):
        output.empty(LARGE, "uint8", decoder)
        gc.collect()
        assert decoder.made - len(decoder.free) <= 9


def test_memory_without_a_mark_is_held_until_there_is_one(jax: Any) -> None:
    output, decoder, queue = gpu_output(), Decoder(), Queue()

    def full() -> Any:
        raise RuntimeError("RESOURCE_EXHAUSTED")

    output.empty(LARGE, "uint8", decoder)
    gc.collect()
    output._mark = full
    for _ in range(2):
        with pytest.raises(RuntimeError, match="RESOURCE_EXHAUSTED"):
            output.empty(LARGE, "uint8", decoder)
        gc.collect()
        assert decoder.free == []
    output._mark = queue
    held = [output.empty(LARGE, "uint8", decoder)]
    gc.collect()
    assert (len(queue.marks), decoder.free) == (1, [])
    queue.marks[0].is_done = True
    held.append(output.empty(LARGE, "uint8", decoder))
    assert decoder.free == [1]


def test_memory_on_its_way_back_is_waited_for_before_there_is_none(jax: Any) -> None:
    class Small(Decoder):
        def empty(self, shape: tuple[int, ...], dtype: str) -> HostMemory:
            if self.made - len(self.free) >= 3:
                error = NativeError("none left")
                error.code, error.detail = "out_of_memory", "none left"
                raise error
            return super().empty(shape, dtype)

    output, decoder, queue = gpu_output(), Small(), Queue()
    output._mark = queue
    for _ in range(20):
        output.empty(LARGE, "uint8", decoder)
        gc.collect()
    held = [output.empty(LARGE, "uint8", decoder) for _ in range(3)]
    with pytest.raises(NativeError, match="none left"):  # now there is really none
        output.empty(LARGE, "uint8", decoder)
    assert len(held) == 3
    assert output.room_bytes(SimpleNamespace(room_bytes=7)) == 7


def test_each_process_of_a_launcher_has_a_gpu_of_its_own(jax: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from headrace.frameworks.jax import JaxOutput

    gpus = [
        SimpleNamespace(platform="gpu", local_hardware_id=n, client=SimpleNamespace(platform_version="cuda 12"))
        for n in range(2)
    ]
    monkeypatch.setattr(jax, "local_devices", lambda backend: gpus)
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert [JaxOutput(device).gpu for device in ("gpu", "cuda", "cuda:0", "cuda:1")] == [1, 1, 0, 1]
    assert JaxOutput("cpu").device is gpus[0]  # and nothing else has ranks
    monkeypatch.setattr(jax, "process_count", lambda: 2)  # jax.distributed: the devices are this process's own
    assert JaxOutput("cuda").gpu == 0
    monkeypatch.setattr(jax, "process_count", lambda: 1)
    del gpus[1]  # CUDA_VISIBLE_DEVICES shows it only its own
    assert JaxOutput("cuda").gpu == 0


def test_a_mark_of_jax_is_ready_in_the_end(jax: Any) -> None:
    output = gpu_output()
    assert output._marked().block_until_ready().is_ready()
    assert output._marked().devices() == {output.device}


def test_an_epoch_in_a_training_step(jax: Any, path: Path) -> None:
    pipelines: dict[str, Any] = {"image": [*CROP, ops.Normalize([120] * 3, [60] * 3)], "array": None, "text": None}

    @jax.jit
    def step(weights: Any, images: Any, targets: Any) -> Any:
        def loss(weights: Any) -> Any:
            return ((images.reshape(len(images), -1) @ weights - targets) ** 2).mean()

        return weights - 1e-6 * jax.grad(loss)(weights)

    weights = jax.numpy.zeros(16 * 16 * 3)
    loader = Loader(path, 5, order="random", framework="jax", pipelines=pipelines, drop_last=False)
    seen = []
    for images, targets in loader:
        weights = step(weights, images, targets)
        seen += targets.tolist()
    assert sorted(seen) == list(range(COUNT))
    assert bool(jax.numpy.isfinite(weights).all())


@pytest.mark.parametrize("device", [None, "cpu"])
def test_a_program_may_end_with_work_queued(path: Path, device: Any) -> None:
    run = run_script(
        """
        import sys
        import jax
        import headrace as hr
        from headrace import ops
        slow = jax.jit(lambda x: jax.lax.fori_loop(0, 60, lambda _, m: m @ m, x[0, :, :, 0] / 255.0).sum())
        loader = hr.Loader(sys.argv[1], 5, framework="jax", device=eval(sys.argv[2]),
                           pipelines={"image": [ops.Resize(256)]})
        queued = [slow(batch.image) for _, batch in zip(range(3), loader)]
        """,
        path,
        repr(device),
    )
    assert (run.returncode, run.stderr) == (0, "")
