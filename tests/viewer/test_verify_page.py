"""The verify page in a real browser, and what it asks of the server."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
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

COUNT = 90
BAD = (7, 31, 64)


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """Ninety pictures, of which three have a flipped bit."""
    path = tmp_path / "whole.beton"
    samples = [(picture(i, 48, 64), i) for i in range(COUNT)]
    names = [f"photos/<b>{i}</b>.jpg" for i in range(COUNT)]
    hr.write(path, samples, fields={"image": hr.Image(), "label": hr.Int()}, names=names)
    surgeon = Surgeon(path)
    table = surgeon.table
    for i in BAD:
        surgeon.flip(int(table[table[:, 0] == i][0][1]) + 300)
    return surgeon.save(tmp_path / "damaged.beton")


@pytest.fixture
def viewer(damaged: Path) -> Iterator[Viewer]:
    with hr.view(damaged, damaged.with_name("whole.beton"), browser=False) as viewer:
        yield viewer


class Held:
    """Lets checks of a dataset wait until they are let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, dataset: Any) -> None:
        self.go = threading.Event()
        verify = type(dataset).verify

        def waits(one: Any, **options: Any) -> Any:
            told = options["progress"]

            class Watch:
                def __call__(_, *numbers: Any) -> None:
                    self.go.wait(20)
                    told(*numbers)

                def found(_, problems: Any) -> None:
                    told.found(problems)
                    told(10, COUNT, 1000)

            return verify(one, **(options | {"progress": Watch()}))

        monkeypatch.setattr(type(dataset), "verify", waits)


def test_a_check_from_the_button_to_the_sample(browser: Browser, viewer: Viewer) -> None:
    browser.open(f"{viewer.url}#/verify?d=0")
    browser.click("button.primary")
    browser.wait(lambda: "3 problems" in browser.text(".verdict"))
    rows = browser.find_all("table.problems tbody tr")
    assert [row.text.split()[:2] for row in rows] == [["sample", str(i)] for i in BAD]
    assert "photos/<b>7</b>.jpg" in rows[0].text
    assert "checksum" in rows[0].text
    assert browser.find("[role=progressbar]").attribute("aria-valuenow") == "100"
    assert browser.find("table.problems a").attribute("href").endswith("#/sample?d=0&i=7")
    assert "in 3 damaged samples" in browser.text(".verdict")
    browser.reload()
    browser.wait(lambda: "3 problems" in browser.text(".verdict"), "the state is on the server")


def test_a_sound_dataset_and_keys(browser: Browser, viewer: Viewer) -> None:
    browser.open(f"{viewer.url}#/verify?d=1")
    browser.find("button.primary")
    browser.click("#decode")
    browser.script("document.activeElement.blur()")
    browser.keys("v")
    browser.wait(lambda: "Nothing is wrong" in browser.text(".verdict"))
    assert "90 pictures decoded" in browser.text(".verdict")
    assert browser.text("button.primary") == "Verify again"


def test_it_is_stopped_and_survives_a_reload(
    browser: Browser, viewer: Viewer, monkeypatch: pytest.MonkeyPatch, damaged: Path
) -> None:
    held = Held(monkeypatch, hr.open(damaged))
    browser.open(f"{viewer.url}#/verify?d=0")
    browser.click("button.primary")
    browser.wait(lambda: browser.find_all("table.problems tbody tr"), "damaged samples appear while it runs")
    browser.reload()
    browser.wait(lambda: browser.find_all("table.problems tbody tr"))
    assert browser.find("button.primary").attribute("disabled") is not None
    browser.click(".controls button:nth-of-type(2)")
    answered = "return performance.getEntriesByType('resource').some((one) => one.name.includes('api/verify/stop'))"
    browser.wait(lambda: browser.script(answered), "the server is told to stop")
    held.go.set()
    browser.wait(lambda: browser.find(".progress").attribute("data-state") == "stopped")
    assert "problem" in browser.text(".verdict")


@pytest.fixture
def client(damaged: Path) -> Iterator[TestClient]:
    with hr.open(damaged) as dataset:
        shelf = Shelf.of([dataset])
        yield TestClient(make_app(shelf, "token"), base_url="http://127.0.0.1:8000")
        shelf.close()


def test_the_server_checks_once_at_a_time_and_tells_the_grid(client: TestClient, damaged: Path) -> None:
    assert client.get("/token/api/verify").json()["state"] == "idle"
    assert client.post("/token/api/verify/stop", json={"d": 0}).json()["stopped"] is False
    assert client.post("/token/api/verify/start", json={"d": 0}).json()["started"] is True
    while (facts := client.get("/token/api/verify").json())["state"] in ("waiting", "running"):
        threading.Event().wait(0.02)
    assert (facts["state"], facts["damaged"], facts["done"]) == ("done", 3, COUNT)
    assert [one["sample"] for one in facts["list"]["problems"]] == list(BAD)
    assert [one["sample"] for one in client.get("/token/api/verify?at=2").json()["list"]["problems"]] == [64]


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("api/verify/start", {"d": 7}, 404),
        ("api/verify/start", {"d": "../../etc"}, 400),
        ("api/verify/start", {"d": [[]]}, 400),
        ("api/verify/stop", {"d": -1}, 400),
    ],
)
def test_wrong_requests(client: TestClient, path: str, body: dict[str, Any], status: int) -> None:
    assert client.post(f"/token/{path}", json=body).status_code == status
    assert client.get("/token/api/verify?at=-1").status_code == 400
    assert client.get("/token/api/verify?limit=100000").status_code == 400


def test_damaged_samples_are_known_to_the_other_pages(damaged: Path) -> None:
    with hr.open(damaged) as dataset:
        shelf = Shelf.of([dataset])
        client = TestClient(make_app(shelf, "token"), base_url="http://127.0.0.1:8000")
        client.post("/token/api/verify/start", json={"d": 0})
        while client.get("/token/api/verify").json()["state"] != "done":
            threading.Event().wait(0.02)
        assert shelf[0].damage.samples() == list(BAD)
        assert shelf[0].damage.is_complete
        assert "checksum" in (shelf[0].damage.message(7) or "")
        shelf.close()


def test_closing_ends_a_check_that_runs(damaged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with hr.open(damaged) as dataset:
        held = Held(monkeypatch, dataset)
        shelf = Shelf.of([dataset])
        client = TestClient(make_app(shelf, "token"), base_url="http://127.0.0.1:8000")
        client.post("/token/api/verify/start", json={"d": 0})
        threading.Timer(0.2, held.go.set).start()
        shelf.close()
        check: Any = shelf[0].once("verification", lambda: None)
        assert check.facts()["state"] == "stopped"
