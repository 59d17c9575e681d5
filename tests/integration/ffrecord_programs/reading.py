"""Samples written one by one, read in batches and one by one, as the first pages of a manual show it."""

import os
import pickle
import sys

import ffrecord
from ffrecord import FileReader, FileWriter

FOLDER = sys.argv[1]


def serialize(sample):
    return pickle.dumps(sample)


def deserialize(data):
    return pickle.loads(data)


samples = [{"number": i, "text": "x" * i} for i in range(100)]
path = os.path.join(FOLDER, "test.ffr")
writer = FileWriter(path, len(samples))
for sample in samples:
    writer.write_one(serialize(sample))
assert writer.count == writer.n == 100
writer.close()

reader = FileReader(path, check_data=True)
print("version", ffrecord.__version__, "samples", reader.n)
for indices in ([3, 6, 0, 10], list(range(100)), [5] * 7, []):
    data = reader.read(indices)
    assert [deserialize(array) for array in data] == [samples[i] for i in indices]
for i in (0, 50, 99):
    assert deserialize(reader.read_one(i)) == samples[i]
    assert reader.read_one(i).tobytes() == serialize(samples[i])
reader.validate()
reader.close()

for wrong in (100, 10**9):
    with FileReader(path) as reader:
        try:
            reader.read([wrong])
        except RuntimeError as error:
            print("refused:", error)

with FileWriter(os.path.join(FOLDER, "bytes.ffr"), n=2) as writer:
    writer.write_one(bytearray(b"1234"))
    writer.write_one(b"")
with FileReader(fname=os.path.join(FOLDER, "bytes.ffr")) as reader:
    assert [array.tolist() for array in reader.read([1, 0])] == [[], [49, 50, 51, 52]]
print("read and written: 100")
