"""Archives joined by copies and by links."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.formats.barecat.tools import FILES

from headrace.errors import (
    EntryExistsError,
)
from headrace.formats.barecat import Archive
from headrace.formats.disk_files import count_ahead, find_below
from headrace.transfer.convert import convert
from headrace.transfer.merge import link_archives, merge_archives

if TYPE_CHECKING:
    from pathlib import Path


def test_linking_archives_with_an_empty_last_shard(tmp_path: Path) -> None:
    with Archive(tmp_path / "a.barecat", "x", shard_size=10) as archive:
        archive["a1"], archive["a2"] = b"x" * 10, b"y" * 10
        archive.commit()
        del archive["a2"]
    with Archive(tmp_path / "b.barecat", "x") as archive:
        archive["b"] = b"z"
    link_archives([tmp_path / "a.barecat", tmp_path / "b.barecat"], tmp_path / "all.barecat")
    assert dict(Archive(tmp_path / "all.barecat", follow_links=True).items()) == {"a1": b"x" * 10, "b": b"z"}


def test_merging(full: Path, tmp_path: Path) -> None:
    with Archive(tmp_path / "m.barecat", "x") as target:
        merge_archives([full], target, as_subdirs=True, prefix="p", rules=[(False, "d0/**"), (True, "**")])
        again = merge_archives([full], target, as_subdirs=True, prefix="p", ignore_duplicates=True)
        with pytest.raises(EntryExistsError):
            merge_archives([full], target, as_subdirs=True, prefix="p")
    assert again.files == sum(name.startswith("d0/") for name in FILES)
    merged = dict(Archive(tmp_path / "m.barecat").items())
    assert merged == {f"p/x/{name}": data for name, data in FILES.items()}


def test_progress_knows_what_remains(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    calls: list[tuple[int, int | None, int]] = []

    def note(done: int, total: int | None, size_bytes: int) -> None:
        calls.append((done, total, size_bytes))

    for source, target in (("in", "x.barecat"), ("x.barecat", "x.zip"), ("x.zip", "x.tar"), ("x.tar", "y.barecat")):
        calls.clear()
        convert(source, target, progress=note)
        assert [done for done, _, _ in calls if done] == sorted(done for done, _, _ in calls if done)
        assert calls[-1][0] == 3
        assert calls[-1][2] == 100_003
        assert calls[-1][1] in ((3, None) if source == "in" else (None,) if source == "x.tar" else (3,))
    with count_ahead(note, lambda: find_below("in")) as report:
        assert report is not None
        while calls[-1][1] != 3:  # the thread counts as fast as it can
            report(0, None, 0)
    with Archive("m.barecat", "x") as archive:
        calls.clear()
        merge_archives(["x.barecat", "y.barecat"], archive, as_subdirs=True, progress=note)
    assert {total for _, total, _ in calls} <= {6}
    for rules, wanted in (((), {6}), ([(False, "**/*.txt")], {4})):
        with Archive("m.barecat", "w") as archive:
            calls.clear()
            merge_archives(["x.barecat", "y.barecat"], archive, as_subdirs=True, rules=rules, progress=note)
        assert {total for _, total, _ in calls} == wanted
        assert calls[-1][0] == max(wanted)
