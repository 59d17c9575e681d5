"""The pictures of the documentation: they can be made, and those that are there are small and of the right size."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image as Pillow
from tests.viewer.screenshots import FOLDER, NAMES, take

if TYPE_CHECKING:
    from pathlib import Path

    from tests.viewer.browser import Browser


@pytest.mark.parametrize("name", NAMES)
def test_pictures_of_the_documentation_are_small(name: str) -> None:
    file = FOLDER / f"{name}.webp"
    assert file.stat().st_size < 150_000
    with Pillow.open(file) as shot:
        assert shot.size == ((360, 720) if name.endswith("narrow") else (1280, 800))


def test_they_are_what_the_viewer_shows(browser: Browser, tmp_path: Path) -> None:
    take(browser, tmp_path, scenes=60)
    means = {}
    for name in NAMES:
        with Pillow.open(tmp_path / f"{name}.webp") as shot:
            pixels = np.asarray(shot, float)
        assert pixels.std() > 10  # not blank
        means[name] = float(np.median(pixels))
    assert means["overview-dark"] < 60 < 200 < means["overview"]
