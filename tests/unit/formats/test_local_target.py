"""Where verbs write: here, or here first and then to a store."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

import headrace as hr
from headrace.errors import FormatError
from headrace.formats.local_target import local_target, target_path
from headrace.storage import RemotePath, object_folder

obstore_store = pytest.importorskip("obstore.store", reason="needs the package obstore")
URL = RemotePath("s3://b/a/x.tar")


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    memory = obstore_store.MemoryStore()
    monkeypatch.setattr(object_folder, "_store_of", lambda path: (memory, str(path).partition("://b/")[2]))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield memory
    assert os.listdir(tmp_path) == []


def names(store: Any) -> list[str]:
    return sorted(one["path"] for block in store.list() for one in block)


def test_options_travel_with_the_path() -> None:
    path = target_path("s3://b/x.tar", {"region": "r"})
    assert isinstance(path, RemotePath)
    assert path.storage.store == {"region": "r"}
    assert target_path("x.tar", None) == "x.tar"


def test_a_path_of_this_machine_stays_as_it_is() -> None:
    with local_target("x.tar", force=False, progress=True) as place:
        assert place == "x.tar"


def test_what_is_written_is_uploaded_and_told(store: Any) -> None:
    told: list[Any] = []
    with local_target(URL, force=False, progress=lambda *about: told.append(about)) as place:
        assert os.path.basename(place) == "x.tar"
        Path(place).write_bytes(b"1")
        assert names(store) == []
    assert names(store) == ["a/x.tar"]
    assert told[-1] == (1, 1, 1)


def test_a_dry_run_uploads_nothing(store: Any) -> None:
    with local_target(URL, force=False, progress=None, is_dry=True) as place:
        Path(place).write_bytes(b"1")
    assert names(store) == []


def test_a_set_refuses_and_replaces_its_own_names_alone(store: Any) -> None:
    for name in ("a/x-0.tar", "a/x-0.tar.annex", "a/x-7.tar", "a/x-y.tar", "a/x-.tar"):
        store.put(name, b"old")
    path, options = RemotePath("s3://b/a/x-%d.tar"), {"fields": {"text": hr.Text()}, "shard_samples": 1}
    with pytest.raises(FileExistsError, match=r"^s3://b/a/x-0\.tar exists; give force=True"):
        hr.write(path, ["new"], **options)
    hr.write(path, ["new"], **options, force=True)
    assert names(store) == ["a/x-.tar", "a/x-0.tar", "a/x-0.tar.annex", "a/x-y.tar"]
    assert bytes(store.get("a/x-0.tar").bytes()) != b"old"


def test_errors_name_the_url(store: Any) -> None:
    with (
        pytest.raises(FormatError, match=r"^s3://b/a/x\.tar: bad") as caught,
        local_target(URL, force=False, progress=None) as place,
    ):
        raise FormatError(place, problem="bad")
    assert caught.value.path == "s3://b/a/x.tar"
    assert names(store) == []


def test_a_full_disk_names_the_temporary_folder(store: Any, tmp_path: Path) -> None:
    with (
        pytest.raises(OSError, match="set TMPDIR to a folder on a larger disk") as caught,
        local_target(URL, force=False, progress=None),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert caught.value.filename == str(tmp_path)
    assert caught.value.errno == errno.ENOSPC
