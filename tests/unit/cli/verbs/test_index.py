"""``headrace index``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import headrace as hr
from headrace.cli.main import main
from headrace.formats.barecat import Archive

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

    import pytest

    Said = Callable[..., str]
    JsonSaid = Callable[..., Any]


def test_index_beside_and_inside(golden_dir: Path, tmp_path: Path, said: Said, json_said: JsonSaid) -> None:
    path = tmp_path / "g.beton"
    path.write_bytes((golden_dir / "img_jpg_var.beton").read_bytes())
    before = [(s.image.tobytes(), s.label) for s in hr.open(path)]
    assert "no checksums" in said("verify", path)
    assert json_said("index", path)["annex"] == f"{path}.annex"
    assert "22 checksums" in said("verify", path)
    (tmp_path / "names").write_text("".join(f"n{i}\n" for i in range(11)))
    (tmp_path / "classes").write_text("one\ntwo\n")
    words = ["--embed", "--names", tmp_path / "names", "--classes", f"label={tmp_path / 'classes'}"]
    assert json_said("index", path, *words)["annex"] == str(path)
    assert sorted(os.listdir(tmp_path)) == ["classes", "g.beton", "names"]
    dataset = hr.open(path)
    assert dataset.keys[3] == "n3"
    assert dataset.class_names == {"label": ["one", "two"]}
    assert [(s.image.tobytes(), s.label) for s in dataset] == before
    assert main(["index", str(path), "--embed", "-q"]) == 0
    assert hr.open(path).keys[3] == "n3", "what the annex knew is kept"


def test_index_fresh_mends_a_damaged_annex(packed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table_at = hr.open(packed).layout.alloc_table_ptr
    data = bytearray(packed.read_bytes())
    data[table_at - 30] ^= 1
    packed.write_bytes(data)
    assert main(["info", str(packed)]) == 2
    assert "headrace index --fresh" in capsys.readouterr().err
    assert main(["index", str(packed), "-q", "--embed"]) == 2
    assert main(["index", str(packed), "-q", "--fresh"]) == 2
    assert main(["index", str(packed), "-q", "--fresh", "--embed"]) == 0
    assert hr.verify(packed, decode=True).ok
    assert hr.open(packed).has_checksums
    assert len(packed.read_bytes()) < len(data), "the old annex is gone"


def test_the_index_as_a_table(place: Path, said: Said) -> None:
    before = sorted(Archive("x.barecat").files()), sorted(d[:5] for d in Archive("x.barecat").dirs())
    assert "8 rows" in said("index", "x.barecat", "--export", "t.csv")
    assert "exists" in said("index", "x.barecat", "--import", "t.csv", code=2)
    (place / "x.barecat").unlink()
    said("index", "x.barecat", "--import", "t.csv")
    archive = Archive("x.barecat")
    assert (sorted(archive.files()), sorted(d[:5] for d in archive.dirs())) == before
    assert archive.verify().ok
    (place / "t.csv").write_text((place / "t.csv").read_text().replace("1000", "many", 1))
    assert "not a line" in said("index", "x.barecat", "--import", "t.csv", "--force", code=2)
    assert Archive("x.barecat").verify().ok
    assert not list(place.glob("*.import*"))
    assert "nothing to index" in said("index", "x.barecat", code=2)
