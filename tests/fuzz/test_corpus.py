"""The inputs that campaigns have kept, and the seeds, go through their targets: HeadraceError is all that comes out."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from tests.fuzz.targets import SEEDS, TARGETS

STORED = Path(__file__).parent / "corpus"
MUTATIONS = 40


def test_every_target_has_seeds() -> None:
    assert SEEDS.keys() == TARGETS.keys()
    assert {folder.name for folder in STORED.iterdir()} <= TARGETS.keys()


@pytest.mark.parametrize("name", TARGETS)
def test_stored_inputs(name: str) -> None:
    run = TARGETS[name]
    inputs = SEEDS[name]() + [path.read_bytes() for path in sorted((STORED / name).glob("*"))]
    rng = np.random.default_rng(len(name))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for data in inputs:
            run(data)
        for _ in range(MUTATIONS):
            changed = bytearray(inputs[rng.integers(len(inputs))])
            for at in rng.integers(0, max(1, len(changed)), rng.integers(1, 4)).tolist():
                changed[at : at + 1] = rng.bytes(1)
            run(bytes(changed))
