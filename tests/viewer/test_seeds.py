"""What the model sees, and the batches of a loader: what the server says."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image as Pillow
from starlette.testclient import TestClient
from tests.helpers import Surgeon, image_file
from tests.viewer.datasets import COUNT, photo, write_mixed

import headrace as hr
from headrace import ops
from headrace.viewer.app import make_app
from headrace.viewer.recipes import RECIPES
from headrace.viewer.shelf import Shelf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Client = Callable[..., TestClient]

NORMALIZE = ops.Normalize((120, 110, 100), (60, 50, 40), "float32")


@pytest.fixture(scope="session")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_mixed(tmp_path_factory.mktemp("seeds") / "x.beton")


@pytest.fixture
def client() -> Iterator[Client]:
    shelves = []

    def make(*targets: Any) -> TestClient:
        shelves.append(Shelf.of(one if isinstance(one, hr.Loader) else hr.open(one) for one in targets))
        return TestClient(make_app(shelves[-1], "token"), base_url="http://127.0.0.1/token/")

    yield make
    for shelf in shelves:
        shelf.close()


def ask(client: TestClient, path: str, **params: Any) -> Any:
    answer = client.get(path, params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


def pixels(client: TestClient, key: str) -> np.ndarray:
    answer = client.get("picture/made", params={"key": key})
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/png")
    return np.asarray(Pillow.open(io.BytesIO(answer.content)))


@pytest.mark.parametrize("name", list(RECIPES))
def test_every_recipe_shows_sixteen_seeds(path: Path, client: Client, name: str) -> None:
    one = client(path)
    found = ask(one, "api/seeds", i=3, recipe=name)
    assert [tile["seed"] for tile in found["tiles"]] == list(range(16))
    assert [tile["error"] for tile in found["tiles"]] == [None] * 16
    assert found["originals"] == [{"field": "image", "stored": "image", "width": 320, "height": 240}]
    assert all(line.startswith("ops.") for line in found["code"])
    first = found["tiles"][0]["outputs"][0]["picture"]
    side = 32 if name == "small" else 224
    assert pixels(one, first).shape == (side, side, 3)
    windows = {tuple(tile["windows"][0].items()) for tile in found["tiles"]}
    assert len(windows) == 1 if name == "evaluation" else len(windows) > 10


def test_what_is_shown_is_what_a_loader_gives(path: Path, client: Client) -> None:
    one = client(path)
    found = ask(one, "api/seeds", i=3, recipe="crop", size=40, scale=0.3, flip=1, seed=5, count=2)
    pipeline = [ops.RandomResizedCrop(40, scale=(0.3, 1.0)), ops.RandomHorizontalFlip(1)]
    for tile, seed in zip(found["tiles"], (5, 6), strict=True):
        loader = hr.Loader(path, 1, seed=seed, pipelines={"image": pipeline})
        assert np.array_equal(pixels(one, tile["outputs"][0]["picture"]), loader[3].image[0])
        assert tile["windows"][0]["is_flipped"]


def test_epochs_of_one_seed(path: Path, client: Client) -> None:
    found = ask(client(path), "api/seeds", by="epoch", seed=7, epoch=2, count=3)
    assert [(tile["seed"], tile["epoch"]) for tile in found["tiles"]] == [(7, 2), (7, 3), (7, 4)]


def test_recipes_are_listed_with_their_parameters(path: Path, client: Client) -> None:
    found = ask(client(path), "api/recipes")
    assert [one["name"] for one in found["recipes"]] == list(RECIPES)
    assert found["fields"] == ["image"]
    for recipe in found["recipes"]:
        for one in recipe["parameters"]:
            assert one["least"] <= one["default"] <= one["most"]
    loader = hr.Loader(path, 4)
    assert ask(client(loader), "api/recipes")["recipes"][0]["name"] == "own"


def test_the_extremes_of_all_parameters_work(path: Path, client: Client) -> None:
    one = client(path)
    for recipe in RECIPES.values():
        for which in ("least", "most"):
            values = {part.name: getattr(part, which) for part in recipe.parameters}
            found = ask(one, "api/seeds", recipe=recipe.name, count=1, **values)
            (tile,) = found["tiles"]
            assert tile["error"] is None or "larger than" in tile["error"] or "does not fit" in tile["error"]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("recipe=none", 404),
        ("recipe=own", 404),
        ("recipe=crop&size=100000", 400),
        ("recipe=crop&size=nan", 400),
        ("recipe=crop&scale=x", 400),
        ("i=99999", 400),
        ("count=1000", 400),
        ("seed=-1", 400),
    ],
)
def test_wrong_requests(path: Path, client: Client, query: str, status: int) -> None:
    answer = client(path).get(f"api/seeds?{query}")
    assert (answer.status_code, set(answer.json())) == (status, {"error"})


def test_pictures_that_no_loader_decodes(tmp_path: Path, client: Client) -> None:
    hr.write(tmp_path / "n.beton", [(image_file(photo(1), "JPEG"),)], fields={"file": hr.Bytes()})
    found = ask(client(tmp_path / "n.beton"), "api/recipes")
    assert found["recipes"] == []
    assert "values that a loader does not decode by itself" in found["why_none"]


def test_a_dataset_without_pictures(tmp_path: Path, client: Client) -> None:
    hr.write(tmp_path / "n.beton", range(5), fields={"n": hr.Int()})
    one = client(tmp_path / "n.beton")
    found = ask(one, "api/recipes")
    assert (found["recipes"], found["fields"]) == ([], [])
    assert "No field of this dataset has pictures" in found["why_none"]
    assert one.get("api/seeds").status_code == 400


def test_a_damaged_sample_is_an_error_of_its_tiles(path: Path, tmp_path: Path, client: Client) -> None:
    surgeon = Surgeon(path)
    surgeon.put(hr.open(path).place_of(3, "image").offset, bytes(4))
    found = ask(client(surgeon.save(tmp_path / "bad.beton")), "api/seeds", i=3)
    assert all("checksum" in tile["error"] for tile in found["tiles"])


def test_ops_of_the_user_may_raise_anything(path: Path, client: Client) -> None:
    class Odd(Exception):
        pass

    def fails(values: Any) -> Any:
        raise Odd("no luck with <b>this</b>")

    loader = hr.Loader(path, 4, pipelines={"image": [ops.CenterCrop(16)], "label": [ops.Apply(fails)]})
    one = client(loader)
    assert ask(one, "api/seeds", count=1)["tiles"][0]["error"] == "no luck with <b>this</b>"
    answer = one.get("api/batch")
    assert (answer.status_code, answer.json()["error"]) == (400, "no luck with <b>this</b>")


def test_an_own_pipeline_is_shown_as_it_is(path: Path, client: Client) -> None:
    pipelines = {"image": [ops.RandomResizedCrop(32), NORMALIZE, ops.ToLayout("NCHW")], "label": [ops.OneHot(3)]}
    loader = hr.Loader(path, 4, seed=9, pipelines=pipelines)
    one = client(loader)
    found = ask(one, "api/seeds", i=1)
    tile = found["tiles"][0]
    assert tile["seed"] == 9
    image, label = tile["outputs"][:2]
    assert (image["text"], image["note"]) == ("float32, 3 x 32 x 32", "normalization undone")
    assert label["text"].startswith("float32, 3: 0, 1, 0")
    expected = hr.Loader(path, 1, seed=9, pipelines={"image": [ops.RandomResizedCrop(32)]})[1].image[0]
    assert np.abs(pixels(one, image["picture"]).astype(int) - expected).max() <= 1
    assert any("normalize" in line for line in found["plan"])


# Batches


def test_the_batches_that_come_next(path: Path, client: Client) -> None:
    loader = hr.Loader(path, 5, order="random", seed=2, drop_last=False, pipelines={"image": [ops.Resize(16)]})
    one, steps = client(loader), iter(loader)
    next(steps)
    state = loader.state_dict()
    found = ask(one, "api/batch")
    assert (found["epoch"], found["step"], found["steps"], found["size"]) == (0, 1, 3, 5)
    assert loader.state_dict() == state
    batch = next(steps)
    for position, sample in enumerate(found["samples"]):
        shown = {output["name"]: output for output in sample["outputs"]}
        assert np.array_equal(pixels(one, shown["image"]["picture"]), batch.image[position])
        assert shown["label"]["text"].startswith(str(batch.label[position]))
        assert sample["name"] == f"pictures/{sample['index']}.jpg"
    assert ask(one, "api/batch", epoch=4, step=2)["size"] == 2
    assert one.get("api/batch?step=3").status_code == 400


def test_what_a_loader_does_and_how_long_it_takes(path: Path, client: Client) -> None:
    loader = hr.Loader(path, 5, pipelines={"image": [ops.Resize(16)], "label": [ops.Apply(lambda values: values + 1)]})
    one = client(loader)
    before = ask(one, "api/loader")
    assert (before["epoch"], before["step"], before["stats"]["batches"]) == (0, 0, 0)
    assert before["stats"]["stages"] == []
    for _ in loader:
        pass
    found = ask(one, "api/loader")
    assert (found["epoch"], found["step"], found["steps"]) == (1, 0, 2)
    assert found["stats"]["samples"] == 10
    assert {"read", "decode", "resize"} <= {stage["name"] for stage in found["stats"]["stages"]}
    assert any(stage["name"].startswith("python: ") for stage in found["stats"]["stages"])
    assert found["plan"] == loader.plan().splitlines()
    assert ask(one, "api/datasets")["datasets"][0]["has_loader"]


def test_without_a_loader(path: Path, client: Client) -> None:
    one = client(path)
    assert not ask(one, "api/datasets")["datasets"][0]["has_loader"]
    for place in ("api/loader", "api/batch"):
        answer = one.get(place)
        assert (answer.status_code, "loader.view()" in answer.json()["error"]) == (404, True)


def test_a_loader_without_batches(path: Path, client: Client) -> None:
    with pytest.warns(UserWarning, match="no batches"):
        loader = hr.Loader(path, COUNT + 1)
    answer = client(loader).get("api/batch")
    assert (answer.status_code, "no batches" in answer.json()["error"]) == (404, True)


def test_loader_view_serves_until_it_is_closed(path: Path) -> None:
    import urllib.error
    import urllib.request

    loader = hr.Loader(path, 4)
    with loader.view(browser=False) as viewing:
        with urllib.request.urlopen(f"{viewing.url}api/loader", timeout=20) as answer:
            assert answer.status == 200
        assert viewing.url.startswith("http://127.0.0.1:")
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"{viewing.url}api/loader", timeout=5)
    viewing.close()
    assert next(iter(loader)).label.tolist() == [0, 1, 2, 0]
