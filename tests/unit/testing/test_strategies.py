from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.fields import problem_with_name
from headrace.testing import strategies


@settings(max_examples=40)
@given(st.data())
def test_every_value_is_one_that_its_field_takes(data: st.DataObject) -> None:
    names = data.draw(st.lists(strategies.field_names(), min_size=1, max_size=3, unique=True))
    assert not any(problem_with_name(name) for name in names)
    fields = {name: data.draw(strategies.fields()) for name in names}
    for row in data.draw(strategies.samples(fields, max_size=3)):
        for field, value in zip(fields.values(), row, strict=True):
            field.encode(value, 0)


@given(strategies.fields(["ndarray"]))
def test_kinds_can_be_chosen(field: object) -> None:
    assert getattr(field, "kind", None) == "ndarray"
