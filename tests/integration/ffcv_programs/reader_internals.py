"""What tools and tests do with the insides: reader, memory managers, compiled decoders, the C functions."""

import sys

import numpy as np
from ffcv.fields import BytesField, IntField, NDArrayField, RGBImageField
from ffcv.libffcv import imdecode, memcpy, read, resize_crop
from ffcv.memory_managers import OSCacheManager, ProcessCacheManager
from ffcv.pipeline.compiler import Compiler
from ffcv.reader import Reader
from ffcv.types import ALLOC_TABLE_TYPE, CURRENT_VERSION, FieldDescType, HeaderType, get_handlers, get_metadata_type
from ffcv.utils import align_to_page, chunks, decode_null_terminated_string, is_power_of_2
from ffcv.writer import MIN_PAGE_SIZE, DatasetWriter

path = f"{sys.argv[1]}/inside.beton"


class Pictures:
    def __len__(self):
        return 40

    def __getitem__(self, index):
        rng = np.random.default_rng(index)
        picture = np.full((32, 48, 3), index * 5, np.uint8)
        return index, picture, rng.integers(0, 255, index, dtype=np.uint8), rng.normal(size=3)


fields = {
    "index": IntField(),
    "image": RGBImageField("proportion", jpeg_quality=95),
    "blob": BytesField(),
    "array": NDArrayField(np.dtype("<f8"), (3,)),
}
DatasetWriter(path, fields, page_size=MIN_PAGE_SIZE, num_workers=1).from_indexed_dataset(Pictures())

reader = Reader(path)
assert reader.header["version"] == CURRENT_VERSION == 2
assert (reader.num_samples, reader.num_fields, reader.page_size) == (40, 4, 1 << 21)
assert reader.file_name == path
assert [type(handler) for handler in reader.handlers.values()] == [type(field) for field in fields.values()]
assert (reader.metadata["f0"] == np.arange(40)).all()
assert reader.metadata.dtype == get_metadata_type(list(fields.values()))
assert len(get_handlers(reader.field_descriptors)) == 4
assert len(reader.alloc_table) == 3 * 40
assert reader.alloc_table.dtype == ALLOC_TABLE_TYPE
pages = reader.alloc_table["ptr"] >> int(np.log2(reader.page_size))
assert len(np.unique(pages)) == 1
descriptors = np.fromfile(path, FieldDescType, 4, offset=HeaderType.itemsize)
names = [decode_null_terminated_string(row["name"]) for row in descriptors]
assert names == ["index", "image", "blob", "array"]
assert list(chunks(list(range(5)), 2)) == [[0, 1], [2, 3], [4]]
assert is_power_of_2(64)
assert not is_power_of_2(0)
assert align_to_page(5, 4) == 8
print("the reader shows what was written")

for enabled in (False, True):
    Compiler.set_enabled(enabled)
    for kind in (OSCacheManager, ProcessCacheManager):
        manager = kind(reader)
        assert (np.diff(manager.ptrs.astype(np.int64)) >= 0).all()
        context = manager.schedule_epoch(np.array([[0, 1], [2, 3]]))
        read_fn = manager.compile_reader()
        with context:
            context.start_batch(0)
            for i in (0, 1):
                record = reader.metadata["f2"][i]
                assert read_fn(record["ptr"], context.state)[: record["size"]].tolist() == Pictures()[i][2].tolist()
                stored = read_fn(reader.metadata["f3"][i], context.state)
                assert (stored.view("<f8") == Pictures()[i][3]).all()
    manager = OSCacheManager(reader)
    with manager.schedule_epoch(np.array([0, 1])) as context:
        decoder = RGBImageField().get_decoder_class()()
        decoder.accept_globals(reader.metadata["f1"], manager.compile_reader())
        decode = Compiler.compile(decoder.generate_code())
        buffer = np.zeros((1, 32, 48, 3), np.uint8)
        for i in range(40):
            result = decode(np.array([i]), buffer, reader.metadata["f1"], context.state)[0]
            assert result.shape == (32, 48, 3)
            assert np.abs(result.astype(int) - i * 5).max() <= 1
        by_hand = np.zeros((32, 48, 3), np.uint8)
        for i in np.flatnonzero(reader.metadata["f1"]["mode"] == 0):
            record = reader.metadata["f1"][i]
            data = manager.compile_reader()(record["data_ptr"], context.state)
            assert Compiler.compile(imdecode)(data, by_hand, 32, 48, 32, 48, 0, 0, 1, 1, False, False) == 0
            assert (by_hand == decode(np.array([i]), buffer, reader.metadata["f1"], context.state)[0]).all()
assert sorted(manager.page_to_samples) == np.unique(pages).tolist()
print("decoders work by themselves, compiled or not")

for dtype in (np.uint8, np.int32, np.int64, np.float64, np.float32):
    source = np.random.default_rng(0).uniform(0, 255, (10, 9)).astype(dtype)
    target = np.zeros((10, 9), dtype)
    memcpy(source, target)
    assert (source == target).all()
small = np.zeros((4, 4, 3), np.uint8)
resize_crop(np.full((20, 30, 3), 9, np.uint8), 2, 12, 5, 25, small)
assert (small == 9).all()
head = np.zeros(24, np.uint8)
with open(path, "rb") as handle:
    assert read(handle.fileno(), head, 0) == 24
assert head.view(HeaderType)[0]["num_samples"] == 40
print("the C functions copy, resize and read")
