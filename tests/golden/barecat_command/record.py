"""Run the commands of cases.txt with the original, and write what it does to expected.json.

Usage: python record.py FOLDER_OF_THE_ORIGINAL_COMMANDS
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from place import look, make_place  # type: ignore[import-not-found]

HERE = Path(__file__).parent


def main(bin_folder: str) -> None:
    """Record all cases."""
    environment = {**os.environ, "TZ": "UTC", "PYTHONWARNINGS": "ignore"}

    def run(*words: str, stdin: str = os.devnull) -> subprocess.CompletedProcess[bytes]:
        if not words or not words[0].startswith(("barecat-", "archive2", "barecat2")):
            words = ("barecat", *words)
        command = [os.path.join(bin_folder, words[0]), *words[1:]]
        with open(stdin, "rb") as file:
            return subprocess.run(command, stdin=file, capture_output=True, env=environment, timeout=60, check=False)

    expected = {}
    with tempfile.TemporaryDirectory() as top:
        whole = Path(top, "whole")
        whole.mkdir()
        os.chdir(whole)
        make_place(whole, run)
        before = look(whole)
        for line in (HERE / "cases.txt").read_text().splitlines():
            if not line or line.startswith("#"):
                continue
            command, _, stdin = line.partition(" < ")
            place = Path(top, "place")
            shutil.copytree(whole, place, symlinks=True)
            os.chdir(place)
            done = run(*shlex.split(command), stdin=stdin or os.devnull)
            after = look(place)
            changed = {name: after.get(name) for name in sorted({*before, *after}) if after.get(name) != before.get(name)}
            expected[line] = {"code": done.returncode, "out": done.stdout.decode(), "changed": changed}
            os.chdir(top)
            shutil.rmtree(place)
    (HERE / "expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=True) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
