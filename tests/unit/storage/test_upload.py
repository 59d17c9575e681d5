"""Files into objects: in parts, proven, and nothing left when it fails."""

from __future__ import annotations

import hashlib
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest

from headrace.errors import RemoteError
from headrace.storage import upload as upload_module
from headrace.storage.upload import Upload, part_bytes_of, parts_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

obstore_store = pytest.importorskip("obstore.store", reason="needs the package obstore")

PART = 1 << 20


class Store:
    """A store in memory that can be told what its ETags are, and what goes wrong."""

    def __init__(self, tag: Callable[[bytes], str | None] = lambda data: None) -> None:
        self.inner = obstore_store.MemoryStore()
        self.tag = tag
        self.asked: list[str] = []
        self.on_put: Callable[[], None] = lambda: None

    def put(self, key: str, data: Any, **options: Any) -> Any:
        self.asked.append("put")
        self.on_put()
        return self.inner.put(key, data, **options)

    def head(self, key: str) -> dict[str, Any]:
        self.asked.append("head")
        data = bytes(self.inner.get(key).bytes())
        return {**self.inner.head(key), "e_tag": self.tag(data)}

    def get_range(self, key: str, *, start: int, length: int) -> Any:
        self.asked.append("get_range")
        return self.inner.get_range(key, start=start, length=length)

    def delete(self, key: str) -> None:
        self.inner.delete(key)

    def names(self) -> list[str]:
        return [one["path"] for block in self.inner.list() for one in block]


def md5(data: bytes) -> str:
    return f'"{hashlib.md5(data).hexdigest()}"'


def md5_of_parts(data: bytes) -> str:
    sums = [hashlib.md5(data[start : start + PART]).digest() for start in range(0, len(data), PART)]
    return f'"{hashlib.md5(b"".join(sums)).hexdigest()}-{len(sums)}"'


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload_module, "_PART_BYTES", PART)
    monkeypatch.setattr(upload_module, "_DRAIN_S", 0.1)  # a store in memory keeps the parts


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "x"
    path.write_bytes(os.urandom(3 * PART + 17))
    return path


def test_parts_are_as_many_as_stores_take() -> None:
    for size in (0, 1, PART, 10 * PART, 1 << 40, 5 << 40):
        assert parts_of(size) == max(1, -(-size // part_bytes_of(size)))
        assert parts_of(size) <= 10_000


@pytest.mark.parametrize("size", [0, 1, PART, PART + 1, 5 * PART])
@pytest.mark.parametrize("tag", [md5, md5_of_parts, lambda data: "opaque", lambda data: None])
def test_what_arrives_is_what_was_sent(tmp_path: Path, size: int, tag: Callable[[bytes], str]) -> None:
    path = tmp_path / "x"
    path.write_bytes(os.urandom(size))
    store = Store(tag)
    Upload(store, "a/x", "s3://b/a/x", path).send()
    assert bytes(store.inner.get("a/x").bytes()) == path.read_bytes()


@pytest.mark.parametrize("tag", [md5, md5_of_parts])
def test_an_etag_that_is_an_md5_saves_reading_back(file: Path, tag: Callable[[bytes], str]) -> None:
    store = Store(tag)
    Upload(store, "x", "s3://b/x", file).send()
    assert store.asked == ["put", "head"]


@pytest.mark.parametrize("tag", ["opaque", "0" * 32, "0" * 32 + "-4", "0" * 32 + "-9", None])
def test_any_other_etag_leads_to_reading_back(file: Path, tag: str | None) -> None:
    store = Store(lambda data: tag)
    Upload(store, "x", "s3://b/x", file).send()
    assert store.asked.count("get_range") == 4


class Damaging(Store):
    """Stores another byte than was sent, or one less."""

    def __init__(self, tag: Callable[[bytes], str | None], is_cut: bool) -> None:
        super().__init__(tag)
        self.is_cut = is_cut

    def put(self, key: str, data: Any, **options: Any) -> Any:
        whole = bytearray(b"".join(bytes(piece) for piece in data))
        whole[PART] ^= 1
        return self.inner.put(key, bytes(whole[:-1] if self.is_cut else whole))


@pytest.mark.parametrize("tag", [md5, md5_of_parts, lambda data: "opaque"])
@pytest.mark.parametrize("is_cut", [False, True])
def test_damage_on_the_way_is_noticed(file: Path, tag: Callable[[bytes], str], is_cut: bool) -> None:
    upload = Upload(Damaging(tag, is_cut), "x", "s3://b/x", file)
    with pytest.raises(RemoteError, match=r"s3://b/x: .*(bytes 1048576 to 2097151 are not|were sent)"):
        upload.send()
    assert upload.is_there
    assert upload.is_damaged
    upload.remove()
    assert not upload.is_there


def test_what_a_store_refuses_is_our_error(file: Path) -> None:
    store = Store()

    def refuse() -> None:
        raise PermissionError("no")

    store.on_put = refuse
    upload = Upload(store, "x", "s3://b/x", file)
    with pytest.raises(RemoteError, match="s3://b/x"):
        upload.send()
    assert not upload.is_there


def test_an_interrupt_leaves_no_object(file: Path) -> None:
    store = Store()
    upload = Upload(store, "x", "s3://b/x", file)
    calls = []

    def interrupt() -> None:
        calls.append(threading.current_thread())
        raise KeyboardInterrupt

    started, go_on = threading.Event(), threading.Event()
    whole = upload._read_parts

    def slow_parts(fd: int) -> Any:
        for part in whole(fd):
            yield part
            started.set()
            go_on.wait(10)

    upload._read_parts = slow_parts  # type: ignore[method-assign]

    def tell() -> None:
        if started.is_set():
            upload._is_stopped.set()
            go_on.set()
            interrupt()

    with pytest.raises(KeyboardInterrupt):
        upload.send(tell)
    assert calls == [threading.main_thread()]
    assert store.names() == []
    assert not upload.is_there
    assert not [one for one in threading.enumerate() if one.name == "headrace-upload"]


def test_progress_is_told_by_the_caller_and_ends_with_all(file: Path) -> None:
    upload, told = Upload(Store(md5), "x", "s3://b/x", file), []
    upload.send(lambda: told.append((threading.current_thread(), upload.parts_sent)))
    assert {thread for thread, _ in told} == {threading.main_thread()}
    assert told[-1][1] == upload.parts == 4


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    monkeypatch.setattr(upload_module, "_UNDER_WAY_BYTES", 3 * PART)
    assert Upload(Store(), "x", "s3://b/x", file)._at_once == 2
