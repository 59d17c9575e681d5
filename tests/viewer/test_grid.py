"""The grid in a real browser: ten million samples, filters, keys, selections, hostile names, damage."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.helpers import image_file
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


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    """The file says ten million; its pictures are real, black and tiny, and lie in a hole of the file."""
    path = tmp_path_factory.mktemp("many") / "many.beton"
    write_large(path, MANY)
    with hr.view(path, browser=False) as viewer:
        yield viewer


def click_place(browser: Browser, place: int, *, shift: bool = False) -> None:
    code = """const tile = document.querySelector(`.cell[data-place="${arguments[0]}"]`);
    tile.dispatchEvent(new MouseEvent('click', { bubbles: true, shiftKey: arguments[1] }))"""
    browser.find(f'.cell[data-place="{place}"][data-i]')
    browser.script(code, place, shift)


def go_to_end(browser: Browser) -> None:
    browser.script("const box = document.querySelector('.grid-box'); box.focus(); box.scrollTop = box.scrollHeight")


def shown_places(browser: Browser) -> list[int]:
    code = "return [...document.querySelectorAll('.cell[data-i]')].map((cell) => Number(cell.dataset.place))"
    return sorted(browser.script(code))


@pytest.mark.parametrize("query", ["", "sort=-index"])
def test_a_range_selects_all_of_its_samples(browser: Browser, many: Viewer, query: str) -> None:
    browser.open("about:blank")
    browser.open(f"{many.url}#/grid?{query}")
    click_place(browser, 0)
    browser.wait(lambda: browser.text(".grid-choice strong") == "1 selected")
    browser.script("const box = document.querySelector('.grid-box'); box.scrollTop = box.scrollHeight * 0.05")
    browser.wait(lambda: min(shown_places(browser), default=0) > 400_000)
    last = shown_places(browser)[5]
    click_place(browser, last, shift=True)
    browser.wait(lambda: browser.text(".grid-choice strong") == f"{last + 1:,} selected")
    browser.click(".grid-choice a")
    saved = browser.downloads / "samples.txt"
    browser.wait(saved.exists)
    first = 0 if "sort" not in query else MANY - 1 - last
    assert saved.read_text() == f"{first}:{first + last + 1}\n"
    saved.unlink()


def test_a_range_that_is_too_long_is_refused(browser: Browser, many: Viewer) -> None:
    browser.open("about:blank")
    browser.open(f"{many.url}#/grid")
    click_place(browser, 0)
    go_to_end(browser)
    click_place(browser, MANY - 1, shift=True)
    assert "10,000,000 samples, and up to 1,000,000 can be selected" in browser.text(".grid-note")
    assert browser.text(".grid-choice strong") == "1 selected"


def test_all_of_a_filter_are_not_those_of_another(browser: Browser, scenes: Viewer) -> None:
    browser.open("about:blank")
    browser.open(f"{scenes.url}#/grid?class=2")
    browser.wait(lambda: "of 90" in browser.text(".grid-status"))
    browser.script("document.querySelector('.grid-box').focus()")
    browser.keys("a")
    browser.wait(lambda: "selected" in browser.text(".grid-choice"))
    change = """const one = document.querySelector(arguments[0]); one.value = arguments[1];
    one.dispatchEvent(new Event('change'))"""
    browser.script(change, "select[aria-label='Size of thumbnails']", "l")
    browser.script(change, "select[aria-label='Sort by']", "bytes")
    browser.wait(lambda: "sort=bytes" in hash_of(browser))
    assert not browser.script("return document.querySelector('.grid-choice').hidden")
    assert "sort=bytes" in (browser.find(".grid-choice a").attribute("href") or "")
    browser.script(change, "select[aria-label=Class]", "1")
    browser.wait(lambda: browser.script("return document.querySelector('.grid-choice').hidden"))
    assert not browser.find_all(".cell[aria-selected=true]")


def test_the_field_of_pictures_can_be_chosen(browser: Browser, tmp_path: Path) -> None:
    sample = (np.full((20, 20, 3), 200, np.uint8), np.full((30, 40, 3), 9, np.uint8))
    hr.write(tmp_path / "x.beton", [sample] * 3, fields={"a": hr.Image(), "b": hr.Image()})
    with hr.view(tmp_path / "x.beton", browser=False) as viewer:
        browser.open(f"{viewer.url}#/grid")
        wide = "return [...document.querySelectorAll('.cell img')].map((one) => one.naturalWidth)"
        browser.wait(lambda: browser.script(wide) == [20] * 3)
        browser.script(
            "const one = document.querySelector(\"select[aria-label='Field of pictures']\"); "
            "one.value = 'b'; one.dispatchEvent(new Event('change'))"
        )
        browser.wait(lambda: browser.script(wide) == [40] * 3 and "field=b" in hash_of(browser))
        browser.open("about:blank")


def test_pictures_that_are_too_large_are_not_called_damaged(browser: Browser, tmp_path: Path) -> None:
    large = image_file(np.zeros((9000, 9000, 3), np.uint8), "JPEG", quality=10)
    hr.write(tmp_path / "x.beton", [(large,)], fields={"image": hr.Image()})
    with hr.open(tmp_path / "x.beton") as dataset, hr.view(dataset, browser=False) as viewer:
        browser.open(f"{viewer.url}#/grid")
        browser.wait(lambda: browser.text(".cell .broken strong") == "Not shown")
        browser.open(f"{viewer.url}#/sample?i=0")
        browser.wait(lambda: "Not shown: the picture has 9,000 x 9,000 pixels" in browser.text("main"))
        browser.open(f"{viewer.url}#/grid?damaged=1")
        browser.wait(lambda: browser.text(".grid-status").startswith("0 of 1"))
        browser.open("about:blank")


def test_pictures_that_are_stored_as_bytes(browser: Browser, tmp_path: Path) -> None:
    files = [(image_file(np.full((40, 50, 3), 50 * i, np.uint8), "JPEG"),) for i in range(4)]
    hr.write(tmp_path / "x.ffr", files, fields={"data": hr.Bytes()})
    with hr.view(tmp_path / "x.ffr", browser=False) as viewer:
        browser.open(f"{viewer.url}#/grid")
        browser.wait(lambda: len(browser.find_all(".cell img")) == 4)
        browser.open(f"{viewer.url}#/seeds?i=1")
        browser.wait(lambda: len(browser.find_all(".seeds-tiles img")) == 16)
        browser.wait(lambda: browser.find_all(".seeds-originals image, .seeds-originals img"))
        browser.open("about:blank")


def test_the_command_is_quoted_for_a_shell(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "it's $(here) & there.beton"
    hr.write(path, range(3), fields={"n": hr.Int()})
    with hr.view(path, browser=False) as viewer:
        browser.open(f"{viewer.url}#/grid")
        click_place(browser, 0)
        command = browser.find(".grid-choice code").text
        assert shlex.split(command)[:3] == ["headrace", "subset", str(path)]
        browser.open("about:blank")


def test_ten_million_samples_scroll(browser: Browser, many: Viewer) -> None:
    browser.open(f"{many.url}#/grid")
    browser.wait(lambda: len(browser.find_all(".cell img")) > 10)
    assert browser.text(".grid-status") == "10,000,000 samples"

    def first() -> int:
        return int(
            browser.script("return Math.min(...[...document.querySelectorAll('.cell')].map((c) => +c.dataset.place))")
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
    browser.open(f"{many.url}#/grid?class=7&at=9000")
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
        assert "text 0" in browser.text(".cell dl")


def test_json_is_shown_as_it_is_stored(browser: Browser, tmp_path: Path) -> None:
    fields = {"about": hr.Json(), "blob": hr.Bytes()}
    hr.write(tmp_path / "x.beton", [({"id": i}, bytes(9)) for i in range(3)], fields=fields)
    with hr.view(tmp_path / "x.beton", browser=False) as viewer:
        browser.open(f"{viewer.url}#/grid")
        browser.wait(lambda: len(browser.find_all(".cell dl")) == 3)
        assert '"id"' in browser.text(".cell dl")
        assert "9 B" in browser.text(".cell dl")
        browser.open("about:blank")


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
