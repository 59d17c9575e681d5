from __future__ import annotations

import json
from typing import Any

import pytest

import headrace as hr
from headrace.fields import from_spec, to_spec

FIELDS = [
    hr.Int(),
    hr.Float(),
    hr.Bytes(),
    hr.Json(),
    hr.Text(),
    hr.NDArray(">f4", (2, 3)),
    hr.Tensor("torch.int16", (4,)),
    hr.Image(),
    hr.Image(mode="smart", max_side=300, quality=75, smart_threshold=9000, background=(1, 2, 3)),
]


@pytest.mark.parametrize("field", FIELDS, ids=repr)
def test_a_field_survives_json(field: Any) -> None:
    assert from_spec(json.loads(json.dumps(to_spec(field)))) == field


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"kind": None},
        {"kind": "video"},
        {"kind": ["int"]},
        {"kind": "int", "bits": 3},
        {"kind": "ndarray"},
        {"kind": "ndarray", "dtype": "float33", "shape": [2]},
        {"kind": "ndarray", "dtype": "f4,(", "shape": [2]},
        {"kind": "ndarray", "dtype": "<f4", "shape": 7},
        {"kind": "ndarray", "dtype": "<f4", "shape": ["x"]},
        {"kind": "ndarray", "dtype": "<f4", "shape": []},
        {"kind": "image", "quality": 0},
        {"kind": "image", "quality": "high"},
        {"kind": "image", "background": 3},
    ],
)
def test_nonsense_is_a_value_error(spec: dict[str, Any]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # the wording is the field's
        from_spec(spec)
