from __future__ import annotations

import contextlib
import json
import multiprocessing
import pickle
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.helpers import write_all_fields
from tests.unit.loader.tools import COUNT, CROP, LABELS_ONLY, contents, labels, values_of, write_rows

from headrace import Loader, ops
from headrace.errors import DeviceError, MissingExtraError
from headrace.frameworks.torch import TorchOutput, to_tensor
from headrace.loader.gpu import NoRoomError
from headrace.types import Padded, Ragged

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

torch: Any = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rows(tmp_path_factory.mktemp("torch") / "x.beton")


def as_arrays(batch: Any) -> list[Any]:
    """The batch as it would be without torch."""

    def array_of(value: Any) -> Any:
        if isinstance(value, Padded | Ragged):
            return type(value)(*map(array_of, value))
        return value.numpy() if isinstance(value, torch.Tensor) else value

    return values_of([array_of(value) for value in batch])


# -- tensors ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("collate", ["list", "pad", "offsets"])
def test_tensors_have_the_values_of_the_arrays(path: Path, collate: Any) -> None:
    options: dict[str, Any] = {"order": "random", "pipelines": {"image": CROP}, "collate": collate}
    batches = list(Loader(path, 5, device="cpu", **options))
    assert [as_arrays(batch) for batch in batches] == contents(Loader(path, 5, **options))
    batch = batches[0]
    assert batch.keys() == ("image", "label", "array", "text")
    assert all(isinstance(value, torch.Tensor) for value in (batch.image, batch.label, batch.array))
    assert type(batch.text) is {"list": list, "pad": Padded, "offsets": Ragged}[collate]
    if collate != "list":
        assert all(isinstance(part, torch.Tensor) for part in batch.text)


@pytest.mark.parametrize(
    ("last", "dtype"),
    [
        ([], "uint8"),
        ([ops.Normalize([1] * 3, [2] * 3)], "float32"),
        ([ops.Normalize([1] * 3, [2] * 3, "float16")], "float16"),
        ([ops.ToDtype("int32")], "int32"),
        ([ops.ToDtype("float64")], "float64"),
    ],
)
def test_dtypes_are_kept(path: Path, last: list[Any], dtype: str) -> None:
    batch = next(iter(Loader(path, 5, device="cpu", pipelines={"image": [*CROP, *last]})))
    assert batch.image.dtype == getattr(torch, dtype)
    assert (batch.label.dtype, batch.array.dtype) == (torch.int64, torch.float32)


def test_every_field_becomes_a_tensor_or_a_list(tmp_path: Path) -> None:
    write_all_fields(tmp_path / "all.beton")
    pipelines = {"raw": [ops.Resize(4)], "jpg": [ops.Resize(4)]}
    batch = Loader(tmp_path / "all.beton", 4, device="cpu", pipelines=pipelines)[0]
    lists = {name for name in batch.keys() if isinstance(batch[name], list)}  # noqa: SIM118  # a batch is a sequence
    assert lists == {"blob", "doc", "text"}
    assert batch.score.dtype == torch.float64


def test_layouts_are_torchs(path: Path) -> None:
    for layout, memory_format in (("NCHW", torch.contiguous_format), ("channels_last", torch.channels_last)):
        batch = next(iter(Loader(path, 5, device="cpu", pipelines={"image": [*CROP, ops.ToLayout(layout)]})))
        assert batch.image.shape == (5, 3, 16, 16)
        assert batch.image.is_contiguous(memory_format=memory_format)


def test_tensors_lie_on_the_memory_of_the_arrays(path: Path) -> None:
    seen: list[int] = []

    def note(images: np.ndarray) -> np.ndarray:
        seen.append(images.ctypes.data)
        return images

    loader = Loader(path, 5, device=torch.device("cpu"), pipelines={"image": [*CROP, ops.Apply(note)]})
    assert [batch.image.data_ptr() for batch in list(loader)] == seen


def test_arrays_that_torch_cannot_take_as_they_are(path: Path) -> None:
    odd = [
        (lambda labels: labels[::-1], torch.int64),  # backwards in memory
        (lambda labels: labels.astype(">i4"), torch.int32),  # another byte order
        (lambda labels: np.broadcast_to(labels[:1], labels.shape), torch.int64),  # read-only
        (lambda labels: labels.astype(np.complex64), torch.complex64),
        (lambda labels: labels > 3, torch.bool),
    ]
    for function, dtype in odd:
        pipelines: dict[str, Any] = LABELS_ONLY | {"label": [ops.Apply(function, "odd")]}
        found = next(iter(Loader(path, 5, device="cpu", pipelines=pipelines))).label
        assert found.dtype == dtype
        np.testing.assert_array_equal(found.numpy(), function(np.arange(5)))
    words: dict[str, Any] = LABELS_ONLY | {"label": [ops.Apply(lambda labels: labels.astype(str), "words")]}
    assert next(iter(Loader(path, 5, device="cpu", pipelines=words))).label.tolist() == ["0", "1", "2", "3", "4"]


def test_the_way_to_torch_is_timed(path: Path) -> None:
    loader = Loader(path, 5, device="cpu", pipelines={"image": CROP})
    list(loader)
    assert loader.stats.stages["copy"] > 0


def test_a_batch_moves_as_a_tensor_does(path: Path) -> None:
    batch = next(iter(Loader(path, 5, device="cpu", pipelines={"image": CROP}, collate={"text": "pad"})))
    moved = batch.to(torch.float64)
    assert moved.keys() == batch.keys()
    assert {moved.image.dtype, moved.label.dtype, moved.text.values.dtype} == {torch.float64}
    assert batch.image.dtype == torch.uint8
    words = next(iter(Loader(path, 5, device="cpu", pipelines={"image": CROP}))).to("cpu", non_blocking=True)
    assert words.text == ["word " * (i % 3) for i in range(5)]


# -- modules ------------------------------------------------------------------------------------------------------


class Half(torch.nn.Module):  # type: ignore[misc]
    """Half of everything, as float."""

    def forward(self, value: Any) -> Any:
        return value / 2


class Explode(torch.nn.Module):  # type: ignore[misc]
    """Never works."""

    def forward(self, value: Any) -> Any:
        raise ZeroDivisionError("bang")


def test_modules_run_on_the_tensor(path: Path) -> None:
    flip = torch.nn.Identity()
    pipelines: dict[str, Any] = {"image": [*CROP, ops.ToLayout("NCHW"), Half(), flip, Half()], "label": [Half()]}
    loader = Loader(path, 5, device="cpu", pipelines=pipelines)
    plain = Loader(path, 5, pipelines={"image": [*CROP, ops.ToLayout("NCHW")]})
    for batch, expected in zip(loader, plain, strict=True):
        np.testing.assert_array_equal(batch.image.numpy(), expected.image.astype(np.float32) / 4)
        np.testing.assert_array_equal(batch.label.numpy(), expected.label / 2)
        assert not batch.image.requires_grad
    assert "torch: Half; then torch: Identity; then torch: Half" in loader.plan()
    assert as_arrays(loader[2])[1:2] == values_of([plain[2].label.astype(np.float32) / 2])


def test_modules_compute_no_gradients(path: Path) -> None:
    linear = torch.nn.Linear(3, 4)
    pipelines: dict[str, Any] = {"image": None, "text": None, "array": [linear]}
    batch = next(iter(Loader(path, 5, device="cpu", pipelines=pipelines)))
    assert batch.array.shape == (5, 2, 4)
    assert not batch.array.requires_grad


def test_modules_in_branches(path: Path) -> None:
    pipelines: dict[str, Any] = {"image": [*CROP, {"plain": [], "half": [Half()]}]}
    batch = next(iter(Loader(path, 5, device="cpu", pipelines=pipelines)))
    np.testing.assert_array_equal(batch.half.numpy(), batch.plain.numpy().astype(np.float32) / 2)
    with pytest.raises(ValueError, match=r"pipelines\['image'\]: modules of torch must stand in the branches"):
        Loader(path, 5, device="cpu", pipelines={"image": [*CROP, Half(), {"a": []}]})


def test_a_module_that_raises_is_named(path: Path) -> None:
    for loader in (
        Loader(path, 5, device="cpu", pipelines={"image": [*CROP, Explode()]}),
        Loader(path, 5, device="cpu", pipelines={"image": [*CROP, {"small": [Half(), Explode()]}]}),
    ):
        with pytest.raises(ZeroDivisionError, match="bang") as caught:
            list(loader)
        name = "small" if "small" in loader.plan() else "image"
        assert caught.value.__notes__ == [f"in the loader's module Explode of the output {name!r}"]


def test_modules_come_last_and_need_a_device(path: Path) -> None:
    with pytest.raises(ValueError, match="ToLayout comes after a module of torch; modules come last"):
        Loader(path, 5, device="cpu", pipelines={"image": [*CROP, Half(), ops.ToLayout("NCHW")]})
    with pytest.raises(ValueError, match="modules of torch need a device; use device='cpu' or device='cuda'"):
        Loader(path, 5, pipelines={"image": [*CROP, Half()]})


# -- devices ------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("device", ["cuda", "cuda:1", torch.device("cuda")])
def test_a_gpu_that_is_not_there_is_told_at_once(path: Path, device: Any) -> None:
    with pytest.raises(ValueError, match=f"device='{device}', but torch finds no GPU here; use device='cpu'"):
        Loader(path, 5, device=device)


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Two GPUs that nobody uses, as torch tells of them."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: pytest.fail("this would open the driver"))
    return torch.cuda


def test_the_number_of_the_gpu(cuda: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert TorchOutput("cpu").gpu is None
    assert (TorchOutput("cuda").gpu, TorchOutput("cuda:1").gpu) == (0, 1)
    with pytest.raises(ValueError, match="device='cuda:2', but torch finds 2 GPUs here"):
        TorchOutput("cuda:2")
    monkeypatch.setattr(cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(cuda, "current_device", lambda: 1)
    assert str(TorchOutput(torch.device("cuda")).device) == "cuda:1"
    monkeypatch.setattr(torch.version, "hip", "6.0")
    assert TorchOutput("cuda").gpu is None  # AMD's, which torch calls cuda, too


def test_each_process_of_a_launcher_has_a_gpu_of_its_own(cuda: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert (TorchOutput("cuda").gpu, TorchOutput("cuda:0").gpu) == (1, 0)
    monkeypatch.setattr(cuda, "device_count", lambda: 1)  # CUDA_VISIBLE_DEVICES shows it only its own
    assert TorchOutput("cuda").gpu == 0


def test_memory_for_a_gpu_is_pinned_there_and_opens_no_other(cuda: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[str] = []

    @contextlib.contextmanager
    def device(wanted: Any) -> Iterator[None]:
        chosen.append(str(wanted))
        yield
        chosen.append("out")

    def empty(size: int, *, dtype: Any, pin_memory: bool) -> Any:
        chosen.append(f"pinned={pin_memory}")
        return torch.zeros(size, dtype=dtype)

    monkeypatch.setattr(cuda, "device", device)
    monkeypatch.setattr(torch, "empty", empty)
    assert TorchOutput("cuda:1").allocate(64).nbytes == 64
    assert chosen == ["cuda:1", "pinned=True", "out"]


class FakeStream:
    """Counts how often somebody waits for it."""

    waits = 0
    is_done = False

    def __init__(self, device: Any) -> None:
        pass

    def query(self) -> bool:
        return self.is_done

    def synchronize(self) -> None:
        FakeStream.waits += 1


def test_tensors_for_the_gpu_are_made_when_nothing_uses_their_memory(
    cuda: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda, "Stream", FakeStream)
    monkeypatch.setattr(cuda, "stream", lambda stream: contextlib.nullcontext())
    monkeypatch.setattr(FakeStream, "waits", 0)
    output = TorchOutput("cuda")
    output.device = torch.device("cpu")
    array = output.empty((2, 4, 5, 3), "float16", None)
    tensor, moved = to_tensor(array), to_tensor(output.transposed(array, (0, 3, 1, 2)))
    assert (tensor.shape, tensor.dtype, tensor.is_contiguous()) == ((2, 4, 5, 3), torch.float16, True)
    assert FakeStream.waits == 1
    monkeypatch.setattr(FakeStream, "is_done", True)
    output.empty((1,), "float16", None)
    assert FakeStream.waits == 1
    assert moved.shape == (2, 3, 4, 5)
    assert moved.data_ptr() == tensor.data_ptr()

    def full(*args: Any, **options: Any) -> None:
        raise cuda.OutOfMemoryError("out of memory")

    monkeypatch.setattr(torch, "empty", full)
    expected = r"^a batch of shape \(8, 224, 224, 3\) and type uint8 takes 1.1 MiB, which torch cannot have: out of"
    with pytest.raises(DeviceError, match=expected):
        output.empty((8, 224, 224, 3), "uint8", None)


def test_memory_for_batches_is_what_is_free_or_unused_or_theirs(cuda: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "Stream", FakeStream)
    monkeypatch.setattr(cuda, "stream", lambda stream: contextlib.nullcontext())
    monkeypatch.setattr(cuda, "memory_reserved", lambda device: 5000)
    monkeypatch.setattr(cuda, "memory_allocated", lambda device: 3000)
    output = TorchOutput("cuda")
    output.device = torch.device("cpu")
    native: Any = SimpleNamespace(room_bytes=70_000)
    kept = [to_tensor(output.empty((2, 50), "float16", native)) for _ in range(3)]
    assert output.room_bytes(native) == 70_000 + 2000 + 3 * 200
    del kept[0]
    assert output.room_bytes(native) == 70_000 + 2000 + 2 * 200


def test_a_batch_that_does_not_fit_names_the_size_that_does(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    native: Any = SimpleNamespace(room_bytes=10_000_000, pin=lambda memory: None)

    class Full(TorchOutput):
        def __init__(self, device: Any) -> None:
            super().__init__("cpu")
            self.gpu = 0

        def empty(self, shape: Any, dtype: str, native: Any) -> Any:
            raise NoRoomError("torch has nothing left")

        def room_bytes(self, native: Any) -> int:
            return int(native.room_bytes)

    monkeypatch.setattr("headrace.loader.gpu.GpuImageLoader", lambda *args: native)
    monkeypatch.setattr("headrace.loader.gpu.gpu_kernels", lambda: b"kernels")
    monkeypatch.setattr(
        "headrace.loader.loader._FRAMEWORKS", SimpleNamespace(names=lambda: ["torch"], load=lambda _: Full)
    )
    pipelines: Any = {"image": [ops.Resize(64), ops.ToDtype("float32")]}
    loader = Loader(path, 40, device="cuda", jpeg="gpu", batches_ahead=2, drop_last=False, pipelines=pipelines)
    picture_bytes = 64 * 64 * 3 * 4
    with pytest.raises(
        DeviceError, match=r"cuda:0, field 'image': torch has nothing left\. A batch of about"
    ) as caught:
        loader[0]
    fitting = int(str(caught.value).split("about ")[1].split()[0])
    assert 10 < fitting < 10_000_000 // (6 * picture_bytes) < 40


def test_tensorflow_is_no_device_of_torch(path: Path) -> None:
    with pytest.raises(ValueError, match=r"device='tensorflow': .* to_tf_dataset of headrace\.frameworks\.tensorflow"):
        Loader(path, 5, device="tensorflow")


def test_tensors_are_lent_out_where_their_device_is_current(cuda: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    devices: list[Any] = []

    @contextlib.contextmanager
    def device(chosen: Any) -> Iterator[None]:
        devices.append(chosen)
        yield
        devices.append(None)

    monkeypatch.setattr(cuda, "device", device)
    monkeypatch.setattr(cuda, "Stream", FakeStream)
    monkeypatch.setattr(cuda, "stream", lambda stream: contextlib.nullcontext())
    output = TorchOutput("cuda")
    output.device = torch.device("cpu")
    array = output.empty((2, 4), "uint8", None)
    to_tensor(array)[:] = torch.arange(8, dtype=torch.uint8).reshape(2, 4)
    assert array.__dlpack_device__() == to_tensor(array).__dlpack_device__()
    assert np.from_dlpack(array).tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert devices == [torch.device("cpu"), None]


def test_a_device_that_does_not_exist(path: Path) -> None:
    with pytest.raises(RuntimeError, match="abacus"):
        Loader(path, 5, device="abacus")


def test_torch_that_is_not_installed_is_told_at_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"needs the 'torch' package.*: pip install 'headrace\[torch\]'"):
        Loader(path, 5, device="cpu")
    assert len(list(Loader(path, 5, pipelines={"image": CROP}))) == 7


# -- torch's own loader ---------------------------------------------------------------------------------------------

PIPELINES: dict[str, Any] = {"image": CROP}


@pytest.mark.parametrize("order", ["sequential", "random", "quasi_random"])
def test_a_dataloader_in_this_process_gives_the_same_batches(path: Path, order: Any) -> None:
    loader = Loader(path, 5, order=order, pipelines=PIPELINES, drop_last=False)
    wrapped = torch.utils.data.DataLoader(loader, batch_size=None)
    assert len(wrapped) == len(loader)
    found = [as_arrays(batch) for batch in wrapped]
    assert found == contents(loader)


@pytest.mark.slow
@pytest.mark.parametrize(("context", "cache"), [("fork", "os"), ("fork", "4MB"), ("spawn", "4MB")])
def test_a_dataloader_of_processes_gives_the_same_batches(path: Path, context: str, cache: str) -> None:
    loader = Loader(path, 5, order="random", pipelines=PIPELINES, cache=cache, workers=1)
    assert contents(loader)[0] != contents(loader)[0]  # threads have run, and the epoch is 2
    wrapped = torch.utils.data.DataLoader(
        loader, batch_size=None, num_workers=2, multiprocessing_context=multiprocessing.get_context(context)
    )
    found = [as_arrays(batch) for batch in wrapped]
    assert found == contents(loader)


def test_a_loader_of_tensors_pickles(path: Path) -> None:
    loader = Loader(path, 5, device="cpu", pipelines={"image": [*CROP, Half()]})
    copy = pickle.loads(pickle.dumps(loader))
    assert [as_arrays(batch) for batch in copy] == [as_arrays(batch) for batch in loader]


def test_a_state_can_be_saved_by_torch(path: Path, tmp_path: Path) -> None:
    loader = Loader(path, 5, order="random", pipelines=LABELS_ONLY, device="cpu")
    batches = iter(loader)
    next(batches)
    torch.save({"loader": loader.state_dict()}, tmp_path / "state.pt")
    state = torch.load(tmp_path / "state.pt", weights_only=True)["loader"]
    assert json.loads(json.dumps(state)) == state
    resumed = Loader(path, 5, order="random", pipelines=LABELS_ONLY)
    resumed.load_state_dict(state)
    assert labels(resumed) == [batch.label.tolist() for batch in batches]


# -- ranks --------------------------------------------------------------------------------------------------------


def test_a_process_group_knows_the_rank(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "5")  # counts only without a group
    monkeypatch.setenv("WORLD_SIZE", "9")
    torch.distributed.init_process_group("gloo", rank=0, world_size=1, init_method=f"file://{tmp_path / 'group'}")
    try:
        loader = Loader(path, 5, distributed=True, pipelines=LABELS_ONLY)
        assert (loader.options.rank, loader.options.world) == (0, 1)
    finally:
        torch.distributed.destroy_process_group()
    loader = Loader(path, 2, distributed=True, pipelines=LABELS_ONLY)
    assert (loader.options.rank, loader.options.world) == (5, 9)


def test_ranks_as_torchrun_starts_them_partition_an_epoch(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"order": "quasi_random", "drop_last": False, "pipelines": LABELS_ONLY}
    seen = []
    for rank in range(2):
        for name, value in {"RANK": rank, "WORLD_SIZE": 2, "LOCAL_RANK": rank, "MASTER_ADDR": "localhost"}.items():
            monkeypatch.setenv(name, str(value))
        loader = Loader(path, 5, distributed=True, device="cpu", **options)
        assert len(loader) == 4
        seen += [i for batch in loader for i in batch.label.tolist()]
    assert sorted(seen) == list(range(COUNT))
