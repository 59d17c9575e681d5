"""The overview: what it says against what is in the file, in a browser and without one."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from starlette.testclient import TestClient
from tests.viewer.scenes import CLASSES, write_scenes

import headrace as hr
from headrace.viewer import overview
from headrace.viewer.app import make_app
from headrace.viewer.shelf import Shelf

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.viewer.browser import Browser

    from headrace.viewer.server import Viewer

NUMBER = {"d": "0"}


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("scenes") / "scenes.beton"
    write_scenes(path, 60)
    return path


@pytest.fixture(scope="module")
def viewer(scenes: Path) -> Iterator[Viewer]:
    with hr.view(scenes, browser=False) as viewer:
        yield viewer


def test_numbers_are_those_of_the_file(scenes: Path) -> None:
    with hr.open(scenes) as dataset:
        shelf = Shelf.of([dataset])
        told = overview.tell(shelf, NUMBER)
        assert (told["samples"], told["size_bytes"], told["format"]) == (60, scenes.stat().st_size, "beton")
        assert [one["kind"] for one in told["fields"]] == ["image", "int", "float"]
        assert (told["jpegs"], told["jpegs_indexed"], told["has_checksums"]) == (60, 60, True)
        assert 0 < told["page_use"] <= 1
        drawn = overview.draw_histograms(shelf, NUMBER)["drawn"]
        widths = [sample.image.shape[1] for sample in dataset]
        assert (drawn["width"]["min"], drawn["width"]["max"]) == (min(widths), max(widths))
        assert all(sum(one["counts"]) == 60 for one in drawn.values())
        counted = overview.count_classes(shelf, NUMBER)
        labels = [sample.label for sample in dataset]
        assert {one["name"]: one["count"] for one in counted["classes"]} == {
            CLASSES[label]: labels.count(label) for label in set(labels)
        }
        shelf.close()


@pytest.mark.parametrize("name", ["x.tar", "x.parquet", "x.npz", "x.jsonl", "x.barecat", "x.ffr", "two"])
def test_every_format_and_what_is_made_of_others(tmp_path: Path, name: str) -> None:
    fields = {"image": hr.Image(), "label": hr.Int()} if name != "x.ffr" else {"image": hr.Image()}
    samples = [(np.full((5, 7, 3), i, np.uint8), i % 3)[: len(fields)] for i in range(20)]
    if name == "two":
        hr.write(tmp_path / "x.beton", samples, fields=fields)
        dataset = hr.subset(hr.open(tmp_path / "x.beton"), [1, 2, 3] * 8)
    else:
        hr.write(tmp_path / name, samples, fields=fields)
        dataset = hr.open(tmp_path / name)
    with dataset:
        shelf = Shelf.of([dataset])
        told = overview.tell(shelf, NUMBER)
        assert told["samples"] == len(dataset)
        drawn = overview.draw_histograms(shelf, NUMBER)
        assert sum(drawn["drawn"]["bytes"]["counts"]) == len(dataset)
        if any(field.kind == "image" for field in dataset.schema.values()):
            assert drawn["drawn"]["width"]["max"] == 7
        if "label" in dataset.schema:
            assert overview.count_classes(shelf, NUMBER)["distinct"] == 3
        shelf.close()


def test_damage_that_is_found_later_is_told(scenes: Path) -> None:
    with hr.open(scenes) as dataset:
        shelf = Shelf.of([dataset])
        assert overview.tell(shelf, NUMBER)["damaged"] == 0
        shelf[0].damage.add(3, "broken")
        assert overview.tell(shelf, NUMBER)["damaged"] == 1
        shelf.close()


def test_slow_numbers_hold_up_no_thumbnail(scenes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()

    def slow(item: Any, field: str, check: Any) -> Any:
        while not go.wait(0.01):
            check(0, 1)
        raise ValueError("no more")

    monkeypatch.setattr(overview, "labels_of", slow)
    monkeypatch.setattr(overview, "measures_of", slow)
    with hr.open(scenes) as dataset:
        shelf = Shelf.of([dataset])
        client = TestClient(make_app(shelf, "token"), base_url="http://127.0.0.1:8000")
        places = ["classes", "histograms"] * 4
        with ThreadPoolExecutor(len(places)) as pool:
            asked = [pool.submit(client.get, f"/token/api/overview/{place}") for place in places]
            start_s = time.monotonic()
            assert client.get("/token/picture/thumbnail/0/0").status_code == 200
            assert time.monotonic() - start_s < 5
            assert {one.result(20).json()["state"] for one in asked} == {"working"}
        shelf.close()
        go.set()


def test_the_doctor_measures_every_time(scenes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "_DOCTOR_S", 0.1)
    with hr.open(scenes) as dataset:
        shelf = Shelf.of([dataset])

        def measured(run: int) -> dict[str, Any]:
            while (found := overview.ask_doctor(shelf, {"d": 0, "run": run}))["state"] == "working":
                time.sleep(0.01)
            return found

        first = measured(1)
        assert measured(1) == first
        assert measured(2)["loop_s"] != first["loop_s"]
        shelf.close()


@pytest.mark.parametrize("values", [[5], [1, 2, 3], [0, 0, 0], [1, 10, 100, 100_000], list(range(1000))])
def test_a_histogram_counts_everything_once(values: list[int]) -> None:
    found = overview.histogram(np.array(values))
    assert sum(found["counts"]) == len(values)
    assert found["edges"][0] <= min(values)
    assert found["edges"][-1] > max(values)
    assert len(found["edges"]) == len(found["counts"]) + 1
    for low, high, count in zip(found["edges"], found["edges"][1:], found["counts"], strict=False):
        assert count == sum(low <= value < high for value in values)


def test_the_page(browser: Browser, viewer: Viewer) -> None:
    browser.open(viewer.url)
    browser.wait(lambda: len(browser.find_all(".chart")) == 3 and len(browser.find_all(".strip img")) == 12)
    assert browser.text(".tile dd") == "60"
    browser.click(".classes a")
    browser.wait(lambda: "#/grid?" in browser.script("return location.hash"))
    browser.wait(lambda: "of 60 samples" in browser.text(".grid-status"))


def test_the_doctor_is_asked_by_a_button(browser: Browser, viewer: Viewer) -> None:
    browser.open(viewer.url)
    browser.click("section[aria-labelledby=doctor-title] button")
    browser.wait(lambda: "samples/s" in browser.text(".doctor"), seconds=60)
    assert "What binds" in browser.text(".doctor")


def test_an_empty_dataset_and_one_of_numbers(browser: Browser, tmp_path: Path) -> None:
    hr.write(tmp_path / "numbers.beton", range(9), fields={"n": hr.Int()})
    with (
        hr.open(tmp_path / "numbers.beton") as dataset,
        hr.view(hr.subset(dataset, []), dataset, browser=False) as viewer,
    ):
        browser.open(viewer.url)
        browser.wait(lambda: "numbers alone" in browser.text("section[aria-labelledby=sizes-title]"))
        browser.open(f"{viewer.url}#/grid")
        browser.wait(lambda: "the dataset is empty" in browser.text(".grid-status"))
        browser.open(f"{viewer.url}#/overview?d=1")
        browser.wait(lambda: "9 classes" in browser.text("section[aria-labelledby=classes-title]"))
        browser.open(f"{viewer.url}#/grid?d=1")
        browser.wait(lambda: len(browser.find_all(".cell dl")) == 9)
