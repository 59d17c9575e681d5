from __future__ import annotations

import gc
import importlib.util
import itertools
import os
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.conftest import manifest
from tests.helpers import Surgeon, picture

torch = pytest.importorskip("torch")

from tests.unit.compat.ffcv.tools import Calling, Doubler, flat, write  # noqa: E402

from headrace.compat.ffcv import Loader  # noqa: E402
from headrace.compat.ffcv.fields import (  # noqa: E402
    BytesField,
    FloatField,
    IntField,
    JSONField,
    NDArrayField,
    RGBImageField,
)
from headrace.compat.ffcv.fields.decoders import (  # noqa: E402
    BytesDecoder,
    CenterCropRGBImageDecoder,
    FloatDecoder,
    IntDecoder,
    NDArrayDecoder,
    RandomResizedCropRGBImageDecoder,
    SimpleRGBImageDecoder,
)
from headrace.compat.ffcv.fields.rgb_image import ResizedCropRGBImageDecoder  # noqa: E402
from headrace.compat.ffcv.loader import OrderOption  # noqa: E402
from headrace.compat.ffcv.pipeline import PipelineSpec  # noqa: E402
from headrace.compat.ffcv.pipeline.state import State  # noqa: E402
from headrace.compat.ffcv.transforms import (  # noqa: E402
    Cutout,
    ImageMixup,
    LabelMixup,
    MixupToOneHot,
    NormalizeImage,
    RandomHorizontalFlip,
    RandomTranslate,
    Squeeze,
    ToDevice,
    ToTensor,
    ToTorchImage,
)
from headrace.errors import CorruptSampleError, FormatError  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FIELDS = {
    "image": RGBImageField(),
    "label": IntField(),
    "blob": BytesField(),
    "array": NDArrayField(np.dtype("<f4"), (50,)),
    "value": FloatField(),
}
COUNT = 40


def sample(i: int) -> tuple[Any, ...]:
    return picture(i, 16, 20), i, np.full(i % 5, i, np.uint8), np.full(50, i, "<f4"), i / 8


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("loader") / "x.beton", FIELDS, COUNT, sample)


def only(*names: str) -> dict[str, Any]:
    """Pipelines that disable all other fields."""
    return {name: None for name in FIELDS if name not in names}


def labels(loader: Loader) -> list[int]:
    column = list(loader.pipeline_specs).index("label")
    return [int(label) for batch in loader for label in batch[column]]


# -- what FFCV does wrong ------------------------------------------------------------------------------------


@pytest.mark.timeout(60)
def test_an_exception_in_an_operation_reaches_the_consumer(path: Path) -> None:
    def fail_late(values: Any) -> Any:
        if values[0] >= 16:
            raise ZeroDivisionError("the third batch")
        return values

    loader = Loader(path, 8, 2, pipelines=only("label") | {"label": [IntDecoder(), Calling(fail_late), ToTensor()]})
    for _ in range(2):  # and the next epoch begins as if nothing had been
        batches = iter(loader)
        assert [next(batches)[0][0].item() for _ in range(2)] == [0, 8]
        with pytest.raises(ZeroDivisionError, match="the third batch") as caught:
            next(batches)
        assert caught.value.__notes__ == ["in the operation Calling of the field 'label'"]
        with pytest.raises(StopIteration):
            next(batches)


@pytest.mark.timeout(60)
def test_a_picture_that_cannot_be_decoded_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "x.beton", {"image": RGBImageField("jpg")}, 8, lambda i: (picture(i, 16, 16),))
    surgeon = Surgeon(path)
    damaged = surgeon.put(int(surgeon.table[5, 1]), b"\0" * 40).save()
    with pytest.raises(
        CorruptSampleError, match=r"changed-x.beton: sample 5, field 'image': .*cannot be decoded"
    ) as caught:
        list(Loader(damaged, 2, 2))
    assert caught.value.sample == 5
    assert len(list(Loader(damaged, 2, 2, indices=[0, 1, 2, 3, 4, 6, 7], drop_last=False))) == 4


def test_zeros_follow_short_values(path: Path) -> None:
    loader = Loader(path, 8, 2, pipelines=only("label", "blob"))
    for _ in range(3):  # memory that other values were in is used again
        for label, blob in loader:
            assert blob.shape == (8, 4)
            for i, row in zip(label.flatten().tolist(), blob.tolist(), strict=True):
                assert row == [i] * (i % 5) + [0] * (4 - i % 5)


def all_pipelines() -> dict[str, list[Any]]:
    return {
        "image": [SimpleRGBImageDecoder(), RandomHorizontalFlip(0.0), ToTensor(), ToTorchImage()],
        "label": [IntDecoder(), ToTensor(), Squeeze()],
        "blob": [BytesDecoder(), ToTensor()],
        "array": [NDArrayDecoder(), Doubler(), ToTensor(), ToDevice("cpu")],
        "value": [FloatDecoder(), Doubler(), ToTensor()],
    }


@pytest.mark.parametrize("big", [1, 4000])
def test_batches_that_are_kept_stay_as_they_are(tmp_path: Path, big: int) -> None:
    fields = FIELDS | {"array": NDArrayField(np.dtype("<f4"), (50 * big,))}

    def one(i: int) -> tuple[Any, ...]:
        return *sample(i)[:3], np.full(50 * big, i, "<f4"), i / 8

    path = write(tmp_path / "x.beton", fields, COUNT, one)
    kept = list(Loader(path, 4, 2, batches_ahead=1, pipelines=all_pipelines()))
    assert len(kept) == 10
    for column in range(5):
        assert len({batch[column].data_ptr() for batch in kept}) == 10
    for k, (image, label, _, array, value) in enumerate(kept):
        assert label.tolist() == list(range(4 * k, 4 * k + 4))
        assert (array == 2 * label[:, None]).all()
        assert (value[:, 0] == label / 4).all()
        for i, found in zip(label.tolist(), image, strict=True):
            assert (found.permute(1, 2, 0).numpy() == picture(i, 16, 20)).all()


def test_filter_keeps_the_samples_that_were_chosen(path: Path) -> None:
    loader = Loader(path, 2, 2, indices=[3, 5, 7, 9, 11], drop_last=False, pipelines=only("label", "array"))
    assert loader.filter("label", lambda value: True).indices.tolist() == [3, 5, 7, 9, 11]
    assert labels(loader.filter("array", lambda value: value[0] > 6)) == [7, 9, 11]
    assert loader.filter("value", lambda value: value[0] < 1).indices.tolist() == [3, 5, 7]  # a field that is off
    assert labels(loader) == [3, 5, 7, 9, 11]
    with pytest.raises(KeyError, match="no field 'colour'"):
        loader.filter("colour", bool)


def test_filter_passes_on_what_the_loader_was_given(path: Path) -> None:
    class Backwards(Loader(path, 2).traversal_order.__class__):  # type: ignore[misc]
        def __init__(self, loader: Loader, word: str) -> None:
            super().__init__(loader)
            self.word = word

        def sample_order(self, epoch: int) -> Any:
            return self.indices[::-1]

    options = {"order": Backwards, "order_kwargs": {"word": "x"}, "custom_fields": {"label": IntField}, "seed": 4}
    filtered = Loader(path, 3, 2, pipelines=only("label"), **options).filter("label", lambda value: value[0] % 4 == 0)
    assert labels(filtered) == [36, 32, 28, 24, 20, 16, 12, 8, 4]
    assert filtered.traversal_order.word == "x"
    assert filtered.seed == 4


def test_the_users_pipelines_are_left_alone(path: Path) -> None:
    module = torch.nn.Identity()
    decoder = CenterCropRGBImageDecoder((4, 4), 0.5)
    images: list[Any] = [decoder, ToTensor(), module]
    numbers: list[Any] = [IntDecoder(), ToTensor()]
    spec = PipelineSpec("value", transforms=[FloatDecoder(), ToTensor()])
    pipelines = {"image": images, "label": numbers, "value": spec, "blob": None, "array": None}
    before = (list(images), list(numbers), list(spec.transforms), spec.decoder, dict(pipelines))
    shapes = []
    for _ in range(3):
        with pytest.warns(ResourceWarning, match="module of torch on the CPU"):
            loader = Loader(path, 4, 2, pipelines=pipelines)
        shapes.append(next(iter(loader))[0].shape)
        assert loader.pipeline_specs["image"].decoder is decoder
    assert shapes == [(4, 4, 4, 3)] * 3
    assert (images, numbers, spec.transforms, spec.decoder, pipelines) == before


def test_one_list_for_two_fields(tmp_path: Path) -> None:
    fields = {"a": RGBImageField(), "b": RGBImageField()}
    path = write(tmp_path / "x", fields, 6, lambda i: (picture(i, 20, 20), picture(i + 100, 30, 30)))
    ops = [CenterCropRGBImageDecoder((8, 8), 1.0), ToTensor()]
    for a, b in Loader(path, 3, 2, pipelines={"a": ops, "b": ops}):
        assert a.shape == b.shape == (3, 8, 8, 3)
        assert not torch.equal(a, b)


@pytest.mark.parametrize("workers", [0, -1, 1, 3, 64, 500])
def test_any_number_of_workers(path: Path, workers: int) -> None:
    before = torch.get_num_threads()
    loader = Loader(path, 8, workers, pipelines=all_pipelines())
    for k, batch in enumerate(loader):
        assert batch[1].tolist() == list(range(8 * k, 8 * k + 8))
        assert (batch[0][0].permute(1, 2, 0).numpy() == picture(8 * k, 16, 20)).all()
    assert torch.get_num_threads() == before
    assert loader.num_workers == (workers if workers > 0 else len(os.sched_getaffinity(0)))


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


def test_no_threads_are_left(path: Path) -> None:
    loader = Loader(path, 2, 2, pipelines=all_pipelines())
    list(loader)
    in_python, in_the_system = threading.active_count(), threads()
    for _ in range(20):
        next(iter(loader))
    gc.collect()
    deadline = time.monotonic() + 10
    while (threading.active_count() > in_python or threads() > in_the_system) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= in_python
    assert threads() <= in_the_system


def test_a_loader_is_freed_with_what_it_holds(path: Path) -> None:
    loader = Loader(path, 2, 2, pipelines=all_pipelines())
    iterator = iter(loader)
    next(iterator)
    gone = [weakref.ref(loader), weakref.ref(iterator)]
    iterator.close()
    iterator.close()
    del loader, iterator
    gc.collect()
    assert [ref() for ref in gone] == [None, None]


def test_values_without_bytes_harm_nobody(golden_dir: Path) -> None:
    facts = manifest("bytes_empty")
    path = golden_dir / "bytes_empty.beton"
    loader = Loader(path, 3, 2, drop_last=False)
    names = list(loader.reader.handlers)
    column = next(i for i, h in enumerate(loader.reader.handlers.values()) if type(h) is BytesField)
    found = [row.numpy().tobytes() for batch in loader for row in batch[column]]
    stored = [bytes.fromhex(value) for value in expected_bytes(facts, names[column])]
    assert len(found) == len(stored)
    for value, expected in zip(found, stored, strict=True):
        assert value == expected.ljust(len(value), b"\0")


def expected_bytes(facts: dict[str, Any], field: str) -> list[str]:
    """The hexadecimal values of a field in a golden manifest."""
    return [sample[field]["hex"] for sample in facts["samples"]]


@pytest.mark.parametrize("mode", ["raw", "jpg"])
def test_a_tiny_picture_has_no_centre(tmp_path: Path, mode: str) -> None:
    path = write(tmp_path / "x", {"image": RGBImageField(mode)}, 3, lambda i: (flat(i, 1, 1 + i),))
    loader = Loader(path, 1, 1, pipelines={"image": [CenterCropRGBImageDecoder((4, 4), 0.5), ToTensor()]})
    with pytest.raises(ValueError, match="sample 0: the crop of a picture of 1x1 pixels is empty"):
        list(loader)
    whole = Loader(path, 3, 1, pipelines={"image": [CenterCropRGBImageDecoder((4, 4), 1.0), ToTensor()]})
    assert (next(iter(whole))[0][:, 0, 0, 0].int() - torch.arange(3)).abs().max() <= 1


def test_a_crop_outside_the_picture_is_refused(path: Path) -> None:
    class Outside(ResizedCropRGBImageDecoder):
        scale = ratio = None

        @property
        def get_crop_generator(self) -> Callable[..., tuple[int, int, int, int]]:
            return lambda height, width, scale, ratio: (2, 2, height, width)

    loader = Loader(path, 4, 1, pipelines=only("image") | {"image": [Outside((4, 4)), ToTensor()]})
    with pytest.raises(ValueError, match=r"sample 0: the crop of a picture of 20x16 pixels is not inside it \(top 2"):
        next(iter(loader))


def test_a_file_that_gets_shorter_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "x", {"image": RGBImageField()}, 400, lambda i: (flat(i % 256, 80, 80),))
    loader = Loader(path, 8, 1)
    os.truncate(path, 1 << 20)
    with pytest.raises(FormatError, match="the file became shorter while it was in use"):
        list(loader)


# -- epochs and batches --------------------------------------------------------------------------------------


def test_one_field_gives_tuples_of_one(path: Path) -> None:
    assert [len(batch) for batch in Loader(path, 8, 1, pipelines=only("label"))] == [1] * 5
    assert list(Loader(path, 50, 1)) == []


@pytest.mark.parametrize(
    ("size", "drop_last", "sizes"), [(16, True, [16, 16]), (16, False, [16, 16, 8]), (40, True, [40])]
)
def test_the_last_batch(path: Path, size: int, drop_last: bool, sizes: list[int]) -> None:
    loader = Loader(path, size, 2, drop_last=drop_last, pipelines=all_pipelines())
    assert len(loader) == len(sizes)
    for _ in range(2):
        assert [[len(value) for value in batch] for batch in loader] == [[n] * 5 for n in sizes]


def test_order_of_outputs(path: Path) -> None:
    pipelines = {
        "extra": PipelineSpec("label", IntDecoder(), [ToTensor()]),
        "value": [FloatDecoder(), ToTensor()],
        "label": None,
        "array": None,
        "blob": None,
    }
    loader = Loader(path, 4, 1, pipelines=pipelines)
    assert list(loader.pipeline_specs) == ["image", "value", "extra"]
    image, value, extra = next(iter(loader))
    assert image.shape == (4, 16, 20, 3)
    assert value[:, 0].tolist() == [0, 0.125, 0.25, 0.375]
    assert extra[:, 0].tolist() == [0, 1, 2, 3]


def test_two_epochs_at_once(path: Path) -> None:
    loader = Loader(path, 4, 2, order=OrderOption.RANDOM, seed=1, pipelines=only("label"))
    pairs = list(zip(loader, loader, strict=True))
    first = [int(v) for (a,), _ in pairs for v in a]
    second = [int(v) for _, (b,) in pairs for v in b]
    assert first == np.random.default_rng(1).permutation(COUNT).tolist()
    assert second == np.random.default_rng(2).permutation(COUNT).tolist()
    assert loader.next_epoch == 2


def test_an_epoch_that_is_broken_off(path: Path) -> None:
    loader = Loader(path, 4, 2, order=OrderOption.RANDOM, seed=1, pipelines=only("label"))
    for _ in loader:
        break
    assert labels(loader) == np.random.default_rng(2).permutation(COUNT).tolist()
    loader.next_epoch = 0
    assert labels(loader) == np.random.default_rng(1).permutation(COUNT).tolist()


def random_pipelines() -> dict[str, Any]:
    ops = [RandomHorizontalFlip(), RandomTranslate(3), Cutout(4), ToTensor()]
    return only("image") | {"image": [RandomResizedCropRGBImageDecoder((12, 12)), *ops]}


def test_random_draws_are_fixed_by_seed_and_epoch(path: Path) -> None:
    def epochs(workers: int, seed: int, **options: Any) -> list[torch.Tensor]:
        loader = Loader(path, 8, workers, seed=seed, pipelines=random_pipelines(), **options)
        return [torch.cat([batch for (batch,) in loader]) for _ in range(2)]

    first = epochs(1, 5)
    for again in (epochs(3, 5), epochs(2, 5, batches_ahead=1), epochs(1, 5, os_cache=False)):
        assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(first[0], epochs(1, 6)[0])


def test_a_new_output_size_counts_from_the_next_epoch(path: Path) -> None:
    decoder = CenterCropRGBImageDecoder((8, 8), 1.0)
    ops = [decoder, Doubler(), NormalizeImage(np.zeros(3), np.ones(3), np.float32), ToTensor(), ToTorchImage()]
    loader = Loader(path, 8, 2, pipelines=only("image") | {"image": ops})
    code = loader.code
    for side in (8, 12, 5):
        decoder.output_size = (side, side + 1)
        batches = iter(loader)
        decoder.output_size = (99, 99)
        assert [batch.shape for (batch,) in batches] == [(8, 3, side, side + 1)] * 5
    assert loader.code is code


@pytest.mark.parametrize("recompile", [False, True])
def test_code_is_made_again_only_when_asked(path: Path, recompile: bool) -> None:
    flip = RandomHorizontalFlip(0.0)
    ops = [SimpleRGBImageDecoder(), flip, ToTensor()]
    loader = Loader(path, 8, 2, recompile=recompile, pipelines=only("image") | {"image": ops})
    code = loader.code
    (before,) = next(iter(loader))
    flip.flip_prob = 1.0
    (after,) = next(iter(loader))
    assert torch.equal(after, before.flip(2) if recompile else before)
    assert (loader.code is code) is not recompile
    loader.generate_code()
    assert torch.equal(next(iter(loader))[0], before.flip(2))


@pytest.mark.parametrize("os_cache", [True, False])
@pytest.mark.parametrize("order", list(OrderOption))
def test_orders_and_caches(path: Path, order: OrderOption, os_cache: bool) -> None:
    loader = Loader(path, 8, 2, order=order, os_cache=os_cache, pipelines=all_pipelines(), seed=2)
    for _ in range(2):
        seen = []
        for image, label, blob, array, _ in loader:
            for i, pixels, data, numbers in zip(label.tolist(), image, blob, array, strict=True):
                assert (pixels.permute(1, 2, 0).numpy() == picture(i, 16, 20)).all()
                assert data.tolist() == [i] * (i % 5) + [0] * (4 - i % 5)
                assert (numbers == 2 * i).all()
                seen.append(i)
        assert sorted(seen) == list(range(COUNT))


def test_duplicate_indices(path: Path) -> None:
    indices = [5, 5, 1, 39, 5]
    assert labels(Loader(path, 1, 2, indices=indices, pipelines=only("label"))) == indices
    shuffled = labels(Loader(path, 1, 2, indices=indices, order=OrderOption.RANDOM, pipelines=only("label")))
    assert sorted(shuffled) == sorted(indices)


def test_a_tuple_or_a_list_will_do(path: Path) -> None:
    pipelines = only("label") | {"label": (IntDecoder(), ToTensor())}
    assert next(iter(Loader(path, 2, 1, pipelines=pipelines)))[0].tolist() == [[0], [1]]


def test_without_to_tensor_arrays_come_out(path: Path) -> None:
    pipelines = {"image": [SimpleRGBImageDecoder()], "label": [IntDecoder()], "blob": [], "array": [], "value": []}
    assert all(isinstance(value, np.ndarray) for value in next(iter(Loader(path, 2, 1, pipelines=pipelines))))


def test_attributes_that_programs_look_at(path: Path) -> None:
    loader = Loader(path, 8, 2, seed=3, order=OrderOption.RANDOM)
    assert loader.indices.tolist() == list(range(COUNT))
    assert loader.indices.dtype == np.uint64
    assert loader.reader.num_samples == COUNT
    assert loader.batch_size == 8
    assert loader.first_traversal_order.tolist() == loader.next_traversal_order().tolist()
    assert loader.traversal_order.sample_order(1).tolist() == np.random.default_rng(4).permutation(COUNT).tolist()
    assert set(loader.graph.leaf_nodes) == set(FIELDS)
    assert loader.memory_manager.page_to_samples
    assert loader.code is not None


def test_a_seed_is_drawn_from_numpy(path: Path) -> None:
    np.random.seed(11)
    expected = np.random.randint(0, np.iinfo("int32").max)
    np.random.seed(11)
    assert Loader(path, 8).seed == expected


# -- mixup: pictures and labels agree -------------------------------------------------------------------------


def test_mixup_blends_with_the_sample_before(tmp_path: Path) -> None:
    path = write(tmp_path / "x", {"image": RGBImageField(), "label": IntField()}, 12, lambda i: (flat(20 * i), i))
    for same in (True, False):
        pipelines = {
            "image": [SimpleRGBImageDecoder(), ImageMixup(0.5, same), ToTensor()],
            "label": [IntDecoder(), LabelMixup(0.5, same), ToTensor()],
        }
        for images, mixed in Loader(path, 4, 1, pipelines=pipelines):
            own, before, share = mixed.T
            assert own.tolist() == torch.roll(before, -1).tolist()
            assert ((images[:, 0, 0, 0] - (share * own + (1 - share) * before) * 20).abs() <= 1).all()
            assert (len(share.unique()) == 1) is same
    onehot = [IntDecoder(), LabelMixup(0.5, True), ToTensor(), MixupToOneHot(12)]
    for _, rows in Loader(path, 4, 1, pipelines={"label": onehot}):
        assert torch.allclose(rows.sum(1), torch.ones(4))


# -- wrong arguments ------------------------------------------------------------------------------------------


def test_wrong_orders(path: Path) -> None:
    with pytest.raises(TypeError):
        Loader(path, 4, order="random")
    with pytest.raises(ValueError, match="not a supported order type or a subclass of TraversalOrder"):
        Loader(path, 4, order=dict)
    with pytest.raises(TypeError, match="speed"):
        Loader(path, 4, order_kwargs={"speed": 3})


def test_wrong_pipelines(path: Path) -> None:
    with pytest.raises(ValueError, match="The pipeline for label has to be either a PipelineSpec or a sequence"):
        Loader(path, 4, pipelines={"label": IntDecoder()})
    with pytest.raises(ValueError, match=r"pipeline 'colour': no field 'colour'; there are image, label"):
        Loader(path, 4, pipelines={"colour": [ToTensor()]})
    with pytest.raises(ValueError, match="Source can't be a node and also have a decoder"):
        Loader(path, 4, pipelines={"x": PipelineSpec(ToTensor(), decoder=IntDecoder())})
    with pytest.raises(ValueError, match="not found in other pipelines"):
        Loader(path, 4, pipelines={"x": PipelineSpec(ToTensor())})
    with pytest.raises(ValueError, match="has no source"):
        Loader(path, 4, pipelines={"x": PipelineSpec(None)})
    twice = ToTensor()
    pipelines = {"label": [IntDecoder(), twice], "value": [FloatDecoder(), twice], "x": PipelineSpec(twice)}
    with pytest.raises(ValueError, match="ambiguous"):
        Loader(path, 4, pipelines=pipelines)
    with pytest.raises(AssertionError):
        Loader(path, 4, pipelines={"label": [IntDecoder(), LabelMixup(1.0, True), MixupToOneHot(3)]})


def test_a_decoder_that_needs_arguments_must_be_given(path: Path) -> None:
    class Cropped(RGBImageField):
        @staticmethod
        def from_binary(binary: Any) -> Cropped:
            return Cropped()

        def get_decoder_class(self) -> Any:
            return CenterCropRGBImageDecoder

    with pytest.raises(ValueError, match="Impossible to use default decoder for image"):
        Loader(path, 4, custom_fields={"image": Cropped})
    ops = [CenterCropRGBImageDecoder((3, 3), 1), ToTensor()]
    loader = Loader(path, 4, custom_fields={"image": Cropped}, pipelines={"image": ops})
    assert next(iter(loader))[0].shape == (4, 3, 3, 3)


def test_pictures_of_several_sizes_need_a_decoder_that_resizes(tmp_path: Path) -> None:
    path = write(tmp_path / "x", {"image": RGBImageField()}, 4, lambda i: (flat(i, 8 + (i == 3)),))
    for indices in (None, [0, 1]):
        with pytest.raises(TypeError, match="SimpleRGBImageDecoder takes pictures of one size"):
            Loader(path, 2, indices=indices)


@pytest.mark.parametrize("indices", [[-1], [40], [0, 100]])
def test_indices_outside_the_file(path: Path, indices: list[int]) -> None:
    with pytest.raises(IndexError, match="indices must be 0 to 39"):
        Loader(path, 4, indices=indices)


@pytest.mark.parametrize("indices", [[0.5], ["a"], [[1, 2]]])
def test_indices_that_are_no_numbers(path: Path, indices: list[Any]) -> None:
    with pytest.raises(ValueError, match="indices must be a list of whole numbers"):
        Loader(path, 4, indices=indices)


@pytest.mark.parametrize("size", [0, -3])
def test_a_batch_has_at_least_one_sample(path: Path, size: int) -> None:
    with pytest.raises(ValueError, match="batch_size must be at least 1"):
        Loader(path, size)


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Loader(tmp_path / "no.beton", 4)


def test_states_that_cannot_be() -> None:
    cpu = torch.device("cpu")
    with pytest.raises(AssertionError):
        State(jit_mode=True, device=torch.device("meta"), shape=(1,), dtype=np.dtype("u1"))
    with pytest.raises(AssertionError):
        State(jit_mode=True, device=cpu, shape=(1,), dtype=torch.uint8)
    assert State(jit_mode=False, device=cpu, shape=(1,), dtype=torch.uint8).shape == (1,)


@pytest.mark.skipif(importlib.util.find_spec("numba") is not None, reason="numba is here")
def test_numba_is_not_needed(path: Path) -> None:
    assert next(iter(Loader(path, 4, 2, pipelines=all_pipelines())))[3].shape == (4, 50)


def test_many_loaders_on_one_file(path: Path) -> None:
    loaders = [Loader(path, 4, 2, order=OrderOption.RANDOM, seed=s, pipelines=only("label")) for s in range(6)]
    for batches in itertools.islice(zip(*loaders, strict=True), 5):
        assert len({tuple(batch.flatten().tolist()) for (batch,) in batches}) == 6


def test_json_batches(tmp_path: Path) -> None:
    path = write(tmp_path / "x", {"doc": JSONField()}, 9, lambda i: ({"i": i, "pad": "x" * i},))
    documents = [doc for (batch,) in Loader(path, 4, 1, drop_last=False) for doc in JSONField.unpack(batch)]
    assert documents == [{"i": i, "pad": "x" * i} for i in range(9)]
