"""The pages of single samples, in a browser: sample, what the model sees, batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.helpers import Surgeon, image_file, patch_jpeg_frame
from tests.viewer.datasets import COUNT, photo, write_mixed

import headrace as hr
from headrace import ops

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.viewer.browser import Browser

NASTY = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'
READY = "return !document.querySelector('main[aria-busy]') && document.querySelector('main h1') !== null"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_mixed(tmp_path_factory.mktemp("pages") / "train.beton")


@pytest.fixture(scope="module")
def url(path: Path) -> Iterator[str]:
    with hr.view(path, browser=False) as viewer:
        yield viewer.url


@pytest.fixture(scope="module")
def loader(path: Path) -> hr.Loader:
    crop = [ops.RandomResizedCrop(64), ops.RandomHorizontalFlip(), ops.Normalize((120,) * 3, (60,) * 3, "float16")]
    return hr.Loader(
        path, 5, order="random", drop_last=False, pipelines={"image": crop, "depth": None, "about": None, "blob": None}
    )


def visit(browser: Browser, url: str) -> None:
    browser.open("about:blank")
    browser.open(url)
    browser.wait(lambda: browser.script(READY), "the page is not ready")


def heading(browser: Browser, text: str) -> None:
    browser.wait(lambda: browser.text("main h1") == text, f"the heading does not become {text}")


def scale(browser: Browser) -> float:
    return float(browser.text(".stage-bar output").removesuffix(" %"))


def place(browser: Browser) -> str:
    return str(browser.script("return location.hash"))


def is_shown(browser: Browser, css: str = ".sheet img") -> bool:
    """A picture was decoded by the browser."""
    return bool(browser.script(f"const i = document.querySelector('{css}'); return i.complete && i.naturalWidth > 0"))


# Sample


def test_a_sample_with_all_its_values(browser: Browser, url: str) -> None:
    visit(browser, f"{url}#/sample?i=2")
    heading(browser, "pictures/2.jpg")
    browser.wait(lambda: is_shown(browser))
    text = browser.text("main")
    for words in (
        "320 \N{MULTIPLICATION SIGN} 240 pixels",
        "4:2:0",
        "baseline",
        "45 tiles of 128 \N{MULTIPLICATION SIGN} 16",
        "owl",
        "It has two lines",
        "48 \N{MULTIPLICATION SIGN} 64",
    ):
        assert words in text
    assert len(browser.find_all(".value-card")) == 7
    assert len(browser.find_all(".value-curves path")) == 2
    assert "02 03 04 05" in browser.text(".value-hex")
    assert browser.find_all(".tree-inner")
    assert browser.find_all(".chip.bad") == []
    browser.wait(lambda: is_shown(browser, ".value-picture"))


def test_next_and_previous_by_keys_and_buttons(browser: Browser, url: str) -> None:
    visit(browser, f"{url}#/sample?i=2")
    for key, number in (("right", 3), ("j", 4), ("k", 3), ("left", 2)):
        browser.keys(key)
        heading(browser, f"pictures/{number}.jpg")
        browser.wait(lambda number=number: f"i={number}" in place(browser))
    browser.click("button[aria-label='Next sample']")
    heading(browser, "pictures/3.jpg")
    browser.script("document.querySelector('.sample-steps input').select()")
    browser.keys("1", "1", "enter")
    heading(browser, f"pictures/{COUNT - 1}.jpg")
    assert browser.find("button[aria-label='Next sample']").attribute("disabled") is not None
    browser.script("document.activeElement.blur()")
    browser.keys("j")
    heading(browser, f"pictures/{COUNT - 1}.jpg")
    browser.reload()
    heading(browser, f"pictures/{COUNT - 1}.jpg")


def test_zoom_by_wheel_buttons_and_keys(browser: Browser, url: str) -> None:
    visit(browser, f"{url}#/sample?i=1")
    fitted = scale(browser)
    browser.wheel(".stage", -300)
    browser.wait(lambda: scale(browser) > fitted)
    browser.keys("0")
    browser.wait(lambda: scale(browser) == fitted)
    browser.keys("+")
    browser.wait(lambda: scale(browser) > fitted)
    browser.keys("1")
    browser.wait(lambda: scale(browser) == 100)
    browser.click("button[aria-label='Larger (+)']")
    browser.wait(lambda: scale(browser) == 125)
    browser.click("button[aria-label='Smaller (-)']")
    browser.keys("-")
    browser.wait(lambda: scale(browser) == 80)
    width = browser.script("return document.querySelector('.sheet').getBoundingClientRect().width")
    assert abs(width - 0.8 * 320) < 1
    for _ in range(12):
        browser.keys("+")
    before = browser.script("return document.querySelector('.sheet').offsetLeft")
    browser.keys("shift+right")
    assert browser.script("return document.querySelector('.sheet').offsetLeft") < before


def test_the_tile_grid(browser: Browser, url: str) -> None:
    visit(browser, f"{url}#/sample?i=1")
    assert browser.find_all(".grid-line") == []
    browser.keys("t")
    path = browser.find(".grid-line").attribute("d")
    assert path is not None
    assert path.startswith("M128 0V240M256 0V240M0 16H320")
    assert path.count("H320") == 14
    assert "tiles=1" in place(browser)
    browser.reload()
    assert browser.find(".grid-line")
    browser.click(".stage-bar .check")
    browser.wait(lambda: not browser.find_all(".grid-line"))


def test_next_and_previous_within_the_filter_of_the_grid(browser: Browser, url: str) -> None:
    visit(browser, f"{url}#/sample?i=5&class=2")
    browser.wait(lambda: browser.text(".sample-steps a.chip") == "2 of 4 of the grid")
    browser.keys("j")
    heading(browser, "pictures/8.jpg")
    browser.wait(lambda: browser.text(".sample-steps a.chip") == "3 of 4 of the grid")
    assert "class=2" in place(browser)
    browser.keys("k")
    heading(browser, "pictures/5.jpg")


def test_damage_is_told_and_shown(browser: Browser, path: Path, tmp_path: Path) -> None:
    surgeon, dataset = Surgeon(path), hr.open(path)
    surgeon.flip(dataset.place_of(2, "image").offset + 3000)
    surgeon.flip(dataset.place_of(2, "note").offset)
    with hr.view(surgeon.save(tmp_path / "bad.beton"), browser=False) as viewer:
        visit(browser, f"{viewer.url}#/sample?i=2")
        assert "checksum" in browser.text(".stage-fault")
        assert len(browser.find_all(".chip.bad")) == 2
        browser.wait(lambda: is_shown(browser))
        browser.keys("j")
        heading(browser, "pictures/3.jpg")
        browser.wait(lambda: not browser.find_all(".chip.bad"))
        browser.wait(lambda: is_shown(browser))


def test_hostile_samples_run_nothing(browser: Browser, tmp_path: Path) -> None:
    fields = {"image": hr.Image(), "note": hr.Text(), "about": hr.Json(), "blob": hr.Bytes()}
    deep: Any = NASTY
    for _ in range(60):
        deep = {NASTY: deep}
    rows = [(photo(0), NASTY * 3000, deep, NASTY.encode()), (photo(1), "", [0] * 100_000, b"\xff\xd8\xff broken")]
    hr.write(tmp_path / "x.beton", rows, fields=fields, names=[NASTY, "b\u202ecod.exe"], class_names={})
    with hr.view(tmp_path / "x.beton", browser=False) as viewer:
        visit(browser, f"{viewer.url}#/sample?i=0")
        heading(browser, NASTY)
        browser.keys("j")
        heading(browser, "b\\u202ecod.exe")
        visit(browser, f"{viewer.url}#/seeds?i=0")
        assert browser.script("return window.hacked === undefined")


def test_pictures_that_cannot_be_shown(browser: Browser, tmp_path: Path) -> None:
    whole = image_file(photo(0), "JPEG")
    (tmp_path / "a.jpg").write_bytes(patch_jpeg_frame(whole, width=60_000, height=60_000))
    (tmp_path / "b.jpg").write_bytes(b"no picture at all")
    (tmp_path / "c.jpg").write_bytes(whole[: len(whole) // 2])
    with hr.view(tmp_path, browser=False) as viewer:
        visit(browser, f"{viewer.url}#/sample?i=0")
        assert "60,000 x 60,000" in browser.text(".stage-fault")
        for name in "bc":
            browser.keys("j")
            heading(browser, f"{name}.jpg")
            assert browser.text(".stage-fault")
        visit(browser, f"{viewer.url}#/seeds?i=1")
        browser.wait(lambda: len(browser.find_all(".tile-error")) == 16)


def test_a_dataset_without_pictures(browser: Browser, tmp_path: Path) -> None:
    hr.write(tmp_path / "n.beton", [(1, 2.5)], fields={"n": hr.Int(), "x": hr.Float()})
    with hr.view(tmp_path / "n.beton", browser=False) as viewer:
        visit(browser, f"{viewer.url}#/sample")
        heading(browser, "Sample 0")
        assert [one.text for one in browser.find_all(".value-number")] == ["1", "2.5"]
        visit_only(browser, f"{viewer.url}#/seeds")
        assert "--pipeline" in browser.text(".problem")


def visit_only(browser: Browser, url: str) -> None:
    browser.open("about:blank")
    browser.open(url)


# What the model sees


def test_sixteen_seeds_with_their_windows(browser: Browser, url: str) -> None:
    visit(browser, f"{url}#/seeds?i=3")
    assert len(browser.find_all(".seed-tile img")) == 16
    assert len(browser.find_all(".window")) == 16
    assert "ops.RandomResizedCrop(224)" in browser.text(".seeds-code")
    browser.script("document.querySelectorAll('.seed-tile')[5].focus()")
    marked = browser.find_all(".window.marked")
    assert [one.attribute("data-number") for one in marked] == ["5"]
    browser.wait(lambda: is_shown(browser, ".seed-tile img"))


def test_another_pipeline_and_its_parameters(browser: Browser, url: str) -> None:
    visit(browser, f"{url}#/seeds?i=3")
    browser.script(
        "const s = document.getElementById('recipe'); s.value = 'contrastive'; s.dispatchEvent(new Event('change'))"
    )
    browser.wait(lambda: "ops.ColorJitter" in browser.text(".seeds-code"))
    assert "recipe=contrastive" in place(browser)
    browser.find("#p-size").type("96", clear=True)
    browser.wait(lambda: "ops.RandomResizedCrop(96" in browser.text(".seeds-code"))
    assert "size=96" in place(browser)
    browser.script("document.activeElement.blur()")
    browser.keys("n")
    browser.wait(lambda: browser.text(".seed-tile .tile-caption").startswith("seed 16"))
    browser.reload()
    browser.wait(lambda: browser.text(".seed-tile .tile-caption").startswith("seed 16"))
    assert "ops.RandomResizedCrop(96" in browser.text(".seeds-code")
    browser.keys("j")
    browser.wait(lambda: "i=4" in place(browser))
    browser.keys("s")
    heading(browser, "pictures/4.jpg")
    browser.keys("m")
    heading(browser, "What the model sees")


def test_epochs_and_a_pipeline_that_is_the_same_under_every_seed(browser: Browser, url: str) -> None:
    visit(browser, f"{url}#/seeds?i=3&by=epoch&recipe=evaluation")
    captions = [one.text for one in browser.find_all(".seed-tile .tile-caption")]
    assert captions == [f"epoch {i}" for i in range(16)]
    windows = {one.attribute("x") for one in browser.find_all(".window-line")}
    assert windows == {"55"}


# Batches


def test_batches_and_timings_of_a_loader(browser: Browser, loader: hr.Loader) -> None:
    with loader.view(browser=False) as viewing:
        visit(browser, viewing.url)
        heading(browser, "Batches")
        assert "no loop yet" in browser.text("main")
        assert browser.text("#batch-title") == "Epoch 0, batch 0 of 3"
        assert len(browser.find_all(".batch-tile img")) == 5
        first = [one.text for one in browser.find_all(".batch-tile .tile-caption")]
        batches = iter(loader)
        assert [f"pictures/{round(7 * score)}.jpg" for score in next(batches).score] == first
        browser.wait(lambda: browser.text("#batch-title") == "Epoch 0, batch 1 of 3")
        second = [one.text for one in browser.find_all(".batch-tile .tile-caption")]
        assert [f"pictures/{round(7 * score)}.jpg" for score in next(batches).score] == second
        assert sum(1 for _ in batches) == 1
        browser.wait(lambda: browser.text("#batch-title") == "Epoch 1, batch 0 of 3")
        browser.wait(lambda: "decode" in browser.text(".stages"))
        browser.keys("j")
        browser.wait(lambda: browser.text("#batch-title") == "Epoch 1, batch 1 of 3")
        assert "step=1" in place(browser)
        browser.keys("f")
        browser.wait(lambda: "step=" not in place(browser))
        browser.click(".batch-tile .tile-caption")
        browser.wait(lambda: "#/sample" in place(browser))
        browser.wait(lambda: browser.find_all(".sheet img") and is_shown(browser))
        browser.open("about:blank")  # before its server ends


def test_the_own_pipeline_of_a_loader(browser: Browser, loader: hr.Loader) -> None:
    with loader.view(browser=False) as viewing:
        visit(browser, f"{viewing.url}#/seeds?i=1")
        assert browser.script("return document.getElementById('recipe').value") == "own"
        assert len(browser.find_all(".window")) == 16
        assert "normalization undone" in browser.text(".seed-tile")
        assert "image: one native call" in str(
            browser.script("return document.querySelector('.seeds-controls details pre').textContent")
        )


@pytest.mark.parametrize("page", ["sample?i=2&tiles=1", "seeds?i=2", "batches"])
@pytest.mark.parametrize("width", [360, 1400])
def test_no_page_is_wider_than_the_screen(browser: Browser, loader: hr.Loader, page: str, width: int) -> None:
    browser.size(width, 800)
    with loader.view(browser=False) as viewing:
        visit(browser, f"{viewing.url}#/{page}")
        assert browser.script("return document.documentElement.scrollWidth") <= width
        unnamed = """return [...document.querySelectorAll('main button, main input, main select, main a, main img')]
            .filter((one) => !(one.textContent || one.ariaLabel || one.alt || one.labels?.length || one.title))
            .map((one) => one.outerHTML)"""
        assert browser.script(unnamed) == []
        browser.open("about:blank")
