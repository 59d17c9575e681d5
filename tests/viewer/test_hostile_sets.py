"""Hostile datasets over all pages: they show as text or as an error tile, break nothing, and no script runs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from starlette.testclient import TestClient
from tests.viewer.hostile_sets import HOSTILE_SETS, NAMES

import headrace as hr
import headrace.viewer
from headrace.viewer.app import make_app
from headrace.viewer.shelf import Shelf

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.viewer.browser import Browser

ROOT = Path(__file__).parents[2]
STATIC = Path(headrace.viewer.__file__).parent / "static"
PAGES = sorted(file.stem for file in (STATIC / "pages").glob("*.js") if file.stem != "batches")  # those of a loader
MOST_BYTES = 4 << 20
MOST_S = 20.0
MOST_MIB = 900
FINE = (200, 400, 404, 409, 503)
KINDS = ("application/json", "image/png", "image/jpeg", "application/octet-stream", "text/plain")
QUESTIONS = (
    "",
    "d=0&i={i}",
    "a=0&b=0&row={i}&show=all",
    "a=0&b=0&row={i}&what=difference",
    "d=0&at={i}&limit=50",
    "d=0&name=<script>&regex=(a%2B)%2B$",
    "d=0&sort=-size&class=0",
)


@pytest.fixture
def dataset(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    with HOSTILE_SETS[request.param](tmp_path) as opened:
        yield opened


every_set = pytest.mark.parametrize("dataset", HOSTILE_SETS, indirect=True)


def client_of(dataset: Any) -> tuple[TestClient, Shelf, Any]:
    shelf = Shelf.of([dataset])
    app = make_app(shelf, "token")
    return TestClient(app, base_url="http://127.0.0.1:8000", raise_server_exceptions=True), shelf, app


def questions(app: Any, length: int) -> Iterator[str]:
    """Every address that is only read, for some samples, with what pages ask and with nonsense."""
    for route in app.routes:
        if "GET" not in route.methods or "." in route.path:
            continue
        for i in {0, length // 2, max(length - 1, 0), length}:
            path = re.sub(r"\{(\w+)[^}]*\}", lambda match, i=i: str(i) if match[1] in ("i", "row") else "0", route.path)
            for query in QUESTIONS:
                yield f"{path}?{query.format(i=i)}" if query else path


@every_set
def test_every_answer_is_bounded_and_in_order(dataset: Any) -> None:
    client, shelf, app = client_of(dataset)
    try:
        for path in questions(app, len(dataset)):
            start_s = time.monotonic()
            answer = client.get(f"/token{path}")
            assert time.monotonic() - start_s < MOST_S, path
            assert answer.status_code in FINE, (path, answer.status_code, answer.text[:300])
            assert len(answer.content) < MOST_BYTES, (path, len(answer.content))
            assert "Traceback" not in answer.text[:10_000]
            kind = answer.headers["content-type"].partition(";")[0]
            assert kind in KINDS or path.startswith("/?") or path == "/", path
            if kind == "application/json":
                json.loads(answer.content, parse_constant=pytest.fail)  # NaN is no JSON
    finally:
        shelf.close()


@every_set
def test_what_is_in_the_files_is_never_html_or_svg(dataset: Any) -> None:
    """Bytes of a file are given back as PNG, JPEG or JSON that the server made, whatever they are."""
    client, shelf, app = client_of(dataset)
    try:
        for path in questions(app, len(dataset)):
            answer = client.get(f"/token{path}")
            assert answer.headers["x-content-type-options"] == "nosniff"
            if path.startswith(("/api", "/picture")):
                assert answer.headers["content-type"].partition(";")[0] not in ("text/html", "image/svg+xml")
                assert b"onload=" not in answer.content[:100] or answer.headers["content-type"] == "application/json"
    finally:
        shelf.close()


@every_set
def test_checks_end(dataset: Any) -> None:
    client, shelf, _ = client_of(dataset)
    try:
        for decode in (False, True):
            client.post("/token/api/verify/start", json={"d": 0, "decode": decode})
            facts = until_ended(client, "/token/api/verify")
            assert facts["state"] == "done", facts["error"]
        client.get("/token/api/compare?a=0&b=0")
        client.post("/token/api/compare/search", json={"a": 0, "b": 0})
        facts = until_ended(client, "/token/api/compare?a=0&b=0", "search")
        assert facts["state"] == "done", facts["error"]
    finally:
        shelf.close()


def until_ended(client: TestClient, path: str, part: str | None = None) -> dict[str, Any]:
    end_s = time.monotonic() + 60
    while time.monotonic() < end_s:
        answer = client.get(path).json()
        facts: dict[str, Any] = answer if part is None else answer[part]
        if facts["state"] not in ("waiting", "running", "stopping"):
            return facts
        time.sleep(0.02)
    pytest.fail(f"{path} does not end")


@every_set
def test_no_page_runs_a_script_or_breaks(browser: Browser, dataset: Any) -> None:
    places = [f"{page}?d=0&i=0&a=0&b=1" for page in PAGES]
    places += [f"{page}?d=0&i={max(len(dataset) - 1, 0)}" for page in PAGES]
    places += [f"compare?a=0&b=1&row={row}" for row in range(min(3, len(dataset)))]
    places += ["compare?a=0&b=1&show=differing", "verify?d=1"]
    with hr.view(dataset, dataset, browser=False) as viewer:
        for place in places:
            browser.open("about:blank")
            browser.open(f"{viewer.url}#/{place}")
            browser.wait(lambda: is_shown(browser), f"{place} is not shown")
            time.sleep(0.15)  # what a picture or a list that comes later does
            check_page(browser, place)
        browser.open("about:blank")  # before the server is gone


def is_shown(browser: Browser) -> bool:
    return bool(browser.script("return document.querySelector('main:not([aria-busy]) > *') !== null"))


def check_page(browser: Browser, place: str) -> None:
    assert browser.script("return [window.pwned ?? null, ({}).pwned ?? null]") == [None, None], place
    bad = "script, iframe, object, embed, base, meta, [onerror], [onload], [onclick], a[href^='javascript']"
    assert browser.script(f'return document.querySelectorAll("main :is({bad})").length') == 0, place
    links = browser.script("return [...document.querySelectorAll('main a[href]')].map((link) => link.href)")
    own = browser.script("return location.origin")
    assert [link for link in links if not link.startswith((own, "blob:"))] == [], place
    width = browser.script("return [document.documentElement.scrollWidth, window.innerWidth]")
    assert width[0] <= width[1] + 1, f"{place} is {width[0]} pixels wide"


def test_names_are_seen_as_text(browser: Browser, tmp_path: Path) -> None:
    with HOSTILE_SETS["names_with_html"](tmp_path) as dataset, hr.view(dataset, dataset, browser=False) as viewer:
        browser.open(f"{viewer.url}#/compare?a=0&b=1")
        browser.wait(lambda: browser.find_all(".pair .title"))
        titles = browser.script("return [...document.querySelectorAll('.pair .title')].map((one) => one.textContent)")
        assert titles[0] == NAMES[0]
        assert titles[3] == "a\\x00b\\x1b[31m\\x07\\r\n\t"
        assert titles[4] == "gpj.\\u202etxe.cat"
        assert titles[5] == "\\udcff\\udc80 no utf-8"
        assert max(map(len, titles)) < 20_000
        browser.open("about:blank")  # before the server is gone


def test_a_bomb_takes_little_memory(tmp_path: Path) -> None:
    """A server of its own, asked everything about every hostile dataset, with its peak looked at."""
    code = """
import sys, tempfile, pathlib
from starlette.testclient import TestClient
from tests.viewer.hostile_sets import HOSTILE_SETS
from tests.viewer.test_hostile_sets import client_of, questions
for make in HOSTILE_SETS.values():
    with make(pathlib.Path(tempfile.mkdtemp(dir=sys.argv[1]))) as dataset:
        client, shelf, app = client_of(dataset)
        for path in questions(app, len(dataset)):
            client.get("/token" + path)
        shelf.close()
lines = open("/proc/self/status").read().splitlines()
print(next(line.split()[1] for line in lines if line.startswith("VmHWM")))
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
        timeout=300,
    )
    assert int(done.stdout) >> 10 < MOST_MIB


def test_many_questions_at_once(tmp_path: Path) -> None:
    with HOSTILE_SETS["json_bombs"](tmp_path) as dataset:
        client, shelf, _ = client_of(dataset)
        found: list[int] = []

        def ask(i: int) -> None:
            found.append(client.get(f"/token/api/compare/row?a=0&b=0&row={i % len(dataset)}").status_code)

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(60)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        shelf.close()
        assert len(found) == 60
        assert set(found) <= {200, 400, 503}
        assert found.count(200) > 30
