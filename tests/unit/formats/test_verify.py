"""``headrace.verify`` asks the format, or opens the dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import headrace as hr

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("name", ["x.beton", "x.ffr", "x.barecat"])
def test_every_format(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    hr.write(path, [b"abc", b"de", b""], fields={"data": hr.Bytes()})
    done: list[int] = []
    report = hr.verify(path, decode=True, workers=1, progress=lambda count, total, size_bytes: done.append(count))
    assert (report.ok, report.samples_checked, report.bad_samples) == (True, 3, ())
    assert done[-1] == 3


def test_an_archive_that_is_no_dataset_is_checked_all_the_same(tmp_path: Path) -> None:
    hr.Archive(tmp_path / "x.barecat", "x").close()
    report = hr.verify(tmp_path / "x.barecat")
    assert (report.ok, report.samples_checked) == (True, 0)


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        hr.verify(tmp_path / "none.beton")
