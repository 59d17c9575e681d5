"""How datasets look in notebooks and on terminals."""

from __future__ import annotations

import base64
import io
import re
import time
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import numpy as np
import PIL.Image
import pytest
from tests.helpers import image_file, picture
from tests.range_server import serve_ranges

import headrace as hr
from headrace.formats import contract, gallery
from headrace.formats.gallery import Gallery, Tile, present
from headrace.terminal import Screen

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>\x1b]0;evil\x07\u202e"
FIELDS = {"image": hr.Image(), "label": hr.Int(), "note": hr.Text()}


class Tags(HTMLParser):
    """Elements of a page with their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def pictures(self) -> list[PIL.Image.Image]:
        found = []
        for tag, attributes in self.tags:
            if tag == "img":
                head, _, data = (attributes["src"] or "").partition(",")
                assert re.fullmatch(r"data:image/(png|jpeg);base64", head)
                found.append(PIL.Image.open(io.BytesIO(base64.b64decode(data, validate=True))))
        return found


def check_page(page: str) -> Tags:
    tags = Tags(page)
    assert not tags.open
    assert {tag for tag, _ in tags.tags} <= {
        "div",
        "b",
        "span",
        "table",
        "tr",
        "td",
        "figure",
        "figcaption",
        "img",
        "br",
    }
    for _, attributes in tags.tags:
        assert set(attributes) <= {"style", "src", "width", "height", "alt", "title", "colspan"}
    assert "\x1b" not in page
    assert "\u202e" not in page
    return tags


@pytest.fixture
def dataset(tmp_path: Path) -> Iterator[hr.Dataset]:
    rows = [(picture(i, 90, 120), i % 2, f"note {i}") for i in range(40)]
    names = [f"{'cat' if i % 2 else 'dog'}/{i}.jpg" for i in range(40)]
    hr.write(tmp_path / "x.beton", rows, fields=FIELDS, names=names, class_names={"label": ["dog", "cat"]})
    with hr.open(tmp_path / "x.beton") as opened:
        yield opened


def test_a_dataset_at_the_end_of_a_cell(dataset: Any) -> None:
    page = dataset._repr_html_()
    tags = check_page(page)
    assert "BetonDataset" in tags.text
    assert "40 samples" in tags.text
    assert "int, 2 classes: dog, cat" in tags.text
    assert "1cat/1.jpg" in tags.text
    assert "label: 1 (cat)" in tags.text
    assert [image.size for image in tags.pictures()] == [(72, 54)] * 8
    assert len(page) < 40_000


def test_show_in_a_notebook_and_elsewhere(
    dataset: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert dataset.show([3, -1]) is None
    printed = capsys.readouterr().out
    assert "3  cat/3.jpg  label: 1 (cat)  note: note 3  120 x 90" in printed
    assert "39  cat/39.jpg" in printed
    assert "\x1b" not in printed
    monkeypatch.setattr(gallery, "is_notebook", lambda stream: True)
    shown = dataset.show("dog/4.jpg", side=200)
    assert not capsys.readouterr().out
    tags = check_page(shown._repr_html_())
    assert "4dog/4.jpg" in tags.text
    assert [image.size for image in tags.pictures()] == [(120, 90)]
    assert "4  dog/4.jpg" in repr(shown)


def test_which_samples_are_shown(dataset: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def numbers(*args: Any, **options: Any) -> list[int]:
        dataset.show(*args, **options)
        return [int(one) for one in re.findall(r"^  (\d+)  \w+/", capsys.readouterr().out, re.M)]

    assert numbers(count=4) == [0, 10, 20, 30]
    assert numbers(slice(5, 8)) == [5, 6, 7]
    assert numbers(7) == [7]
    assert numbers(np.arange(40) < 2) == [0, 1]
    assert numbers(range(30), count=3) == [0, 1, 2]
    dataset.show(range(30), count=3)
    assert "27 samples more; count= says how many are shown" in capsys.readouterr().out


def test_wrong_arguments(dataset: Any) -> None:
    with pytest.raises(ValueError, match="count must be 1 to 256, got 0"):
        dataset.show(count=0)
    with pytest.raises(ValueError, match="side must be 16 to 512, got 9000"):
        dataset.show(side=9000)
    with pytest.raises(IndexError, match="sample 40 is out of range"):
        dataset.show(40)
    with pytest.raises(KeyError, match="no sample is called"):
        dataset.show("nobody")


def test_what_a_file_says_is_escaped_and_cut(tmp_path: Path) -> None:
    fields = {EVIL[:16]: hr.Text(), "label": hr.Int(), "j": hr.Json()}
    hr.write(
        tmp_path / "x.beton",
        [(EVIL * 1000, 0, {"a": EVIL})] * 3,
        fields=fields,
        names=[f"{i}{EVIL}" for i in range(3)],
        class_names={"label": [EVIL * 100] * 1000},
    )
    with hr.open(tmp_path / "x.beton") as opened:
        page = opened._repr_html_()  # type: ignore[attr-defined]
        tags = check_page(page)
        assert "<script>alert(1)" in tags.text  # as text
        assert "1,000 classes" in tags.text
        assert len(page) < 8000


def test_damage_is_a_tile(tmp_path: Path) -> None:
    files = [image_file(picture(i, 60, 60), "JPEG") for i in range(3)]
    hr.write(tmp_path / "x.beton", [(file,) for file in files], fields={"image": hr.Image()})
    data = bytearray((tmp_path / "x.beton").read_bytes())
    at = data.index(files[1]) + 300
    data[at : at + 50] = bytes(50)
    (tmp_path / "x.beton").write_bytes(data)
    with hr.open(tmp_path / "x.beton") as opened:
        tags = check_page(opened._repr_html_())  # type: ignore[attr-defined]
        assert len(tags.pictures()) == 2
        assert "sample 1, field 'image'" in tags.text


def test_a_closed_or_empty_dataset_breaks_nothing(dataset: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset.close()
    assert "the dataset is closed; open it again" in check_page(dataset._repr_html_()).text
    monkeypatch.setattr(Endless, "__len__", lambda self: 0)
    assert "0 samples" in check_page(Endless()._repr_html_()).text
    assert Endless().show() is None


@pytest.mark.parametrize("ending", ["tar", "zip", "parquet", "h5", "barecat", "npz", "jsonl"])
def test_every_format_has_it(tmp_path: Path, ending: str) -> None:
    rows, fields = ([(i, f"note {i}") for i in range(4)], {"label": hr.Int(), "note": hr.Text()})
    hr.write(tmp_path / f"x.{ending}", rows, fields=fields)
    with hr.open(tmp_path / f"x.{ending}") as opened:
        assert "note 2" in check_page(opened._repr_html_()).text  # type: ignore[attr-defined]
        assert "note 2" in check_page(hr.concat([opened, opened])._repr_html_()).text  # type: ignore[attr-defined]


class Endless(contract.BaseDataset):
    """Ten million samples without a file."""

    path = "endless"
    schema: Mapping[str, Any] = {f"field {i}": hr.Int() for i in range(1000)}

    def __len__(self) -> int:
        return 10_000_000

    def _samples(self, indices: Any) -> list[Any]:
        time.sleep(0.002)
        names = tuple(self.schema)
        return [hr.Sample(names, tuple(range(len(names)))) for _ in indices]

    def read_bytes(self, indices: Any, field: str) -> list[bytes]:
        raise AssertionError

    def verify(self, **options: Any) -> Any:
        raise AssertionError


def test_ten_million_samples_of_a_thousand_fields_take_milliseconds_and_a_few_kilobytes() -> None:
    start_s = time.process_time()
    page = Endless()._repr_html_()
    assert time.process_time() - start_s < 0.5
    assert len(page) < 30_000
    assert "10,000,000 samples" in page
    assert "and 960 fields more" in page


def test_reading_that_takes_long_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = Endless._samples
    monkeypatch.setattr(Endless, "_samples", lambda self, indices: time.sleep(0.05) or quick(self, indices))
    assert "samples left out: reading them takes long" in Endless()._repr_html_()


def test_what_lies_in_a_store_is_not_fetched(dataset: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(dataset), "is_local", False)
    tags = check_page(dataset._repr_html_())
    assert not tags.pictures()
    assert "show() brings samples from the store" in tags.text


@pytest.mark.parametrize("ending", ["beton", "tar", "parquet"])
def test_show_brings_what_lies_in_a_store(tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("obstore")
    rows = [(image_file(picture(i, 60, 80), "JPEG"), i) for i in range(30)]
    hr.write(tmp_path / f"x.{ending}", rows, fields={"image": hr.Image(), "label": hr.Int()})
    monkeypatch.setattr(gallery, "is_notebook", lambda stream: True)
    with serve_ranges(tmp_path) as server, hr.open(server.url_of(f"x.{ending}")) as remote:
        assert "show() brings samples" in remote._repr_html_()  # type: ignore[attr-defined]
        shown: Any = remote.show(count=4)
        with hr.open(tmp_path / f"x.{ending}") as local:
            wanted: Any = local.show(count=4)
        assert [tile.captions for tile in shown.tiles] == [tile.captions for tile in wanted.tiles]
        for mine, theirs in zip(shown.tiles, wanted.tiles, strict=True):
            assert (mine.picture.pixels == theirs.picture.pixels).all()


def test_a_page_is_bounded_in_bytes(dataset: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gallery, "_MOST_BYTES", 5000)
    tags = check_page(dataset._repr_html_())
    assert 0 < len(tags.pictures()) < 8
    assert "the page would become too large" in tags.text


def test_tiny_pictures_are_drawn_large_with_sharp_pixels(tmp_path: Path) -> None:
    hr.write(tmp_path / "x.beton", [(picture(1, 8, 8),)], fields={"image": hr.Image(mode="raw")})
    with hr.open(tmp_path / "x.beton") as opened:
        page = opened._repr_html_()  # type: ignore[attr-defined]
    assert 'width="72" height="72"' in page
    assert "pixelated" in page


def test_on_a_terminal_pictures_stand_beside_each_other(dataset: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(gallery, "find_screen", lambda stream: Screen(way="blocks", columns=80, lines=24))
    monkeypatch.setattr("sys.stdout", out)
    dataset.show(range(3))
    lines = out.getvalue().splitlines()
    drawn = [line for line in lines if "▀" in line]
    assert len(drawn) == 9  # 24 columns of a picture of 4 to 3 are 18 rows, two in a line
    plain = [re.sub(r"\x1b\[[\d;]*m", "", line) for line in lines]
    assert plain[lines.index(drawn[0])] == "  ".join(["▀" * 24] * 3)
    assert any(re.fullmatch(r"dog/0.jpg +cat/1.jpg +dog/2.jpg", line) for line in plain)
    assert all(line.count("\x1b[0m") == 3 for line in drawn)


def test_sequences_of_a_file_do_not_reach_a_terminal() -> None:
    tiles = [Tile(captions=[EVIL], problem=EVIL)]
    one = Gallery(title=EVIL, facts=EVIL, fields=[(EVIL, EVIL)], tiles=tiles, note=EVIL)
    for screen in (Screen(way="text"), Screen(way="blocks")):
        text = "\n".join(one.lines(screen))
        assert "\x1b]" not in text
        assert "\u202e" not in text
    out = io.StringIO()
    assert present(one, out) is None
    assert "\x1b" not in out.getvalue()
