"""Datasets that are made here and appear in a store, whole or not at all."""

from __future__ import annotations

import os
import re
import stat
import tempfile
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import RemoteError
from headrace.storage import HiddenFolder, RemotePath, object_folder
from headrace.storage.new_objects import NewObjects
from headrace.storage.upload import Upload

obstore_store = pytest.importorskip("obstore.store", reason="needs the package obstore")
NAMES = re.compile(r"x\.tar(?:\.annex|-shard-\d+)?")


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    memory = obstore_store.MemoryStore()
    monkeypatch.setattr(object_folder, "_store_of", lambda path: (memory, str(path).partition("://b/")[2]))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return memory


def make(force: bool = False, url: str = "s3://b/a/x.tar") -> NewObjects:
    return NewObjects(RemotePath(url), names=NAMES, fixed="x.tar", force=force)


def fill(objects: NewObjects, **contents: bytes) -> None:
    for ending, data in contents.items():
        Path(objects.path + {"main": "", "annex": ".annex", "shard": "-shard-00000"}[ending]).write_bytes(data)


def content(store: Any) -> dict[str, bytes]:
    names = [one["path"] for block in store.list() for one in block]
    return {name: bytes(store.get(name).bytes()) for name in sorted(names)}


def test_all_files_become_objects_and_the_folder_goes(store: Any, tmp_path: Path) -> None:
    objects = make()
    assert stat.S_IMODE(os.stat(objects.folder).st_mode) == 0o700
    fill(objects, main=b"1", annex=b"2")
    Path(objects.path + "-files").mkdir()
    Path(objects.path + "-files", "y.jpg").write_bytes(b"3")
    objects.upload()
    objects.remove()
    assert content(store) == {"a/x.tar": b"1", "a/x.tar-files/y.jpg": b"3", "a/x.tar.annex": b"2"}
    assert os.listdir(tmp_path) == []


def test_a_bucket_without_folders(store: Any) -> None:
    objects = make(url="s3://b/x.tar")
    fill(objects, main=b"1")
    objects.upload()
    objects.remove()
    assert content(store) == {"x.tar": b"1"}
    with pytest.raises(FileExistsError, match=r"s3://b/x\.tar exists"):
        make(url="s3://b/x.tar")


def test_what_makes_the_dataset_visible_comes_last(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = []
    monkeypatch.setattr(Upload, "send", lambda self, tell=None: sent.append(self.url))
    objects = make()
    fill(objects, main=b"1", annex=b"2", shard=b"3")
    objects.upload()
    objects.remove()
    assert sent == ["s3://b/a/x.tar-shard-00000", "s3://b/a/x.tar.annex", "s3://b/a/x.tar"]


@pytest.mark.parametrize("there", ["a/x.tar", "a/x.tar.annex", "a/x.tar-shard-00007"])
def test_what_is_there_is_refused_before_anything_is_written(store: Any, tmp_path: Path, there: str) -> None:
    store.put(there, b"old")
    with pytest.raises(FileExistsError, match=f"s3://b/{re.escape(there)} exists; give force=True"):
        make()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("other", ["a/x.tarx", "a/w.tar", "b/x.tar", "x.tar", "a/x.tar2.annex"])
def test_other_objects_do_not_matter(store: Any, other: str) -> None:
    store.put(other, b"old")
    objects = make(force=True)
    fill(objects, main=b"1")
    objects.upload()
    objects.remove()
    assert content(store) == dict(sorted({other: b"old", "a/x.tar": b"1"}.items()))


def test_many_objects_before_and_behind(store: Any) -> None:
    for number in range(1500):
        store.put(f"a/b{number}", b"")
        store.put(f"a/z{number}", b"")
    store.put("a/x.tar.annex", b"old")
    with pytest.raises(FileExistsError, match=r"x\.tar\.annex exists"):
        make()


def test_force_replaces_and_removes_what_belonged_to_the_old_one(store: Any) -> None:
    for name in ("a/x.tar", "a/x.tar.annex", "a/x.tar-shard-00001"):
        store.put(name, b"old")
    objects = make(force=True)
    fill(objects, main=b"1", annex=b"2")
    objects.upload()
    objects.remove()
    assert content(store) == {"a/x.tar": b"1", "a/x.tar.annex": b"2"}


def test_what_appeared_meanwhile_is_refused(store: Any) -> None:
    objects = make()
    fill(objects, main=b"1", annex=b"2")
    store.put("a/x.tar", b"of somebody else")
    with pytest.raises(FileExistsError, match=r"s3://b/a/x\.tar exists"):
        objects.upload()
    objects.remove()
    assert content(store) == {"a/x.tar": b"of somebody else"}


def test_a_file_of_another_name_is_refused_too(store: Any) -> None:
    store.put("a/x.idx", b"old")
    objects = make()
    fill(objects, main=b"1")
    Path(objects.folder, "x.idx").write_bytes(b"2")
    with pytest.raises(FileExistsError, match=r"s3://b/a/x\.idx exists"):
        objects.upload()
    objects.remove()
    assert content(store) == {"a/x.idx": b"old"}


@pytest.mark.parametrize("error", [RemoteError("s3://b", problem="gone"), KeyboardInterrupt()])
def test_what_fails_takes_back_what_it_made(store: Any, monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    send = Upload.send

    def fail(self: Upload, tell: Any = None) -> None:
        if self.url.endswith("x.tar"):
            raise error
        send(self, tell)

    monkeypatch.setattr(Upload, "send", fail)
    objects = make()
    fill(objects, main=b"1", annex=b"2", shard=b"3")
    with pytest.raises(type(error)):
        objects.upload()
    objects.remove()
    assert content(store) == {}


def test_what_fails_keeps_what_replaced_something(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a/x.tar", "a/x.tar.annex"):
        store.put(name, b"old")
    send = Upload.send

    def fail(self: Upload, tell: Any = None) -> None:
        if self.url.endswith("x.tar"):
            raise KeyboardInterrupt
        send(self, tell)

    monkeypatch.setattr(Upload, "send", fail)
    objects = make(force=True)
    fill(objects, main=b"1", annex=b"2", shard=b"3")
    with pytest.raises(KeyboardInterrupt):
        objects.upload()
    objects.remove()
    assert content(store) == {"a/x.tar": b"old", "a/x.tar.annex": b"2"}


def test_a_damaged_object_goes_even_if_it_replaced_another(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put("a/x.tar", b"old")
    monkeypatch.setattr(Upload, "_put", lambda self, fd: self._store.put(self._key, b"2"))
    objects = make(force=True)
    fill(objects, main=b"1")
    with pytest.raises(RemoteError, match="not what was sent"):
        objects.upload()
    objects.remove()
    assert content(store) == {}


def test_an_object_that_cannot_be_removed_is_named(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def cannot(self: Upload) -> None:
        raise OSError("no network")

    monkeypatch.setattr(Upload, "_put", lambda self, fd: self._store.put(self._key, b"2"))
    monkeypatch.setattr(Upload, "remove", cannot)
    objects = make()
    fill(objects, main=b"1")
    with pytest.raises(RemoteError) as caught:
        objects.upload()
    objects.remove()
    assert caught.value.__notes__ == ["s3://b/a/x.tar could not be removed; remove it"]


def test_progress_counts_all_files(store: Any) -> None:
    told: list[tuple[int, int | None, int]] = []
    objects = make()
    fill(objects, main=b"123", annex=b"45")
    objects.upload(lambda *about: told.append(about))
    objects.remove()
    assert told[-1] == (2, 2, 5)


def test_the_next_upload_removes_what_a_killed_one_left(store: Any, tmp_path: Path) -> None:
    left = HiddenFolder(tmp_path / "headrace-upload")
    Path(left.path, "x.tar").write_bytes(b"1")
    os.close(left._fd)  # as when the process is killed
    objects = make()
    assert os.listdir(tmp_path) == [os.path.basename(objects.folder)]
    objects.remove()


@pytest.mark.parametrize("url", ["https://host/x.tar", "http://host/x.tar"])
def test_only_stores_are_written_to(url: str) -> None:
    with pytest.raises(ValueError, match=r"nothing can be written to http.*s3://, gs://, az://"):
        NewObjects(RemotePath(url), names=NAMES, fixed="x.tar", force=False)
