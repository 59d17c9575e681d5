"""Annexes of objects: made as objects beside them, found when the object is opened, by few requests."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.remote.fault_proxy import Fault, FaultProxy

import headrace as hr
from headrace.cli.main import main
from headrace.codecs import jpeg
from headrace.errors import ChangedError, RefusedError
from headrace.formats.spans.span_file import SpanFile

if TYPE_CHECKING:
    from pathlib import Path

    from tests.remote.conftest import Bucket
    from tests.remote.rclone_server import RcloneServer

PICTURES = [jpeg.encode(np.random.default_rng(i).integers(0, 255, (64, 64, 3), np.uint8)) for i in range(20)]
FIELDS = {"image": hr.Image(mode="jpg"), "label": hr.Int()}
LARGE_BYTES = 80 << 20


@pytest.fixture(autouse=True)
def folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Nothing may stay in the temporary folder."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    yield temporary
    assert os.listdir(temporary) == []


def put(bucket: Bucket, name: str, **options: object) -> str:
    hr.write(bucket.folder / name, list(zip(PICTURES, range(20), strict=True)), fields=FIELDS, **options)
    return bucket.url(name)


@pytest.mark.parametrize("name", ["x.beton", "x.tar", "x.tfrecord", "x.rec", "x.parquet", "x.arrow", "x.npz", "x.zip"])
def test_the_annex_is_the_one_that_is_made_here(bucket: Bucket, tmp_path: Path, name: str) -> None:
    url = put(bucket, name, **({} if name in ("x.parquet", "x.arrow", "x.npz") else {"annex": False}))
    data = (bucket.folder / name).read_bytes()
    (tmp_path / name).write_bytes(data)
    if (bucket.folder / f"{name[:-3]}idx").exists():
        (tmp_path / "x.idx").write_bytes((bucket.folder / "x.idx").read_bytes())
    hr.index(tmp_path / name)
    assert hr.index(url, storage_options=bucket.storage_options) == f"{url}.annex"
    assert (bucket.folder / f"{name}.annex").read_bytes() == (tmp_path / f"{name}.annex").read_bytes()
    assert (bucket.folder / name).read_bytes() == data
    with hr.open(url, storage_options=bucket.storage_options) as dataset:
        assert dataset.has_checksums
        assert [int(sample[1]) for sample in dataset] == list(range(20))
    assert hr.verify(url, storage_options=bucket.storage_options).checksums_checked > 0


def test_opening_uses_the_annex(bucket: Bucket, proxy: FaultProxy) -> None:
    url = put(bucket, "x.tar", annex=False)
    hr.index(url, storage_options=bucket.storage_options)
    proxy.clear()
    with hr.open(url, storage_options=bucket.storage_options) as dataset:
        assert len(dataset) == 20
    assert next(one.status for one in proxy.exchanges("x.tar.annex", ("GET",))) == 206


def test_a_set_by_the_command(bucket: Bucket, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    for name, value in bucket.environment.items():
        monkeypatch.setenv(name, value)
    for number in range(3):
        put(bucket, f"x-{number}.tar", annex=False)
    assert main(["index", bucket.url("x-*.tar")]) == 0
    assert f"the annex is in {bucket.url('x-2.tar.annex')}" in capsys.readouterr().out
    assert sorted(path.name for path in bucket.folder.glob("*.annex")) == [f"x-{i}.tar.annex" for i in range(3)]
    assert main(["index", bucket.url("x-0.tar"), "--embed"]) == 2
    assert "is in a store, where objects are written whole and not changed" in capsys.readouterr().err


def test_a_store_that_refuses_leaves_nothing(bucket: Bucket, proxy: FaultProxy) -> None:
    url = put(bucket, "x.tar", annex=False)
    proxy.add(Fault(match=".annex", methods=("PUT",), status=403, code="AccessDenied"))
    with pytest.raises(
        RefusedError, match=r"x\.tar\.annex: .*does not let us in.*headrace index FILE makes FILE.annex"
    ):
        hr.index(url, storage_options=bucket.storage_options)
    assert [path.name for path in bucket.folder.iterdir()] == ["x.tar"]


def test_a_web_server_takes_nothing(bucket: Bucket, web: RcloneServer) -> None:
    put(bucket, "x.tar", annex=False)
    with pytest.raises(ValueError, match=r"nothing can be written to http://; make the annex of a copy"):
        hr.index(f"{web.url}/{bucket.name}/x.tar")


def test_an_object_that_is_replaced_meanwhile_gets_no_annex(bucket: Bucket, proxy: FaultProxy) -> None:
    path = bucket.folder / "x.beton"
    url = put(bucket, "x.beton", annex=False)

    def replace() -> None:
        path.write_bytes(path.read_bytes()[::-1])

    proxy.add(Fault(match="/x.beton", after=1, times=1, then=replace))
    with pytest.raises(ChangedError, match="it was replaced"):
        hr.index(url, storage_options=bucket.storage_options)
    assert not (bucket.folder / "x.beton.annex").exists()


@pytest.fixture
def large(bucket: Bucket) -> str:
    """A tar that is so large that it is not fetched as a whole."""
    rng = np.random.default_rng(0)
    size = LARGE_BYTES // 40
    hr.write(bucket.folder / "large.tar", [rng.bytes(size) for _ in range(40)], fields={"data": hr.Bytes()})
    return bucket.url("large.tar")


def test_a_large_object_is_opened_by_few_requests(bucket: Bucket, proxy: FaultProxy, large: str) -> None:
    with hr.open(large, storage_options=bucket.storage_options) as dataset:
        asked = len(proxy.exchanges("large.tar"))
        with hr.open(bucket.folder / "large.tar") as here:
            assert dataset.fingerprint == here.fingerprint
            assert dataset[7].data == here[7].data
    assert asked <= 10
    assert SpanFile(bucket.folder / "large.tar").fingerprint_steps.shape == (66,)


@pytest.mark.parametrize("place", [0.2, 0.999])
def test_a_large_object_with_other_bytes_is_noticed(bucket: Bucket, large: str, place: float) -> None:
    path = bucket.folder / "large.tar"
    spans = SpanFile(path)._fingerprint_spans()[0]
    at = int(spans[14]) if place < 0.5 else path.stat().st_size - 1000
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(b"other bytes")
    with (
        pytest.warns(RuntimeWarning, match="annex is not used: the annex belongs to another dataset"),
        hr.open(large, storage_options=bucket.storage_options) as dataset,
    ):
        assert len(dataset) == 40
