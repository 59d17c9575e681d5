"""Fields of one's own: text of a fixed length, and numbers with a decoder that reads by itself."""

import sys

import numpy as np
from ffcv.fields.base import ARG_TYPE, Field
from ffcv.fields.ndarray import NDArrayDecoder, NDArrayField
from ffcv.loader import Loader, OrderOption
from ffcv.pipeline.allocation_query import AllocationQuery
from ffcv.pipeline.operation import Operation
from ffcv.pipeline.state import State
from ffcv.writer import DatasetWriter

path = f"{sys.argv[1]}/own.beton"


class TextDecoder(NDArrayDecoder):
    pass


class TextField(NDArrayField):
    """Text of at most so many bytes."""

    def __init__(self, longest):
        self.longest = longest
        super().__init__(np.dtype("uint8"), (longest,))

    def encode(self, destination, field, malloc):
        data = np.frombuffer(field.encode().ljust(self.longest, b"\0"), np.uint8)
        return super().encode(destination, data, malloc)


class PolylineDecoder(Operation):
    """Lines of several lengths: the number of points, then as many as there are."""

    def declare_state_and_memory(self, previous_state):
        longest = int(self.metadata["points"].max())
        state = State(jit_mode=True, device=previous_state.device, shape=(longest + 1, 2), dtype=np.dtype("<f4"))
        return state, AllocationQuery((longest + 1, 2), np.dtype("<f4"))

    def generate_code(self):
        read = self.memory_read

        def decode(indices, destination, metadata, storage_state):
            for row in range(indices.shape[0]):
                record = metadata[indices[row]]
                points = read(record["where"], storage_state).view(np.float32).reshape(-1, 2)
                destination[row] = 0
                destination[row, 0, 0] = points.shape[0]
                destination[row, 1 : 1 + points.shape[0]] = points
            return destination[: indices.shape[0]]

        return decode


class PolylineField(Field):
    def __init__(self, colour):
        self.colour = colour

    @property
    def metadata_type(self):
        return np.dtype([("where", "<u8"), ("points", "<u4")])

    @staticmethod
    def from_binary(binary):
        return PolylineField(int(binary[0]))

    def to_binary(self):
        arguments = np.zeros(1, dtype=ARG_TYPE)[0]
        arguments[0][0] = self.colour
        return arguments

    def encode(self, destination, field, malloc):
        points = np.ascontiguousarray(field, "<f4")
        destination["where"], data = malloc(points.nbytes)
        destination["points"] = len(points)
        data[:] = points.reshape(-1).view(np.uint8)

    def get_decoder_class(self):
        return PolylineDecoder


class Captions:
    def __len__(self):
        return 300

    def __getitem__(self, index):
        line = np.arange(2 * (index % 9 + 1), dtype=np.float32).reshape(-1, 2) + index
        return f"caption {index} " + "x" * (index % 40), line


fields = {"text": TextField(60), "line": PolylineField(7)}
own = {"text": TextField, "line": PolylineField}
for workers in (1, 3):
    DatasetWriter(path, fields, num_workers=workers).from_indexed_dataset(Captions(), chunksize=10)
    loader = Loader(path, 32, 2, order=OrderOption.RANDOM, pipelines={"text": [TextDecoder()]}, custom_fields=own)
    assert loader.reader.handlers["line"].colour == 7
    loader = Loader(path, 32, 2, drop_last=False, pipelines={"text": [TextDecoder()]}, custom_fields=own)
    position = 0
    for texts, lines in loader:
        for text, line in zip(texts, lines.numpy(), strict=True):
            expected_text, expected_line = Captions()[position]
            assert text.tobytes().rstrip(b"\0").decode() == expected_text
            assert line[0, 0] == len(expected_line)
            assert (line[1 : 1 + len(expected_line)] == expected_line).all()
            assert not line[1 + len(expected_line) :].any()
            position += 1
    assert position == 300
print("fields of our own came back:", position)
try:
    Loader(path, 32)
except ValueError as error:
    print("refused:", error)
else:
    raise SystemExit("a field that nobody knows was loaded")
