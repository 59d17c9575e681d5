from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image as Pillow
from tests.helpers import picture

import headrace as hr
from headrace.cli.main import build_parser, main
from headrace.codecs import jpeg

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two classes, five pictures: four JPEG files and a PNG."""
    root = tmp_path / "pictures"
    for i, name in enumerate(["cat/a.jpg", "cat/b.JPEG", "dog/c.jpg", "dog/deep/d.jpg"]):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg.encode(picture(i, 40 + i, 60)))
    Pillow.fromarray(picture(9, 30, 20)).save(root / "dog" / "e.png")
    return root


@pytest.fixture
def packed(folder: Path, tmp_path: Path) -> Path:
    path = tmp_path / "x.beton"
    assert main(["create", str(path), str(folder), "-q"]) == 0
    return path


def out_of(capsys: pytest.CaptureFixture[str], *argv: str | Path, code: int = 0) -> str:
    capsys.readouterr()
    assert main([str(word) for word in argv]) == code
    return capsys.readouterr().out


def json_of(capsys: pytest.CaptureFixture[str], *argv: str | Path, code: int = 0) -> Any:
    return json.loads(out_of(capsys, *argv, "--json", code=code))


# -- create -------------------------------------------------------------------------------------------------------


def test_create_keeps_bytes_names_and_classes(packed: Path, folder: Path) -> None:
    dataset = hr.open(packed)
    assert list(dataset.keys) == ["cat/a.jpg", "cat/b.JPEG", "dog/c.jpg", "dog/deep/d.jpg", "dog/e.png"]
    assert dataset.class_names == {"label": ["cat", "dog"]}
    assert dataset.column("label").tolist() == [0, 0, 1, 1, 1]
    assert dataset.read_bytes([1], "image") == [(folder / "cat/b.JPEG").read_bytes()]


def test_create_options_reach_the_file(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "raw.beton"
    options = ["--mode", "raw", "--max-side", "16", "--page-size", "2M", "--shuffle", "3", "-j", "2"]
    summary = json_of(capsys, "create", path, folder, *options)
    assert summary["samples"] == 5
    dataset = hr.open(path)
    assert dataset.layout.page_size == 2 << 20
    assert dataset.image_facts("image")["mode"].tolist() == [1] * 5
    assert max(dataset.image_facts("image")["width"].max(), dataset.image_facts("image")["height"].max()) == 16
    assert sorted(dataset.keys) != list(dataset.keys)
    assert dataset.column("label").tolist() == [int(name.startswith("dog")) for name in dataset.keys]


def test_create_without_annex(folder: Path, tmp_path: Path) -> None:
    assert main(["create", str(tmp_path / "x.beton"), str(folder), "--no-annex", "-q"]) == 0
    assert hr.open(tmp_path / "x.beton").annex is None


def test_create_does_not_replace_unasked(packed: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = packed.read_bytes()
    assert main(["create", str(packed), str(folder)]) == 2
    assert "--force" in capsys.readouterr().err
    assert main(["create", str(packed), str(folder), "--force", "-q"]) == 0
    assert packed.read_bytes() == before, "same pictures, same bytes"


def test_create_names_the_bad_file_and_leaves_nothing(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "cat" / "bad.jpg").write_bytes(b"\xff\xd8\xff nonsense")
    assert main(["create", str(tmp_path / "x.beton"), str(folder)]) == 2
    message = capsys.readouterr().err
    assert message.startswith("headrace: error: sample 2, field 'image'")
    assert "bad.jpg" in message
    assert os.listdir(tmp_path) == ["pictures"]


def test_create_with_a_background(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clear = np.zeros((8, 8, 4), np.uint8)
    Pillow.fromarray(clear).save(folder / "cat" / "clear.png")
    target = str(tmp_path / "x.beton")
    assert main(["create", target, str(folder), "-q"]) == 2
    assert "background" in capsys.readouterr().err
    assert main(["create", target, str(folder), "--background", "white", "--mode", "raw", "-q"]) == 0
    dataset = hr.open(target)
    assert (dataset[dataset.keys.index("cat/clear.png")].image == 255).all()


# -- looking ------------------------------------------------------------------------------------------------------


def test_info(packed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    summary = json_of(capsys, "info", packed)
    assert summary["samples"] == 5
    assert summary["fields"]["image"]["images"] == {"jpg": 5, "raw": 0, "unknown": 0}
    assert summary["annex"]["where"] == "embedded"
    assert summary["pages"] == 1
    assert 0 < summary["page_use"] < 1
    assert summary["size_bytes"] == packed.stat().st_size
    text = out_of(capsys, "info", packed)
    for word in ("5 samples", "5 jpg", "checksums", "2 in field 'label'"):
        assert word in text


def test_info_of_a_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    summary = json_of(capsys, "info", folder)
    assert (summary["format"], summary["samples"]) == ("folder", 5)


def test_ls(packed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert out_of(capsys, "ls", packed).splitlines()[1] == "1  cat/b.JPEG"
    rows = json_of(capsys, "ls", packed, "1:3", "dog/e.png", "-1")
    assert [row["index"] for row in rows] == [1, 2, 4, 4]
    assert rows[0]["fields"]["label"] == 0
    assert rows[0]["fields"]["image"].startswith("60x41:")


def test_cat(packed: Path, folder: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["cat", str(packed), "cat/a.jpg", "image"]) == 0
    assert capfdbinary.readouterr().out == (folder / "cat/a.jpg").read_bytes()
    assert main(["cat", str(packed), "3", "label"]) == 0
    assert capfdbinary.readouterr().out == b"1\n"
    assert main(["cat", str(packed), "3"]) == 0
    assert b"label=1" in capfdbinary.readouterr().out


def test_cat_makes_files_that_others_open(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    path = tmp_path / "x.beton"
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    fields = {"image": hr.Image(mode="raw"), "a": hr.NDArray("int16", (2, 3)), "j": hr.Json(), "t": hr.Text()}
    hr.write(path, [(picture(0, 9, 7), array, {"ü": 1}, "größe")], fields=fields)

    def cat(field: str, *options: str) -> bytes:
        assert main(["cat", str(path), "0", field, *options]) == 0
        return capfdbinary.readouterr().out

    np.testing.assert_array_equal(np.asarray(Pillow.open(io.BytesIO(cat("image")))), picture(0, 9, 7))
    np.testing.assert_array_equal(np.load(io.BytesIO(cat("a"))), array)
    assert json.loads(cat("j")) == {"ü": 1}
    assert cat("t").decode() == "größe"
    assert cat("j", "--stored") == hr.open(path).read_bytes([0], "j")[0]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["cat", "9"], "sample 9 is out of range, the dataset has 5 samples"),
        (["cat", "nobody"], "no sample is called 'nobody'"),
        (["cat", "0", "colour"], "no field 'colour'; the fields are image, label"),
        (["extract", "-C", "out", "--field", "colour"], "no field 'colour'"),
    ],
)
def test_wrong_words(packed: Path, capsys: pytest.CaptureFixture[str], argv: list[str], message: str) -> None:
    assert main([argv[0], str(packed), *argv[1:]]) == 2
    assert message in capsys.readouterr().err


# -- extract ------------------------------------------------------------------------------------------------------


def test_extract_gives_the_files_back(packed: Path, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert main(["extract", str(packed), "-C", str(out), "-q"]) == 0
    for name in ("cat/a.jpg", "cat/b.JPEG", "dog/c.jpg", "dog/deep/d.jpg"):
        assert (out / name).read_bytes() == (folder / name).read_bytes()
    assert jpeg.is_jpeg((out / "dog/e.jpg").read_bytes()), "a PNG that was stored as JPEG gets its true ending"
    rows = [json.loads(line) for line in (out / "index.jsonl").read_text().splitlines()]
    assert [row["label"] for row in rows] == [0, 0, 1, 1, 1]
    assert rows[4] == {"index": 4, "name": "dog/e.png", "image": "dog/e.jpg", "label": 1}


def test_extract_some_fields_of_some_samples(packed: Path, tmp_path: Path) -> None:
    assert main(["extract", str(packed), "-C", str(tmp_path / "out"), "0:2", "-q", "--field", "label"]) == 0
    assert os.listdir(tmp_path / "out") == ["index.jsonl"]


def test_extract_never_leaves_the_folder(tmp_path: Path) -> None:
    names = ["../escape.jpg", "/absolute.jpg", "a/../../b.jpg", "", "fine.jpg", "fine.jpg", "x\0y.jpg", "index.jsonl"]
    data = jpeg.encode(picture(0, 8, 8))
    hr.write(tmp_path / "x.beton", [(data,)] * len(names), fields={"image": hr.Image()}, names=names)
    out = tmp_path / "deep" / "out"
    assert main(["extract", str(tmp_path / "x.beton"), "-C", str(out), "-q"]) == 0
    assert sorted(os.listdir(tmp_path)) == ["deep", "x.beton"]
    assert os.listdir(tmp_path / "deep") == ["out"]
    pictures = [p for p in out.iterdir() if p.name != "index.jsonl"]
    assert len(pictures) == len(names), "no sample overwrites another"
    assert all(p.read_bytes() == data for p in pictures)
    assert len((out / "index.jsonl").read_text().splitlines()) == len(names)


def test_extract_does_not_follow_links(packed: Path, tmp_path: Path) -> None:
    out, victim = tmp_path / "out", tmp_path / "victim"
    victim.write_text("precious")
    (out / "cat").mkdir(parents=True)
    (out / "cat" / "a.jpg").symlink_to(victim)
    assert main(["extract", str(packed), "-C", str(out), "--force", "-q"]) == 2
    assert victim.read_text() == "precious"


# -- verify and index ---------------------------------------------------------------------------------------------


def test_verify_finds_what_is_bad(packed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = json_of(capsys, "verify", packed, "--decode")
    assert (report["ok"], report["samples_checked"], report["images_decoded"]) == (True, 5, 5)
    assert report["checksums_checked"] == 10
    at = int(hr.open(packed).image_facts("image")["data_ptr"][2]) + 100
    with packed.open("r+b") as file:
        file.seek(at)
        file.write(b"\0\1\2\3")
    report = json_of(capsys, "verify", packed, code=1)
    assert report["bad_samples"] == [2]
    text = out_of(capsys, "verify", packed, code=1)
    assert "sample 2, field 'image': checksum" in text
    assert "BAD: 1 problem, 1 sample affected" in text


def test_verify_of_a_file_that_does_not_open(packed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packed.write_bytes(packed.read_bytes()[:1000])
    assert "descriptors need" in out_of(capsys, "verify", packed, code=1)


def test_index_beside_and_inside(golden_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "g.beton"
    path.write_bytes((golden_dir / "img_jpg_var.beton").read_bytes())
    before = [(s.image.tobytes(), s.label) for s in hr.open(path)]
    assert "no checksums" in out_of(capsys, "verify", path)
    assert json_of(capsys, "index", path)["annex"] == f"{path}.annex"
    assert "22 checksums" in out_of(capsys, "verify", path)
    (tmp_path / "names").write_text("".join(f"n{i}\n" for i in range(11)))
    (tmp_path / "classes").write_text("one\ntwo\n")
    words = ["--embed", "--names", tmp_path / "names", "--classes", f"label={tmp_path / 'classes'}"]
    assert json_of(capsys, "index", path, *words)["annex"] == str(path)
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


# -- the command itself -------------------------------------------------------------------------------------------


def test_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep = tmp_path / "demo"
    text = out_of(capsys, "demo", "--count", "24", "--keep", keep, "-q")
    assert "verify says bad samples: [12]" in text
    assert "checksum 0x" in text
    assert len(hr.open(keep / "pictures-raw.beton")) == 24
    assert main(["demo", "--keep", str(keep)]) == 2


def test_every_verb_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    for verb in ("create", "info", "ls", "cat", "extract", "verify", "index", "demo"):
        with pytest.raises(SystemExit) as left:
            build_parser().parse_args([verb, "--help"])
        assert left.value.code == 0
        assert f"headrace {verb}" in capsys.readouterr().out.partition("examples:")[2]


def test_a_closed_pipe_is_no_error(packed: Path) -> None:
    script = f"{sys.executable} -m headrace ls {packed} | true"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {script}"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_version_and_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"headrace {hr.__version__}\n"
    with pytest.raises(FileNotFoundError):
        main(["--traceback", "info", "missing.beton"])
