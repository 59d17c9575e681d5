from __future__ import annotations

import io
import time
from typing import TYPE_CHECKING

import pytest

from headrace.progress import ProgressBar, format_bytes, format_duration, is_seen, parse_bytes

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (99.4 * 1024, "99.4 KiB"),
        (99.5 * 1024, "100 KiB"),
        (1023.4 * 1024, "1023 KiB"),
        (1023.5 * 1024, "1.0 MiB"),
        (1_572_864, "1.5 MiB"),
        (12 << 30, "12.0 GiB"),
        (5000 << 50, "5000.0 PiB"),
    ],
)
def test_bytes_for_people(size: float, text: str) -> None:
    assert format_bytes(size) == text


@pytest.mark.parametrize("size", [0, 1000, 1024, 1536, 8 << 20, 3 << 30, 5 << 40, 2 << 50])
def test_what_is_printed_can_be_read_back(size: int) -> None:
    assert parse_bytes(format_bytes(size)) == size


@pytest.mark.parametrize(
    ("seconds", "text"), [(-1, "0:00"), (0.4, "0:00"), (59.6, "1:00"), (61, "1:01"), (3725, "1:02:05")]
)
def test_durations_for_people(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def bar_at(elapsed_s: float, done: int, total: int | None, size_bytes: int = 0) -> str:
    bar = ProgressBar("writing", stream=io.StringIO(), enabled=False)
    bar(done, total, size_bytes)
    return bar.line(bar._start_s + elapsed_s)


def test_the_line_has_share_rate_bytes_and_remaining_time() -> None:
    line = bar_at(10, 250, 1000, 5_000_000)
    assert line == "writing  25% [######..................] 250/1,000 | 25 samples/s | 4.8 MiB, 488 KiB/s | 0:30 left"


def test_the_bar_gives_way_and_not_the_remaining_time() -> None:
    bar = ProgressBar("writing", stream=io.StringIO(), enabled=False)
    bar(250, 1000, 5_000_000)
    for width in range(60, 100):
        line = bar.line(bar._start_s + 10, width)
        assert len(line) <= max(width, 71)
        assert line.endswith("0:30 left")
    assert "[#......]" in bar.line(bar._start_s + 10, 80)


def test_the_next_of_several_steps_has_its_own_rate() -> None:
    bar = ProgressBar("writing", stream=io.StringIO(), enabled=False)
    bar._start_s -= 1000
    bar(10, 10, 0)
    bar(1, 10, 0)
    assert "in " not in bar.line(bar._start_s + 1)
    assert "| 1 sample/s |" in bar.line(bar._start_s + 1)


def test_what_fails_before_it_began_draws_nothing() -> None:
    stream = io.StringIO()
    with pytest.raises(OSError, match="no"), ProgressBar("x", stream=stream, enabled=True):
        raise OSError("no")
    assert stream.getvalue() == ""


def test_the_line_without_a_total() -> None:
    assert bar_at(10, 250, None, 500) == "writing 250 samples | 25 samples/s | 500 B, 50 B/s | 0:10"


def test_a_note_stands_before_the_numbers() -> None:
    bar = ProgressBar("epoch 0", stream=io.StringIO(), enabled=False, note=lambda: "decode binds")
    bar(250, 1000, 500)
    assert "] decode binds | 250/1,000 | 25 samples/s | " in bar.line(bar._start_s + 10)
    bar(250, None, 500)
    assert bar.line(bar._start_s + 10).startswith("epoch 0 250 samples | decode binds | 25 samples/s")


def test_the_line_when_all_is_done_or_nothing_is() -> None:
    assert bar_at(10, 1000, 1000).endswith("in 0:10")
    assert "0%" in bar_at(0, 0, 1000)
    assert "100%" in bar_at(1, 1001, 1000)


def test_silent_unless_on_a_terminal() -> None:
    stream = io.StringIO()
    with ProgressBar("x", stream=stream) as bar:
        bar(1, 2, 3)
    assert stream.getvalue() == ""


def test_draws_one_line_over_itself_and_ends_it() -> None:
    stream = io.StringIO()
    with ProgressBar("x", stream=stream, enabled=True) as bar:
        for done in range(100):
            bar(done, 100, done)
    text = stream.getvalue()
    assert text.startswith("\r")
    assert text.endswith("\n")
    assert text.count("\n") == 1
    assert text.count("\r") <= 3, "drawing is limited to ten times a second"


def test_one_is_one() -> None:
    assert bar_at(1, 1, None, 500) == "writing 1 sample | 1 sample/s | 500 B, 500 B/s | 0:01"
    assert "| 1 sample/s |" in bar_at(10, 10, 1000)


class OutStream(io.StringIO):
    """What a Jupyter kernel puts in the place of standard error."""

    __module__ = "ipykernel.iostream"


def test_in_a_notebook_it_draws_over_itself_twice_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    stream = OutStream()
    assert is_seen(stream)
    with ProgressBar("writing", stream=stream) as bar:
        for done in range(1, 1001):
            now_s += 0.002
            bar(done, 1000, done)
    text = stream.getvalue()
    assert 4 <= text.count("\r") <= 6, "two seconds, and the end"
    assert all(len(line) == 79 for line in text.rstrip("\n").split("\r")[1:]), "what stood there is covered"
    assert "1,000/1,000" in text.rpartition("\r")[2]
    assert text.endswith("\n")


def test_who_sees_it(tmp_path: Path) -> None:
    assert not is_seen(io.StringIO())
    assert not is_seen(None)
    with (tmp_path / "log").open("w") as file:
        assert not is_seen(file)
