"""``headrace cache``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from headrace.storage.block_cache import BlockKey, block_cache

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Said = Callable[..., str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A cache of two objects."""
    cache = block_cache(tmp_path / "cache", 8 << 20)
    for number in range(3):
        assert cache.store(BlockKey("s3://bucket/new/a.beton", "v1", number), bytes(100_000))
    assert cache.store(BlockKey("s3://bucket/old/b.beton", "v1", 0), bytes(50_000))
    cache.close()
    return tmp_path / "cache"


def test_info(folder: Path, said: Said, json_said: Callable[..., Any]) -> None:
    lines = said("cache", "info", folder).splitlines()
    assert lines[0].startswith(f"{folder}: 4 blocks, ")
    assert lines[0].endswith(" of 8.0 MiB")
    assert [line.split()[-1] for line in lines[1:]] == ["s3://bucket/new/a.beton", "s3://bucket/old/b.beton"]
    told = json_said("cache", "info", folder)
    assert (told["blocks"], told["size_bytes"]) == (4, 8 << 20)
    assert 350_000 < told["disk_bytes"] < 600_000
    assert told["objects"][0] == {"url": "s3://bucket/new/a.beton", "blocks": 3, "size_bytes": 300_000}
    assert len(json_said("cache", "info", folder, "--url", "s3://bucket/old")["objects"]) == 1


def test_clear(folder: Path, said: Said, json_said: Callable[..., Any]) -> None:
    told = json_said("cache", "clear", folder, "--url", "s3://bucket/new/")
    assert told["removed_blocks"] == 3
    assert told["freed_bytes"] >= 300_000
    assert [one["url"] for one in json_said("cache", "info", folder)["objects"]] == ["s3://bucket/old/b.beton"]
    assert f"{folder}: 1 block removed" in said("cache", "clear", folder)
    assert json_said("cache", "info", folder)["objects"] == []


def test_the_folder_may_stand_in_the_environment(folder: Path, said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADRACE_CACHE_DIR", raising=False)
    assert "name the folder of the cache, or set HEADRACE_CACHE_DIR" in said("cache", "info", code=2)
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(folder))
    assert "4 blocks" in said("cache", "info")


def test_what_is_no_cache_is_an_error(tmp_path: Path, said: Said) -> None:
    assert "this folder holds no cache" in said("cache", "clear", tmp_path, code=2)
    (tmp_path / "precious").write_bytes(b"x")
    assert "holds no cache, but 'precious'" in said("cache", "clear", tmp_path, code=2)
    assert (tmp_path / "precious").exists()
