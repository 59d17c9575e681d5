from __future__ import annotations

import os
import pickle
from pathlib import Path, PosixPath
from typing import Any

import numpy as np
import pytest

from headrace.compat.ffrecord import FileReader, PackedFolder, pack_folder
from headrace.errors import FormatError

GOLDEN = Path(__file__).parents[3] / "golden" / "ffr"
FILES = {"B": b"upper", "a": b"", "b/c/d": bytes(range(256)), "b/e": b"e", "b.txt": b"text", "ü/é x": b"unicode"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "folder"
    for name, data in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    (root / "empty").mkdir()
    return root


@pytest.fixture
def packed(folder: Path, tmp_path: Path) -> PackedFolder:
    pack_folder(folder, tmp_path / "x.ffr")
    return PackedFolder(tmp_path / "x.ffr")


def test_reading(packed: PackedFolder) -> None:
    assert packed.num_files() == 6
    assert isinstance(packed.reader, FileReader)
    assert packed.structure["b"]["e"] == 3  # type: ignore[index]
    for name, data in FILES.items():
        for form in (name, Path(name), f"./{name}", name.replace("/", "//")):
            assert packed.read_one(form).tobytes() == data
    arrays = packed.read(["b/e", Path("B"), "b/e"])
    assert [array.tobytes() for array in arrays] == [b"e", b"upper", b"e"]
    assert all(isinstance(array, np.ndarray) for array in arrays)
    assert packed.read(()) == []
    other = pickle.loads(pickle.dumps(packed))
    assert other.read_one("B").tobytes() == b"upper"


def test_listing(packed: PackedFolder) -> None:
    assert packed.list() == packed.list("") == packed.list(".") == ["B", "a", "b", "b.txt", "empty", "ü"]
    assert packed.list(list_file=False) == ["b", "empty", "ü"]
    assert packed.list(list_dir=False) == ["B", "a", "b.txt"]
    assert packed.list("empty") == []
    below = packed.list("b", recursive=True)
    assert below == ["c", PosixPath("c/d"), "e"]
    assert [type(name) for name in below] == [str, PosixPath, str], "direct children are text, the others paths"
    assert packed.list(None, False, True, True) == ["b", PosixPath("b/c"), "empty", "ü"]


def test_paths(packed: PackedFolder) -> None:
    for path in ("", ".", "b", "b/c", Path("b"), Path()):
        assert packed.exists(path)
        assert packed.is_dir(path)
        assert not packed.is_file(path)
    for path in ("x", "/b", "b/../b", "..", "b.txt/x"):
        assert not packed.exists(path)
        assert not packed.is_dir(path)
        assert not packed.is_file(path)
        for call in (packed.read_one, packed.list, lambda path: packed.read([path])):
            with pytest.raises(AssertionError, match="does not exist"):
                call(path)
    with pytest.raises(AssertionError, match="is a folder, not a file"):
        packed.read_one("b")
    with pytest.raises(AssertionError, match="is a file, not a folder"):
        packed.list("b/e")
    with pytest.raises(AssertionError, match=r"must be a list of paths, got 'B'; read_one\(\)"):
        packed.read("B")


@pytest.mark.parametrize("name", sorted(os.listdir(GOLDEN / "packed")))
def test_packed_folders_of_ffrecord(name: str) -> None:
    packed = PackedFolder(GOLDEN / "packed" / name)
    assert packed.num_files() == len(packed.list(list_dir=False, recursive=True))
    for path in packed.list(list_dir=False, recursive=True):
        assert packed.is_file(path)
        packed.read_one(path)


@pytest.mark.parametrize(
    "name",
    [
        "corrupted/packed_hostile_global",
        "corrupted/packed_cyclic_index",
        "corrupted/packed_index_negative",
        "corrupted/packed_wrong_magic",
        "plain/empty_file",
        "plain/single",
    ],
)
def test_what_is_no_packed_folder(name: str) -> None:
    path = GOLDEN / f"{name}.ffr"
    for error in (ValueError, FormatError):
        with pytest.raises(error, match=path.name):
            PackedFolder(path)


def test_what_cannot_be_packed(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="is not a folder"):
        pack_folder(folder / "B", tmp_path / "x.ffr")
    with pytest.raises(AssertionError, match=r"must end with \.ffr"):
        pack_folder(folder, tmp_path / "x.dat")
    (folder / "link").symlink_to("nowhere")
    with pytest.raises(OSError, match="link"):
        pack_folder(folder, tmp_path / "x.ffr")
    assert os.listdir(tmp_path) == ["folder"], "nothing is left behind"


def test_progress_only_when_asked_for(folder: Path, tmp_path: Path, capfd: Any) -> None:
    pack_folder(folder, tmp_path / "x.ffr")
    assert capfd.readouterr() == ("", "")
    pack_folder(str(folder), str(tmp_path / "x.ffr"), verbose=True)
    assert "6/6" in capfd.readouterr().err
