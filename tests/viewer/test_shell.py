"""The frame of all pages in a real browser: bar, keys, unknown pages, the end of the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import headrace as hr

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.viewer.browser import Browser

    from headrace.viewer.server import Viewer


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Viewer]:
    paths = [tmp_path / name for name in ("first.beton", "second.beton")]
    for number, path in enumerate(paths):
        hr.write(
            path, [(np.zeros((8, 8, 3), np.uint8), 1)] * (number + 3), fields={"image": hr.Image(), "label": hr.Int()}
        )
    with hr.view(*paths, browser=False) as viewer:
        yield viewer


def test_the_bar_leads_to_pages_and_datasets(browser: Browser, two: Viewer) -> None:
    browser.open(two.url)
    browser.wait(lambda: browser.text("h1") == "first.beton")
    browser.script("const p = document.getElementById('picker'); p.value = '1'; p.dispatchEvent(new Event('change'))")
    browser.wait(lambda: browser.text("h1") == "second.beton")
    browser.reload()
    browser.wait(lambda: browser.text("h1") == "second.beton")
    browser.click("#pages a:nth-of-type(2)")
    browser.wait(
        lambda: "d=1" in browser.script("return location.hash") and "/grid" in browser.script("return location.hash")
    )
    assert browser.find("#pages a[aria-current=page]").text == "Grid"


def test_keys_open_their_list_and_pages(browser: Browser, two: Viewer) -> None:
    browser.open(two.url)
    browser.find("h1")
    browser.keys("shift+?")
    assert "these keys" in browser.text("#keys")
    browser.keys("escape")
    browser.wait(lambda: not browser.script("return document.getElementById('keys').open"))
    browser.keys("g", "g")
    browser.wait(lambda: "#/grid" in browser.script("return location.hash"))
    browser.find(".cell[data-i]")
    browser.script("document.querySelector('.grid-box').focus()")
    browser.keys("g", "a")
    assert browser.script("return document.querySelector('.grid-choice').hidden"), "a key of the page"
    browser.keys("g", "m")
    browser.wait(lambda: "#/seeds" in browser.script("return location.hash"))


def test_the_way_to_a_page_presses_no_key_of_it(browser: Browser, two: Viewer) -> None:
    browser.open(f"{two.url}#/verify")
    browser.find(".check-page button")
    browser.wait(lambda: browser.script("return document.querySelector('main:not([aria-busy])') !== null"))
    browser.keys("g", "v")
    browser.keys("shift+?")
    assert "What the model sees" in browser.text("#keys")
    browser.keys("escape")
    assert browser.script("return (await (await fetch('api/verify?d=0')).json()).state") == "idle"


def test_the_menu_of_datasets_is_not_there_where_two_are_compared(browser: Browser, two: Viewer) -> None:
    hidden = "return document.querySelector('.picker').hidden"
    browser.open(f"{two.url}#/compare?a=1&b=0")
    browser.find(".sides")
    browser.wait(lambda: browser.script(hidden))
    browser.click("#pages a:nth-of-type(1)")
    browser.wait(lambda: browser.text("h1") == "second.beton")
    assert not browser.script(hidden)


def test_a_page_and_a_dataset_that_are_not_there(browser: Browser, two: Viewer) -> None:
    browser.open(f"{two.url}#/nope")
    assert 'There is no page "nope"' in browser.text(".problem")
    browser.open(f"{two.url}#/overview?d=7")
    assert "There is no dataset 7" in browser.text(".problem")
