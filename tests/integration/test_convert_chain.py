"""Converting along a chain through all formats and back gives the first bytes again; new formats join by themselves."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import headrace as hr
from headrace.errors import MissingExtraError
from headrace.formats.open import FORMATS
from headrace.testing.columns import picture_of

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.formats.contract import Format
    from headrace.types import Dataset

CLASSES = ["apple", "bread", "cheese"]
LABELS = [i // 4 for i in range(12)]
WRITABLE = [FORMATS.load(name) for name in FORMATS.names() if FORMATS.load(name).create is not None]


def jpegs() -> list[bytes]:
    from headrace.codecs import jpeg

    return [jpeg.encode(picture_of(i, 24 + i, 40), quality=80) for i in range(12)]


def start(folder: Path, *, with_label: bool) -> str:
    """The first .beton of a chain."""
    path = str(folder / "first.beton")
    names = [f"{CLASSES[label]}/{i:02d}.jpg" if with_label else f"{i:02d}.jpg" for i, label in enumerate(LABELS)]
    fields: dict[str, Any] = {"image": hr.Image()} | ({"label": hr.Int()} if with_label else {})
    samples = list(zip(jpegs(), LABELS, strict=True)) if with_label else [(file,) for file in jpegs()]
    options = {"class_names": {"label": CLASSES}} if with_label else {}
    hr.write(path, samples, fields=fields, names=names, workers=1, **options)
    return path


def renaming(path: str, wanted: dict[str, str], **options: Any) -> dict[str, str]:
    """Names as they were at first, by the kind of each field, where they are others now."""
    with hr.open(path, **options) as dataset:
        names = {name: wanted[field.kind] for name, field in dataset.schema.items() if field.kind in wanted}
    return {old: new for old, new in names.items() if old != new}


def step(source: str, target: str, wanted: dict[str, str], **options: Any) -> bool:
    """Convert one step further; False where the format cannot hold the fields, which a dry run must say, too."""
    options = {"map": renaming(source, wanted, **options), "workers": 1} | options
    try:
        hr.convert(source, target, verify=True, **options)
    except MissingExtraError:
        return False
    except ValueError as error:
        refusal = str(error)
    else:
        return True
    assert not os.path.exists(target)
    with pytest.raises(ValueError, match=re.escape(refusal)):
        hr.convert(source, target, dry_run=True, **options)
    return False


def field_of(dataset: Dataset, *kinds: str) -> str:
    return next(name for name, field in dataset.schema.items() if field.kind in kinds)


def test_pictures_and_labels_through_all_formats_and_back(tmp_path: Path) -> None:
    first = source = start(tmp_path, with_label=True)
    passed = []
    for format_ in WRITABLE:
        target = str(tmp_path / f"{format_.name}{format_.suffixes[0]}")
        if not step(source, target, {"image": "image", "int": "label"}):
            continue
        with hr.open(target) as dataset:
            assert dataset.read_bytes(range(12), field_of(dataset, "image")) == jpegs()
            assert np.asarray(dataset.read_values(np.arange(12), field_of(dataset, "int"))).tolist() == LABELS
        passed.append(format_.name)
        source = target
    assert {"beton", "barecat", "npz"} <= set(passed)
    last = str(tmp_path / "last.beton")
    hr.convert(source, last, map=renaming(source, {"image": "image", "int": "label"}), workers=1)
    with open(first, "rb") as one, open(last, "rb") as other:
        assert one.read() == other.read()


def test_pictures_alone_through_all_formats_and_back(tmp_path: Path) -> None:
    first = source = start(tmp_path, with_label=False)
    passed, options = [], {}
    for format_ in WRITABLE:
        target = str(tmp_path / f"{format_.name}{format_.suffixes[0]}")
        if not step(source, target, {"image": "image", "bytes": "image"}, **options):
            continue
        with hr.open(target) as dataset:
            field = field_of(dataset, "image", "bytes")
            assert dataset.read_bytes(range(12), field) == jpegs()
            options = {"decode": "image"} if dataset.schema[field].kind == "bytes" else {}
        passed.append(format_.name)
        source = target
    assert {"beton", "barecat", "ffr"} <= set(passed)
    last = str(tmp_path / "last.beton")
    hr.convert(
        source, last, map=renaming(source, {"image": "image", "bytes": "image"}, **options), workers=1, **options
    )
    with open(first, "rb") as one, open(last, "rb") as other:
        assert one.read() == other.read()


def test_arrays_through_all_formats_that_say_what_they_hold_and_back(tmp_path: Path) -> None:
    values = np.random.default_rng(3).random((12, 2, 3)).astype(np.float32)
    first = source = str(tmp_path / "first.beton")
    hr.write(first, values, fields={"array": hr.NDArray("float32", (2, 3))}, workers=1)
    passed = []
    for format_ in WRITABLE:
        if format_.max_fields == 1 and format_.decodes:
            continue  # its values are bytes that do not say what they are
        target = str(tmp_path / f"{format_.name}{format_.suffixes[0]}")
        if format_.holds_files or not step(source, target, {"ndarray": "array"}):
            continue
        with hr.open(target) as dataset:
            assert np.array_equal(dataset.read_values(np.arange(12), field_of(dataset, "ndarray")), values)
        passed.append(format_.name)
        source = target
    assert {"beton", "npy", "npz"} <= set(passed)
    last = str(tmp_path / "last.beton")
    hr.convert(source, last, map=renaming(source, {"ndarray": "array"}), workers=1)
    with open(first, "rb") as one, open(last, "rb") as other:
        assert one.read() == other.read()


@pytest.mark.parametrize("format_", WRITABLE, ids=lambda format_: format_.name)
def test_what_is_said_about_the_whole_is_kept_or_named(format_: Format, tmp_path: Path) -> None:
    first, told = str(tmp_path / "first.beton"), list[str]()
    about: dict[str, Any] = {"class_names": {"label": CLASSES}, "metadata": {"made by": "a test"}}
    hr.write(first, LABELS, fields={"label": hr.Int()}, names=[f"n{i:02d}" for i in range(12)], **about)
    target = str(tmp_path / f"x{format_.suffixes[0]}")
    try:
        hr.convert(first, target, on_left_out=told.append, verify=True)
    except MissingExtraError as error:
        pytest.skip(str(error))
    except ValueError as error:
        pytest.skip(f"no numbers: {error}")
    with hr.open(target) as dataset:
        name = next(iter(dataset.schema))
        kept = dataset.class_names.get(name) == CLASSES, getattr(dataset, "metadata", None) == about["metadata"]
        assert kept[0] != any("class names" in line for line in told)
        assert kept[1] != any("metadata" in line for line in told)
        has_names = dataset.keys is not None and list(dataset.keys) == [f"n{i:02d}" for i in range(12)]
        assert has_names != any("names of 12 samples" in line for line in told)
