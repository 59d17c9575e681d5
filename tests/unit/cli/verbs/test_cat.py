"""``headrace cat``."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image as Pillow
from tests.helpers import picture

import headrace as hr
from headrace.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Said = Callable[..., str]


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


def test_cat_of_a_packed_folder(packed_files: Path, said: Said) -> None:
    assert said("cat", packed_files, "a.txt", "data") == "hello"


def test_cat_of_an_archive(place: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["cat", "x.barecat", "src/note\n.txt"]) == 0
    assert capsysbinary.readouterr().out == b"hello"
