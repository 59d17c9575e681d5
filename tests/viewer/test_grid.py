"""The grid in a real browser: ten million samples, filters, keys, selections, hostile names, damage."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.viewer.large import write_large
from tests.viewer.scenes import write_scenes

import headrace as hr

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.viewer.browser import Browser

    from headrace.viewer.server import Viewer

MANY = 10_000_000


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    path = tmp_path_factory.mktemp("scenes") / "scenes.beton"
    write_scenes(path, 90)
    with hr.view(path, browser=False) as viewer:
        yield viewer


def captions(browser: Browser) -> list[str]:
    code = """const cells = [...document.querySelectorAll('.cell[data-i]')];
    cells.sort((a, b) => a.dataset.place - b.dataset.place);
    return cells.map((cell) => cell.querySelector('.name').textContent)"""
    return list(browser.script(code))


def hash_of(browser: Browser) -> str:
    return str(browser.script("return location.hash"))


def test_pictures_with_names_and_classes(browser: Browser, scenes: Viewer) -> None:
    browser.open(f"{scenes.url}#/grid")
    browser.wait(lambda: len(browser.find_all(".cell img")) >= 12)
    assert browser.script(
        "return [...document.querySelectorAll('.cell img')].every((one) => one.complete && one.naturalWidth > 50)"
    )
    assert captions(browser)[0].endswith("/00000.jpg")
    assert browser.text(".grid-status") == "90 samples"
    label, name = browser.text(".cell .label"), browser.text(".cell .name")
    assert name.startswith(label)


def test_filters_are_in_the_url_and_come_back(browser: Browser, scenes: Viewer) -> None:
    browser.open(f"{scenes.url}#/grid")
    browser.find(".cell[data-i]")
    browser.find(".filters input[type=search]").type("0001")
    browser.wait(lambda: "of 90 samples" in browser.text(".grid-status") and "name=0001" in hash_of(browser))
    first = captions(browser)
    assert first
    assert all("0001" in name for name in first)
    browser.reload()
    browser.wait(lambda: captions(browser) == first)
    assert (
        browser.find(".filters input[type=search]").attribute("value") == "0001"
        or browser.script("return document.querySelector('.filters input[type=search]').value") == "0001"
    )
    browser.open(f"{scenes.url}#/grid?class=2&sort=-bytes")
    browser.wait(lambda: captions(browser) and all(name.startswith("forest/") for name in captions(browser)))
    browser.open(f"{scenes.url}#/grid?name=%5B&regex=1")
    assert "cannot be used" in browser.text(".grid-status .failed")
    browser.open(f"{scenes.url}#/grid?width=100000%3A")
    browser.wait(lambda: "nothing fits" in browser.text(".grid-status"))


def test_keys_move_select_and_save(browser: Browser, scenes: Viewer) -> None:
    browser.open(f"{scenes.url}#/grid")
    browser.find(".cell[data-i]")
    browser.script("document.querySelector('.grid-box').focus()")
    browser.keys("right", "space", "shift+right", "shift+right")
    browser.wait(lambda: browser.text(".grid-choice strong") == "3 selected")
    assert "headrace subset" in browser.text(".grid-choice code")
    browser.click(".grid-choice a")
    saved = browser.downloads / "samples.txt"
    browser.wait(saved.exists)
    assert saved.read_text() == "1:4\n"
    saved.unlink()
    browser.script("document.querySelector('.grid-box').focus()")
    browser.keys("a")
    browser.wait(lambda: browser.text(".grid-choice strong") == "90 selected")
    browser.click(".grid-choice a")
    browser.wait(saved.exists)
    assert saved.read_text() == "0:90\n"
    saved.unlink()
    browser.script("document.querySelector('.grid-box').focus()")
    browser.keys("escape")
    browser.wait(lambda: browser.script("return document.querySelector('.grid-choice').hidden"))
    browser.keys("end")
    browser.wait(lambda: captions(browser)[-1].endswith("/00089.jpg"))
    assert browser.find(".cell.active").attribute("data-i") == "89"
    browser.keys("/")
    assert browser.script("return document.activeElement.type") == "search"


def test_ten_million_samples_scroll(browser: Browser, tmp_path: Path) -> None:
    """The file says so many; its pictures are real, black and tiny, and lie in a hole of the file."""
    path = tmp_path / "many.beton"
    write_large(path, MANY)
    with hr.view(path, browser=False) as viewer:
        browser.open(f"{viewer.url}#/grid")
        browser.wait(lambda: len(browser.find_all(".cell img")) > 10)
        assert browser.text(".grid-status") == "10,000,000 samples"

        def first() -> int:
            return int(
                browser.script(
                    "return Math.min(...[...document.querySelectorAll('.cell')].map((c) => +c.dataset.place))"
                )
            )

        for step in range(1, 6):  # a wheel moves by pixels, also where a pixel of the bar is many rows
            browser.wheel(".grid-box", 400)
            browser.wait(lambda step=step: first() > 0 or step < 3)
        near = first()
        assert 0 < near < 200
        browser.script("const box = document.querySelector('.grid-box'); box.scrollTop = box.scrollHeight / 2")
        browser.wait(lambda: abs(first() / MANY - 0.5) < 0.01)
        middle = first()
        browser.wheel(".grid-box", 300)
        browser.wait(lambda: first() > middle)
        assert first() - middle < 100
        browser.script("const box = document.querySelector('.grid-box'); box.scrollTop = box.scrollHeight")
        browser.wait(lambda: browser.find_all('.cell[data-i="9999999"] img'))
        browser.script("document.querySelector('.grid-box').focus()")
        browser.keys("home")
        browser.wait(lambda: first() == 0)
        browser.keys("end")
        browser.wait(lambda: browser.find_all('.cell[data-i="9999999"] img'))
        assert len(browser.find_all(".cell")) < 150  # no more than the screen has
        browser.wait(lambda: "at=99" in hash_of(browser))
        browser.reload()
        browser.wait(lambda: browser.find_all('.cell[data-i="9999999"] img'))
        browser.open(f"{viewer.url}#/grid?class=7&at=9000")
        browser.wait(lambda: "10,000 of 10,000,000" in browser.text(".grid-status"))
        browser.wait(lambda: first() > 8000)
        frames = browser.script(
            """const box = document.querySelector('.grid-box'); const gaps = []; let before = performance.now();
            for (let k = 0; k < 60; k++) { box.scrollTop += 120; await new Promise(requestAnimationFrame);
              const now = performance.now(); gaps.push(now - before); before = now; }
            return gaps.sort((a, b) => a - b)[Math.floor(gaps.length / 2)]"""
        )
        assert frames < 100  # milliseconds between frames, half of them; 16 on a machine that is not busy


HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "<script>document.title='owned'</script>",
    '"><svg onload=alert(1)>',
    "a\u202egpj.exe",
    "line\nbreak\x00\x1b[31m",
    "x" * 5000,
    "javascript:alert(1)",
    "{{7*7}}${7*7}",
]


def test_hostile_names_are_text(browser: Browser, tmp_path: Path) -> None:
    samples = [(np.full((8, 8, 3), 9, np.uint8), 0) for _ in HOSTILE]
    classes = ["<b onmouseover=alert(1)>x</b>"]
    fields = {"image": hr.Image(), "label": hr.Int()}
    hr.write(tmp_path / "<i>x.beton", samples, fields=fields, names=HOSTILE, class_names={"label": classes})
    with hr.view(tmp_path / "<i>x.beton", browser=False) as viewer:
        for page in ("overview", "grid", "grid?name=%3Cimg", f"grid?class=0&name={'%3Cscript%3E'}"):
            browser.open("about:blank")
            browser.open(f"{viewer.url}#/{page}")
            browser.find("h1")
            browser.wait(lambda page=page: page == "overview" or browser.find_all(".cell[data-i]"))
            assert not browser.script(
                "return document.querySelectorAll('main script, main svg[onload], main [onerror], main i').length"
            )
            assert "owned" not in browser.script("return document.title")
        browser.open(f"{viewer.url}#/grid")
        browser.wait(lambda: len(captions(browser)) == len(HOSTILE))
        shown = captions(browser)
        assert shown[0] == HOSTILE[0]
        assert shown[3] == "a\\u202egpj.exe"
        assert "\x1b" not in shown[4]
        assert len(shown[5]) < 400


def test_damaged_samples_are_tiles_of_their_own(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    good = hr.Image().encode(np.zeros((64, 64, 3), np.uint8), 0).payload
    assert good is not None
    write_files = {"a.jpg": good, "b.jpg": good[: len(good) // 3], "c.jpg": b"\xff\xd8\xff" + b"x" * 50, "d.jpg": good}
    import tarfile
    from io import BytesIO

    with tarfile.open(path, "w") as tar:
        for name, data in write_files.items():
            about = tarfile.TarInfo(name)
            about.size = len(data)
            tar.addfile(about, BytesIO(data))
    with hr.view(path, browser=False) as viewer:
        browser.open(f"{viewer.url}#/grid")
        browser.wait(lambda: len(browser.find_all(".cell .broken")) == 2 and len(browser.find_all(".cell img")) == 2)
        browser.click(".filters button[aria-pressed]:not(.regex)")
        browser.wait(lambda: captions(browser) == ["b.jpg", "c.jpg"] or captions(browser) == ["b", "c"])
        browser.wait(lambda: "damaged=1" in hash_of(browser))
        assert "verify the whole dataset" in browser.text(".grid-status")


def test_samples_without_pictures(browser: Browser, tmp_path: Path) -> None:
    hr.write(tmp_path / "x.jsonl", [(i, f"text {i}") for i in range(40)], fields={"n": hr.Int(), "text": hr.Text()})
    with hr.view(tmp_path / "x.jsonl", browser=False) as viewer:
        browser.open(f"{viewer.url}#/grid")
        browser.wait(lambda: len(browser.find_all(".cell dl")) > 10)
        assert "text" in browser.text(".cell dl")


def test_a_narrow_screen(browser: Browser, scenes: Viewer) -> None:
    browser.size(360, 740)
    for page in ("overview", "grid"):
        browser.open("about:blank")
        browser.open(f"{scenes.url}#/{page}")
        browser.wait(lambda: browser.find_all("main img"))
        assert browser.script("return document.documentElement.scrollWidth") <= 360


def test_the_server_ends(browser: Browser, tmp_path: Path) -> None:
    hr.write(tmp_path / "x.beton", [(np.zeros((8, 8, 3), np.uint8),)] * 3, fields={"image": hr.Image()})
    with hr.view(tmp_path / "x.beton", browser=False) as viewer:
        browser.open(viewer.url)
        browser.find(".tiles")
    browser.script("location.hash = '#/grid'")
    assert browser.find(".problem").text
    assert all("ERR_CONNECTION_REFUSED" in line for line in browser.console())  # the browser's own words for it
