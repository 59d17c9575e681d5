"""The pictures of the viewer in the documentation: ``python -m tests.viewer.screenshots`` makes them anew."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image as Pillow
from tests.viewer.browser import Browser
from tests.viewer.scenes import write_scenes

import headrace as hr

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FOLDER", "NAMES", "take"]

FOLDER = Path(__file__).parents[2] / "docs" / "assets" / "viewer"
_SCENES = 600
_WIDE, _NARROW = (1280, 800), (360, 720)


def _overview(browser: Browser) -> bool:
    return len(browser.find_all(".chart")) == 3 and len(browser.find_all(".strip img")) == 12


def _grid(browser: Browser) -> bool:
    seen = "[...document.querySelectorAll('.cell')].slice(0, 12)"
    return bool(
        browser.script(f"return {seen}.length > 5 && {seen}.every((cell) => cell.querySelector('img')?.complete)")
    )


def _selected(browser: Browser) -> bool:
    if not _grid(browser):
        return False
    code = "[1, 2, 6].forEach((k) => document.querySelectorAll('.cell')[k].click())"
    browser.script(f"if (document.querySelector('.grid-choice').hidden) {code}")
    return True


def _pictures(least: int) -> Callable[[Browser], bool]:
    """As many pictures are there, and complete."""
    seen = "[...document.querySelectorAll('main img')].filter((one) => one.complete).length"
    return lambda browser: int(browser.script(f"return {seen}")) >= least


_SHOTS: dict[str, tuple[str, tuple[int, int], str, Callable[[Browser], bool]]] = {
    "overview": ("overview", _WIDE, "light", _overview),
    "overview-dark": ("overview", _WIDE, "dark", _overview),
    "grid": ("grid", _WIDE, "light", _selected),
    "grid-dark": ("grid?class=4&sort=-bytes", _WIDE, "dark", _grid),
    "grid-narrow": ("grid", _NARROW, "light", _grid),
    "sample": ("sample?i=4", _WIDE, "light", _pictures(1)),
    "seeds": ("seeds?i=4", _WIDE, "light", _pictures(16)),
}
_OF_TWO = {"compare": ("compare?a=0&b=1&row=4", _WIDE, "light", _pictures(3))}
NAMES = (*_SHOTS, *_OF_TWO)


def take(browser: Browser, folder: Path, *, scenes: int = _SCENES) -> None:
    """Write every picture as WebP into a folder."""
    folder = folder.absolute()
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        path = Path("landscapes.beton")
        write_scenes(path, scenes)
        hr.convert(path, "small.beton", image_mode="jpg", max_side=240, quality=60)
        for paths, shots in (((path,), _SHOTS), ((path, Path("small.beton")), _OF_TWO)):
            with hr.view(*paths, browser=False) as viewer:
                for name, (page, size, scheme, is_ready) in shots.items():
                    browser.size(*size)
                    browser.scheme(scheme)
                    browser.open("about:blank")
                    browser.open(f"{viewer.url}#/{page}")
                    browser.wait(lambda is_ready=is_ready: is_ready(browser))
                    browser.script("await new Promise((done) => setTimeout(done, 300))")
                    _save(browser, folder / f"{name}.webp")
                browser.open("about:blank")


def _save(browser: Browser, path: Path) -> None:
    shot = path.with_suffix(".png")
    browser.screenshot(shot)
    with Pillow.open(shot) as picture:
        picture.convert("RGB").save(path, quality=86, method=6)
    shot.unlink()


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as profile:
        chromium = Browser(Path(profile))
        try:
            take(chromium, FOLDER)
        finally:
            chromium.close()
