from __future__ import annotations

import copy
import gc
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from headrace.compat.ffrecord import FileReader, FileWriter, checkFsAlign
from headrace.errors import CorruptSampleError, FormatError, WriteError
from headrace.formats.ffr import FfrReader

if TYPE_CHECKING:
    from collections.abc import Callable

SAMPLES = [bytes([i]) * (i * 5) for i in range(30)]
GOLDEN = Path(__file__).parents[3] / "golden" / "ffr"


def write(path: Path, samples: list[bytes] = SAMPLES) -> Path:
    with FileWriter(path, len(samples)) as writer:
        for sample in samples:
            writer.write_one(sample)
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path / "x.ffr")


# -- opening -------------------------------------------------------------------------------------------------------


def test_the_forms_of_a_name(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    write(folder / "b.ffr", SAMPLES[10:])
    write(folder / "a.ffr", SAMPLES[:10])
    (folder / "meta.pkl").write_bytes(b"ignored")
    names = [str(folder / "a.ffr"), str(folder / "b.ffr")]
    forms: list[Any] = [folder, f"{folder}/", names, tuple(names), [folder / "a.ffr", names[1]], path, str(path)]
    for form in forms:
        reader = FileReader(form)
        assert reader.n == 30
        assert [sample.tobytes() for sample in reader.read(range(30))] == SAMPLES
        assert reader.fnames == ([str(path)] if form in (path, str(path)) else names)
        assert reader.check_data is True
    monkeypatch.chdir(folder)
    assert FileReader("a.ffr").fnames == ["a.ffr"]
    assert FileReader(".").fnames == ["a.ffr", "b.ffr"]
    assert FileReader(fname=names, check_data=False).check_data is False


def test_names_that_are_refused(path: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "folder.ffr").mkdir()
    for name in ("x.FFR", "x.dat", ".ffr"):
        (tmp_path / name).write_bytes(path.read_bytes())
    wrong: list[Any] = [tmp_path / "none.ffr", tmp_path / "x.FFR", tmp_path / "x.dat", tmp_path / ".ffr"]
    wrong += [tmp_path / "empty", [], (), [path, tmp_path / "folder.ffr"], [path, tmp_path / "none.ffr"]]
    for name in wrong:
        with pytest.raises(AssertionError, match=r"does not exist|must end with \.ffr|names no|is not a file"):
            FileReader(name)
    for name in (os.fsencode(path), 5, None, {str(path)}):
        with pytest.raises(TypeError, match="must be a path or a list of paths"):
            FileReader(name)  # type: ignore[arg-type]


def test_a_missing_part_is_told(tmp_path: Path) -> None:
    for number in (0, 2):
        write(tmp_path / f"PART_{number:05d}.ffr")
    with pytest.warns(RuntimeWarning, match=r"PART_00001\.ffr is missing among the 2 parts") as caught:
        assert FileReader(tmp_path).n == 60
    assert caught[0].filename == __file__


# -- reading -------------------------------------------------------------------------------------------------------


def test_arrays_are_private(path: Path) -> None:
    reader = FileReader(path)
    for first, second in zip(reader.read([3, 3]), [reader.read_one(3), reader.read_one(np.int32(3))], strict=True):
        for array in (first, second):
            assert isinstance(array, np.ndarray)
            assert (array.dtype, array.ndim) == (np.uint8, 1)
            assert array.flags.c_contiguous
            assert array.flags.writeable
        first[:] = 99
        assert second.tobytes() == SAMPLES[3]
    kept = reader.read_one(4)
    reader.close()
    del reader
    assert kept.tobytes() == SAMPLES[4]


def test_indices_of_any_kind(path: Path) -> None:
    reader = FileReader(path)
    kinds: list[Any] = [[2, 5, 2], (2, 5, 2), np.array([2, 5, 2]), np.array([2, 5, 2], np.uint8)]
    kinds += [(i for i in (2, 5, 2)), [np.int64(2), 5, np.uint8(2)]]
    for indices in kinds:
        assert [sample.tobytes() for sample in reader.read(indices)] == [SAMPLES[i] for i in (2, 5, 2)]
    assert [len(sample) for sample in reader.read({1, 2})] == [5, 10]
    assert [len(sample) for sample in reader.read([True, False])] == [5, 0]
    for nothing in ([], (), np.empty(0, np.int64), range(0)):
        assert reader.read(nothing) == []
    wrong: list[Any] = [3, 3.0, [3.0], np.array([3.0]), ["3"], "3", None, [None], [[1, 2]], np.array([[1, 2]]), [1j]]
    wrong.append(np.array([True, False]))  # a mask, or 1 and 0? That is not guessed.
    for indices in wrong:
        with pytest.raises(TypeError):
            reader.read(indices)
    for index in (1.0, "1", None, [1]):
        with pytest.raises(TypeError):
            reader.read_one(index)  # type: ignore[arg-type]


@pytest.mark.parametrize("index", [30, -1, -30, 2**31, 2**62, 2**63, -(2**70)])
def test_indices_out_of_range(path: Path, index: int) -> None:
    reader = FileReader(path)
    for error in (IndexError, RuntimeError):
        with pytest.raises(error):
            reader.read([0, index])
        with pytest.raises(error):
            reader.read_one(index)
        if 0 <= index < 2**63:
            with pytest.raises(error):
                reader.read(np.array([index], np.uint64))


def test_more_than_4096_at_once(path: Path) -> None:
    indices = np.random.default_rng(0).integers(0, 30, 20_000)
    assert [sample.tobytes() for sample in FileReader(path).read(indices)] == [SAMPLES[i] for i in indices]


def test_offsets_and_checksums(tmp_path: Path) -> None:
    write(tmp_path / "a.ffr", SAMPLES[:4])
    write(tmp_path / "b.ffr", SAMPLES[4:])
    reader = FileReader(tmp_path)
    offsets, sums = reader.get_offsets(0), reader.get_checksums(1)
    assert (offsets.dtype, sums.dtype) == (np.int64, np.uint32)
    assert offsets.tolist() == [60, 60, 65, 75, 90]
    assert len(sums) == 26
    for wrong in (2, -1):
        with pytest.raises(IndexError, match="files are 0 to 1"):
            reader.get_offsets(wrong)
        with pytest.raises(RuntimeError, match="files are 0 to 1"):
            reader.get_checksums(wrong)
    del reader
    gc.collect()
    assert offsets.tolist() == [60, 60, 65, 75, 90], "the arrays do not depend on the reader"


def test_closed(path: Path) -> None:
    with FileReader(path) as reader:
        assert reader.read_one(1).tobytes() == SAMPLES[1]
    reader.close()
    assert (reader.n, reader.fnames, reader.check_data) == (30, [str(path)], True)
    reader.validate()
    for call in (lambda: reader.read([1]), lambda: reader.read([]), lambda: reader.read_one(1)):
        with pytest.raises(RuntimeError, match="the reader is closed"):
            call()
    assert "30 samples" in repr(reader)


def test_pickled_and_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(Path("x.ffr"))

    reader = FileReader("x.ffr", check_data=False)
    reader.close()
    for other in (pickle.loads(pickle.dumps(reader)), copy.deepcopy(reader), copy.copy(reader)):
        assert (other.fnames, other.check_data, other.n) == (["x.ffr"], False, 30)
        assert other.read_one(7).tobytes() == SAMPLES[7], "a closed reader comes back open"
    (tmp_path / "x.ffr").unlink()
    with pytest.raises(OSError, match=r"x\.ffr"):
        pickle.loads(pickle.dumps(reader))


# -- damage --------------------------------------------------------------------------------------------------------


def error_of(call: Callable[[], Any]) -> Exception | None:
    try:
        call()
    except RuntimeError as error:
        return error
    return None


@pytest.mark.parametrize("file", sorted((GOLDEN / "corrupted").iterdir()), ids=lambda file: file.stem)
@pytest.mark.parametrize("check_data", [True, False])
def test_damaged_files_raise_runtime_errors_with_the_place(file: Path, check_data: bool) -> None:
    if (error := error_of(lambda: FileReader(file, check_data))) is not None:
        assert isinstance(error, FormatError)
        assert file.name in str(error)
        return
    reader = FileReader(file, check_data)
    for index in range(reader.n):
        for indices in ([index], [index, index, index]):
            if (error := error_of(lambda indices=indices: reader.read(indices))) is not None:  # type: ignore[misc]
                assert isinstance(error, CorruptSampleError)
                assert (error.path, error.sample) == (str(file), index)
                assert f"{file.name}: sample {index}" in str(error)


@pytest.mark.parametrize("name", ["flip_header_checksum", "flip_offset_low", "n_minus_one"])
def test_validate_looks_at_the_header(name: str) -> None:
    reader = FileReader(GOLDEN / "corrupted" / f"{name}.ffr", check_data=False)
    for _ in range(2):
        with pytest.raises(RuntimeError, match=rf"{name}\.ffr: the header should have the checksum"):
            reader.validate()
        reader.close()
    FileReader(GOLDEN / "corrupted" / "flip_sample.ffr").validate()
    FileReader(GOLDEN / "old" / "old_count.ffr").validate()


def test_damage_keeps_its_facts_between_processes() -> None:
    reader = FileReader(GOLDEN / "corrupted" / "flip_sample.ffr")
    with pytest.raises(RuntimeError) as caught:
        reader.read([0, 1])
    other = pickle.loads(pickle.dumps(caught.value))
    assert (type(other), str(other), other.sample) == (type(caught.value), str(caught.value), 1)


# -- writing -------------------------------------------------------------------------------------------------------


def test_written_bytes(path: Path, tmp_path: Path) -> None:
    reader = FfrReader(GOLDEN / "plain" / "mixed_empty.ffr")
    samples = reader.read_bytes(range(len(reader)))
    assert write(path, samples).read_bytes() == (GOLDEN / "plain" / "mixed_empty.ffr").read_bytes()
    with FileWriter(tmp_path / "unknown.ffr") as writer:  # the number is not known
        for sample in samples:
            writer.write_one(sample)
        assert (writer.n, writer.count) == (None, len(samples))
    assert (tmp_path / "unknown.ffr").read_bytes() == path.read_bytes()


def test_names_that_a_writer_refuses(tmp_path: Path) -> None:
    for name in (tmp_path / "x.dat", tmp_path / "x.FFR", str(tmp_path / "x"), b"x.ffr", None, 5):
        with pytest.raises(AssertionError, match="fname must"):
            FileWriter(name, 3)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="does not exist") as caught:
        FileWriter(tmp_path / "none" / "x.ffr", 3)
    assert isinstance(caught.value, OSError)
    (tmp_path / "folder.ffr").mkdir()
    with pytest.raises(RuntimeError, match="is a directory"):
        FileWriter(tmp_path / "folder.ffr", 3)
    with pytest.raises(ValueError, match="n must not be negative"):
        FileWriter(tmp_path / "x.ffr", -1)
    with pytest.raises(TypeError):
        FileWriter(tmp_path / "x.ffr", 2.0)  # type: ignore[arg-type]
    assert os.listdir(tmp_path) == ["folder.ffr"]


def test_samples_of_any_shape(path: Path) -> None:
    """All bytes are stored, whatever shape and strides say."""
    numbers = np.arange(24, dtype=np.int64).reshape(4, 6)
    values: list[Any] = [numbers[0, :4], numbers, numbers[:, ::3], numbers.T, np.array(7, np.int32), np.float32(1.5)]
    values += [bytearray(b"abc"), memoryview(b"abcdef")[::2], np.zeros((0, 3))]
    with FileWriter(path, len(values)) as writer:
        for wrong in ("text", [1, 2], 5, None):
            with pytest.raises(TypeError):
                writer.write_one(wrong)
        for value in values:
            writer.write_one(value)
    assert [sample.tobytes() for sample in FileReader(path).read(range(9))] == [bytes(memoryview(v)) for v in values]


def test_too_many_and_too_few(path: Path, tmp_path: Path) -> None:
    writer = FileWriter(tmp_path / "y.ffr", 2)
    assert (writer.n, writer.count) == (2, 0)
    writer.write_one(b"one")
    for _ in range(2):
        with pytest.raises(RuntimeError, match="announced with 2 samples, and 1 were written"):
            writer.close()
        assert not (tmp_path / "y.ffr").exists()
    writer.write_one(b"two")  # it can be completed
    with pytest.raises(WriteError, match="this is one more"):
        writer.write_one(b"three")
    writer.close()
    writer.close()
    assert (writer.n, writer.count) == (2, 2)
    with pytest.raises(RuntimeError, match="the writer is closed"):
        writer.write_one(b"four")
    for name in ("n", "count"):
        with pytest.raises(AttributeError):
            setattr(writer, name, 5)
    assert [sample.tobytes() for sample in FileReader(tmp_path / "y.ffr").read([0, 1])] == [b"one", b"two"]


def test_leaving_the_block_incomplete(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="announced with 3 samples, and 0"), FileWriter(tmp_path / "y.ffr", 3):
        pass
    with pytest.raises(KeyError, match="mine"), FileWriter(tmp_path / "y.ffr", 3) as writer:
        raise KeyError("mine")
    assert os.listdir(tmp_path) == []
    writer.close()


def test_writers_that_are_let_go(tmp_path: Path) -> None:
    writer = FileWriter(tmp_path / "full.ffr", 1)
    writer.write_one(b"x")
    del writer
    gc.collect()
    assert FileReader(tmp_path / "full.ffr").n == 1
    writer = FileWriter(tmp_path / "half.ffr", 2)
    with pytest.warns(ResourceWarning, match=r"half\.ffr: the writer was not closed, so there is no file"):
        del writer
    assert os.listdir(tmp_path) == ["full.ffr"]


def test_a_forked_child_leaves_the_writer_alone(tmp_path: Path) -> None:
    code = """
import gc, os, sys
from headrace.compat.ffrecord import FileReader, FileWriter
writer = FileWriter(sys.argv[1], 2)
writer.write_one(b"one")
if (child := os.fork()) == 0:
    del writer
    gc.collect()
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
writer.write_one(b"two")
writer.close()
print(FileReader(sys.argv[1]).n)
"""
    command = [sys.executable, "-W", "error", "-c", code, str(tmp_path / "x.ffr")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "2\n", "")


def test_writers_are_not_pickled(tmp_path: Path) -> None:
    with FileWriter(tmp_path / "x.ffr", 0) as writer:
        for call in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="cannot be pickled or copied"):
                call(writer)


def test_a_full_disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = path.read_bytes()

    def full(*arguments: object) -> int:
        raise OSError(28, "No space left on device")

    writer = FileWriter(path, 2)
    with monkeypatch.context() as patch:
        patch.setattr("os.pwritev", full)
        with pytest.raises(RuntimeError, match="No space left on device") as caught:
            writer.write_one(bytes(10 << 20))
    assert isinstance(caught.value, OSError)
    assert caught.value.errno == 28
    with pytest.raises(RuntimeError, match="closed"):
        writer.write_one(b"what is missing cannot be made up for")
    writer.close()
    assert path.read_bytes() == before


# -- file systems --------------------------------------------------------------------------------------------------


def test_ordinary_file_systems_do_not_align(path: Path) -> None:
    with open(path, "rb") as file:
        assert checkFsAlign(file.fileno()) is False
    assert checkFsAlign(-1) is False
    assert checkFsAlign(10_000) is False
