"""An annex for files that have none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.conftest import GOLDEN_NAMES
from tests.helpers import Surgeon, write_all_fields

import headrace as hr
from headrace.errors import CorruptSampleError, FormatError
from headrace.formats import index

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    path = tmp_path / "x.beton"
    write_all_fields(path, 7, annex=False)
    return path


def values(path: Path) -> list[Any]:
    dataset = hr.open(path)
    return [dataset.read_bytes(range(len(dataset)), c.name) for c in dataset.layout.payload_columns]


@pytest.mark.parametrize("embed", [True, False])
def test_what_is_given_is_kept(plain: Path, embed: bool) -> None:
    before = values(plain)
    names = [f"n{i}" for i in range(7)]
    where = index(plain, embed=embed, names=names, class_names={"label": ["a"]}, metadata={"k": 1})
    assert where == str(plain) + ("" if embed else ".annex")
    dataset = hr.open(plain)
    assert list(dataset.keys or ()) == names
    assert dataset.class_names == {"label": ["a"]}
    assert dataset.metadata == {"k": 1}
    assert dataset.verify(decode=True).ok
    assert dataset.verify().checksums_checked == 7 * 8
    assert values(plain) == before


@pytest.mark.parametrize("embed", [True, False])
def test_damage_is_found_afterwards(plain: Path, embed: bool) -> None:
    index(plain, embed=embed)
    surgeon = Surgeon(plain)
    surgeon.flip(int(surgeon.table[3 * 7][1]))
    plain.unlink()
    surgeon.save(plain)
    with pytest.raises(CorruptSampleError, match="sample 3"):
        hr.open(plain)[3]
    with pytest.raises(FormatError, match="would hide that"):
        index(plain, embed=embed)


def test_from_beside_to_inside(plain: Path) -> None:
    index(plain, names=list("abcdefg"))
    index(plain, embed=True)
    assert sorted(p.name for p in plain.parent.iterdir()) == ["x.beton"]
    assert list(hr.open(plain).keys or ()) == list("abcdefg")
    with pytest.raises(ValueError, match="has an annex inside"):
        index(plain)
    index(plain, embed=True, metadata=[1])
    assert list(hr.open(plain).keys or ()) == list("abcdefg")
    assert hr.open(plain).metadata == [1]


def test_embedding_changes_nothing_that_ffcv_looks_at(plain: Path) -> None:
    before = Surgeon(plain)
    index(plain, embed=True)
    after = Surgeon(plain)
    end = before.header["alloc_table_ptr"]
    assert before.data[24:end] == after.data[24:end]
    assert before.table.tolist() == after.table.tolist()
    assert before.header | {"alloc_table_ptr": 0} == after.header | {"alloc_table_ptr": 0}


@pytest.mark.parametrize("name", [n for n in GOLDEN_NAMES if n not in ("multi_page_w3", "page_exact")])
def test_files_of_ffcv(golden_dir: Path, tmp_path: Path, name: str) -> None:
    path = tmp_path / "x.beton"
    path.write_bytes((golden_dir / f"{name}.beton").read_bytes())
    before = values(path)
    for embed in (False, True):
        index(path, embed=embed)
        assert hr.open(path).has_checksums
        assert hr.verify(path, decode=True).ok
        assert values(path) == before


def test_a_wrong_number_of_names(plain: Path) -> None:
    with pytest.raises(ValueError, match="names has 2 entries, the file has 7 samples"):
        index(plain, names=["a", "b"])
    assert sorted(p.name for p in plain.parent.iterdir()) == ["x.beton"]
