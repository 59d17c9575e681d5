"""Every module that programs import, with every public name, its arguments and their defaults, as FFCV has them."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import pytest

pytest.importorskip("torch")

from headrace.compat.ffcv.loader import OrderOption

LOADER = (
    "fname, batch_size, num_workers=-1, os_cache=True, order=SEQUENTIAL, distributed=False, seed=None, indices=None, "
    "pipelines={}, custom_fields={}, drop_last=True, batches_ahead=3, recompile=False, order_kwargs={}"
)
WRITER = "fname, fields, page_size=8388608, num_workers=-1"
IMAGE_FIELD = "write_mode='raw', max_resolution=None, smart_threshold=None, jpeg_quality=90, compress_probability=0.5"
RANDOM_CROP = "output_size, scale=(0.08, 1.0), ratio=(0.75, 1.3333333333333333)"
IMDECODE = (
    "source, dst, source_height, source_width, crop_height=None, crop_width=None, offset_x=0, offset_y=0, "
    "scale_factor_num=1, scale_factor_denom=1, enable_crop=False, do_flip=False"
)
RESIZE = "source, start_row, end_row, start_col, end_col, destination"
ENCODE = "self, destination, field, malloc"
DECLARE = "self, previous_state"

# Module to its names; a text is what can be given in a call, None is a constant.
NAMES: dict[str, dict[str, str | None]] = {
    "": {"Loader": LOADER, "DatasetWriter": WRITER, "__version__": None},
    "loader": {"Loader": LOADER, "OrderOption": None},
    "loader.loader": {"Loader": LOADER, "OrderOption": None, "ORDER_TYPE": None, "ORDER_MAP": None},
    "loader.epoch_iterator": {"EpochIterator": None},
    "writer": {"DatasetWriter": WRITER, "MIN_PAGE_SIZE": None, "MAX_PAGE_SIZE": None},
    "reader": {"Reader": "fname, custom_handlers={}"},
    "fields": {
        "Field": "",
        "FloatField": "",
        "IntField": "",
        "BytesField": "",
        "JSONField": "",
        "NDArrayField": "dtype, shape",
        "TorchTensorField": "dtype, shape",
        "RGBImageField": IMAGE_FIELD,
    },
    "fields.base": {"Field": "", "ARG_TYPE": None},
    "fields.basics": {"BasicDecoder": "", "IntDecoder": "", "FloatDecoder": "", "IntField": "", "FloatField": ""},
    "fields.bytes": {"BytesDecoder": "", "BytesField": ""},
    "fields.json": {"JSONField": "", "ENCODING": None, "SEPARATOR": None},
    "fields.ndarray": {
        "NDArrayDecoder": "",
        "NDArrayField": "dtype, shape",
        "TorchTensorField": "dtype, shape",
        "NDArrayArgsType": None,
    },
    "fields.rgb_image": {
        "RGBImageField": IMAGE_FIELD,
        "SimpleRGBImageDecoder": "",
        "ResizedCropRGBImageDecoder": "output_size",
        "RandomResizedCropRGBImageDecoder": RANDOM_CROP,
        "CenterCropRGBImageDecoder": "output_size, ratio",
        "IMAGE_MODES": None,
        "encode_jpeg": "numpy_image, quality",
        "resizer": "image, target_resolution",
        "get_random_crop": "height, width, scale, ratio",
        "get_center_crop": "height, width, _, ratio",
    },
    "fields.decoders": {
        "IntDecoder": "",
        "FloatDecoder": "",
        "BytesDecoder": "",
        "NDArrayDecoder": "",
        "SimpleRGBImageDecoder": "",
        "RandomResizedCropRGBImageDecoder": RANDOM_CROP,
        "CenterCropRGBImageDecoder": "output_size, ratio",
    },
    "transforms": {
        "ToTensor": "",
        "ToDevice": "device, non_blocking=True",
        "ToTorchImage": "channels_last=True, convert_back_int16=True",
        "Convert": "target_dtype",
        "View": "target_dtype",
        "Squeeze": "*dims",
        "NormalizeImage": "mean, std, type",
        "RandomHorizontalFlip": "flip_prob=0.5",
        "RandomTranslate": "padding, fill=(0, 0, 0)",
        "Cutout": "crop_size, fill=(0, 0, 0)",
        "RandomResizedCrop": "scale, ratio, size",
        "RandomBrightness": "magnitude, p=0.5",
        "RandomContrast": "magnitude, p=0.5",
        "RandomSaturation": "magnitude, p=0.5",
        "ImageMixup": "alpha, same_lambda",
        "LabelMixup": "alpha, same_lambda",
        "MixupToOneHot": "num_classes",
        "Poison": "mask, alpha, indices, clamp=(0, 255)",
        "ReplaceLabel": "indices, new_label",
        "ModuleWrapper": "module",
    },
    "transforms.ops": {
        "ToTensor": "",
        "ToDevice": "device, non_blocking=True",
        "ToTorchImage": "channels_last=True, convert_back_int16=True",
        "Convert": "target_dtype",
        "View": "target_dtype",
    },
    "transforms.common": {"Squeeze": "*dims"},
    "transforms.cutout": {"Cutout": "crop_size, fill=(0, 0, 0)"},
    "transforms.flip": {"RandomHorizontalFlip": "flip_prob=0.5"},
    "transforms.translate": {"RandomTranslate": "padding, fill=(0, 0, 0)"},
    "transforms.mixup": {
        "ImageMixup": "alpha, same_lambda",
        "LabelMixup": "alpha, same_lambda",
        "MixupToOneHot": "num_classes",
    },
    "transforms.module": {"ModuleWrapper": "module"},
    "transforms.normalize": {"NormalizeImage": "mean, std, type", "ch_dtype_from_numpy": "dtype"},
    "transforms.poisoning": {"Poison": "mask, alpha, indices, clamp=(0, 255)"},
    "transforms.replace_label": {"ReplaceLabel": "indices, new_label"},
    "transforms.random_resized_crop": {"RandomResizedCrop": "scale, ratio, size"},
    "transforms.color_jitter": {
        "RandomBrightness": "magnitude, p=0.5",
        "RandomContrast": "magnitude, p=0.5",
        "RandomSaturation": "magnitude, p=0.5",
    },
    "transforms.utils.fast_crop": {
        "resize_crop": RESIZE,
        "get_random_crop": "height, width, scale, ratio",
        "get_center_crop": "height, width, ratio",
    },
    "pipeline": {
        "Compiler": "",
        "Pipeline": "operations",
        "PipelineSpec": "source, decoder=None, transforms=None",
    },
    "pipeline.operation": {"Operation": ""},
    "pipeline.state": {"State": "jit_mode, device, shape, dtype"},
    "pipeline.allocation_query": {
        "AllocationQuery": "shape, dtype, device=None",
        "Allocation": None,
        "allocate_query": "memory_allocation, batch_size, batches_ahead",
    },
    "pipeline.compiler": {"Compiler": ""},
    "pipeline.pipeline": {"Pipeline": "operations"},
    "pipeline.pipeline_spec": {"PipelineSpec": "source, decoder=None, transforms=None"},
    "pipeline.graph": {"Graph": None, "INITIAL_STATE": None},
    "memory_managers": {
        "MemoryManager": "reader",
        "MemoryContext": "",
        "OSCacheManager": "reader",
        "ProcessCacheManager": "reader",
    },
    "memory_managers.base": {"MemoryManager": "reader", "MemoryContext": ""},
    "memory_managers.common": {"BATCHES_TYPE": None},
    "memory_managers.os_cache": {"OSCacheManager": "reader", "OSCacheContext": "manager"},
    "memory_managers.process_cache": {
        "ProcessCacheManager": "reader",
        "ProcessCacheContext": "manager, batches",
    },
    "memory_allocator": {"MemoryAllocator": "fname, offset_start, page_size"},
    "traversal_order": {"Sequential": "loader", "Random": "loader", "QuasiRandom": "loader"},
    "traversal_order.base": {"TraversalOrder": "loader"},
    "traversal_order.sequential": {"Sequential": "loader"},
    "traversal_order.random": {"Random": "loader"},
    "traversal_order.quasi_random": {"QuasiRandom": "loader"},
    "libffcv": {
        "read": "fileno, destination, offset",
        "memcpy": "source, dest",
        "resize_crop": RESIZE,
        "imdecode": IMDECODE,
    },
    "types": {
        "HeaderType": None,
        "FieldDescType": None,
        "ALLOC_TABLE_TYPE": None,
        "TYPE_ID_HANDLER": None,
        "CURRENT_VERSION": None,
        "get_handlers": "field_descriptors",
        "get_metadata_type": "handlers",
    },
    "utils": {
        "chunks": "lst, n",
        "is_power_of_2": "n",
        "align_to_page": "ptr, page_size",
        "decode_null_terminated_string": "bytes",
        "cast_int_to_byte_ptr": None,
        "s_print": "*a, **b",
    },
}

METHODS = {
    "loader.Loader.filter": "self, field_name, condition",
    "loader.Loader.generate_code": "self",
    "loader.Loader.next_traversal_order": "self",
    "writer.DatasetWriter.from_indexed_dataset": "self, dataset, indices=None, chunksize=100, shuffle_indices=False",
    "writer.DatasetWriter.from_webdataset": "self, shards, pipeline",
    "reader.Reader.read_header": "self",
    "reader.Reader.read_field_descriptors": "self",
    "reader.Reader.read_metadata": "self",
    "reader.Reader.read_allocation_table": "self",
    "pipeline.Compiler.set_enabled": "b",
    "pipeline.Compiler.set_num_threads": "n",
    "pipeline.Compiler.compile": "code, signature=None",
    "pipeline.Compiler.get_iterator": "",
    "pipeline.PipelineSpec.accept_decoder": "self, Decoder, output_name",
    "pipeline.operation.Operation.accept_field": "self, field",
    "pipeline.operation.Operation.accept_globals": "self, metadata, memory_read",
    "pipeline.operation.Operation.generate_code": "self",
    "pipeline.operation.Operation.declare_shared_memory": DECLARE,
    "pipeline.operation.Operation.generate_code_for_shared_state": "self",
    "pipeline.operation.Operation.declare_state_and_memory": DECLARE,
    "memory_allocator.MemoryAllocator.set_current_sample": "self, current_sample_id",
    "memory_allocator.MemoryAllocator.malloc": "self, size",
    "memory_allocator.MemoryAllocator.flush_page": "self",
    "memory_managers.MemoryManager.schedule_epoch": "self, batches",
    "memory_managers.MemoryContext.start_batch": "self, batch",
    "memory_managers.OSCacheManager.compile_reader": "self",
    "traversal_order.base.TraversalOrder.sample_order": "self, epoch",
    "fields.IntField.encode": ENCODE,
    "fields.FloatField.encode": ENCODE,
    "fields.BytesField.encode": ENCODE,
    "fields.JSONField.encode": ENCODE,
    "fields.NDArrayField.encode": ENCODE,
    "fields.TorchTensorField.encode": ENCODE,
    "fields.RGBImageField.encode": "self, destination, image, malloc",
    "fields.JSONField.unpack": "batch",
    **{
        f"fields.{kind}.from_binary": "binary"
        for kind in ("IntField", "FloatField", "BytesField", "JSONField", "NDArrayField", "RGBImageField")
    },
}

ABSTRACT = {
    "fields.Field": {"metadata_type", "from_binary", "to_binary", "encode", "get_decoder_class"},
    "pipeline.operation.Operation": {"generate_code", "declare_state_and_memory"},
    "traversal_order.base.TraversalOrder": {"sample_order"},
    "fields.rgb_image.ResizedCropRGBImageDecoder": {"get_crop_generator"},
}


def find(path: str) -> Any:
    """What stands at a dotted path below ffcv."""
    parts = path.split(".")
    for cut in range(len(parts), -1, -1):
        name = ".".join(["headrace.compat.ffcv", *parts[:cut]])
        try:
            found: Any = importlib.import_module(name)
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part)
        return found
    raise AssertionError(path)


def arguments_of(function: Any) -> str:
    words = []
    for parameter in inspect.signature(function).parameters.values():
        star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        default = parameter.default
        if isinstance(default, OrderOption):
            words.append(f"{parameter.name}={default.name}")
        elif default is None and "Mapping" in str(parameter.annotation):
            words.append(f"{parameter.name}={{}}")  # an empty one that nobody can change
        else:
            words.append(star + parameter.name + ("" if default is parameter.empty else f"={default!r}"))
    return ", ".join(words)


@pytest.mark.parametrize("module", NAMES)
def test_modules_have_their_names(module: str) -> None:
    home = find(module) if module else importlib.import_module("headrace.compat.ffcv")
    for name, arguments in NAMES[module].items():
        assert hasattr(home, name), f"ffcv.{module} has no {name}"
        if arguments is not None:
            assert arguments_of(getattr(home, name)) == arguments, f"{module}.{name}"


@pytest.mark.parametrize("module", [m for m in NAMES if m])
def test_a_star_import_gives_the_public_names(module: str) -> None:
    public = find(module).__all__
    assert [name for name in NAMES[module] if name not in public and not name.startswith("_")] == []


@pytest.mark.parametrize("path", METHODS)
def test_methods_take_their_arguments(path: str) -> None:
    assert arguments_of(find(path)) == METHODS[path]


@pytest.mark.parametrize("path", ABSTRACT)
def test_what_subclasses_must_supply(path: str) -> None:
    assert find(path).__abstractmethods__ == ABSTRACT[path]


def test_values_of_constants() -> None:
    assert find("writer.MIN_PAGE_SIZE") == 1 << 21
    assert find("writer.MAX_PAGE_SIZE") == 1 << 32
    assert find("types.CURRENT_VERSION") == 2
    assert {option.name: option.value for option in OrderOption} == {"SEQUENTIAL": 1, "RANDOM": 2, "QUASI_RANDOM": 3}
    assert find("types.HeaderType").itemsize == 24
    assert find("types.FieldDescType").itemsize == 1041
    assert find("types.ALLOC_TABLE_TYPE").itemsize == 24
    assert find("fields.base.ARG_TYPE").itemsize == 1024
    assert dict(find("fields.rgb_image.IMAGE_MODES")) == {"jpg": 0, "raw": 1}
    handlers = {0: "FloatField", 1: "IntField", 2: "RGBImageField", 3: "BytesField", 4: "NDArrayField"}
    handlers |= {5: "JSONField", 6: "TorchTensorField"}
    known = find("types.TYPE_ID_HANDLER")
    assert {number: kind.__name__ for number, kind in known.items() if kind} == handlers
    assert known[255] is None


def test_the_cache_of_the_process_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    loader = find("loader.loader")
    monkeypatch.setenv("FFCV_DEFAULT_CACHE_PROCESS", "1")
    source = inspect.getsource(loader)
    namespace: dict[str, Any] = {"__name__": "again"}
    exec(compile(source, "loader.py", "exec"), namespace)
    assert inspect.signature(namespace["Loader"]).parameters["os_cache"].default is False
