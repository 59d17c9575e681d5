"""A writer that is killed at any point loses only what it had not committed.

A child changes an archive and says on its standard output what it is about to do, and when it has committed. It is
killed at a random moment. The archive must then open, verify, and be exactly as after one of the steps since the last
commit. HEADRACE_KILLS sets how often this is tried.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from headrace.errors import UnfinishedError
from headrace.formats.barecat import Archive

if TYPE_CHECKING:
    from pathlib import Path

KILLS = int(os.environ.get("HEADRACE_KILLS", "24"))
CHILD = """
import hashlib, json, random, sys
from headrace.formats.barecat import Archive
from headrace.formats.barecat.edit.maintenance import defragment, reshard

def content(name, version, size):
    block = hashlib.sha256(f"{name}:{version}".encode()).digest()
    return (block * (size // 32 + 1))[:size]

path, seed, work = sys.argv[1], int(sys.argv[2]), sys.argv[3]
chance = random.Random(seed)
model = {}
archive = Archive(path, "a", shard_size=200_000)

def say(*words):
    print(json.dumps(words), flush=True)

def step(i):
    roll = chance.random()
    names = list(model)
    size = chance.choice([0, 10, 300, 5000, 20_000])
    if roll < 0.5 or not names:
        name = f"d{chance.randrange(4)}/f{i}"
        say("set", name, [name, i, size])
        archive[name] = content(name, i, size)
        model[name] = [name, i, size]
    elif roll < 0.65:
        name = chance.choice(names)
        say("set", name, [name, i, size])
        archive.update_file(name, content(name, i, size))
        model[name] = [name, i, size]
    elif roll < 0.9:
        name = chance.choice(names[-3:] + names[:3])
        say("del", name)
        del archive[name]
        del model[name]
    else:
        name = chance.choice(names)
        say("move", name, f"moved/{i}")
        archive.rename(name, f"moved/{i}")
        model[f"moved/{i}"] = model.pop(name)

for i in range(10_000):
    step(i)
    if i == 150 or (i > 150 and i % 20 == 0):
        archive.commit()
        say("committed")
    if work == "defrag" and i > 150 and i % 40 == 0:
        defragment(archive, chance.choice(["full", "smart", "quick"]))
        say("committed")
    if work == "reshard" and i > 150 and i % 40 == 0:
        reshard(archive, chance.choice([50_000, 80_000, 200_000]))
        say("committed")
"""


def content(name: str, version: int, size: int) -> bytes:
    block = hashlib.sha256(f"{name}:{version}".encode()).digest()
    return (block * (size // 32 + 1))[:size]


def killed_run(path: Path, seed: int, work: str) -> list[list[Any]]:
    """Run the child, kill it a while after its first commit, and give what it said."""
    chance = random.Random(seed)
    command = [sys.executable, "-c", CHILD, str(path), str(seed), work]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        lines = []
        while not lines or lines[-1] != ["committed"]:
            line = child.stdout.readline()
            assert line, child.stderr.read().decode()
            lines.append(json.loads(line))
        time.sleep(chance.random() * 0.5)
        child.send_signal(signal.SIGKILL)
        rest = child.stdout.read().split(b"\n")
        assert child.stderr.read() == b""
    return lines + [json.loads(line) for line in rest[:-1]]


def possible_states(words: list[list[Any]]) -> list[dict[str, list[Any]]]:
    """The contents after each step since the last commit."""
    state: dict[str, list[Any]] = {}
    states = [dict(state)]
    for verb, *args in words:
        if verb == "set":
            state[args[0]] = args[1]
        elif verb == "del":
            del state[args[0]]
        elif verb == "move":
            state[args[1]] = state.pop(args[0])
        else:
            states.clear()
        states.append(dict(state))
    return states


@pytest.mark.parametrize("work", ["edit", "defrag", "reshard"])
def test_nothing_committed_is_lost(tmp_path: Path, work: str) -> None:
    for seed in range(max(1, KILLS // 3)):
        path = tmp_path / f"{work}{seed}.barecat"
        words = killed_run(path, seed, work)
        try:
            Archive(path).close()
        except UnfinishedError:
            Archive(path, "r+").close()  # a reader says so and leaves it alone; a writer puts things right
        report = Archive(path).verify()
        assert report.ok, (seed, report.problems[:5])
        found = {name: hashlib.sha256(data).digest() for name, data in Archive(path).items()}
        assert found in [
            {name: hashlib.sha256(content(*facts)).digest() for name, facts in state.items()}
            for state in possible_states(words)
        ], f"seed {seed}"
        with Archive(path, "r+") as archive:
            archive["after"] = b"it goes on"
        assert Archive(path)["after"] == b"it goes on"
        assert Archive(path).verify().ok
