"""Every suite with a handful of samples: what it measures, the JSON, the page; interrupts, and too little room."""

from __future__ import annotations

import gc
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from contextlib import nullcontext
from dataclasses import replace
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import headrace
from headrace.bench import SUITES, Settings, find_suite, format_files, run_suite, suites
from headrace.bench.child import ChildError
from headrace.bench.machine import BARECAT_PYTHON, FFCV_PYTHON
from headrace.bench.peers.headrace_loader import stage_seconds
from headrace.bench.peers.peer import Peer
from headrace.bench.peers.pillow_crop import draw_box
from headrace.bench.pictures import photo
from headrace.bench.rows import Missing, Row, median_row
from headrace.bench.source import fingerprint
from headrace.codecs import jpeg
from headrace.formats.open import all_formats
from headrace.loader.stages import STAGES
from headrace.loader.stats import LoaderStats

for _name in SUITES:
    find_suite(_name)  # so that each is an attribute of suites

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.bench.report import Result
    from headrace.bench.rows import Finding

SAMPLES = {"scaling": 1000, "shuffle": 80, "memory": 8, "resume": 1, "codecs": 2, "reads": 400, "libraries": 40}
SECTIONS = {
    "formats": {
        "photographs: size, with the annex",
        "photographs: write",
        "photographs: open, warm",
        "photographs: sequential batches of 256, warm",
        "photographs: random crops by the Loader",
        "arrays of 10 kB: random batches of 256, warm",
        "arrays of 10 kB: memory",
    },
    "codecs": {"size", "error", "encode", "decode", "decode a crop"},
    "shuffle": {"loading, warm", "a small model, data sorted by class"},
    "loader": {
        "1 worker",
        "stages of headrace, 1 worker",
        "difference from Pillow without shortcuts",
        *(["a small model trains on the same cores"] if find_spec("torch") else []),
    },
    "crops": {"as taken: random crops, flipped", "size of the tile indices"},
    "reads": {
        "ranges of a file, warm: 256 x 10 kB",
        "samples of an .ffr, warm: 256 x 10 kB",
        "samples of a .beton, warm: 256 x 1 kB",
        "checksums, pieces of 1 KiB",
    },
    "libraries": {"scan tar", "TFRecord, examples parsed"},
    "convert": {
        "tar to .beton",
        "pack a folder of JPEGs as they are",
        "small files into a tar",
        "photographs given as arrays",
        "encode anew",
    },
    "archives": {"create from files", "256 files in one call, preloaded", "check all files", "open and close"},
    "stores": {
        "difference from Pillow without shortcuts",
        "random crops, an epoch",
        "random crops, a network of 1 Gbit/s",
        "random crops, 20 ms of latency",
        "the first batch",
    },
    "ops": {"copy", "hue", "RandAugment(2, 9)", "difference from Pillow and numpy"},
    "ffcv": {"pictures in order"},
    "scaling": {"start Python", "open", "a batch, random", "memory", "quasi-random order, the whole epoch"},
    "memory": {"by batch size", "by workers", "by epochs"},
    "resume": {
        "first batch after a restart",
        "size of the state",
        "batches after a restart that are the same to the bit",
    },
}
COMPARED = {  # a row and a peer that is there on every machine
    "reads": ("samples of a .beton, warm: 256 x 1 kB: read_bytes", "os.pread"),
    "convert": ("tar to .beton: convert", "cp"),
    "libraries": ("scan tar: finding", "cat"),
    "stores": ("random crops, an epoch: headrace", "a local file"),
    "ops": ("hue: headrace", "Pillow and numpy"),
    "scaling": ("start Python: import headrace", "import numpy"),
    "shuffle": ("loading, warm: random", "the file in sequence, no loader"),
}


def fewer(patch: pytest.MonkeyPatch) -> None:
    """Of what is measured in the same way again and again, one or two: processes take most of the time of a test."""
    known = {one.name: one for one in all_formats()}
    patch.delenv(FFCV_PYTHON, raising=False)
    patch.delenv(BARECAT_PYTHON, raising=False)
    patch.setattr(suites.loader, "PEERS", suites.loader.PEERS[:2])  # others need seconds each to be imported
    patch.setattr(suites.stores, "_PEERS", ())
    patch.setattr(suites.ffcv, "_CASES", suites.ffcv._CASES[:1])
    patch.setattr(suites.ffcv, "is_there", lambda name: False)
    patch.setattr(suites.shuffle, "_SEEDS", 1)
    patch.setattr(suites.convert, "sync_disk", lambda folder: None)  # a busy disk takes seconds for it
    patch.setattr(suites.formats, "sync_disk", lambda folder: None)
    patch.setattr(suites.convert, "PACKAGES", ())
    patch.setattr(suites.formats, "PACKAGES", ())
    patch.setattr(suites.convert, "all_formats", lambda: [known["tar"]])
    patch.setattr(suites.loader, "_worker_counts", lambda settings: [1])
    patch.setattr(suites.crops, "_WAYS", dict(list(suites.crops._WAYS.items())[:1]))
    cases, crops = list(suites.memory._cases()), list(suites.crops._cases())[:1]
    patch.setattr(suites.memory, "_cases", lambda: {case.section: case for case in cases}.values())
    patch.setattr(suites.crops, "_cases", lambda: crops)
    patch.setattr(suites.crops, "_STORED", suites.crops._STORED[:1])


@pytest.fixture(scope="module", params=[name for name in SUITES if name in SECTIONS])
def result(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    name: str = request.param
    with pytest.MonkeyPatch.context() as patch:
        fewer(patch)
        if name == "formats":  # the others have a test of their own, and are measured in the same way
            some = [one for one in all_formats() if one.name in ("beton", "ffr", "tar", "npy", "msgpack")]
            patch.setattr(format_files, "all_formats", lambda: some)
        if reason := find_suite(name).missing():
            pytest.skip(reason)
        out = tmp_path_factory.mktemp(name)
        settings = Settings(work=out, quick=True, samples=SAMPLES.get(name, 4), rounds=1)
        gc.freeze()  # a suite collects garbage again and again, which takes seconds after thousands of tests
        try:
            return run_suite(find_suite(name), settings, command=f"headrace bench {name}"), out
        finally:
            gc.unfreeze()


def test_every_suite_is_tried() -> None:
    assert set(SUITES) - set(SECTIONS) == {"gpu"}  # tests/gpu has it
    for name in SUITES:
        suite = find_suite(name)
        assert suite.name == name
        for room in suite.rooms:
            assert (Path(headrace.__file__).parent / room).is_dir(), f"{name}: there is no room {room}"


def test_rows_are_compared_with_peers(result: tuple[Result, Path]) -> None:
    found, _ = result
    if found.suite.name in COMPARED:
        key, peer = COMPARED[found.suite.name]
        row = next(row for row in found.rows if row.key == key)
        theirs = next(one for one in found.rows if (one.section, one.name) == (row.section, peer))
        times = theirs.value / row.value if row.unit == "s" else row.value / theirs.value
        assert row.beside[peer].value == pytest.approx(times)
        assert theirs.beside == {} or peer not in theirs.beside


def test_the_sections_that_it_is_about(result: tuple[Result, Path]) -> None:
    found, _ = result
    assert SECTIONS[found.suite.name] <= {row.section for row in found.rows}
    assert found.is_complete
    assert all(row.low <= row.value <= row.high for row in found.rows)


def test_the_json_is_whole(result: tuple[Result, Path]) -> None:
    found, out = result
    told = json.loads((out / f"{found.suite.name}.json").read_text())
    assert told == json.loads(json.dumps(found.as_json()))
    expected = {
        "version",
        "suite",
        "question",
        "command",
        "cache",
        "settings",
        "environment",
        "source",
        "missing",
        "rows",
    }
    assert expected <= set(told)
    assert told["source"] == fingerprint(found.suite)
    assert {"date", "commit", "cpu", "cores", "python", "headrace", "simd", "kernel", "packages"} <= set(
        told["environment"]
    )
    for row in told["rows"]:
        names = {"section", "name", "value", "unit", "better", "low", "high", "repeats", "cache", "beside", "text"}
        assert names <= set(row)


def test_the_page_stands_alone(result: tuple[Result, Path]) -> None:
    found, out = result
    text = (out / f"{found.suite.name}.html").read_text()
    page = ET.fromstring(text.replace("<!DOCTYPE html>", ""))
    assert len(list(page.iter("svg"))) >= 1
    assert not re.search(r"(?:https?:)?//\w|@import|url\(|<script", text)
    for row in found.rows:
        assert any(one.text == row.name for one in page.iter("th"))
    assert "prefers-color-scheme: dark" in text


def test_nothing_else_is_left(result: tuple[Result, Path]) -> None:
    found, out = result
    assert sorted(os.listdir(out)) == [f"{found.suite.name}.html", f"{found.suite.name}.json"]


def test_formats_that_the_house_writes_are_all_there(tmp_path: Path) -> None:
    settings = Settings(work=tmp_path, quick=True, samples=2, rounds=1, warm_only="warm only: a test")
    run = find_suite("formats").run(settings, lambda what: None)
    findings = list(takewhile(lambda one: isinstance(one, Missing) or "size" in one.section, run))
    known = {known.name for known in all_formats() if known.create is not None} | {"plain files"}
    missing = {one.name.rpartition(": ")[2]: one.reason for one in findings if isinstance(one, Missing)}
    assert {one.name for one in findings if isinstance(one, Row)} | set(missing) >= known
    assert missing["cold reads and requests to the disk"] == "warm only: a test"
    assert "npy" in missing  # JPEGs have different sizes


# The user's photographs


def test_photographs_of_the_user_are_measured(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "1.jpg").write_bytes(jpeg.encode(photo(1), quality=50))
    settings = Settings(work=tmp_path / "out", images=str(tmp_path / "photos"), samples=2, rounds=1)
    found = run_suite(find_suite("codecs"), settings, command="x")
    assert found.as_json()["settings"]["images"] == str(tmp_path / "photos")


# What goes wrong


def test_peers_that_are_not_installed_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FFCV_PYTHON, raising=False)
    monkeypatch.setattr(suites.loader, "_worker_counts", lambda settings: [1])
    absent = Peer("Nowhere", "nowhere:Loader", ("no_such_package",))
    broken = Peer("Broken", "no_such_module:Loader")
    monkeypatch.setattr(suites.loader, "PEERS", (*suites.loader.PEERS[:2], absent, broken))
    found = run_suite(find_suite("loader"), Settings(work=tmp_path, quick=True, samples=4, rounds=1), command="x")
    reasons = {one.name: one.reason for one in found.missing}
    assert "HEADRACE_FFCV_PYTHON" in reasons["FFCV"]
    assert reasons["Nowhere"] == "not installed: no_such_package"
    assert "no_such_module" in reasons["Broken"]
    assert {row.name for row in found.rows if row.unit == "images/s" and row.section == "1 worker"} == {"headrace"}


def test_every_peer_is_named_once_and_has_its_module() -> None:
    names = [peer.name for peer in suites.loader.PEERS]
    assert len(set(names)) == len(names) == 10
    folder = Path(suites.loader.__file__).parents[1] / "peers"
    for peer in suites.loader.PEERS:
        if peer.contender:
            module, _, name = peer.contender.partition(":")
            assert f"class {name}" in (folder / f"{module}.py").read_text()


def test_stages_are_no_sums_and_took_some_time() -> None:
    stats = LoaderStats(wait_s=1.5, idle_s=0.5, loop_s=9.0, begin_s=8.0, finish_s=7.0)
    stats.stages["read"] = 0.5
    told = stage_seconds(stats)
    assert set(told) == {*STAGES, "wait", "idle"}
    rows = suites.loader._stages([{"stages": told}, {"stages": told}], "1 worker")
    assert {row.name: row.value for row in rows} == {"read": 0.5, "wait": 1.5, "idle": 0.5}


def test_too_little_room_is_told_before_anything_is_written(tmp_path: Path) -> None:
    suite = replace(find_suite("formats"), room_bytes=lambda settings: 1 << 60, run=_never)
    with pytest.raises(OSError, match="not enough room"):
        run_suite(suite, Settings(work=tmp_path / "new"), command="x")
    assert os.listdir(tmp_path) == []


def _never(*told: Any) -> Iterator[Finding]:
    raise AssertionError("nothing may be measured")


def test_no_row_twice(tmp_path: Path) -> None:
    row = median_row("a", "b", [1.0], unit="s")
    suite = replace(find_suite("codecs"), run=lambda settings, tell: iter([row, row]))
    with pytest.raises(ValueError, match="twice"):
        run_suite(suite, Settings(work=tmp_path), command="x")


def test_an_error_keeps_what_was_measured(tmp_path: Path) -> None:
    def run(settings: Settings, tell: Any) -> Iterator[Finding]:
        (settings.work / "large file").write_bytes(b"x")
        yield median_row("a", "b", [1.0], unit="s")
        time.sleep(0.01)
        raise ChildError("a peer is out of luck")

    with pytest.raises(ChildError) as failure:
        run_suite(replace(find_suite("codecs"), run=run), Settings(work=tmp_path), command="x")
    assert "what was measured so far, 1 row, is in" in failure.value.__notes__[0]
    assert sorted(os.listdir(tmp_path)) == ["codecs.html", "codecs.json"]
    told = json.loads((tmp_path / "codecs.json").read_text())
    assert not told["is_complete"]
    assert told["seconds"] >= 0.01
    assert "a peer is out of luck" in told["note"]
    assert [row["name"] for row in told["rows"]] == ["b"]


def test_an_error_before_anything_was_measured_leaves_no_folder(tmp_path: Path) -> None:
    settings = Settings(work=tmp_path / "new", images=str(tmp_path / "missing"))
    with pytest.raises(NotADirectoryError):
        run_suite(find_suite("codecs"), settings, command="x")
    assert os.listdir(tmp_path) == []


def test_a_broken_interpreter_of_ffcv_costs_ffcv_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fewer(monkeypatch)
    monkeypatch.setenv(FFCV_PYTHON, "/nonexistent/python")
    monkeypatch.setattr(suites.crops, "_PEERS", suites.crops._PEERS[:1])
    found = run_suite(find_suite("crops"), Settings(work=tmp_path, quick=True, samples=4, rounds=1), command="x")
    assert found.is_complete
    assert [one.name for one in found.missing] == ["FFCV"]
    assert "as taken: random crops, flipped: headrace" in {row.key for row in found.rows}
    with pytest.raises(ChildError, match="FFCV cannot be started"):
        suites.convert._answer(["/nonexistent/python"], "FFCV")
    with pytest.raises(ChildError, match="it said nothing"):
        suites.convert._answer(["true"], "FFCV")


def test_a_smaller_last_batch_counts_for_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = SimpleNamespace(close=lambda: None)
    file = SimpleNamespace(
        name="x",
        path=tmp_path / "x",
        format=SimpleNamespace(create=1),
        field=lambda kinds: "data",
        open=lambda: nullcontext(dataset),
    )
    material = suites.formats._Material(name="m", samples=[(b"",)] * 300, files=[file], payload_bytes=300)
    monkeypatch.setattr(suites.formats, "_read", lambda dataset, field, batch: time.sleep(len(batch) * 1e-4))
    (row,) = suites.formats._reads(material, 1, "warm", is_random=False)
    assert 5_000 < row.value <= 10_000  # of two batches, one is much smaller


@pytest.mark.parametrize("has_cache", [True, False])
def test_what_keeps_unpacked_values_begins_cold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_cache: bool
) -> None:
    reads: list[int] = []
    monkeypatch.setattr(suites.formats, "_read", lambda dataset, field, batch: reads.append(len(batch)))
    file = SimpleNamespace(format=SimpleNamespace(has_cache=has_cache), path=tmp_path / "x", open=lambda: [0] * 300)
    suites.formats._open_cold({}, "x", file, "data")
    assert reads == ([] if has_cache else [16])


def test_an_archive_suite_names_lmdb_where_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(BARECAT_PYTHON, raising=False)
    monkeypatch.setattr(suites.archives, "is_there", lambda name: False)
    found = suites.archives._run(Settings(work=tmp_path, samples=4, rounds=1), lambda what: None)
    missing = list(takewhile(lambda one: isinstance(one, Missing), found))
    assert ("LMDB", "not installed: lmdb") in {(one.name, one.reason) for one in missing if isinstance(one, Missing)}


def test_few_samples_give_enough_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suites.scaling, "_TIMED", 4)
    monkeypatch.setattr(suites.scaling, "_FIRST", 2)
    taken: list[int] = []
    islice = suites.scaling.islice

    def counted(batches: Any, count: int) -> Iterator[Any]:
        for batch in islice(batches, count):
            taken.append(len(batch.label))
            yield batch

    monkeypatch.setattr(suites.scaling, "islice", counted)
    suites.scaling.write_empty_beton(tmp_path / "x.beton", 100)
    assert suites.scaling._batch_seconds(tmp_path / "x.beton", 100, "random", 1)[0] > 0
    assert taken == [256] * 6


def test_the_crop_is_what_random_crops_are() -> None:
    rng = np.random.default_rng(0)
    boxes = [draw_box(500, 375, rng) for _ in range(4000)]
    sides = np.median([(w / 500 * h / 375) ** 0.5 for _, _, w, h in boxes])
    assert pytest.approx(sides, abs=0.02) == suites.codecs._CROP


def test_the_room_of_the_gpu_suite_grows_with_the_photographs(tmp_path: Path) -> None:
    suite = find_suite("gpu")
    (tmp_path / "1.jpg").write_bytes(jpeg.encode(photo(1), quality=90).ljust(1_000_000, b"\0"))
    settings = Settings(work=tmp_path, images=str(tmp_path), samples=300)
    assert suite.room_bytes(settings) > 2 * 300 * 1_000_000


def test_an_interrupt_keeps_what_was_measured(tmp_path: Path) -> None:
    def run(settings: Settings, tell: Any) -> Iterator[Finding]:
        (settings.work / "large file").write_bytes(b"x")
        yield median_row("a", "b", [1.0], unit="s")
        raise KeyboardInterrupt

    suite = replace(find_suite("codecs"), run=run)
    with pytest.raises(KeyboardInterrupt) as interrupt:
        run_suite(suite, Settings(work=tmp_path), command="x")
    assert "what was measured so far, 1 row, is in" in interrupt.value.__notes__[0]
    assert sorted(os.listdir(tmp_path)) == ["codecs.html", "codecs.json"]
    told = json.loads((tmp_path / "codecs.json").read_text())
    assert not told["is_complete"]
    assert [row["name"] for row in told["rows"]] == ["b"]
    assert "interrupted" in (tmp_path / "codecs.html").read_text()


def test_ctrl_c_in_the_command(tmp_path: Path) -> None:
    """While processes of a contender run: they end, too."""
    words = [sys.executable, "-m", "headrace", "bench", "memory", "--quick", "--samples", "64", "--out", str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as command:
        assert command.stdout is not None
        first = command.stdout.readline()
        assert first.startswith("by batch size")
        command.send_signal(signal.SIGINT)
        _, err = command.communicate(timeout=60)
    assert command.returncode == 130
    assert "what was measured so far" in err
    assert sorted(os.listdir(tmp_path)) == ["memory.html", "memory.json"]
    assert not json.loads((tmp_path / "memory.json").read_text())["is_complete"]


# Chromium


def test_chromium_opens_the_page_without_a_word(result: tuple[Result, Path], tmp_path: Path) -> None:
    found, out = result
    if found.suite.name == "shuffle":  # bars and points; the page of all suites has the rest
        open_in_chromium(out / "shuffle.html", tmp_path)


def test_chromium_opens_the_page_of_all_suites_without_a_word(tmp_path: Path) -> None:
    report = Path(__file__).parents[3] / "benchmarks" / "results" / "report.html"
    if not report.exists():
        pytest.skip("only in the repository")
    open_in_chromium(report, tmp_path)


def open_in_chromium(page: Path, folder: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("Chromium is not installed")
    shot = folder / "page.png"
    done = subprocess.run(
        [
            *(browser, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0"),
            *(f"--user-data-dir={folder / 'profile'}", f"--screenshot={shot}", "--window-size=1000,3000"),
            f"file://{page}",
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert shot.stat().st_size > 10_000
    assert "CONSOLE" not in done.stderr
