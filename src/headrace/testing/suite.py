"""The tests that every format passes, as a class for pytest.

A package that brings a format writes, in its own tests::

    from headrace.testing import FormatSuite
    from mypackage import FORMAT

    class TestMine(FormatSuite):
        format = FORMAT

What a format can hold is found out: its writer refuses the rest with ValueError, before anything is written. Tests of
what it cannot do are skipped with a word.
"""

from __future__ import annotations

import os
import pickle
import tempfile
import threading
import warnings
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from headrace.errors import HeadraceError, MissingExtraError
from headrace.fields import Image, Int
from headrace.formats.open import FORMATS
from headrace.formats.write import fill
from headrace.progress import format_count
from headrace.testing.columns import CLASSES, SampleColumn, sample_columns
from headrace.testing.comparison import assert_same
from headrace.testing.damage import Damage, contents_of, flips, put_back, run_cases, truncations
from headrace.testing.tools import assert_raises, import_or_skip, listing_of, load_batches, outcome_of, skip

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from headrace.formats.contract import Format
    from headrace.types import Dataset, Field

__all__ = ["FormatSuite"]

_DECODES = {"image": "image", "text": "text", "json": "json", "ndarray": "npy", "tensor": "npy"}
_COUNT = 12
_MANY_FILES = 4


class FormatSuite:
    """Tests of one format; inherit from it in a class that pytest collects, and set ``format``.

    Attributes:
        format: the Format, or the name of one that is installed.
        writer_options: for every writer.
        reader_options: for every reader.
        float_bits: 32 where the format keeps no more of a Float.
        damages: how many damaged copies are tried for each file, of a dataset of many files for five of them; more find
            more and take longer.
        timeout_s: the longest that reading one damaged file may take.
        memory_bytes: the most memory that reading one may take.
    """

    format: ClassVar[Format | str]
    writer_options: ClassVar[Mapping[str, Any]] = {}
    reader_options: ClassVar[Mapping[str, Any]] = {}
    float_bits: ClassVar[Literal[32, 64]] = 64
    damages: ClassVar[int] = 120
    timeout_s: ClassVar[float] = 60.0
    memory_bytes: ClassVar[int] = 4 << 30

    # -- what the tests use: override what does not fit ---------------------------------------------------------

    def make_path(self, folder: Path) -> Path:
        """Where a dataset is written in a folder."""
        endings = self._format.suffixes
        return folder / f"set{endings[0] if endings else ''}"

    def create(self, path: Path, fields: Mapping[str, Field], *, length: int | None = None, **options: Any) -> Any:
        """A writer."""
        return self._format.create_checked(path, fields, length=length, **{**self.writer_options, **options})

    def write(self, path: Path, columns: Mapping[str, SampleColumn], **options: Any) -> Path:
        """Write columns; ``names`` are the names of the samples, other options those of the writer."""
        names = options.pop("names", None)
        rows = list(zip(*(column.values for column in columns.values()), strict=True))
        fields = {name: column.field for name, column in columns.items()}
        fill(lambda length: self.create(path, fields, length=length, **options), rows, names=names, workers=2)
        return path

    def open(self, path: Path, columns: Mapping[str, SampleColumn]) -> Dataset:
        """Open what ``write`` wrote; a format that does not say what its bytes are is told so."""
        dataset = self._format.open_checked(os.fspath(path), **self.reader_options)
        wanted = [column.field.kind for column in columns.values()]
        found = [field.kind for field in dataset.schema.values()]
        decode = _DECODES.get(wanted[0]) if len(wanted) == 1 else None
        if found == wanted or decode not in self._format.decodes:
            return dataset
        dataset.close()
        return self._format.open_checked(os.fspath(path), decode=decode, **self.reader_options)

    def name_in(self, dataset: Dataset, columns: Mapping[str, SampleColumn], name: str) -> str:
        """What a field that was written is called in the file: the same, or what stands at its place."""
        if name in dataset.schema:
            return name
        same_kind = [key for key, field in dataset.schema.items() if field.kind == columns[name].field.kind]
        if len(same_kind) == 1:
            return same_kind[0]
        return list(dataset.schema)[list(columns).index(name)]

    # -- what the format can hold ------------------------------------------------------------------------------

    @property
    def _format(self) -> Format:
        found = FORMATS.load(self.format) if isinstance(self.format, str) else self.format
        if found.create is None:
            skip(f"{found.name} is only read")
        return found

    def holds(self, columns: Mapping[str, SampleColumn]) -> bool:
        """Whether the writer takes these fields together; what it does not take is a ValueError or a TypeError."""
        found = self._format
        if any(_is_raw(column) for column in columns.values()) and not found.holds_raw_pictures:
            return False
        if found.max_fields is not None and len(columns) > found.max_fields:
            return False
        if found.holds_files and sum(column.field.has_payload for column in columns.values()) > 1:
            return False  # a sample is a file, and several are several samples
        with tempfile.TemporaryDirectory() as folder:
            try:
                writer = self.create(self.make_path(Path(folder)), {n: c.field for n, c in columns.items()})
            except MissingExtraError as error:
                skip(str(error))
            except (ValueError, TypeError):
                return False
            writer.abort()
        return True

    def held_columns(self, count: int = _COUNT, *, wanted: Sequence[str] | None = None) -> dict[str, SampleColumn]:
        """As many columns as the format holds together."""
        found: dict[str, SampleColumn] = {}
        every = sample_columns(count, float_bits=self.float_bits)
        for name in wanted or every:
            if self.holds(more := {**found, name: every[name]}):
                found = more
        if not found:
            skip(f"{self._format.name} holds none of the fields")
        return found

    def _written(self, tmp_path: Path, count: int = _COUNT, **options: Any) -> tuple[Path, dict[str, SampleColumn]]:
        columns = self.held_columns(count)
        return self.write(self.make_path(tmp_path), columns, **options), columns

    def _check(
        self, dataset: Dataset, columns: Mapping[str, SampleColumn], indices: Iterable[int] | None = None
    ) -> None:
        """Every value of some samples, read one by one and all at once."""
        where = list(range(len(dataset)) if indices is None else indices)
        for name, column in columns.items():
            key = self.name_in(dataset, columns, name)
            many = dataset.read_values(np.array(where, np.int64), key)
            for position, i in enumerate(where):
                place = f"{self._format.name}: sample {i}, field {name} ({column.field.kind})"
                assert_same(_plain(many[position], column), column.decoded[i], f"{place}, by read_values")
                assert_same(dataset[i][key], column.decoded[i], place)

    # -- the tests ---------------------------------------------------------------------------------------------

    def test_round_trip_of_every_kind(self, tmp_path: Path) -> None:
        """Each kind of field that the format takes comes back as it went in."""
        held = []
        for name, column in sample_columns(_COUNT, float_bits=self.float_bits).items():
            if not self.holds(alone := {name: column}):
                continue
            (tmp_path / name).mkdir()
            path = self.write(self.make_path(tmp_path / name), alone)
            with self.open(path, alone) as dataset:
                assert len(dataset) == _COUNT
                self._check(dataset, alone)
                held.append(name)
        if not held:
            skip("no kind of field stands alone in this format")

    def test_round_trip_of_many_fields(self, tmp_path: Path) -> None:
        """All fields that it takes together come back in their order, and a new reader finds the same."""
        path, columns = self._written(tmp_path)
        with self.open(path, columns) as dataset:
            assert len(dataset.schema) == len(columns)
            self._check(dataset, columns)
            again = self.open(path, columns)
            assert dict(again.schema) == dict(dataset.schema)
            assert again.fingerprint == dataset.fingerprint

    def test_no_samples(self, tmp_path: Path) -> None:
        """A dataset without samples is written and read, or refused with a word."""
        columns = {n: SampleColumn(c.field, [], []) for n, c in self.held_columns().items()}
        path = self.make_path(tmp_path)
        try:
            self.write(path, columns)
            dataset = self.open(path, columns)
        except (ValueError, HeadraceError):
            return
        assert len(dataset) == 0
        assert dataset[:] == []

    def test_random_access(self, tmp_path: Path) -> None:
        """Numbers, negative ones, slices, lists, arrays and masks; what is out of range is an IndexError."""
        path, columns = self._written(tmp_path)
        with self.open(path, columns) as dataset:
            self._check(dataset, columns, [5, 0, 11, 5, 3])
            every = [tuple(sample) for sample in dataset]
            assert_same(tuple(dataset[-1]), every[-1], "dataset[-1]")
            for key in (slice(2, 9, 3), slice(None, None, -1), slice(20, 30)):
                assert_same([tuple(s) for s in dataset[key]], every[key], f"dataset[{key}]")
            mask = np.arange(_COUNT) % 3 == 1
            for many in ([3, 1, -1, 3], np.array([3, 1, 11, 3]), range(2, 5), [], mask):
                wanted = np.arange(_COUNT)[np.asarray(many, np.int64) if len(many) != _COUNT else mask]
                assert_same([tuple(s) for s in dataset[many]], [every[i] for i in wanted], f"dataset[{many}]")
            self._check_refusals(dataset)

    def _check_refusals(self, dataset: Dataset) -> None:
        for wrong in (_COUNT, -_COUNT - 1, [0, _COUNT], np.ones(_COUNT + 1, bool)):
            assert_raises(IndexError, partial(dataset.__getitem__, wrong), f"dataset[{wrong!r}]")
        assert_raises(KeyError, lambda: dataset["no such sample"], "a name that no sample has")
        assert_raises(KeyError, lambda: dataset.read_values(np.arange(2), "no such field"), "a field that is not there")

    def test_names(self, tmp_path: Path) -> None:
        """Names of samples come back, if the format keeps them, and find their samples."""
        names = [f"sample-{i:04d}" for i in range(_COUNT)]
        path, columns = self._written(tmp_path, names=names)
        with self.open(path, columns) as dataset:
            keys = dataset.keys
            if keys is None:
                skip(f"{self._format.name} keeps no names")
            for i, (key, name) in enumerate(zip(keys, names, strict=True)):
                last = key.rpartition("/")[2]
                assert last == name or last.startswith(f"{name}."), f"sample {i} is called {key!r}, not {name!r}"
                assert_same(tuple(dataset[key]), tuple(dataset[i]), f"dataset[{key!r}]")

    def test_class_names_and_metadata(self, tmp_path: Path) -> None:
        """What the writer takes of these comes back."""
        columns = self.held_columns()
        taken = self._format.writer_options & {"class_names", "metadata"}
        options: dict[str, Any] = {"metadata": {"made": "by a test", "numbers": [1, 2]}}
        if "label" in columns:
            options["class_names"] = {"label": CLASSES}
        options = {name: value for name, value in options.items() if name in taken}
        if not options:
            skip(f"{self._format.name} takes neither")
        path = self.write(self.make_path(tmp_path), columns, **options)
        with self.open(path, columns) as dataset:
            if "class_names" in options:
                assert list(dataset.class_names[self.name_in(dataset, columns, "label")]) == CLASSES
            if "metadata" in options:
                assert getattr(dataset, "metadata", None) == options["metadata"]
            self._check(dataset, columns)

    def test_threads(self, tmp_path: Path) -> None:
        """Eight threads read random batches of one dataset, and all get what was written."""
        path, columns = self._written(tmp_path)
        problems: list[BaseException] = []
        with self.open(path, columns) as dataset:
            start = threading.Barrier(8)

            def read(seed: int) -> None:
                rng = np.random.default_rng(seed)
                try:
                    start.wait(60)
                    for _ in range(4):
                        self._check(dataset, columns, rng.integers(0, _COUNT, 6).tolist())
                except BaseException as error:
                    problems.append(error)

            threads = [threading.Thread(target=read, args=(seed,)) for seed in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        if problems:
            raise problems[0]

    def test_fork(self, tmp_path: Path) -> None:
        """A child reads what its parent has opened and used, and the parent goes on."""
        path, columns = self._written(tmp_path)
        with self.open(path, columns) as dataset:
            self._check(dataset, columns, [1])

            def work(_: Damage) -> None:
                self._check(dataset, columns)

            problems = run_cases([Damage("in a child", 0)], work, timeout_s=60, memory_bytes=self.memory_bytes)
            assert not problems, problems[0]
            self._check(dataset, columns)

    def test_pickling(self, tmp_path: Path) -> None:
        """A dataset travels to another process, wherever that runs."""
        path, columns = self._written(tmp_path)
        before = Path.cwd()
        os.chdir(tmp_path)
        try:
            with self.open(Path(path.name), columns) as dataset:
                data = pickle.dumps(dataset)
                os.chdir(before)
                with pickle.loads(data) as copy:
                    assert copy.fingerprint == dataset.fingerprint
                    self._check(copy, columns)
                self._check(dataset, columns, [2])
        finally:
            os.chdir(before)

    def test_close(self, tmp_path: Path) -> None:
        """A dataset is closed by its block, may be closed twice, and says so when it is used then."""
        path, columns = self._written(tmp_path)
        with self.open(path, columns) as dataset:
            values = [dataset.read_values(np.arange(_COUNT), name) for name in dataset.schema]
        dataset.close()
        assert all(len(one) == _COUNT for one in values)
        problem = outcome_of(lambda: dataset[0])
        assert problem is None or isinstance(problem, HeadraceError), f"after close: {problem!r}"

    def test_opening_writes_nothing(self, tmp_path: Path) -> None:
        """Opening and reading change nothing; a format that keeps an index of a scan may put an annex beside."""
        path, columns = self._written(tmp_path)
        before = listing_of(tmp_path)
        with self.open(path, columns) as dataset:
            self._check(dataset, columns)
            dataset.verify(decode=True)
        after = listing_of(tmp_path)
        fresh = set(after) - set(before)
        assert {name: after.get(name) for name in before} == before
        assert not fresh or (self._format.index is not None and all("annex" in name for name in fresh)), fresh

    def test_nothing_before_close(self, tmp_path: Path) -> None:
        """While it is written there is no dataset under the name, and ``abort`` leaves nothing at all."""
        columns = self.held_columns()
        path = self.make_path(tmp_path)
        writer = self.create(path, {name: column.field for name, column in columns.items()})
        for i in range(3):
            writer.append(tuple(column.values[i] for column in columns.values()))
        assert len(writer) == 3
        assert not self._format.exists(os.fspath(path)), "there is something under the name before close()"
        writer.abort()
        writer.abort()
        assert sorted(listing_of(tmp_path)) == []

    def test_an_error_leaves_nothing(self, tmp_path: Path) -> None:
        """A block that ends in an error leaves nothing behind, and a dataset that was there stays."""
        path, columns = self._written(tmp_path)
        before = listing_of(tmp_path)

        def work() -> None:
            with self.create(path, {name: column.field for name, column in columns.items()}) as writer:
                writer.append(tuple(column.values[0] for column in columns.values()))
                raise ZeroDivisionError

        assert isinstance(outcome_of(work), ZeroDivisionError)
        assert listing_of(tmp_path) == before
        with self.open(path, columns) as dataset:
            self._check(dataset, columns)

    def test_wrong_arguments(self, tmp_path: Path) -> None:
        """Fields that are none, options that are not known, and samples that do not fit."""
        columns = self.held_columns()
        fields = {name: column.field for name, column in columns.items()}
        path = self.make_path(tmp_path)
        assert_raises((TypeError, ValueError), lambda: self.create(path, {"x": Int}), "a class instead of a field")  # type: ignore[dict-item]
        assert_raises(TypeError, lambda: self.create(path, fields, no_such_option=1), "an option that is not known")

        def write_wrong() -> None:
            with self.create(path, fields) as writer:
                writer.append((object(),) * len(fields))

        assert_raises((HeadraceError, TypeError, ValueError), write_wrong, "a sample of the wrong types")
        assert listing_of(tmp_path) == {}

    def test_ways_to_read_agree(self, tmp_path: Path) -> None:
        """All methods that read give the same: bytes, ragged, arrays, spans of pictures, values."""
        path, columns = self._written(tmp_path)
        indices = np.array([4, 0, 11, 4, 7], np.int64)
        with self.open(path, columns) as dataset:
            assert len(dataset.rows(indices)) == len(indices)
            for name, column in columns.items():
                key = self.name_in(dataset, columns, name)
                field = dataset.schema[key]
                if field.kind == "image":
                    self._check_pictures(dataset, key, column, indices)
                if field.has_payload:
                    files, ragged = dataset.read_bytes(indices, key), dataset.read_ragged(indices, key)
                    parts = [
                        ragged.values[a:b].tobytes() for a, b in zip(ragged.offsets, ragged.offsets[1:], strict=False)
                    ]
                    assert parts == files, f"read_ragged and read_bytes differ for field {name}"
                if field.kind == "bytes":
                    assert files == [column.values[i] for i in indices]
                if field.kind in ("ndarray", "tensor"):
                    arrays = dataset.read_arrays(indices, key, np.empty)
                    assert_same(arrays, np.asarray(dataset.read_values(indices, key)), f"read_arrays of {name}")

    def _check_pictures(self, dataset: Dataset, key: str, column: SampleColumn, indices: Any) -> None:
        from headrace.codecs.image import decode_any

        spans = dataset.image_spans(indices, key)
        for position, i in enumerate(indices.tolist()):
            begin, size = int(spans.offsets[position]), int(spans.sizes[position])
            data = spans.base[begin : begin + size].tobytes()
            shape = (int(spans.heights[position]), int(spans.widths[position]), 3)
            is_raw = spans.modes[position] == 1
            pixels = np.frombuffer(data, np.uint8).reshape(shape) if is_raw else decode_any(data)
            assert_same(pixels, column.decoded[i], f"image_spans, sample {i}")
            if isinstance(column.values[i], bytes):
                assert dataset.read_bytes([i], key) == [column.values[i]], f"sample {i}: the JPEG was changed"

    def test_verify(self, tmp_path: Path) -> None:
        """A whole dataset is found to be whole; where there are checksums, a changed value is noticed."""
        path, columns = self._written(tmp_path)
        with self.open(path, columns) as dataset:
            report = dataset.verify(decode=True, workers=2)
            assert report.ok, report.problems[0].message
            assert report.samples_checked == _COUNT
            assert report.size_bytes > 0
        if not report.checksums_checked:
            return
        file, offset = self._place_of_a_value(tmp_path, columns)
        damaged = Path(tmp_path / file)
        damaged.write_bytes(Damage(file, offset, b"\x5a\xa5").apply(damaged.read_bytes()))

        def find() -> None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # an annex that does not fit any more is told so
                opened = self.open(path, columns)
            with opened as broken:
                assert not broken.verify(decode=True).ok, f"{file}: two bytes changed at {offset}, and nobody noticed"

        problem = outcome_of(find)
        if problem is not None and not isinstance(problem, HeadraceError):
            raise problem

    def _place_of_a_value(self, folder: Path, columns: Mapping[str, SampleColumn]) -> tuple[str, int]:
        files = contents_of(folder)
        for column in columns.values():
            for value in column.values:
                data = value if isinstance(value, bytes) else value.tobytes() if isinstance(value, np.ndarray) else b""
                for file, content in files.items():
                    if len(data) >= 12 and (place := content.find(data)) >= 0:
                        return file, place + len(data) // 2
        largest = max(files, key=lambda file: len(files[file]))
        return largest, len(files[largest]) // 2

    def test_cut_files(self, tmp_path: Path) -> None:
        """A file that ends anywhere is an error of headrace, or is read as far as it goes."""
        self._try_damages(tmp_path, lambda file, data: truncations(file, data, max(self.damages // 3, 12)))

    def test_hostile_bytes(self, tmp_path: Path) -> None:
        """Bits that flip and numbers that lie end in an error of headrace or in nothing, in bounded time and memory."""
        self._try_damages(tmp_path, lambda file, data: flips(file, data, self.damages))

    def _try_damages(self, tmp_path: Path, damages_of: Any) -> None:
        (tmp_path / "whole").mkdir()
        names = [f"sample-{i:04d}" for i in range(6)]
        path, columns = self._written(tmp_path / "whole", 6, names=names)
        whole = contents_of(tmp_path / "whole")
        others = [file for file in whole if file != path.name]  # of many, some that are spread over all
        chosen = [file for file in whole if file == path.name] + others[:: -(-len(others) // _MANY_FILES) or 1]
        cases = [case for file in chosen for case in damages_of(file, whole[file])]

        def work(case: Damage) -> None:
            (tmp_path / "whole" / case.file).write_bytes(case.apply(whole[case.file]))
            try:
                self._read_all(path, columns)
            finally:
                put_back(tmp_path / "whole", whole)

        problems = run_cases(cases, work, timeout_s=self.timeout_s, memory_bytes=self.memory_bytes)
        assert not problems, f"{len(problems)} of {format_count(len(cases), 'damaged file')}:\n" + "\n".join(
            problems[:20]
        )

    def _read_all(self, path: Path, columns: Mapping[str, SampleColumn]) -> None:
        with self.open(path, columns) as dataset:
            dataset.verify(decode=True, workers=1)
            some = np.arange(min(len(dataset), 64))
            for key, field in dataset.schema.items():
                if field.has_payload:
                    dataset.read_ragged(some, key)
                if field.kind == "image":
                    dataset.image_spans(some, key)
            _ = [dataset[int(i)] for i in some]

    def test_batches_are_those_of_a_beton(self, tmp_path: Path) -> None:
        """The loader makes the same batches of it as of a .beton with the same samples and the same seed."""
        columns = self.held_columns(wanted=["image", "label", "array", "number", "real"])
        path = self.write(self.make_path(tmp_path), columns)
        beton = tmp_path / "reference.beton"
        rows = list(zip(*(column.values for column in columns.values()), strict=True))
        fields = {name: column.field for name, column in columns.items()}
        fill(lambda length: FORMATS.load("beton").create_checked(beton, fields, length=length), rows, workers=1)
        with self.open(path, columns) as dataset, FORMATS.load("beton").open_checked(beton) as reference:
            keys = {name: self.name_in(dataset, columns, name) for name in columns}
            expected = load_batches(reference, {name: name for name in columns})
            assert_same(load_batches(dataset, keys), expected, "the batches")

    def test_any_samples(self, tmp_path: Path) -> None:
        """Whatever hypothesis thinks of comes back; needs hypothesis."""
        hypothesis = import_or_skip("hypothesis")
        from headrace.testing import strategies

        st = hypothesis.strategies
        kinds = [k for k in strategies.KINDS if k != "image" or self._format.holds_raw_pictures]
        number = [0]

        def check(data: Any) -> None:
            field = data.draw(strategies.fields(kinds))
            rows = data.draw(strategies.samples({"x": field}, min_size=1, float_bits=self.float_bits))
            values = [row[0] for row in rows]
            columns = {"x": SampleColumn(field, values, values)}
            if not self.holds(columns):
                return
            number[0] += 1
            (tmp_path / str(number[0])).mkdir()
            path = self.write(self.make_path(tmp_path / str(number[0])), columns)
            with self.open(path, columns) as dataset:
                self._check(dataset, columns)

        every = list(hypothesis.HealthCheck)
        calm = hypothesis.settings(
            max_examples=25, deadline=None, derandomize=True, database=None, suppress_health_check=every
        )
        calm(hypothesis.given(st.data())(check))()


def _is_raw(column: SampleColumn) -> bool:
    return isinstance(column.field, Image) and column.field.mode == "raw"


def _plain(value: Any, column: SampleColumn) -> Any:
    """A number of a column as Python has it."""
    return value.item() if isinstance(value, np.generic) and column.field.kind in ("int", "float") else value
