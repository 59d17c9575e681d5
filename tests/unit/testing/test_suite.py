"""The suite finds what it is there to find: formats that are broken in one way each fail the test of it."""

from __future__ import annotations

import dataclasses
import os
import signal
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.plugins.mini_format import FORMAT as MINI

from headrace.fields import Bytes, Int
from headrace.formats.npy import NPZ, NpyDataset, NpzWriter
from headrace.testing import FormatSuite, is_same, sample_columns
from headrace.testing.damage import Damage, run_cases

if TYPE_CHECKING:
    from pathlib import Path


def suite(**changes: Any) -> FormatSuite:
    """The suite for a .npz that is broken in some way."""
    made: FormatSuite = type("Suite", (FormatSuite,), {"format": dataclasses.replace(NPZ, **changes), "damages": 12})()
    return made


class WrongValues(NpyDataset):
    def read_values(self, indices: Any, field: str, source: Any = None) -> Any:
        values = super().read_values(indices, field, source)
        return values[::-1] if len(values) > 1 else values


class WrongRagged(NpyDataset):
    def read_ragged(self, indices: Any, field: str, source: Any = None) -> Any:
        return super().read_ragged(indices[::-1].copy(), field, source)


class ShortMemory(NpyDataset):
    @property
    def class_names(self) -> dict[str, list[str]]:
        return {"label": []}


class Touching(NpyDataset):
    def __init__(self, path: Any, **options: Any) -> None:
        super().__init__(path, **options)
        with open(f"{os.fspath(path)}.lock", "w"):
            pass


class Unpicklable(NpyDataset):
    def __reduce__(self) -> Any:
        return Unpicklable, (self.path,)


class Believing(NpyDataset):
    """Does not look for damage, and has errors of its own."""

    def __init__(self, path: Any, **options: Any) -> None:
        try:
            super().__init__(path, **options)
        except ValueError as error:
            raise KeyError("damaged") from error


class Littering(NpzWriter):
    def _discard(self) -> None:
        super()._discard()
        with open(f"{self._file.path}.tmp", "w"):
            pass


class Early(NpzWriter):
    def __init__(self, path: Any, fields: Any, **options: Any) -> None:
        super().__init__(path, fields, **options)
        with open(path, "w"):
            pass


@pytest.mark.parametrize(
    ("changes", "test"),
    [
        ({"open": WrongValues}, "test_round_trip_of_every_kind"),
        ({"open": WrongValues}, "test_threads"),
        ({"open": WrongRagged}, "test_ways_to_read_agree"),
        ({"open": ShortMemory}, "test_class_names_and_metadata"),
        ({"open": Touching}, "test_opening_writes_nothing"),
        ({"open": Unpicklable}, "test_pickling"),
        ({"open": Believing}, "test_cut_files"),
        ({"open": Believing}, "test_hostile_bytes"),
        ({"create": Littering}, "test_nothing_before_close"),
        ({"create": Littering}, "test_an_error_leaves_nothing"),
        ({"create": Early}, "test_nothing_before_close"),
    ],
)
def test_a_broken_format_fails(changes: dict[str, Any], test: str, tmp_path: Path) -> None:
    getattr(suite(), test)(tmp_path_of(tmp_path, "whole"))
    with pytest.raises((AssertionError, FileNotFoundError)):
        getattr(suite(**changes), test)(tmp_path_of(tmp_path, "broken"))


def tmp_path_of(folder: Path, name: str) -> Path:
    (folder / name).mkdir()
    return folder / name


def test_a_small_format_of_another_package_passes_what_it_promises(tmp_path: Path) -> None:
    one: FormatSuite = type("Suite", (FormatSuite,), {"format": MINI})()
    tests = ("round_trip_of_every_kind", "round_trip_of_many_fields", "random_access", "names", "threads", "fork")
    for test in tests:
        getattr(one, f"test_{test}")(tmp_path_of(tmp_path, test))


def test_a_format_that_is_only_read_is_skipped() -> None:
    with pytest.raises(pytest.skip.Exception, match="only read"):
        suite(create=None).held_columns()


@pytest.mark.parametrize(
    ("work", "said"),
    [
        (lambda case: time.sleep(60), "no answer after"),
        (lambda case: os.kill(os.getpid(), signal.SIGKILL), "the process died"),
        (lambda case: np.ones(1 << 30, np.uint8), "MemoryError"),
        (lambda case: {}["x"], "KeyError"),
    ],
    ids=["hangs", "dies", "takes all memory", "raises"],
)
def test_whatever_happens_in_the_child_is_told(work: Any, said: str) -> None:
    (problem,) = run_cases([Damage("x", 3, b"\0")], work, timeout_s=2, memory_bytes=256 << 20)
    assert problem.startswith("x with 00 at byte 3: ")
    assert said in problem


def test_cases_behind_one_that_fails_are_tried() -> None:
    def work(case: Damage) -> None:
        if case.offset == 1:
            raise RuntimeError("no")

    problems = run_cases([Damage("x", i) for i in range(3)], work, timeout_s=20, memory_bytes=1 << 30)
    assert len(problems) == 1
    assert problems[0].startswith("x cut at byte 1: RuntimeError: no")


@pytest.mark.parametrize(
    ("found", "expected", "same"),
    [
        (1, 1, True),
        (1, 1.0, False),
        (0.0, -0.0, False),
        (float("nan"), float("nan"), True),
        ("a", b"a", False),
        ([1, ["x"]], (1, ["x"]), True),
        ([1], [1, 2], False),
        (np.array([1, 2], ">i2"), np.array([1, 2], "<i2"), True),
        (np.array([1], np.int32), np.array([1], np.int64), False),
        (np.zeros((1, 2)), np.zeros((2, 1)), False),
        (np.array([np.nan]), np.array([np.nan]), True),
    ],
)
def test_what_is_the_same(found: Any, expected: Any, same: bool) -> None:
    assert is_same(found, expected) is same


def test_columns_of_every_kind() -> None:
    columns = sample_columns(5)
    assert {column.field.kind for column in columns.values()} == {
        *("int", "float", "image", "bytes", "json", "text", "ndarray", "tensor")
    }
    assert all(len(column.values) == len(column.decoded) == 5 for column in columns.values())
    assert columns["label"].values == sorted(columns["label"].values)
    assert (columns["data"].field, columns["label"].field) == (Bytes(), Int())
