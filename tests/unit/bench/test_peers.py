"""Every loader that is installed: it writes its files, gives all photographs in batches, and decodes them well."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from headrace.bench.child import Child, ChildError
from headrace.bench.peers.contender import Place
from headrace.bench.peers.pillow_crop import PillowCrop, draw_box, resized_crop
from headrace.bench.pictures import photo, photograph_bytes
from headrace.bench.suites.loader import PEERS
from headrace.codecs import jpeg

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.bench.peers.peer import Peer

COUNT, SIDE = 48, 112


@pytest.mark.slow
@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_a_loader_gives_what_it_should(peer: Peer, tmp_path: Path) -> None:
    if reason := peer.missing():
        pytest.skip(reason)
    home, ours = tmp_path / "home", tmp_path / "headrace"
    for folder in (tmp_path / "photographs", home, ours):
        folder.mkdir(exist_ok=True)
    photographs = photograph_bytes(None, COUNT)
    for number, data in enumerate(photographs):
        (tmp_path / "photographs" / f"{number:08d}.jpg").write_bytes(data)
    place = Place(photographs=str(tmp_path / "photographs"), folder=str(home), workers=2, batch=16, side=SIDE)
    with Child(PEERS[0].command(replace(place, folder=str(ours)))) as child:  # FFCV reads the same .beton
        child.ask({"do": "write"})
    place = replace(place, folder=str(ours)) if peer.is_ffcv else place
    with Child(peer.command(place)) as child:
        try:
            if not peer.is_ffcv:
                child.ask({"do": "write"})
        except ChildError as error:
            if "ModuleNotFoundError" in str(error):
                pytest.skip(f"a package of its own is missing: {error}")
            raise
        answers = [child.ask({"do": "epoch"}) for _ in range(2)]
        told = child.ask({"do": "check", "count": 4, "out": str(home / "checked.npy")})
    assert [answer["images"] for answer in answers] == [COUNT, COUNT]
    assert {answer["dtype"] for answer in answers} == {"uint8"}
    found = np.load(home / "checked.npy").astype(float)
    assert found.shape == (4, SIDE, SIDE, 3)
    if not told.get("is_square"):
        expected = np.stack([resized_crop(data, SIDE, None) for data in photographs[:4]])
        assert np.abs(found - expected).mean() < 4


def test_packages_that_are_stood_in_for_can_be_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    from headrace.bench.peers import torch_loaders

    (tmp_path / "streaming.py").write_text(
        "from importlib.util import find_spec\n"
        "import torchvision.transforms.functional\n"
        "FOUND = find_spec('torchvision'), find_spec('torchvision.datasets')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("streaming", *torch_loaders._UNUSED):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(torch_loaders, "is_there", lambda name: False)
    assert None not in torch_loaders.import_streaming().FOUND
    assert "torchvision" not in sys.modules
    monkeypatch.delitem(sys.modules, "streaming")


def test_crops_by_pillow() -> None:
    rng = np.random.default_rng(0)
    boxes = [draw_box(300, 200, rng) for _ in range(200)]
    assert all(x >= 0 and y >= 0 and x + w <= 300 and y + h <= 200 for x, y, w, h in boxes)
    shares = [w * h / 60_000 for _, _, w, h in boxes]
    assert 0.07 < min(shares) < 0.2
    assert max(shares) > 0.8
    assert draw_box(1000, 1, rng) == (0, 0, 1000, 1)  # no box of that shape fits
    data = jpeg.encode(photo(0), quality=90)
    assert PillowCrop(SIDE)(data).shape == (3, SIDE, SIDE)
    assert not np.array_equal(PillowCrop(SIDE)(data), resized_crop(data, SIDE, None).transpose(2, 0, 1))
