"""One process of a campaign: fuzzes one target, with libFuzzer through atheris.

usage: python -m tests.fuzz.worker TARGET NOTE FOLDER [any option of libFuzzer]

New inputs go to FOLDER, which may hold older ones; the seeds and the stored inputs of tests/fuzz/corpus are used, too.
The package is instrumented as it is imported. NOTE is a file that says how far the process is, however it ends.
"""

from __future__ import annotations

import faulthandler
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import atheris
from tests.fuzz.note import Note

faulthandler.register(signal.SIGQUIT)  # from here on, importing included, one can ask where it stands
with atheris.instrument_imports(include=["headrace", "tarfile", "zipfile", "pickletools", "json"]):
    from tests.fuzz.targets import SEEDS, TARGETS

if TYPE_CHECKING:
    from collections.abc import Callable

STORED = Path(__file__).parent / "corpus"


def noted(target: Callable[[bytes], None], note: Note) -> Callable[[bytes], None]:
    """The target, which notes what it runs on, and since when."""

    def run(data: bytes) -> None:
        note.begin(data, time.monotonic())
        target(data)
        note.end()

    return run


def main() -> None:
    name, note, folder, *options = sys.argv[1:]
    with tempfile.TemporaryDirectory() as seeds:
        for number, data in enumerate(SEEDS[name]()):
            Path(seeds, f"seed_{number}").write_bytes(data)
        stored = [str(STORED / name)] if (STORED / name).is_dir() else []
        target = noted(TARGETS[name], Note(note))
        atheris.Setup([sys.argv[0], *options, folder, seeds, *stored], target)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
