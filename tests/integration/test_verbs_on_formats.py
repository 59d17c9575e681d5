"""The verbs that read, and index, on every format that can be written."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.helpers import image_file, picture

import headrace as hr
from headrace.cli.main import main
from headrace.errors import MissingExtraError
from headrace.formats.open import FORMATS

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.formats.contract import Format

COUNT = 6
JPEGS = [image_file(picture(i, 24, 32), "JPEG", quality=85) for i in range(COUNT)]
SHAPES: tuple[dict[str, Any], ...] = ({"image": hr.Image(), "label": hr.Int()}, {"image": hr.Image()}, {"n": hr.Int()})
WRITABLE = [FORMATS.load(name) for name in FORMATS.names() if FORMATS.load(name).create is not None]


def held_fields(format_: Format, path: str, **options: Any) -> dict[str, Any]:
    """Pictures and labels, or as much of that as the format holds; written to the path."""
    for fields in SHAPES:
        rows = [(JPEGS[i], i // 3) for i in range(COUNT)] if len(fields) == 2 else list(zip(JPEGS, strict=True))
        samples: list[Any] = list(range(COUNT)) if "n" in fields else rows
        try:
            hr.write(path, samples, fields=fields, workers=1, **options)
        except MissingExtraError as error:
            pytest.skip(str(error))
        except ValueError:
            continue
        return fields
    raise AssertionError(f"{format_.name} holds none of them")


@pytest.mark.parametrize("format_", WRITABLE, ids=lambda format_: format_.name)
def test_every_verb_works(format_: Format, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    path = str(tmp_path / f"x{format_.suffixes[0]}")
    fields = held_fields(format_, path)

    def run(*words: str) -> str:
        capsysbinary.readouterr()
        assert main(list(words)) == 0, words
        said = capsysbinary.readouterr()
        assert b"Traceback" not in said.err
        return said.out.decode(errors="replace")

    assert f"{COUNT}" in run("info", path)
    facts = json.loads(run("info", path, "--json"))
    assert facts.get("samples", facts.get("files")) == COUNT
    assert len(run("ls", path).splitlines()) >= (COUNT if format_.open_archive is None else 1)
    run("ls", "-l", path)
    name = (hr.open(path).keys or ["0"])[0]
    assert run("cat", path, name if format_.open_archive is not None else "0")
    assert ": ok (" in run("verify", path)
    run("verify", path, "--decode")
    folder = tmp_path / "out"
    run("extract", path, "-C", str(folder))
    pictures = sorted(file.read_bytes() for file in folder.rglob("*") if file.suffix in (".jpg", ".bin"))
    assert pictures == (sorted(JPEGS) if "image" in fields else [])
    assert not [file for file in folder.rglob("*") if file.name.endswith((".jpg.jpg", ".npy.npy", ".json.json"))]


@pytest.mark.parametrize("format_", WRITABLE, ids=lambda format_: format_.name)
def test_an_annex_helps_or_is_not_advised(
    format_: Format, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = str(tmp_path / f"x{format_.suffixes[0]}")
    held_fields(format_, path, **({"annex": False} if "annex" in format_.writer_options else {}))
    capsysbinary.readouterr()
    assert main(["verify", path]) == 0
    is_advised = b"make them with: headrace index" in capsysbinary.readouterr().out
    if format_.index is None:
        assert not is_advised
        assert main(["index", path]) == 2
        assert b"have an annex" in capsysbinary.readouterr().err
        return
    assert main(["index", path]) == 0
    capsysbinary.readouterr()
    assert main(["verify", path]) == 0
    said = capsysbinary.readouterr().out
    assert b"make them with" not in said
    assert not is_advised or b"no checksums" not in said
