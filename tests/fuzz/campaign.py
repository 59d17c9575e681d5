"""Coverage-guided fuzzing of one target, with libFuzzer through atheris.

usage: python -m tests.fuzz.campaign TARGET FOLDER [-max_total_time=SECONDS] [any option of libFuzzer]

New inputs go to FOLDER, which may hold older ones; the seeds and the stored inputs of tests/fuzz/corpus are used, too.
The package is instrumented as it is imported.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["headrace", "tarfile", "zipfile", "pickletools", "json"]):
    from tests.fuzz.targets import SEEDS, TARGETS

STORED = Path(__file__).parent / "corpus"


def main() -> None:
    name, folder, *options = sys.argv[1:]
    Path(folder).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as seeds:
        for number, data in enumerate(SEEDS[name]()):
            Path(seeds, f"seed_{number}").write_bytes(data)
        stored = [str(STORED / name)] if (STORED / name).is_dir() else []
        atheris.Setup([sys.argv[0], *options, folder, seeds, *stored], TARGETS[name])
        atheris.Fuzz()


if __name__ == "__main__":
    main()
