"""The viewer of a dataset that lies in an object store: each page fetches what it shows, and not the whole object."""

from __future__ import annotations

import json
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest
from tests.helpers import picture
from tests.range_server import serve_ranges

import headrace as hr

if TYPE_CHECKING:
    from pathlib import Path

COUNT = 60


def asked(url: str) -> Any:
    with urllib.request.urlopen(url) as answer:
        return json.loads(answer.read())


@pytest.mark.parametrize("ending", ["beton", "tar", "tfrecord", "parquet"])
def test_pages_of_a_url(tmp_path: Path, ending: str) -> None:
    pytest.importorskip("obstore")
    rows = [(picture(i, 60, 80), i % 3) for i in range(COUNT)]
    hr.write(tmp_path / f"x.{ending}", rows, fields={"image": hr.Image(mode="jpg"), "label": hr.Int()})
    with serve_ranges(tmp_path) as server, hr.view(server.url_of(f"x.{ending}"), browser=False) as viewer:
        (item,) = asked(f"{viewer.url}api/datasets")["datasets"]
        assert item["samples"] == COUNT
        assert asked(f"{viewer.url}api/overview?d=0")
        found = asked(f"{viewer.url}api/grid/rows?d=0&start=50&count=10")
        assert found["count"] == COUNT
        assert len(found["rows"]) == 10
        with urllib.request.urlopen(f"{viewer.url}picture/thumbnails?d=0&i=50,51&side=128") as answer:
            pack = answer.read()
        about = json.loads(pack[4 : 4 + int.from_bytes(pack[:4], "little")])
        assert [(one["i"], one["width"], one["height"]) for one in about] == [(50, 80, 60), (51, 80, 60)]
        assert asked(f"{viewer.url}api/sample?d=0&i=51")
        assert asked(f"{viewer.url}api/seeds?d=0&i=51")["tiles"]
