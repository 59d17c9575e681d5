"""Who gets an answer: secret, Host, Origin, methods, sizes; and what every answer says to the browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from starlette.testclient import TestClient

import headrace as hr
from headrace.viewer.app import make_app, make_gate
from headrace.viewer.shelf import Shelf

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOKEN = "a-secret-of-the-test"


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    path = tmp_path / "x.beton"
    samples = [(np.full((4, 6, 3), i, np.uint8), i) for i in range(3)]
    hr.write(path, samples, fields={"image": hr.Image(), "label": hr.Int()})
    with hr.open(path) as dataset:
        shelf = Shelf.of([dataset])
        yield shelf
        shelf.close()


@pytest.fixture
def client(shelf: Shelf) -> TestClient:
    return TestClient(make_app(shelf, TOKEN), base_url="http://127.0.0.1:8000")


@pytest.mark.parametrize("path", ["/", "/x/", f"/{TOKEN[:-1]}/", f"/{TOKEN}x/", "/api/datasets", f"//{TOKEN}/", "/é/"])
def test_without_the_secret_there_is_nothing(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, answer.text) == (404, "Not Found")


def test_with_the_secret_there_are_pages(client: TestClient) -> None:
    assert "<!doctype html>" in client.get(f"/{TOKEN}/").text
    assert client.get(f"/{TOKEN}/app.js").headers["content-type"].startswith("text/javascript")
    (one,) = client.get(f"/{TOKEN}/api/datasets").json()["datasets"]
    assert (one["title"], one["samples"], one["pictures"]) == ("x.beton", 3, ["image"])


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "", "127.0.0.1:80:80", "10.0.0.7:8000", "[::1"]
)
def test_other_hosts_are_not_answered(client: TestClient, host: str) -> None:
    assert client.get(f"/{TOKEN}/", headers={"host": host}).status_code == 404


@pytest.mark.parametrize("host", ["127.0.0.1:1", "localhost", "LOCALHOST:80", "[::1]:9"])
def test_names_of_this_machine_are_answered(client: TestClient, host: str) -> None:
    assert client.get(f"/{TOKEN}/", headers={"host": host}).status_code == 200


def test_a_server_for_others_takes_addresses_and_no_foreign_names(shelf: Shelf) -> None:
    gate = make_gate(shelf, TOKEN, hosts={"lab7"}, any_address=True)
    client = TestClient(gate, base_url="http://10.0.0.7:8000")
    assert client.get(f"/{TOKEN}/").status_code == 200
    assert client.get(f"/{TOKEN}/", headers={"host": "lab7:8000"}).status_code == 200
    assert client.get(f"/{TOKEN}/", headers={"host": "evil.example"}).status_code == 404


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1:8000", "http://127.0.0.1:8001"])
def test_pages_of_others_get_no_answer(client: TestClient, origin: str) -> None:
    assert client.get(f"/{TOKEN}/api/datasets", headers={"origin": origin}).status_code == 403


def test_own_pages_and_visits_are_answered(client: TestClient) -> None:
    own = {"origin": "http://127.0.0.1:8000", "sec-fetch-site": "same-origin"}
    visit = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    embedded = {**visit, "sec-fetch-dest": "iframe"}
    image = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
    answers = [client.get(f"/{TOKEN}/", headers=headers).status_code for headers in (own, visit, embedded, image)]
    assert answers == [200, 200, 403, 403]


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_other_methods_are_refused(client: TestClient, method: str) -> None:
    assert client.request(method, f"/{TOKEN}/").status_code == 405


def test_only_short_json_is_taken(client: TestClient) -> None:
    path = f"/{TOKEN}/api/datasets"
    assert client.post(path, content="x", headers={"content-type": "text/plain"}).status_code == 415
    assert client.post(path, json={"x": "y" * 70_000}).status_code == 413
    assert client.post(path, json={}).status_code == 405  # nothing is posted there
    assert client.get(path, params={"x": "y" * 20_000}).status_code == 414


@pytest.mark.parametrize("path", ["", "app.js", "api/datasets", "picture/thumbnail/0/0", "api/nothing"])
def test_every_answer_has_the_headers(client: TestClient, path: str) -> None:
    headers = client.get(f"/{TOKEN}/{path}").headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize(
    "path", ["../../etc/passwd", "%2e%2e/%2e%2e/etc/passwd", "pages/../app.py", "pages/%2e%2e/%2e%2e/app.py"]
)
def test_no_other_file_is_served(client: TestClient, path: str) -> None:
    answer = client.get(f"/{TOKEN}/{path}")
    assert answer.status_code == 404
    assert "def " not in answer.text


def test_a_ticket_leads_to_the_page_once(shelf: Shelf) -> None:
    gate = make_gate(shelf, TOKEN, hosts={"127.0.0.1"}, any_address=False)
    gate.add_ticket("ticket")
    client = TestClient(gate, base_url="http://127.0.0.1", follow_redirects=False)
    answer = client.get("/ticket/")
    assert (answer.status_code, answer.headers["location"]) == (303, f"/{TOKEN}/")
    assert client.get("/ticket/").status_code == 404


@pytest.mark.parametrize("d", ["1", "-1", "x", "99999999999", "0x0", "²"])
def test_datasets_that_are_not_there(client: TestClient, d: str) -> None:
    answer = client.get(f"/{TOKEN}/picture/thumbnail/{d}/0")
    assert answer.status_code in (400, 404)
    assert "dataset" in answer.json()["error"]


def test_a_thumbnail(client: TestClient) -> None:
    answer = client.get(f"/{TOKEN}/picture/thumbnail/0/2")
    assert answer.headers["content-type"] == "image/png"
    assert answer.headers["x-sides"] == "6x4"
    assert client.get(f"/{TOKEN}/picture/thumbnail/0/3").status_code == 400
    assert client.get(f"/{TOKEN}/picture/thumbnail/0/0?field=nope").status_code == 404
    assert client.get(f"/{TOKEN}/picture/thumbnail/0/0?side=100000").status_code == 400
