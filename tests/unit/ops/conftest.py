"""Pictures that the tests of ops share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.loader.tools import write_pictures
from tests.unit.ops.tools import pictures

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np


@pytest.fixture(scope="session")
def pixels() -> np.ndarray:
    """The pictures; not to be changed."""
    array = pictures()
    array.flags.writeable = False
    return array


@pytest.fixture(scope="session")
def path(tmp_path_factory: pytest.TempPathFactory, pixels: np.ndarray) -> Path:
    """The same as a file, stored raw."""
    return write_pictures(tmp_path_factory.mktemp("ops") / "pictures.beton", pixels)
