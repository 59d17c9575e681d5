"""The real Barecat reads and changes archives of headrace, and its verify passes.

Needs HEADRACE_BARECAT_PYTHON: an interpreter with barecat 0.3.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from headrace.formats.barecat import Archive, Metadata
from headrace.formats.barecat.edit.maintenance import defragment, reshard

if TYPE_CHECKING:
    from pathlib import Path

PYTHON = os.environ.get("HEADRACE_BARECAT_PYTHON", "")
pytestmark = pytest.mark.skipif(not PYTHON, reason="HEADRACE_BARECAT_PYTHON names no interpreter with barecat")
READ = """
import hashlib, json, sys
import barecat
with barecat.Barecat(sys.argv[1]) as archive:
    assert archive.verify_integrity()
    print(json.dumps({name: hashlib.sha256(archive[name]).hexdigest() for name in archive}))
"""
CHANGE = """
import sys
import barecat
with barecat.Barecat(sys.argv[1], readonly=False) as archive:
    archive["theirs/new"] = b"from barecat"
    del archive["d1/1"]
    archive.rename("d2", "renamed")
"""


def barecat(code: str, path: Path) -> str:
    done = subprocess.run([PYTHON, "-c", code, path], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def check(path: Path) -> None:
    theirs = json.loads(barecat(READ, path).splitlines()[-1])
    assert theirs == {name: hashlib.sha256(data).hexdigest() for name, data in Archive(path).items()}
    assert Archive(path).verify().ok


def test_both_tools_change_the_same_archive(tmp_path: Path) -> None:
    path = tmp_path / "x.barecat"
    with Archive(path, "x", shard_size=5000) as archive:
        for i in range(100):
            archive.add(f"d{i % 4}/{i}", bytes([i]) * (i * 13), metadata=Metadata(0o644, 1, 2, i))
        archive.mkdir("void")
    check(path)
    barecat(CHANGE, path)
    check(path)
    with Archive(path, "r+") as archive:
        assert archive["theirs/new"] == b"from barecat"
        archive.update_file("d3/3", b"shorter")
        archive.rename("renamed", "deep/back")
        archive.rmtree("d0")
    check(path)
    with Archive(path, "r+") as archive:
        defragment(archive)
        reshard(archive, 3000)
    check(path)
    again = CHANGE.replace('del archive["d1/1"]', "").replace('"d2"', '"deep"').replace("theirs/new", "more")
    barecat(again, path)
    check(path)
