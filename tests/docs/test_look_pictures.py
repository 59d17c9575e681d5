"""The pictures of the page about looking at data: made here, and compared with those that the page shows.

``HEADRACE_WRITE_PICTURES=1`` writes them anew.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

import headrace as hr
from headrace import ops
from headrace.cli.main import main
from headrace.formats import gallery

ASSETS = Path(__file__).parents[2] / "docs" / "assets" / "look"
IS_WRITING = os.environ.get("HEADRACE_WRITE_PICTURES") == "1"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PIPELINE = [
    ops.RandomResizedCrop(96),
    ops.RandomHorizontalFlip(),
    ops.Normalize(mean=(124, 116, 104), std=(58, 57, 57)),
]


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--count", "40", "--keep", "demo-data"]) == 0
    return Path("demo-data/pictures-raw.beton")


def test_the_plot(demo: Path) -> None:
    assert main(["info", str(demo), "--plot", "plot.svg"]) == 0
    made = Path("plot.svg").read_text()
    if IS_WRITING:
        (ASSETS / "plot.svg").write_text(made)
    assert made == (ASSETS / "plot.svg").read_text()


def cell(code: str, shown: Any) -> str:
    style = "background:#f5f5f5;border:1px solid #e0e0e0;padding:6px 10px;font:13px monospace;margin:14px 0 8px"
    return f'<pre style="{style}">{escape(code)}</pre>{shown._repr_html_()}'


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium")
def test_the_notebook(demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gallery, "is_notebook", lambda stream: True)
    with hr.open(demo) as dataset:
        loader = hr.Loader(dataset, 8, order="random", seed=1, pipelines={"image": PIPELINE})
        cells = [cell("dataset", dataset), cell("dataset.show(count=6)", dataset.show(count=6))]
        cells.append(cell("loader.show(count=6)", loader.show(count=6)))
    page = tmp_path / "page.html"
    page.write_text(f'<!doctype html><meta charset="utf-8"><body style="margin:12px 20px">{"".join(cells)}</body>')
    shot = tmp_path / "shot.png"
    command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    command += [
        f"--user-data-dir={tmp_path / 'profile'}",
        f"--screenshot={shot}",
        "--window-size=900,865",
        page.as_uri(),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    if IS_WRITING:
        with PIL.Image.open(shot) as picture:
            picture.convert("RGB").save(ASSETS / "notebook.png", optimize=True)
    with PIL.Image.open(shot) as made, PIL.Image.open(ASSETS / "notebook.png") as shown:
        assert made.size == shown.size
        apart = np.abs(np.asarray(made.convert("RGB")).astype(int) - np.asarray(shown.convert("RGB")))
    assert apart.mean() < 12, "other fonts are allowed, other pictures are not"
