"""No verb prints the name, the password or the query of a URL that it was given."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.helpers import image_file, picture
from tests.range_server import serve_ranges

pytest.importorskip("obstore")

import headrace as hr
from headrace.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECRETS = ("PASSWORD", "SIGNATURE", "TOKEN")
COMMANDS = {
    "info": "info x.beton",
    "info --json": "info --json x.beton",
    "ls": "ls x.beton",
    "verify": "verify x.beton",
    "verify --json": "verify --json x.beton",
    "doctor": "doctor --seconds 0.1 x.beton",
    "index": "index x.beton",
    "index --embed": "index --embed x.beton",
    "convert to it": "convert here.beton x.beton",
    "convert": "convert x.beton out.tar",
    "extract": "extract x.beton out 0:2",
    "missing": "info none.beton",
    "damaged": "info damaged.beton",
    "pattern": "info x*.beton",
    "archive": "ls x.barecat",
    "archive verify": "verify x.barecat",
    "rm": "rm x.barecat 0",
    "defrag": "defrag x.barecat",
    "repair": "repair x.barecat",
    "sync": "sync x.barecat out.barecat",
}


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    rows = [(image_file(picture(i, 40, 30), "JPEG"), i) for i in range(4)]
    folder = tmp_path / "served"
    folder.mkdir()
    hr.write(folder / "x.beton", rows, fields={"image": hr.Image(), "label": hr.Int()})
    hr.convert(folder / "x.beton", folder / "x.barecat")
    (folder / "damaged.beton").write_bytes(b"no dataset")
    hr.convert(folder / "x.beton", tmp_path / "here.beton")
    monkeypatch.chdir(tmp_path)
    with serve_ranges(folder) as server:
        yield server.url.replace("://", "://me:PASSWORD@") + "/{}?X-Amz-Signature=SIGNATURE&token=TOKEN"


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_secrets_are_not_printed(url: str, command: str, capfd: pytest.CaptureFixture[str]) -> None:
    served = ("x.beton", "none.beton", "damaged.beton", "x*.beton", "x.barecat")
    words = [url.format(word) if word in served else word for word in command.split()]
    try:
        code = main(words)
    except SystemExit as end:
        code = int(str(end.code))
    said = "".join(capfd.readouterr())
    assert code in (0, 1, 2)
    assert not [secret for secret in SECRETS if secret in said], said


def test_shards_of_an_archive_stand_before_the_query(url: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", url.format("x.barecat")]) == 0, capfd.readouterr().err


def test_errors_in_python_have_no_secrets(url: str) -> None:
    for name in ("none.beton", "damaged.beton"):
        with pytest.raises((OSError, ValueError)) as caught:
            hr.open(url.format(name))
        assert not [secret for secret in SECRETS if secret in str(caught.value)]
    with pytest.raises(ValueError, match=r"is in a store") as caught:
        hr.repair(url.format("x.barecat"))
    assert not [secret for secret in SECRETS if secret in str(caught.value)]
