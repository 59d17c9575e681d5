"""The page of one sample: what the server says."""

from __future__ import annotations

import io
import json
import tarfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from starlette.testclient import TestClient
from tests.helpers import Surgeon, image_file, patch_jpeg_frame, picture, png_by_hand
from tests.viewer.datasets import COUNT, write_mixed

import headrace as hr
from headrace.viewer.app import make_app
from headrace.viewer.shelf import Shelf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Client = Callable[..., TestClient]


@pytest.fixture
def client() -> Iterator[Client]:
    shelves = []

    def make(*targets: Any) -> TestClient:
        shelves.append(Shelf.of(hr.open(one) if not isinstance(one, hr.Loader) else one for one in targets))
        return TestClient(make_app(shelves[-1], "token"), base_url="http://127.0.0.1/token/")

    yield make
    for shelf in shelves:
        shelf.close()


def sample(client: TestClient, **params: Any) -> Any:
    answer = client.get("api/sample", params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


def fields(found: Any) -> dict[str, Any]:
    return {field["name"]: field for field in found["fields"]}


def test_every_field_in_its_own_way(tmp_path: Path, client: Client) -> None:
    found = sample(client(write_mixed(tmp_path / "x.beton")), i=2)
    assert (found["index"], found["samples"], found["name"], found["damage"]) == (2, COUNT, "pictures/2.jpg", None)
    kinds = {name: field["value"]["as"] for name, field in fields(found).items()}
    assert kinds == {
        "image": "picture",
        "label": "number",
        "score": "number",
        "note": "text",
        "about": "tree",
        "curve": "array",
        "depth": "array",
        "blob": "bytes",
    }
    assert fields(found)["label"]["value"]["class"] == "owl"
    assert {field["checksum"] for field in found["fields"]} == {"right"}
    assert all(field["place"]["size_bytes"] > 0 for field in found["fields"])


def test_facts_of_a_jpeg_and_its_tiles(tmp_path: Path, client: Client) -> None:
    found = fields(sample(client(write_mixed(tmp_path / "x.beton")), i=1))["image"]["value"]
    assert (found["format"], found["width"], found["height"]) == ("JPEG", 320, 240)
    facts = found["jpeg"]
    assert (facts["sampling"], facts["quality"], facts["mcu"], facts["restart_interval"]) == ("4:2:0", 88, [16, 16], 0)
    assert not facts["is_progressive"]
    tiles = found["tiles"]
    assert (tiles["is_indexed"], tiles["width"], tiles["height"], tiles["problem"]) == (True, 128, 16, None)
    assert tiles["tiles"] == 3 * 15


def test_a_jpeg_without_an_index_says_what_to_do(tmp_path: Path, client: Client) -> None:
    for i, progressive in enumerate((False, True)):
        (tmp_path / f"{i}.jpg").write_bytes(image_file(picture(0, 40, 60), "JPEG", progressive=progressive))
    first, second = (fields(sample(client(tmp_path), i=i))["image"] for i in range(2))
    assert first["value"]["tiles"]["why_not"] == "make one with: headrace index"
    assert "progressive" in second["value"]["tiles"]["why_not"]
    assert first["checksum"] == "none"
    assert second["value"]["jpeg"]["is_progressive"]


def test_the_picture_is_what_is_stored(tmp_path: Path, client: Client) -> None:
    path = write_mixed(tmp_path / "x.beton")
    answer = client(path).get("picture/sample", params={"i": 1, "field": "image"})
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/jpeg")
    assert answer.content == hr.open(path).read_bytes([1], "image")[0]
    array = client(path).get("picture/sample", params={"i": 1, "field": "depth"})
    assert (array.status_code, array.headers["content-type"]) == (200, "image/png")


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "BMP", "GIF", "TIFF"])
def test_pictures_of_other_kinds(tmp_path: Path, client: Client, kind: str) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / f"x.{kind.lower()}").write_bytes(image_file(picture(3, 20, 30), kind))
    ask = client(tmp_path)
    found = fields(sample(ask))["image"]
    assert found["value"]["format"].lower() == kind.lower()
    assert (found["value"]["width"], found["value"]["height"], found["error"]) == (30, 20, None)
    assert ask.get("picture/sample", params={"field": "image"}).headers["content-type"].startswith("image/")


def test_sixteen_bits_are_shown_and_said_to_be_no_picture_for_a_loader(tmp_path: Path, client: Client) -> None:
    deep = np.arange(600, dtype=np.uint16).reshape(20, 30) * 100
    (tmp_path / "x.png").write_bytes(png_by_hand(deep, 0))
    ask = client(tmp_path)
    assert "more than 8 bits" in fields(sample(ask))["image"]["error"]
    assert ask.get("picture/sample", params={"field": "image"}).status_code == 200


def test_damage_is_told_and_the_rest_is_shown(tmp_path: Path, client: Client) -> None:
    path = write_mixed(tmp_path / "x.beton")
    surgeon, dataset = Surgeon(path), hr.open(path)
    surgeon.flip(dataset.place_of(2, "image").offset + 2000)
    surgeon.flip(dataset.place_of(2, "note").offset)
    bad = surgeon.save(tmp_path / "bad.beton")
    ask = client(bad)
    found = sample(ask, i=2)
    named = fields(found)
    assert (named["image"]["checksum"], named["note"]["checksum"]) == ("wrong", "wrong")
    assert "checksum" in named["image"]["error"]
    assert named["image"]["value"]["jpeg"]["quality"] == 88
    assert named["label"]["value"]["text"] == "2"
    assert named["note"]["value"]["as"] == "text"
    assert "checksum" in found["damage"]
    assert ask.get("picture/sample", params={"i": 2, "field": "image"}).status_code == 200
    assert sample(ask, i=1)["damage"] is None


def test_a_picture_that_cannot_be_decoded(tmp_path: Path, client: Client) -> None:
    (tmp_path / "a.jpg").write_bytes(image_file(picture(0, 40, 60), "JPEG")[:600])
    (tmp_path / "b.png").write_bytes(b"no picture")
    found = [fields(sample(client(tmp_path), i=i))["image"] for i in range(2)]
    assert all(field["error"] for field in found)
    assert client(tmp_path).get("picture/sample", params={"i": 1, "field": "image"}).status_code == 400


def test_gigantic_pictures_are_not_decoded(tmp_path: Path, client: Client) -> None:
    data = patch_jpeg_frame(image_file(picture(0, 40, 60), "JPEG"), width=60_000, height=60_000)
    (tmp_path / "x.jpg").write_bytes(data)
    ask = client(tmp_path)
    found = fields(sample(ask))["image"]
    assert found["error"] == "the picture has 60,000 x 60,000 pixels, and at most 67,108,864 are shown"
    assert not found["value"]["can_show"]
    answer = ask.get("picture/sample", params={"field": "image"})
    assert (answer.status_code, "60,000 x 60,000" in answer.json()["error"]) == (400, True)


def test_json_that_is_a_bomb(tmp_path: Path, client: Client) -> None:
    values = ["[" * 100_000, json.dumps([0] * 3_000_000), json.dumps({"a": {"b": "<script>alert(1)</script>"}})]
    with tarfile.open(tmp_path / "x.tar", "w") as tar:
        for i, value in enumerate(values):
            info = tarfile.TarInfo(f"{i}.json")
            info.size = len(value)
            tar.addfile(info, io.BytesIO(value.encode()))
    ask = client(tmp_path / "x.tar")
    assert [field["kind"] for field in sample(ask)["fields"]] == ["json"]
    assert fields(sample(ask, i=0))["json"]["error"]
    assert fields(sample(ask, i=1))["json"]["value"]["as"] == "text"
    assert fields(sample(ask, i=2))["json"]["value"]["as"] == "tree"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("api/sample?i=-1", 400),
        ("api/sample?i=99999", 400),
        ("api/sample?i=x", 400),
        ("api/sample?d=7", 404),
        ("picture/sample?field=none", 404),
        ("picture/sample?field=label", 400),
        ("picture/sample?field=../../etc/passwd", 404),
        ("picture/sample?field=blob", 400),
    ],
)
def test_wrong_requests(tmp_path: Path, client: Client, path: str, status: int) -> None:
    answer = client(write_mixed(tmp_path / "x.beton")).get(path)
    assert answer.status_code == status
    assert set(answer.json()) == {"error"}


def test_samples_of_parts_say_where_they_come_from(tmp_path: Path, client: Client) -> None:
    write_mixed(tmp_path / "a.beton")
    write_mixed(tmp_path / "b.beton")
    found = sample(client(str(tmp_path / "*.beton")), i=COUNT + 1)
    assert found["origin"] == {"path": str(tmp_path / "b.beton"), "index": 1}
    assert fields(found)["image"]["place"]["path"] == str(tmp_path / "b.beton")


def test_neighbours_among_those_of_the_grid(tmp_path: Path, client: Client) -> None:
    ask = client(write_mixed(tmp_path / "x.beton"))

    def neighbours(**params: Any) -> Any:
        for _ in range(200):
            found = ask.get("api/sample/neighbours", params=params).json()
            if found.get("state") != "working":
                return found["place"], found["count"], found["previous"], found["next"]
        raise AssertionError("the search does not end")

    assert neighbours(i=4) == (4, COUNT, 3, 5)
    assert neighbours(i=0) == (0, COUNT, None, 1)
    assert neighbours(i=COUNT - 1) == (COUNT - 1, COUNT, COUNT - 2, None)
    assert neighbours(i=5, **{"class": "2"}) == (1, 4, 2, 8)
    assert neighbours(i=4, **{"class": "2"}) == (None, 4, None, 2)
    assert neighbours(i=5, sort="-index") == (COUNT - 6, COUNT, 6, 4)
    assert ask.get("api/sample/neighbours?i=5&sort=none").status_code == 400
