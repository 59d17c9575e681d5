from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from headrace.types import Problem, Report, Sample

SAMPLE = Sample(("image", "label"), (np.zeros((2, 3), np.uint8), 7))


def test_values_by_position_name_and_attribute() -> None:
    image, label = SAMPLE
    assert label == SAMPLE[1] == SAMPLE[-1] == SAMPLE["label"] == SAMPLE.label == dict(SAMPLE)["label"] == 7
    assert image is SAMPLE.image
    assert SAMPLE[0:1] == (image,)
    assert len(SAMPLE) == 2
    assert SAMPLE.keys() == ("image", "label")


def test_unknown_names_are_told_with_the_known_ones() -> None:
    with pytest.raises(KeyError, match=r"no field 'x'; the fields are image, label"):
        SAMPLE["x"]
    with pytest.raises(AttributeError, match=r"no field 'x'; the fields are image, label"):
        _ = SAMPLE.x
    with pytest.raises(IndexError):
        SAMPLE[2]


def test_a_sample_can_be_copied_and_pickled() -> None:
    for other in (pickle.loads(pickle.dumps(SAMPLE)), copy.deepcopy(SAMPLE), copy.copy(SAMPLE)):
        assert other.keys() == SAMPLE.keys()
        assert other.label == 7


def test_repr_is_brief() -> None:
    text = repr(Sample(("a", "b", "c"), (np.zeros((2, 3), np.uint8), b"x" * 99, "short")))
    assert text == "Sample(a=<uint8 2x3>, b=<bytes of 99>, c='short')"


def test_a_report_names_bad_samples_once_and_in_order() -> None:
    def report(*problems: Problem) -> Report:
        return Report(
            path="x",
            samples_checked=9,
            checksums_checked=0,
            images_decoded=0,
            size_bytes=1,
            problems=problems,
        )

    def problem(sample: int | None) -> Problem:
        return Problem(sample=sample, field=None, message="bad")

    assert report().ok
    assert report(problem(None)).bad_samples == ()
    found = report(problem(5), problem(2), problem(None), problem(5))
    assert not found.ok
    assert found.bad_samples == (2, 5)
