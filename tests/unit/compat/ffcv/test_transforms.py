"""Transforms by themselves: what they declare, and what their functions do when a program calls them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.helpers import picture

torch = pytest.importorskip("torch")

from tests.unit.compat.ffcv.tools import Calling, flat, write  # noqa: E402

from headrace.compat.ffcv import Loader  # noqa: E402
from headrace.compat.ffcv.fields import IntField, RGBImageField  # noqa: E402
from headrace.compat.ffcv.fields.decoders import IntDecoder, SimpleRGBImageDecoder  # noqa: E402
from headrace.compat.ffcv.pipeline.allocation_query import AllocationQuery  # noqa: E402
from headrace.compat.ffcv.pipeline.state import State  # noqa: E402
from headrace.compat.ffcv.transforms import (  # noqa: E402
    Convert,
    Cutout,
    ImageMixup,
    LabelMixup,
    MixupToOneHot,
    ModuleWrapper,
    NormalizeImage,
    Poison,
    RandomBrightness,
    RandomContrast,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomSaturation,
    RandomTranslate,
    ReplaceLabel,
    Squeeze,
    ToDevice,
    ToTensor,
    ToTorchImage,
    View,
)

if TYPE_CHECKING:
    from pathlib import Path

CPU = torch.device("cpu")
PIXEL = np.dtype("u1")
PICTURES = State(jit_mode=True, device=CPU, shape=(6, 8, 3), dtype=PIXEL)
TENSORS = State(jit_mode=False, device=CPU, shape=(6, 8, 3), dtype=torch.uint8)
LABELS = State(jit_mode=True, device=CPU, shape=(1,), dtype=np.dtype("<i8"))
MIXED = State(jit_mode=False, device=CPU, shape=(3,), dtype=torch.float32)
ZEROS, ONES = np.zeros(3), np.ones(3)


def state(shape: tuple[int, ...], dtype: Any, *, jit: bool = False) -> State:
    return State(jit_mode=jit, device=CPU, shape=shape, dtype=dtype)


# An operation, what comes before it, what comes after it, and the memory it asks for.
DECLARED: list[tuple[Any, State, State, Any]] = [
    (ToTensor(), PICTURES, TENSORS, None),
    (ToDevice("cpu"), TENSORS, TENSORS, AllocationQuery((6, 8, 3), torch.uint8, CPU)),
    (ToTorchImage(), TENSORS, state((3, 6, 8), torch.uint8), None),
    (
        ToTorchImage(channels_last=False),
        state((6, 8, 3), torch.int16),
        state((3, 6, 8), torch.float16),
        AllocationQuery((3, 6, 8), torch.float16),
    ),
    (ToTorchImage(convert_back_int16=False), state((6, 8, 3), torch.int16), state((3, 6, 8), torch.int16), None),
    (Convert(torch.float16), TENSORS, state((6, 8, 3), torch.float16), None),
    (View(np.float16), PICTURES, state((6, 8, 3), np.float16), None),
    (Squeeze(), state((1, 4, 1), torch.uint8), state([4], torch.uint8), None),  # type: ignore[arg-type]
    (
        NormalizeImage(ZEROS, ONES, np.float16),
        PICTURES,
        state((6, 8, 3), np.dtype("int16"), jit=True),
        AllocationQuery((6, 8, 3), np.dtype("int16")),
    ),
    (NormalizeImage(ZEROS, ONES, np.float32), TENSORS, state((6, 8, 3), torch.float32), None),
    (RandomHorizontalFlip(), PICTURES, PICTURES, AllocationQuery((6, 8, 3), PIXEL)),
    (RandomTranslate(2), PICTURES, PICTURES, AllocationQuery((10, 12, 3), PIXEL)),
    (Cutout(2), PICTURES, PICTURES, None),
    (
        RandomResizedCrop((0.5, 1), (1, 1), 5),
        PICTURES,
        state((5, 5, 3), PIXEL, jit=True),
        AllocationQuery((5, 5, 3), PIXEL),
    ),
    (RandomBrightness(0.1), PICTURES, PICTURES, AllocationQuery((6, 8, 3), PIXEL)),
    (RandomContrast(0.1), PICTURES, PICTURES, AllocationQuery((6, 8, 3), PIXEL)),
    (RandomSaturation(0.1), PICTURES, PICTURES, AllocationQuery((6, 8, 3), PIXEL)),
    (ImageMixup(0.5, True), PICTURES, PICTURES, AllocationQuery((6, 8, 3), PIXEL)),
    (LabelMixup(0.5, True), LABELS, state((3,), np.dtype("f4"), jit=True), AllocationQuery((3,), np.dtype("f4"))),
    (MixupToOneHot(9), MIXED, state((9,), torch.float32), AllocationQuery((9,), torch.float32, CPU)),
    (Poison(np.zeros((6, 8, 3)), np.ones((6, 8)), [1]), PICTURES, PICTURES, AllocationQuery((6, 8, 3), np.dtype("f4"))),
    (ReplaceLabel([1], 2), LABELS, LABELS, None),
    (ModuleWrapper(torch.nn.Identity()), TENSORS, TENSORS, None),
]


@pytest.mark.parametrize(("operation", "before", "after", "memory"), DECLARED, ids=lambda v: type(v).__name__)
def test_what_is_declared(operation: Any, before: State, after: State, memory: Any) -> None:
    assert operation.declare_state_and_memory(before) == (after, memory)
    assert operation.declare_shared_memory(before) is None
    assert operation.generate_code_for_shared_state() is None


def pictures(count: int = 5) -> np.ndarray:
    return np.stack([picture(i, 6, 8) for i in range(count)])


def test_a_flip_goes_where_it_is_told() -> None:
    images, memory = pictures(), np.zeros((7, 6, 8, 3), np.uint8)
    flip = RandomHorizontalFlip(1.0).generate_code()
    result = flip(images, memory)
    assert np.shares_memory(result, memory)
    assert (result == images[:, :, ::-1]).all()
    assert (flip(images, None) == images[:, :, ::-1]).all()


def test_what_has_no_memory_of_its_own_leaves_the_input_alone() -> None:
    images = pictures()
    for operation in (Cutout(3, (9, 9, 9)), RandomTranslate(2), RandomBrightness(0.5, 1.0)):
        before = images.copy()
        result = operation.generate_code()(images, None)
        assert result.shape == images.shape
        assert not (result == images).all()
        assert (images == before).all()


def test_draws_follow_numpys_generator() -> None:
    cutout = Cutout(3).generate_code()
    np.random.seed(5)
    first = cutout(pictures(), None)
    assert not (first == cutout(pictures(), None)).all()
    np.random.seed(5)
    assert (first == cutout(pictures(), None)).all()


def test_crops_of_pictures_in_memory() -> None:
    crop = RandomResizedCrop((0.3, 0.6), (0.75, 1.33), 4)
    memory = np.zeros((5, 4, 4, 3), np.uint8)
    images = np.stack([flat(i, 6, 8) for i in range(5)])
    result = crop.generate_code()(images, memory)
    assert np.shares_memory(result, memory)
    assert (result == np.arange(5)[:, None, None, None]).all()


def test_normalizing_arrays_and_tensors() -> None:
    images, mean, std = pictures(), np.array([10.0, 20.0, 30.0]), np.array([2.0, 4.0, 8.0])
    for dtype in (np.float16, np.float32, np.float64):
        expected = ((images - mean) / std).astype(dtype)
        code = NormalizeImage(mean, std, dtype).generate_code()
        found = code(images, None)
        assert (found.view(dtype) == expected).all()
        tensor = code(torch.from_numpy(images), None)
        assert (tensor.numpy() == expected).all()
        first = torch.from_numpy(images).permute(0, 3, 1, 2)
        assert (code(first, None).numpy() == expected.transpose(0, 3, 1, 2)).all()
        assert code(first, None).is_contiguous(memory_format=torch.channels_last)
    from_lists = NormalizeImage([10, 20, 30], [2, 4, 8], np.float32).generate_code()
    assert (from_lists(images, None) == ((images - mean) / std).astype(np.float32)).all()


def test_poison_and_new_labels_go_by_indices() -> None:
    images, mask, alpha = pictures(), np.full((6, 8, 3), 200.0), np.full((6, 8), 0.5)
    poisoned = Poison(mask, alpha, [30, 10], clamp=(0, 120)).generate_code()(
        images.copy(), None, np.array([10, 20, 30, 40, 50])
    )
    for i in range(5):
        expected = (
            np.clip(images[i].astype(np.float32) * 0.5 + 100, 0, 120).astype(np.uint8) if i in (0, 2) else images[i]
        )
        assert (poisoned[i] == expected).all()
    labels = ReplaceLabel([30, 10], 7).generate_code()(np.zeros((4, 1), np.int64), None, np.array([10, 20, 30, 40]))
    assert labels[:, 0].tolist() == [7, 0, 7, 0]


@pytest.mark.parametrize(
    ("dims", "shape", "expected"),
    [
        ((), (4, 1, 1), (4,)),
        ((1,), (4, 1, 1), (4, 1)),
        ((1, 2), (4, 1, 1), (4,)),
        ((-1,), (4, 1), (4,)),
        ((), (1, 1), ()),
    ],
)
def test_squeezing(dims: tuple[int, ...], shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    given = torch.zeros(shape)
    assert Squeeze(*dims).generate_code()(given, None).shape == expected
    assert given.shape == shape


def test_equal_labels_of_mixup_add_up() -> None:
    mixed = torch.tensor([[1, 1, 0.3], [2, 0, 0.25]])
    rows = MixupToOneHot(3).generate_code()(mixed, None)
    assert torch.allclose(rows, torch.tensor([[0, 1, 0], [0.75, 0, 0.25]]))
    assert torch.equal(mixed, torch.tensor([[1, 1, 0.3], [2, 0, 0.25]]))


def test_operations_of_a_subclass_get_their_memory(tmp_path: Path) -> None:
    class OwnFlip(RandomHorizontalFlip):
        def generate_code(self) -> Any:
            def flip(images: Any, dst: Any) -> Any:
                dst[:] = images[:, :, ::-1]
                return dst

            return flip

    path = write(tmp_path / "x", {"image": RGBImageField(), "label": IntField()}, 4, lambda i: (picture(i, 6, 8), i))
    for images, label in Loader(path, 2, 1, pipelines={"image": [SimpleRGBImageDecoder(), OwnFlip(), ToTensor()]}):
        for i, image in zip(label.flatten().tolist(), images, strict=True):
            assert (image.numpy() == picture(i, 6, 8)[:, ::-1]).all()


CHAINS = {
    "all at once": lambda middle: [RandomHorizontalFlip(), RandomTranslate(2), Cutout(3), RandomBrightness(0.3)],
    "a user's own first": lambda middle: [middle, RandomHorizontalFlip(1.0), RandomTranslate(0)],
    "a user's own between": lambda middle: [RandomHorizontalFlip(1.0), middle, RandomTranslate(0)],
    "a user's own last": lambda middle: [RandomHorizontalFlip(1.0), RandomTranslate(0), middle],
    "crop between": lambda middle: [RandomHorizontalFlip(), RandomResizedCrop((0.2, 1), (1, 1), 8), middle, Cutout(2)],
}


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("last", ["tensor", "image", "normalized"])
def test_chains_that_are_one_native_call_or_several(tmp_path: Path, chain: str, last: str) -> None:
    path = write(tmp_path / "x", {"image": RGBImageField(), "label": IntField()}, 6, lambda i: (flat(10 * i), i))
    ends: dict[str, list[Any]] = {
        "tensor": [ToTensor()],
        "image": [ToTensor(), ToTorchImage(channels_last=False)],
        "normalized": [NormalizeImage(ZEROS, 2 * ONES, np.float16), ToTensor(), ToTorchImage()],
    }
    middle = Calling(lambda values: values + 1)
    ops = [SimpleRGBImageDecoder(), *CHAINS[chain](middle), *ends[last]]
    pipelines = {"image": ops, "label": [IntDecoder(), ToTensor(), Squeeze()]}
    for images, label in Loader(path, 3, 2, pipelines=pipelines):
        assert images.shape == ((3, 8, 8, 3) if last == "tensor" else (3, 3, 8, 8))
        assert images.is_contiguous() == (last != "normalized")
        if "user's" in chain:
            expected = (10 * label + 1)[:, None, None, None]
            assert (images == (expected / 2 if last == "normalized" else expected)).all()
