"""``headrace bench``."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from headrace.bench import find_suite
from headrace.bench.rows import median_row
from headrace.cli.main import main
from headrace.cli.verbs import bench

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from headrace.bench.rows import Finding

    Said = Callable[..., str]

TINY = ("--samples", "1", "--rounds", "2")


def changed(path: Path, factor: float) -> Path:
    """A copy of a result in which every speed was another."""
    told: dict[str, Any] = json.loads(path.read_text())
    for row in told["rows"]:
        if row["better"] == "higher" and row["unit"] == "Mpixel/s":
            row |= {name: row[name] * factor for name in ("value", "low", "high")}
    copy = path.with_name("old.json")
    copy.write_text(json.dumps(told))
    return copy


def test_measure_and_compare(tmp_path: Path, said: Said, capsys: pytest.CaptureFixture[str]) -> None:
    text = said("bench", "codecs", *TINY, "--out", tmp_path)
    assert "decode a crop: JPEG 90, with tile index" in text
    assert f"{tmp_path}/codecs.html" in text
    told = json.loads((tmp_path / "codecs.json").read_text())
    assert told["command"] == f"headrace bench codecs --out {tmp_path} --samples 1 --rounds 2"

    old = changed(tmp_path / "codecs.json", 1000)
    assert main(["bench", "codecs", *TINY, "--out", str(tmp_path), "--compare", str(old)]) == 1
    assert "worse: decode: JPEG 90: 0.00 times as good" in capsys.readouterr().out

    old = changed(tmp_path / "codecs.json", 0.001)
    assert main(["bench", "codecs", *TINY, "--out", str(tmp_path), "--compare", str(old)]) == 0
    assert "0 figures worse beyond the spread" in capsys.readouterr().out


def test_json_and_silence(tmp_path: Path, said: Said) -> None:
    told = json.loads(said("bench", "codecs", *TINY, "--out", tmp_path, "--json"))
    assert told["suite"] == "codecs"
    assert said("bench", "codecs", *TINY, "--out", tmp_path, "-q") == ""


def test_what_cannot_be_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*words: str) -> str:
        assert main(["bench", *words, "--out", str(tmp_path / "out")]) == 2
        return capsys.readouterr().err

    for suite in ("formats", "codecs", "all"):
        error = fails(suite, "--images", str(tmp_path / "missing"))
        assert "is not a folder" in error
        assert error.count("\n") == 1
    assert "missing.json" in fails("codecs", "--compare", str(tmp_path / "missing.json"))
    (tmp_path / "other.json").write_text("[1]")
    assert "is not a result of headrace bench" in fails("codecs", "--compare", str(tmp_path / "other.json"))
    settings = {"images": None, "quick": True, "samples": 1, "rounds": None}
    (tmp_path / "quick.json").write_text(
        json.dumps({"version": 2, "suite": "codecs", "settings": settings, "rows": []})
    )
    assert "cannot be compared: settings was" in fails("codecs", "--compare", str(tmp_path / "quick.json"))
    assert not (tmp_path / "out").exists()
    assert "name one suite" in fails("codecs", "ops", "--compare", str(tmp_path / "quick.json"))
    with pytest.raises(SystemExit):
        main(["bench", "no-such-suite"])
    assert "no-such-suite" in capsys.readouterr().err


def test_warm_only_is_said(tmp_path: Path, said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.bench.runner.why_warm_only", lambda folder: "warm only: a test")
    assert "warm only: a test" in said("bench", "codecs", *TINY, "--out", tmp_path)
    assert json.loads((tmp_path / "codecs.json").read_text())["cache"] == "warm only: a test"


def test_several_suites_and_all(tmp_path: Path, said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    said("bench", "codecs", "codecs", "ops", *TINY, "--out", tmp_path, "-q")
    assert sorted(path.name for path in tmp_path.glob("*.json")) == ["codecs.json", "ops.json"]
    suites = {"ops": find_suite("ops"), "gpu": replace(find_suite("gpu"), missing=lambda: "no GPU is here")}
    monkeypatch.setattr(bench, "SUITES", tuple(suites))
    monkeypatch.setattr(bench, "find_suite", suites.__getitem__)
    text = said("bench", "all", *TINY, "--out", tmp_path / "all")
    assert "copy: headrace" in text
    assert sorted(path.name for path in (tmp_path / "all").glob("*.json")) == ["ops.json"]


def test_a_suite_that_fails_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(settings: Any, tell: Any) -> Iterator[Finding]:
        yield median_row("a", "b", [1.0], unit="s")
        raise AssertionError("out of luck")

    suites = {"codecs": replace(find_suite("codecs"), run=run), "ops": find_suite("ops")}
    monkeypatch.setattr(bench, "SUITES", tuple(suites))
    monkeypatch.setattr(bench, "find_suite", suites.__getitem__)
    assert main(["bench", "all", *TINY, "--out", str(tmp_path)]) == 2
    said = capsys.readouterr()
    assert "headrace: error: codecs: out of luck\n" in said.err
    assert "what was measured so far, 1 row, is in" in said.err
    assert "copy: headrace" in said.out
    assert sorted(path.name for path in tmp_path.glob("*.json")) == ["codecs.json", "ops.json"]


def test_a_suite_that_cannot_be_measured_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = replace(find_suite("gpu"), missing=lambda: "no GPU is here")
    monkeypatch.setattr(bench, "find_suite", lambda name: suite)
    assert main(["bench", "gpu", "--out", str(tmp_path / "out")]) == 2
    assert "the suite gpu measures nothing here: no GPU is here" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
