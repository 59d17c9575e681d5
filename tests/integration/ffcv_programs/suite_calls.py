"""The calls that FFCV's own tests make, as tests for pytest under the launcher; the name keeps other runs away."""

from tempfile import NamedTemporaryFile

import numpy as np
import pytest
import torch as ch
from ffcv import DatasetWriter, Loader
from ffcv.fields import BytesField, FloatField, IntField, JSONField, NDArrayField, RGBImageField, TorchTensorField
from ffcv.fields.basics import FloatDecoder, IntDecoder
from ffcv.fields.bytes import BytesDecoder
from ffcv.fields.ndarray import NDArrayDecoder
from ffcv.fields.rgb_image import (
    CenterCropRGBImageDecoder,
    RandomResizedCropRGBImageDecoder,
    SimpleRGBImageDecoder,
)
from ffcv.libffcv import memcpy
from ffcv.loader.loader import ORDER_TYPE, OrderOption
from ffcv.memory_managers import OSCacheManager
from ffcv.pipeline.allocation_query import AllocationQuery
from ffcv.pipeline.compiler import Compiler
from ffcv.pipeline.operation import Operation
from ffcv.reader import Reader
from ffcv.transforms import *  # noqa: F403
from ffcv.transforms import (
    Convert,
    Cutout,
    ImageMixup,
    ModuleWrapper,
    NormalizeImage,
    Poison,
    RandomBrightness,
    RandomContrast,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomSaturation,
    RandomTranslate,
    Squeeze,
    ToDevice,
    ToTensor,
    ToTorchImage,
    View,
)
from torch.distributed import init_process_group
from torch.multiprocessing import spawn


class Dataset(ch.utils.data.Dataset):
    """Samples from a function of the index."""

    def __init__(self, length, make):
        self.length = length
        self.make = make

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if index >= self.length:
            raise IndexError
        return self.make(index)


class Doubler(Operation):
    def generate_code(self):
        def double(x, dst):
            dst[: x.shape[0]] = x * 2
            return dst

        return double

    def declare_state_and_memory(self, previous_state):
        return previous_state, AllocationQuery(previous_state.shape, previous_state.dtype, previous_state.device)


@pytest.fixture
def name():
    """A name without an ending, of a file that is there already."""
    with NamedTemporaryFile() as handle:
        yield handle.name


@pytest.fixture(params=[True, False], ids=["compiled", "plain"], autouse=True)
def compiler(request):
    Compiler.set_enabled(request.param)
    yield request.param
    Compiler.set_enabled(True)


def seeded_bytes(index, size):
    np.random.seed(index)
    return np.random.randint(0, 255, size=size, dtype="u1")


def write_sines(name, length, **options):
    dataset = Dataset(length, lambda i: (i, np.sin(i)))
    workers = options.pop("num_workers", 2)
    writer = DatasetWriter(name, {"index": IntField(), "value": FloatField()}, num_workers=workers)
    writer.from_indexed_dataset(dataset, **options)


# writer


@pytest.mark.parametrize("options", [{}, {"num_workers": 30, "chunksize": 10000}, {"shuffle_indices": True}])
def test_scalars_are_written(name, options):
    write_sines(name, 600, **options)
    reader = Reader(name)
    assert [type(handler) for handler in reader.handlers.values()] == [IntField, FloatField]
    assert len(reader.alloc_table) == 0
    assert len(reader.metadata) == 600
    assert (reader.metadata["f0"] == np.arange(600)).all() == ("shuffle_indices" not in options)
    assert set(reader.metadata["f0"]) == set(range(600))
    assert (np.sin(reader.metadata["f0"]) == reader.metadata["f1"]).all()


def test_bytes_of_another_dtype_are_cast(name):
    dataset = Dataset(600, lambda i: (i, np.zeros(2)))
    writer = DatasetWriter(name, {"index": IntField(), "value": BytesField()}, num_workers=3)
    writer.from_indexed_dataset(dataset, chunksize=1)
    assert (Reader(name).alloc_table["size"] == 2).all()


# memory allocation and reading


@pytest.mark.parametrize(("length", "size"), [(600, 76), (600, 1024), (6000, 81)])
def test_bytes_are_where_the_table_says(name, length, size):
    fields = {"index": IntField(), "value": BytesField()}
    dataset = Dataset(length, lambda i: (i, seeded_bytes(i, size)))
    DatasetWriter(name, fields, num_workers=2).from_indexed_dataset(dataset, chunksize=5)
    reader = Reader(name)
    assert len(reader.alloc_table) == len(reader.metadata) == length
    assert (reader.metadata["f0"] == np.arange(length)).all()
    assert (reader.alloc_table["size"] == size).all()
    manager = OSCacheManager(reader)
    context = manager.schedule_epoch(np.array([0, 1]))
    chosen = np.random.choice(length, 100)
    read = manager.compile_reader()
    with context:
        for row in reader.alloc_table[chosen]:
            assert (read(row["ptr"], context.state) == seeded_bytes(row["sample_id"], size)).all()


# decoders by themselves


@pytest.mark.parametrize("mode", ["raw", "jpg"])
def test_pictures_are_decoded(name, mode):
    def picture(index):
        np.random.seed(37 + index)
        return index, np.random.randint(0, 255, size=(128, 128, 3), dtype="uint8")

    dataset = Dataset(30, picture)
    writer = DatasetWriter(name, {"index": IntField(), "value": RGBImageField(write_mode=mode)}, num_workers=2)
    writer.from_indexed_dataset(dataset, chunksize=5)
    reader = Reader(name)
    manager = OSCacheManager(reader)
    context = manager.schedule_epoch(np.array([0, 1]))
    with context:
        decoder = RGBImageField().get_decoder_class()()
        decoder.accept_globals(reader.metadata["f1"], manager.compile_reader())
    decode = Compiler.compile(decoder.generate_code())
    buffer = np.zeros((1, 128, 128, 3), dtype="uint8")
    for i in range(30):
        result = decode(np.array([i]), buffer, reader.metadata["f1"], context.state)[0]
        difference = np.abs(result.astype(float) - dataset[i][1])
        assert difference.mean() < 80 if mode == "jpg" else not difference.any()


# pictures through the loader


@pytest.mark.parametrize("mode", ["raw", "jpg"])
@pytest.mark.parametrize("is_reversed", [False, True])
def test_flat_pictures_stay_flat(name, mode, is_reversed):
    step = -1 if is_reversed else 1
    dataset = Dataset(255, lambda i: (i, np.full((50, 30, 3), i % 255, np.uint8))[::step])
    fields = {"index": IntField(), "value": RGBImageField(write_mode=mode, jpeg_quality=95)}
    writer = DatasetWriter(name, dict(list(fields.items())[::step]), num_workers=2)
    writer.from_indexed_dataset(dataset, chunksize=5)
    for batch in Loader(name, batch_size=5, num_workers=2):
        index, images = batch[::step]
        assert (images == (index % 255)[:, :, None, None]).all()


SIZE = (32, 48)


@pytest.mark.parametrize("mode", ["raw", "jpg"])
@pytest.mark.parametrize(
    "make", [lambda: RandomResizedCropRGBImageDecoder(SIZE), lambda: CenterCropRGBImageDecoder(SIZE, 224 / 256)]
)
def test_crops_of_flat_pictures(name, mode, make):
    rng = np.random.default_rng(0)
    dataset = Dataset(60, lambda i: (i, np.full((*rng.integers(30, 90, 2), 3), 4 * i, np.uint8)))
    writer = DatasetWriter(name, {"index": IntField(), "value": RGBImageField(write_mode=mode)}, num_workers=2)
    writer.from_indexed_dataset(dataset, chunksize=5)
    for index, images in Loader(name, batch_size=5, num_workers=2, pipelines={"value": [make(), ToTensor()]}):
        assert images.shape == (5, *SIZE, 3)
        assert ((images.int() - 4 * index[:, :, None, None]).abs() <= (0 if mode == "raw" else 1)).all()
    with pytest.raises(TypeError):
        Loader(name, batch_size=5, num_workers=2, pipelines={"value": [SimpleRGBImageDecoder(), ToTensor()]})


# augmentations


class Grey(ch.nn.Module):
    def forward(self, images):
        return images.float().mean(1, keepdim=True).expand(-1, 3, -1, -1)


MASK = np.zeros((32, 32, 3))
MASK[:5, :5, 0] = 1
UNAUGMENTED = [SimpleRGBImageDecoder(), ToTensor(), ToTorchImage()]
LAST = [ToTensor(), ToTorchImage()]
AUGMENTATIONS = {
    "cutout": [Cutout(8), *LAST],
    "flip": [RandomHorizontalFlip(1.0), *LAST],
    "module": [*LAST, ModuleWrapper(Grey())],
    "bare module": [*LAST, Grey(), ch.nn.ZeroPad2d(2), ch.nn.AvgPool2d(5, stride=1)],
    "mixup": [ImageMixup(0.5, False), *LAST],
    "poison": [Poison(MASK, np.ones((32, 32)), list(range(100))), *LAST],
    "crop": [RandomResizedCrop(scale=(0.08, 1.0), ratio=(0.75, 4 / 3), size=32), *LAST],
    "translate": [RandomTranslate(padding=10), *LAST],
    "brightness": [RandomBrightness(0.5), *LAST],
    "contrast": [RandomContrast(0.5, 1.0), *LAST],
    "saturation": [RandomSaturation(0.5), *LAST],
    "many": [Cutout(4), RandomHorizontalFlip(), RandomTranslate(padding=2), RandomBrightness(0.1), *LAST],
}


@pytest.mark.parametrize("augmentation", AUGMENTATIONS)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_augmentations(name, augmentation):
    images = np.random.default_rng(0).integers(0, 255, (100, 32, 32, 3), dtype=np.uint8)
    dataset = Dataset(100, lambda i: (images[i], i % 10))
    fields = {"image": RGBImageField(write_mode="smart", max_resolution=32), "label": IntField()}
    DatasetWriter(name, fields, num_workers=2).from_indexed_dataset(dataset, chunksize=10)
    labels = [IntDecoder(), ToTensor(), Squeeze()]
    settings = {"batch_size": 7, "num_workers": 2, "drop_last": False}
    pipeline = [SimpleRGBImageDecoder(), *AUGMENTATIONS[augmentation]]
    loader = Loader(name, pipelines={"image": pipeline, "label": labels}, **settings)
    plain = Loader(name, pipelines={"image": UNAUGMENTED, "label": labels}, **settings)
    seen = different = 0
    for (changed, label), (original, original_label) in zip(loader, plain, strict=True):
        assert ch.equal(label, original_label)
        assert changed.shape == original.shape
        different += (changed != original).flatten(1).any(1).sum()
        assert (original.permute(0, 2, 3, 1).numpy() == images[seen : seen + len(original)]).all()
        seen += len(changed)
    assert seen == 100
    assert different > 20


def test_normalization(name):
    dataset = Dataset(100, lambda i: (i, np.full((25, 30, 3), i, np.uint8)))
    fields = {"index": IntField(), "value": RGBImageField(write_mode="raw", jpeg_quality=95)}
    DatasetWriter(name, fields, num_workers=2).from_indexed_dataset(dataset, chunksize=5)
    mean, std = np.array([0, 1, 2]), np.array([1, 10, 20])
    pipeline = [SimpleRGBImageDecoder(), NormalizeImage(mean, std, np.float16), View(np.float16), *LAST]
    on_tensors = [SimpleRGBImageDecoder(), ToTensor(), ToDevice(ch.device("cpu")), ToTorchImage()]
    on_tensors += [NormalizeImage(mean, std, np.float16), View(ch.float16)]
    for ops in (pipeline, on_tensors):
        for index, images in Loader(name, batch_size=5, num_workers=2, pipelines={"value": ops}):
            expected = ((index.numpy() - mean) / std).astype(np.float16)
            assert np.allclose(images.numpy(), expected[:, :, None, None])


# pipelines and epochs


def test_own_operation_and_partial_pipelines(name):
    write_sines(name, 60)
    pipelines = {"value": [FloatDecoder(), Doubler(), ToTensor()]}
    loader = Loader(name, 8, num_workers=5, seed=17, pipelines=pipelines)
    indices, values = next(iter(loader))
    assert np.allclose(indices.squeeze().numpy(), np.arange(8))
    assert np.allclose(2 * np.sin(np.arange(8)), values.squeeze().numpy())
    (values,) = next(iter(Loader(name, 8, num_workers=5, seed=17, pipelines=pipelines | {"index": None})))
    assert np.allclose(2 * np.sin(np.arange(8)), values.squeeze().numpy())


@pytest.mark.parametrize("recompile", [False, True])
def test_code_is_made_once_or_always(name, recompile):
    write_sines(name, 60)
    pipelines = {"value": [FloatDecoder(), Doubler(), ToTensor()]}
    loader = Loader(name, 8, num_workers=5, seed=17, recompile=recompile, pipelines=pipelines)
    first = iter(loader)
    code = loader.code
    second = iter(loader)
    assert (code == loader.code) is not recompile
    assert len(list(first)) == len(list(second)) == 7


@pytest.mark.parametrize(
    ("size", "count", "drop_last"), [(7, 85, True), (7, 86, False), (60, 10, False), (60, 10, True)]
)
def test_partial_batches(name, size, count, drop_last):
    write_sines(name, 600)
    pipelines = {"value": [FloatDecoder(), Doubler(), ToTensor()]}
    loader = Loader(name, size, num_workers=5, seed=17, drop_last=drop_last, pipelines=pipelines)
    assert len(loader) == count
    sizes = [len(batch) for batch, _ in loader]
    assert sizes == [size] * (600 // size) + ([600 % size] if count > 600 // size else [])


def test_filter(name):
    write_sines(name, 600)
    loader = Loader(name, 8, num_workers=5, seed=17, pipelines={"value": [FloatDecoder(), Doubler(), ToTensor()]})
    filtered = loader.filter("value", lambda value: 0.5 <= value[0] < 1)
    assert len(filtered) > 0
    for _, values in filtered:
        assert len(values) == 8
        assert ((values < 1) & (values >= 0.5)).all()


@pytest.mark.parametrize("order", list(OrderOption))
@pytest.mark.parametrize("has_indices", [False, True])
def test_traversal(name, order, has_indices):
    assert ORDER_TYPE is not None
    indices = np.random.choice(600, 300, replace=False) if has_indices else None
    dataset = Dataset(600, lambda i: (i, np.sin(np.array([i])).view("<u1")))
    DatasetWriter(name, {"index": IntField(), "value": BytesField()}).from_indexed_dataset(dataset)
    loader = Loader(name, 8, num_workers=2, order=order, drop_last=False, distributed=False, indices=indices)
    epochs = [np.concatenate([batch[0].numpy().reshape(-1).copy() for batch in loader]) for _ in range(3)]
    assert (epochs[0] == epochs[1]).all() == (order is OrderOption.SEQUENTIAL)
    for epoch in epochs:
        assert sorted(epoch) == sorted(range(600) if indices is None else indices)


def process_work(rank, world_size, fname, order, folder):
    init_process_group("gloo", f"file://{folder}/meeting", rank=rank, world_size=world_size)
    loader = Loader(fname, 8, num_workers=2, order=order, drop_last=False, distributed=True)
    epochs = [np.concatenate([batch[0].numpy().reshape(-1).copy() for batch in loader]) for _ in range(3)]
    np.save(f"{folder}/result-{rank}.npy", np.stack(epochs))


def test_traversal_by_spawned_processes(name, compiler, tmp_path):
    """The function is found in this module, which imports ffcv, by processes that pytest knows nothing of."""
    if not compiler:
        pytest.skip("once is enough")
    dataset = Dataset(600, lambda i: (i, np.sin(np.array([i])).view("<u1")))
    DatasetWriter(name, {"index": IntField(), "value": BytesField()}).from_indexed_dataset(dataset)
    spawn(process_work, nprocs=2, args=(2, name, OrderOption.RANDOM, str(tmp_path)))
    results = np.concatenate([np.load(tmp_path / f"result-{rank}.npy") for rank in range(2)], 1)
    assert not (results[0] == results[1]).all()
    for epoch in results:
        assert sorted(epoch) == list(range(600))


# fields


@pytest.mark.parametrize("is_tensor", [False, True])
def test_arrays(name, is_tensor):
    def sample(index):
        np.random.seed(index)
        array = np.random.randn(2048).astype("<f4")
        return index, ch.from_numpy(array) if is_tensor else array

    dataset = Dataset(256, sample)
    field = TorchTensorField(ch.float32, (2048,)) if is_tensor else NDArrayField(np.dtype("<f4"), (2048,))
    DatasetWriter(name, {"index": IntField(), "activations": field}, num_workers=3).from_indexed_dataset(dataset)
    loader = Loader(name, batch_size=3, num_workers=5)
    for indices, activations in loader:
        for index, activation in zip(indices, activations, strict=True):
            assert (np.asarray(dataset[index][1]) == activation.numpy()).all()
    pages = loader.reader.alloc_table["ptr"] >> int(np.log2(loader.reader.page_size))
    assert len(set(zip(loader.reader.alloc_table["sample_id"], pages, strict=True))) == 256


def test_json(name):
    dataset = Dataset(32, lambda i: (i, {f"key{i}": "x" * i, "list": [i, None]}))
    DatasetWriter(name, {"index": IntField(), "document": JSONField()}, num_workers=3).from_indexed_dataset(dataset)
    pipelines = {"document": [BytesDecoder()], "index": [IntDecoder()]}
    position = 0
    for _, documents in Loader(name, batch_size=3, num_workers=5, pipelines=pipelines):
        for document in JSONField.unpack(documents):
            assert document == dataset[position][1]
            position += 1
    assert position == 30


class StringField(NDArrayField):
    def __init__(self, longest):
        super().__init__(np.dtype("uint8"), (longest,))

    def encode(self, destination, field, malloc):
        return super().encode(destination, np.frombuffer(field.ljust(100).encode(), np.uint8), malloc)


class StringDecoder(NDArrayDecoder):
    pass


def test_custom_fields(name):
    captions = [f"caption {i}" for i in range(100)]
    DatasetWriter(name, {"label": StringField(100)}).from_indexed_dataset(Dataset(100, lambda i: (captions[i],)))
    arguments = {
        "batch_size": 10,
        "num_workers": 2,
        "order": OrderOption.RANDOM,
        "pipelines": {"label": [StringDecoder()]},
    }
    loader = Loader(name, custom_fields={"label": StringField}, **arguments)
    assert {row.tobytes().decode().strip() for (batch,) in loader for row in batch} == set(captions)
    with pytest.raises(ValueError, match="custom_field"):
        Loader(name, **arguments)


def test_masks_to_a_device(name):
    dataset = Dataset(100, lambda i: (np.arange(50) % (i + 1) == 0, np.full(50, i, np.float32), i))
    fields = {
        "mask": NDArrayField(dtype=np.dtype("bool"), shape=(50,)),
        "targets": NDArrayField(dtype=np.dtype("float32"), shape=(50,)),
        "idx": IntField(),
    }
    DatasetWriter(name, fields).from_indexed_dataset(dataset)
    cpu = ch.device("cpu")
    arrays = [NDArrayDecoder(), ToTensor(), ToDevice(cpu, non_blocking=False)]
    loader = Loader(
        name,
        batch_size=32,
        num_workers=10,
        order=OrderOption.QUASI_RANDOM,
        indices=np.arange(100),
        drop_last=False,
        os_cache=True,
        pipelines={
            "mask": arrays,
            "targets": [*arrays, Convert(ch.float64)],
            "idx": [IntDecoder(), ToTensor(), Squeeze(), ToDevice(cpu, non_blocking=False)],
        },
    )
    for mask, targets, index in loader:
        assert mask.dtype == ch.bool
        assert ch.equal(mask, ch.arange(50) % (index[:, None] + 1) == 0)
        assert ch.equal(targets, index[:, None].double().expand(-1, 50))


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64, np.float64, np.float32])
def test_memcpy(dtype):
    source = np.random.uniform(1, 255, size=(100, 99)).astype(dtype)
    target = np.zeros((100, 99), dtype=dtype)
    memcpy(source, target)
    assert (source == target).all()
