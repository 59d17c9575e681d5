"""Loaders that are measured: their names, what runs them, and what has to be installed."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.bench.machine import FFCV_PYTHON, interpreter_of, why_no_interpreter

if TYPE_CHECKING:
    from headrace.bench.peers.contender import Place

__all__ = ["FFCV", "OURS", "Peer", "is_there"]

OURS, FFCV = "headrace", "FFCV"
_ROOM = "headrace.bench.peers"
_SCRIPT = Path(__file__).with_name("ffcv_script.py")


@dataclass(frozen=True, slots=True)
class Peer:
    """A loader: its name, the class that runs it, and what has to be installed."""

    name: str
    contender: str
    needs: tuple[str, ...] = ()

    @property
    def is_ffcv(self) -> bool:
        """In an environment of its own, by a script that needs nothing of this package; it reads our .beton."""
        return self.name == FFCV

    def missing(self) -> str:
        """Why it cannot be measured here; empty if it can."""
        if self.is_ffcv:
            return why_no_interpreter(FFCV_PYTHON, FFCV)
        absent = [one for one in self.needs if not is_there(one)]
        return f"not installed: {', '.join(absent)}" if absent else ""

    def command(self, place: Place) -> list[str]:
        """What starts its process."""
        facts = json.dumps(place.facts())
        if self.is_ffcv:
            return [interpreter_of(FFCV_PYTHON), str(_SCRIPT), facts]
        return [sys.executable, "-m", f"{_ROOM}.serve", f"{_ROOM}.{self.contender}", facts]


def is_there(module: str) -> bool:
    """Tell whether a module could be imported."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # not even the package that it would be in
        return False
