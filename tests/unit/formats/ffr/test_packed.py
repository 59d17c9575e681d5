from __future__ import annotations

import collections
import os
import pickle
from typing import TYPE_CHECKING, Any

import pytest
from tests.helpers import write_folder

import headrace as hr
from headrace.codecs.pickle_values import load_values
from headrace.errors import FormatError
from headrace.formats.ffr import FfrReader, FfrWriter, PackedFolder, pack_folder
from headrace.formats.ffr import packed_index as index

if TYPE_CHECKING:
    from pathlib import Path

FILES = {
    "B.txt": b"upper case first",
    "a.txt": b"",
    "b/c/d.bin": bytes(range(256)),
    "b/e.bin": b"e" * 100_000,
    "b.txt": b"b",
    ".hidden": b"h",
    "ünï/é x.txt": b"unicode",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "folder", FILES)


@pytest.fixture
def packed(folder: Path, tmp_path: Path) -> PackedFolder:
    pack_folder(folder, tmp_path / "x.ffr")
    return PackedFolder(tmp_path / "x.ffr")


def ffr_with_index(path: Path, pickled: bytes, files: int = 2) -> Path:
    with FfrWriter(path) as writer:
        writer.append_many([b"file"] * files)
        writer.append(index.INDEX_MAGIC + pickled)
    return path


def test_everything_comes_back(packed: PackedFolder) -> None:
    assert packed.num_files() == len(FILES)
    assert packed.list() == [".hidden", "B.txt", "a.txt", "b", "b.txt", "empty", "ünï"]
    assert packed.list("b", recursive=True) == ["c", "c/d.bin", "e.bin"]
    assert packed.list(files=False, recursive=True) == ["b", "b/c", "empty", "empty/deep", "ünï"]
    assert packed.list("empty/deep") == []
    assert {name: packed.read_one(name).tobytes() for name in FILES} == FILES
    assert [data.tobytes() for data in packed.read(["b.txt", "./b//e.bin"])] == [b"b", b"e" * 100_000]


def test_paths(packed: PackedFolder) -> None:
    for path in ("", ".", "b", "b/", "b/c", "./b/./c"):
        assert packed.is_dir(path), path
        assert packed.exists(path)
        assert not packed.is_file(path)
    for path in ("b.txt", "b/c/d.bin", "./b//e.bin"):
        assert packed.is_file(path)
    for path in ("x", "b.txt/x", "/b", "b/../b", "..", "b/c/d"):
        assert not packed.exists(path), path
        with pytest.raises(FileNotFoundError, match="does not exist"):
            packed.read_one(path)
        with pytest.raises(NotADirectoryError, match="does not exist"):
            packed.list(path)
    with pytest.raises(NotADirectoryError, match="is a file"):
        packed.list("b.txt")
    with pytest.raises(FileNotFoundError, match="is a folder"):
        packed.read(["b"])
    with pytest.raises(TypeError, match=r"use read_one\('b.txt'\)"):
        packed.read("b.txt")


def test_pickled_and_closed(packed: PackedFolder) -> None:
    other = pickle.loads(pickle.dumps(packed))
    assert other.list() == packed.list()
    assert "7 files" in repr(other)
    with other:
        pass
    assert other.exists("b.txt")


def test_links(folder: Path, tmp_path: Path) -> None:
    (folder / "link.txt").symlink_to(folder / "b.txt")
    (folder / "again").symlink_to(folder / "b")
    pack_folder(folder, tmp_path / "x.ffr")
    packed = PackedFolder(tmp_path / "x.ffr")
    assert packed.read_one("link.txt").tobytes() == b"b"
    assert packed.read_one("again/c/d.bin").tobytes() == FILES["b/c/d.bin"]
    (folder / "b" / "circle").symlink_to(folder)
    with pytest.raises(OSError, match="would never end"):
        pack_folder(folder, tmp_path / "y.ffr")
    (folder / "b" / "circle").unlink()
    (folder / "broken").symlink_to("nowhere")
    with pytest.raises(FileNotFoundError, match="broken"):
        pack_folder(folder, tmp_path / "y.ffr")
    assert not (tmp_path / "y.ffr").exists()
    with pytest.raises(NotADirectoryError):
        pack_folder(folder / "b.txt", tmp_path / "y.ffr")


def test_pack_takes_any_files(folder: Path, tmp_path: Path) -> None:
    done: list[Any] = []
    hr.pack(tmp_path / "x.ffr", folder, progress=lambda *facts: done.append(facts))
    assert [facts[:2] for facts in done] == [(i, 7) for i in range(1, 8)]
    dataset = hr.open(tmp_path / "x.ffr")
    assert sorted(dataset.keys) == sorted(FILES)
    assert [s.data for s in dataset] == [FILES[key] for key in dataset.keys]
    with pytest.raises(ValueError, match="takes files as they are; leave out image, shuffle_seed"):
        hr.pack(tmp_path / "y.ffr", folder, image=hr.Image(max_side=10), shuffle_seed=1)


def test_an_index_in_another_order(tmp_path: Path) -> None:
    tree = collections.OrderedDict(b=1, a=0, again=1)
    path = ffr_with_index(tmp_path / "x.ffr", pickle.dumps(tree))
    with FfrWriter(path) as writer:
        writer.append_many([b"zero", b"one", index.INDEX_MAGIC + pickle.dumps(tree)])
    dataset = hr.open(path)
    assert dataset.keys == ["b", "a", "again"]
    assert [s.data for s in dataset] == [b"one", b"zero", b"one"]
    assert dataset.read_bytes([-1, 1], "data") == [b"one", b"zero"]
    assert dataset.verify().ok


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_every_protocol(protocol: int) -> None:
    tree: Any = collections.OrderedDict()
    for i in range(3000):
        tree[f"{i:04d} ü\u20ac\U0001f600\\\n"] = i * 100_003 % 2**31
    tree["sub"] = collections.OrderedDict(a=collections.OrderedDict(), b=2**40)
    assert load_values(pickle.dumps(tree, protocol)) == tree
    assert list(load_values(pickle.dumps(tree, protocol))) == list(tree)
    assert load_values(pickle.dumps({"plain": {"dict": 1}}, protocol)) == {"plain": {"dict": 1}}


def test_names_that_are_not_utf8() -> None:
    name = os.fsdecode(b"\xff.txt")
    tree = collections.OrderedDict({name: 0})
    assert load_values(index.pack_index(tree)[9:]) == tree


class Call:
    def __reduce__(self) -> Any:
        return os.mkdir, ("/tmp/should-never-exist",)


shared: Any = collections.OrderedDict(a=1)
HOSTILE: list[Any] = [
    Call(),
    collections.OrderedDict(a=Call()),
    collections.OrderedDict(a=True),
    collections.OrderedDict(a=None),
    collections.OrderedDict(a=1.5),
    collections.OrderedDict(a=[1]),
    collections.OrderedDict(a=(1,)),
    collections.OrderedDict(a="1"),
    collections.OrderedDict(a=b"1"),
    collections.OrderedDict({1: 1}),
    collections.OrderedDict({"": 1}),
    collections.OrderedDict({".": 1}),
    collections.OrderedDict({"..": collections.OrderedDict(x=1)}),
    collections.OrderedDict({"a/b": 1}),
    collections.OrderedDict({"/etc/passwd": 1}),
    collections.OrderedDict({"a\0": 1}),
    collections.OrderedDict(a=shared, b=shared),
    collections.OrderedDict(a=2),
    collections.OrderedDict(a=-1),
    collections.OrderedDict(a=2**100),
    collections.OrderedDict(a=collections.Counter()),
    collections.defaultdict(int),
    [1],
    "text",
    5,
]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: repr(value)[:40])
def test_hostile_values(value: Any, protocol: int, tmp_path: Path) -> None:
    path = ffr_with_index(tmp_path / "x.ffr", pickle.dumps(value, protocol))
    for reading in (PackedFolder, hr.open):
        with pytest.raises(FormatError, match=r"x\.ffr: the index of the packed folder \(sample 2\) is not read"):
            reading(path)
    assert not os.path.exists("/tmp/should-never-exist")


@pytest.mark.parametrize(
    "pickled",
    [
        b"",
        b".",
        b"0.",
        b"}",
        b"\x80\x06}.",
        b"r\xff\xff\xff\xff.",  # a memo of four billion entries
        b"}r\xff\xff\xff\xff",
        b"X\xff\xff\xff\xffabc.",
        b"\x8d" + b"\xff" * 8 + b".",
        b"\x95" + b"\xff" * 8,
        b"(" * 100_000,
        b"}" * 100_000 + b".",
        b"(}" * 50_000 + b"u" * 50_000 + b".",
        b"}(X\x01\x00\x00\x00au.",
        b"}X\x01\x00\x00\x00aK\x01X\x01\x00\x00\x00bsu.",
        b"ccollections\nOrderedDict\n(K\x01tR.",
        b"ccollections\nOrderedDict\n.",
        b"K\x01)R.",
        b"I1_000\n.",
        b"I01\n.",
        b"L" + b"9" * 100_000 + b"L\n.",
        b"\x8a\xff" + b"\x01" * 255 + b".",
        b"h\x00.",
        b"g-1\n.",
        b"gx\n.",
        b"p\n}.",
        b"Vab\\u12\n.",
        b"V\\ud800",
        b"\x8c\x02\xff\xff.",
        b"cos\nsystem\n(S'x'\ntR.",
        b"\x8c\x02os\x8c\x06system\x93.",
        b"Pid\n.",
        b"K\x00Q.",
        b"\x82\x01.",
        b"(ios\nsystem\n.",
        b"(cos\nsystem\no.",
    ],
    ids=lambda pickled: repr(pickled)[:30],
)
def test_hostile_bytes(pickled: bytes, tmp_path: Path) -> None:
    path = ffr_with_index(tmp_path / "x.ffr", pickled)
    with pytest.raises(FormatError, match="is not read"):
        PackedFolder(path)


def test_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = ffr_with_index(tmp_path / "x.ffr", nested(1100))
    with pytest.raises(FormatError, match="nested more than 1000 deep"):
        PackedFolder(path)
    path = ffr_with_index(tmp_path / "y.ffr", nested(900))
    assert len(hr.open(path).keys[0]) == 2 * 900 + 1
    monkeypatch.setattr(index, "MAX_INDEX_BYTES", 1000)
    with pytest.raises(FormatError, match="larger than 1000, the most allowed"):
        PackedFolder(path)


def nested(depth: int) -> bytes:
    """A folder in a folder, in a folder; pickle itself would run out of stack."""
    return b"}X\x01\x00\x00\x00d" * depth + b"}X\x01\x00\x00\x00xK\x00s" + b"s" * depth + b"."


def test_a_packed_folder_is_no_part(tmp_path: Path, packed: PackedFolder) -> None:
    with FfrWriter(tmp_path / "y.ffr") as writer:
        writer.append(b"x")
    with pytest.raises(FormatError, match=r"x\.ffr: a packed folder cannot be a part"):
        hr.open([tmp_path / "y.ffr", tmp_path / "x.ffr"])
    assert len(hr.open([tmp_path / "y.ffr", tmp_path / "x.ffr"], packed=False)) == 9
    assert len(FfrReader(tmp_path / "x.ffr")) == 8
