"""``headrace.verify`` asks the format, or opens the dataset."""

from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING

import numpy as np
import pytest

import headrace as hr
from headrace.errors import FormatError

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


def test_notes_about_parts_are_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name in "ab":
        np.savez(tmp_path / f"{name}.npz", x=np.arange(5), y=np.arange(5), other=np.arange(3))
    report = hr.verify(str(tmp_path / "*.npz"))
    assert (report.ok, report.samples_checked) == (True, 10)
    assert len([record for record in caplog.records if "'other'" in record.getMessage()]) == 2


def test_parts_that_make_no_dataset_are_told(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.arange(5))
    np.savez(tmp_path / "b.npz", y=np.arange(5))
    (problem,) = hr.verify(str(tmp_path / "*.npz")).problems
    assert "b.npz" in problem.message


def test_one_other_sample_has_it(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar", "w") as tar:
        for name in ("0.bin", "0.txt", "1.bin"):
            tar.addfile(tarfile.TarInfo(name))
    with pytest.raises(FormatError, match=r"no file that ends in \.txt, which 1 other sample has\."):
        hr.verify(tmp_path / "x.tar")
