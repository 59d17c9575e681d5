"""The compare page in a real browser, and what it asks of the server."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image as Pillow
from starlette.testclient import TestClient
from tests.helpers import Surgeon, picture

import headrace as hr
from headrace.viewer.app import make_app
from headrace.viewer.shelf import Shelf

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.viewer.browser import Browser

    from headrace.viewer.server import Viewer

COUNT = 60
FIELDS = {"image": hr.Image(mode="raw"), "label": hr.Int(), "caption": hr.Text()}


def sample(i: int) -> tuple[Any, int, str]:
    return picture(i, 60, 80), i % 5, f"a picture of thing {i}"


@pytest.fixture
def paths(tmp_path: Path) -> tuple[Path, Path]:
    """In the second, 4 is missing, 5 has other pixels, 6 another label and caption, 40 is damaged, and one is new."""
    old, whole = tmp_path / "old.beton", tmp_path / "whole.beton"
    samples = [sample(i) for i in range(COUNT)]
    names = [f"n{i:03}" for i in range(COUNT)]
    hr.write(old, samples, fields=FIELDS, names=names)
    pixels = samples[5][0].copy()
    pixels[20:40, 30:50] ^= 4
    samples[5] = (pixels, *samples[5][1:])
    samples[6] = (samples[6][0], 77, "a picture of nothing 6")
    order = [i for i in reversed(range(COUNT)) if i != 4]
    hr.write(
        whole, [samples[i] for i in order] + [sample(99)], fields=FIELDS, names=[*(names[i] for i in order), "new"]
    )
    surgeon = Surgeon(whole)
    table = surgeon.table
    place = order.index(40)
    return old, surgeon.flip(int(table[table[:, 0] == place][0][1]) + 50).save(tmp_path / "new.beton")


@pytest.fixture
def viewer(paths: tuple[Path, Path]) -> Iterator[Viewer]:
    with hr.view(*paths, browser=False) as viewer:
        yield viewer


@pytest.fixture
def client(paths: tuple[Path, Path]) -> Iterator[TestClient]:
    with hr.open(paths[0]) as old, hr.open(paths[1]) as new:
        shelf = Shelf.of([old, new])
        yield TestClient(make_app(shelf, "token"), base_url="http://127.0.0.1:8000")
        shelf.close()


def states(browser: Browser) -> list[str]:
    return [found.text for found in browser.find_all(".pairs .chip")]


def test_the_list_pages_and_filters(browser: Browser, viewer: Viewer) -> None:
    browser.open(f"{viewer.url}#/compare")
    browser.wait(lambda: len(states(browser)) == 24)
    assert states(browser)[3:8] == ["same", "only in A", "differs", "differs", "same"]
    assert "59 pairs by name" in browser.text("[role=status].muted")
    browser.wait(
        lambda: browser.script("return [...document.querySelectorAll('.trio img')].some((i) => i.naturalWidth)")
    )
    browser.keys("right")
    browser.wait(lambda: "at=24" in browser.script("return location.hash"))
    browser.wait(lambda: "25 to 48 of 61" in browser.text(".pairs + .turner"))
    browser.click("[data-show=only_second]")
    browser.wait(lambda: states(browser) == ["only in B"])
    assert "new" in browser.text(".pairs")
    browser.reload()
    browser.wait(lambda: states(browser) == ["only in B"])


def test_only_what_differs(browser: Browser, viewer: Viewer) -> None:
    browser.open(f"{viewer.url}#/compare")
    browser.wait(lambda: states(browser))
    browser.keys("d")
    browser.wait(
        lambda: len(states(browser)) == 3 and browser.find(".search .progress").attribute("data-state") == "done"
    )
    text = browser.text(".pairs")
    assert "image: by up to 4 levels" in text
    assert "label: 1 → 77" in text
    assert "checksum" in text
    assert "image in 2" in browser.text("[role=status].muted")
    browser.click(".pair")
    browser.wait(lambda: browser.find_all(".panels img"))
    browser.keys("right")
    browser.wait(lambda: browser.text("h1") == "n006")
    assert [one.text for one in browser.find_all(".fields mark")] == ["1", "77", "(nothing)", "no"]
    browser.keys("escape")
    browser.wait(lambda: len(states(browser)) == 3)


def test_one_pair(browser: Browser, viewer: Viewer) -> None:
    browser.open(f"{viewer.url}#/compare?row=5")
    browser.wait(
        lambda: browser.script(
            "return [...document.querySelectorAll('.panels img')].filter((i) => i.naturalWidth).length === 3"
        )
    )
    text = browser.text(".figures")
    assert "4 of 255" in text
    assert "400 of 4,800" in text
    browser.keys("m")
    browser.wait(lambda: "what=marks" in browser.script("return location.hash"))
    browser.keys("+", "+", "+", "+")
    browser.wait(lambda: "zoom=8" in browser.script("return location.hash"))
    browser.wait(
        lambda: browser.script("return [...document.querySelectorAll('.view img')].every((i) => i.clientWidth === 640)")
    )
    browser.script("document.querySelector('.view').scrollTo(100, 60)")
    browser.wait(
        lambda: browser.script("return [...document.querySelectorAll('.view')].every((v) => v.scrollLeft === 100)")
    )
    browser.reload()
    browser.wait(lambda: browser.find("[data-what=marks]").attribute("aria-pressed") == "true")


def test_a_damaged_pair_says_why(browser: Browser, viewer: Viewer) -> None:
    browser.open(f"{viewer.url}#/compare?row=40")
    browser.wait(lambda: "checksum" in browser.text(".panels"))
    assert browser.text(".fields .chip.bad") == "damaged"
    browser.wait(lambda: browser.text(".panels figure:nth-of-type(2) .why"), "the picture that cannot be shown")


def test_the_server_s_numbers(client: TestClient) -> None:
    first = client.get("/token/api/compare?limit=10").json()
    assert (first["pairs"], first["only_first"], first["only_second"], first["by"]) == (COUNT - 1, 1, 1, "name")
    assert [row["state"] for row in first["list"]["rows"]][3:7] == ["same", "only_first", "differs", "differs"]
    full = client.get("/token/api/compare/row?row=6").json()
    assert [field["state"] for field in full["fields"]] == ["same", "differs", "differs"]
    assert full["around"] == {"place": 6, "previous": 5, "next": 7}
    by_number = client.get("/token/api/compare?by=number").json()
    assert (by_number["by"], by_number["pairs"]) == ("number", COUNT)


def pixels_of(answer: Any) -> np.ndarray:
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "image/png"
    return np.asarray(Pillow.open(io.BytesIO(answer.content)))


def test_pictures(client: TestClient) -> None:
    old = pixels_of(client.get("/token/picture/compare?row=5&what=first"))
    assert (old == sample(5)[0]).all(), "exact pixels"
    difference = pixels_of(client.get("/token/picture/compare?row=5&what=difference&factor=8"))
    assert difference.shape == (60, 80, 3)
    assert sorted(set(difference.reshape(-1).tolist())) == [0, 32]
    brightest = pixels_of(client.get("/token/picture/compare?row=5&what=difference"))
    assert brightest.max() == 128
    marks = pixels_of(client.get("/token/picture/compare?row=5&what=marks"))
    assert (marks == [255, 0, 64]).all(axis=2).sum() == 400
    assert max(pixels_of(client.get("/token/picture/compare?row=5&what=marks&side=16")).shape) <= 16


@pytest.mark.parametrize(
    "query",
    [
        "a=7", "b=-1", "by=magic", "show=none", "at=-1", "limit=1000", "a=0&b=0x1", "at=99999999999999999999",
    ],
)  # fmt: skip
def test_wrong_questions(client: TestClient, query: str) -> None:
    answer = client.get(f"/token/api/compare?{query}")
    assert answer.status_code in (400, 404)
    assert answer.json()["error"]


@pytest.mark.parametrize(
    "query", ["row=61", "row=x", "row=4&what=second", "row=5&what=nothing", "row=5&field=9", "row=5&side=99999",
              "row=5&what=difference&factor=1000", "row=5&field=1&what=difference", ""]
)  # fmt: skip
def test_wrong_pictures(client: TestClient, query: str) -> None:
    answer = client.get(f"/token/picture/compare?{query}")
    assert answer.status_code in (400, 404)
    assert answer.json()["error"]


def test_many_pairs_are_asked_for(client: TestClient) -> None:
    """Only a few are kept, whatever is asked for."""
    for a in (0, 1):
        for b in (0, 1):
            for by in ("", "name", "number"):
                assert client.get(f"/token/api/compare?a={a}&b={b}&by={by}&limit=1").json()["list"]["rows"]


def test_one_dataset_cannot_be_compared(browser: Browser, paths: tuple[Path, Path]) -> None:
    with hr.view(paths[0], browser=False) as viewer:
        browser.open(f"{viewer.url}#/compare")
        assert "headrace view OLD NEW" in browser.text(".empty")
