"""Files that change while they are read."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.loader.tools import contents, run_script, values_of, write_pages, write_rows

from headrace import Loader, ops

if TYPE_CHECKING:
    from pathlib import Path

ORDERS = ["sequential", "random", "quasi_random"]

TRUNCATED = """
import os, sys, threading
from headrace import Loader, errors
path, cache, order, verify, on_error = sys.argv[1:]
verify = {"None": None, "False": False}[verify]
loader = Loader(path, 2, order=order, cache=cache, verify=verify, on_error=on_error, batches_ahead=1)
batches = iter(loader)
next(batches)
os.truncate(path, 3 << 21)
count = 0
try:
    for batch in batches:
        count += 1
except errors.FormatError as error:
    assert error.path == path, error.path
    print(error)
assert count < 23, count
assert not [thread for thread in threading.enumerate() if thread.name.startswith("headrace-")]
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pages(tmp_path_factory.mktemp("bad") / "pages.beton")


@pytest.mark.parametrize("cache", ["os", "4MB"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("verify", "on_error"), [(None, "skip"), (False, "raise")])
def test_a_file_that_is_cut_during_an_epoch_is_an_error(
    pages: Path, tmp_path: Path, cache: str, order: str, verify: Any, on_error: str
) -> None:
    cut = shutil.copy(pages, tmp_path / "cut.beton")
    result = run_script(TRUNCATED, cut, cache, order, verify, on_error)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith(f"{cut}: ")


@pytest.mark.parametrize("cache", ["os", "4MB"])
@pytest.mark.parametrize("order", ORDERS)
def test_a_file_that_is_deleted_during_an_epoch_is_read_to_the_end(
    pages: Path, tmp_path: Path, cache: Any, order: Any
) -> None:
    gone = shutil.copy(pages, tmp_path / "gone.beton")
    loader = Loader(gone, 4, order=order, cache=cache, batches_ahead=1)
    batches = iter(loader)
    found = [values_of(next(batches))]
    gone.unlink()
    found += [values_of(batch) for batch in batches]
    assert found == contents(Loader(pages, 4, order=order))
    with pytest.raises(FileNotFoundError, match=r"gone\.beton"):
        Loader(gone, 4)


def test_a_picture_that_is_deleted_from_a_folder_is_an_error(tmp_path: Path) -> None:
    from tests.helpers import image_file, picture

    for i in range(8):
        (tmp_path / f"{i}.jpg").write_bytes(image_file(picture(i, 20, 20), "JPEG"))
    batches = iter(Loader(tmp_path, 1, batches_ahead=1, pipelines={"image": [ops.Resize(8)]}))
    next(batches)
    (tmp_path / "6.jpg").unlink()
    with pytest.raises(FileNotFoundError, match=r"6\.jpg"):
        list(batches)


def test_a_replaced_file_is_another_dataset(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "x.beton")
    loader = Loader(path, 4, pipelines={"image": None})
    state, expected = loader.state_dict(), contents(loader)
    write_pages(tmp_path / "y.beton", count=5, size=10_000).rename(path)  # the old one stays mapped
    loader.set_epoch(0)
    assert contents(loader) == expected
    with pytest.raises(ValueError, match="the state was taken with"):
        Loader(path, 4).load_state_dict(state)
