"""The public suite over every format that can be written, also those that packages add; one loader over all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from headrace.codecs import jpeg
from headrace.errors import MissingExtraError
from headrace.fields import Image, Int, NDArray
from headrace.formats.open import FORMATS
from headrace.testing import FormatSuite, SampleColumn
from headrace.testing.columns import picture_of
from headrace.testing.comparison import assert_same
from headrace.testing.tools import load_batches

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.formats.contract import Format

EXCEPTIONS: dict[str, dict[str, Any]] = {"tfrecord": {"float_bits": 32}}
WRITABLE = [name for name in FORMATS.names() if FORMATS.load(name).create is not None]

for _name in WRITABLE:
    _class = f"Test{_name.title().replace('-', '').replace('_', '')}"
    globals()[_class] = type(_class, (FormatSuite,), {"format": _name, **EXCEPTIONS.get(_name, {})})


def pictures() -> dict[str, SampleColumn]:
    """Pictures of one size, so that a format of plain arrays holds them, too, and labels that never go down."""
    files = [jpeg.encode(picture_of(i, 40, 48), quality=90) for i in range(24)]
    labels = [i // 6 for i in range(24)]
    decoded = [jpeg.decode(file) for file in files]
    return {"image": SampleColumn(Image(), files, decoded), "label": SampleColumn(Int(), labels, labels)}


def batches_of(name: str, folder: Path) -> list[Any]:
    """The batches of pictures, and of labels where the format holds both."""
    format_ = FORMATS.load(name)
    suite = type("One", (FormatSuite,), {"format": name})()
    path, columns = suite.make_path(folder), pictures()
    image = columns["image"]
    pixels = SampleColumn(NDArray("uint8", (40, 48, 3)), image.decoded, image.decoded)
    for held in (columns, {"image": image}, {"image": pixels}):
        if suite.holds(held):
            break
    else:
        pytest.skip(f"{name} holds no pictures")
    suite.write(path, held)
    with suite.open(path, held) as dataset:
        keys = {key: suite.name_in(dataset, held, key) for key in held}
        if held["image"] is pixels:
            return as_pictures(format_, path, keys)
        return load_batches(dataset, keys, batch_size=5)


def as_pictures(format_: Format, path: Path, keys: dict[str, str]) -> list[Any]:
    """Arrays that are said to be pictures when they are opened."""
    with format_.open_checked(path, fields={keys["image"]: Image()}) as dataset:
        return load_batches(dataset, keys, batch_size=5)


@pytest.mark.parametrize("name", WRITABLE)
def test_one_loader_with_one_seed_makes_the_same_batches_of_every_format(name: str, tmp_path: Path) -> None:
    (tmp_path / "beton").mkdir()
    expected = batches_of("beton", tmp_path / "beton")
    assert len(expected) == 8
    assert len({np.asarray(images).tobytes() for images, _ in expected}) == 8
    (tmp_path / "other").mkdir()
    try:
        found = batches_of(name, tmp_path / "other")
    except MissingExtraError as error:
        pytest.skip(str(error))
    width = len(found[0])
    assert_same(found, [batch[:width] for batch in expected], f"batches of {name}")
