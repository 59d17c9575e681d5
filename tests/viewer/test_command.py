"""``headrace view`` as a program, and ``headrace.view``: URLs, errors, the end."""

from __future__ import annotations

import contextlib
import http.client
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import headrace as hr
from headrace.cli.main import main
from headrace.errors import MissingExtraError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "x.beton"
    samples = [(np.full((4, 4, 3), i, np.uint8), i) for i in range(9)]
    hr.write(path, samples, fields={"image": hr.Image(), "label": hr.Int()}, names=[f"n{i}" for i in range(9)])
    return path


def test_it_serves_until_ctrl_c(path: Path) -> None:
    command = [sys.executable, "-m", "headrace", "view", str(path), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        url = program.stdout.readline().strip()
        assert urllib.request.urlopen(url).status == 200
        assert urllib.request.urlopen(url.rstrip("/")).url == url  # its files are found from there
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(url.rpartition("/")[0][:-1])
        program.send_signal(signal.SIGINT)
        _, err = program.communicate(timeout=20)
        assert (program.returncode, err.strip()) == (0, "")


def test_closing_while_requests_run_says_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    begun = threading.Semaphore(0)

    def slow_search(item: Any, query: Any, check: Any) -> Any:
        begun.release()
        while True:
            check(0, 1)
            time.sleep(0.01)

    def slow_thumbnail(*args: Any) -> Any:
        begun.release()
        time.sleep(2.5)  # longer than the server waits at its end
        raise ValueError("nobody wants it")

    monkeypatch.setattr("headrace.viewer.grid.select", slow_search)
    monkeypatch.setattr("headrace.viewer.pictures.thumbnail", slow_thumbnail)
    viewer = hr.view(path, browser=False)

    def ask(place: str) -> None:
        with contextlib.suppress(OSError, http.client.HTTPException):
            urllib.request.urlopen(viewer.url + place).read()

    places = ("api/grid/list?class=1", "picture/thumbnail/0/0")
    threads = [threading.Thread(target=ask, args=(place,)) for place in places]
    for thread in threads:
        thread.start()
    for _ in threads:
        assert begun.acquire(timeout=20)
    viewer.close()
    for thread in threads:
        thread.join(20)
    assert capfd.readouterr().err == ""
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("headrace-view")]


def test_a_port_that_is_taken_and_one_that_is_none(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["view", str(path), "--no-browser", "--port", str(port)]) == 2
    assert f"port {port} of 127.0.0.1 is in use" in capsys.readouterr().err
    assert main(["view", str(path), "--host", "no.such.host.invalid", "--no-browser"]) == 2
    assert "is no address of this machine" in capsys.readouterr().err


def test_nothing_to_view(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", str(tmp_path / "none.beton")]) == 2
    assert "does not exist" in capsys.readouterr().err
    assert main(["view"]) == 2
    assert "PATH" in capsys.readouterr().err
    with pytest.raises(ValueError, match="nothing to view"):
        hr.view()


def test_other_hosts_are_warned_of(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.viewer.server.Viewer.wait", lambda self: None)
    assert main(["view", str(path), "--host", "0.0.0.0", "--no-browser"]) == 0
    said = capsys.readouterr()
    assert "not encrypted" in said.err
    assert socket.gethostname() in said.out


@pytest.mark.parametrize("package", ["starlette", "uvicorn"])
def test_what_is_missing_is_named(path: Path, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=r"pip install 'headrace\[view\]'"):
        hr.view(path, browser=False)


def test_datasets_that_were_given_stay_open(path: Path) -> None:
    with hr.open(path) as dataset:
        viewer = hr.view(dataset, path, browser=False)
        assert "x.beton" in repr(viewer)
        viewer.close()
        viewer.close()
        assert dataset[3].label == 3


def test_a_list_makes_a_dataset(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listed = tmp_path / "samples.txt"
    listed.write_text("7\n0:2\n\n-1\n")
    for name in ("part.beton", "part.tar"):
        assert main(["subset", str(path), "-o", str(tmp_path / name), "--samples", str(listed)]) == 0
        assert "4 samples" in capsys.readouterr().out
        with hr.open(tmp_path / name) as part:
            assert [sample[1] for sample in part] == [7, 0, 1, 8]
            assert list(part.keys or ()) == ["n7", "n0", "n1", "n8"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [("x", "must be a number"), ("9", "out of range"), ("3:99", "out of range"), ("5:3", "out of range")],
)
def test_a_list_that_does_not_fit(
    path: Path, tmp_path: Path, line: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "samples.txt").write_text(f"0\n{line}\n")
    assert main(["subset", str(path), "-o", str(tmp_path / "y.beton"), "--samples", str(tmp_path / "samples.txt")]) == 2
    err = capsys.readouterr().err
    assert "line 2 of the list" in err
    assert problem in err
    assert not (tmp_path / "y.beton").exists()
