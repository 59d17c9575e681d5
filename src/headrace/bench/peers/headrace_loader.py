"""This package: a .beton with tile indices, in quasi-random order."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.fields import Image, Int
from headrace.formats.write import write
from headrace.loader import Loader
from headrace.ops import CenterCrop, RandomHorizontalFlip, RandomResizedCrop, Resize, ToLayout

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.bench.peers.contender import Place
    from headrace.loader.stats import LoaderStats
    from headrace.types import Field

__all__ = ["HeadraceLoader"]

FIELDS: dict[str, Field] = {"image": Image(), "label": Int()}
_NOT_OF_A_LOADER = ("file", "crop", "flip", "reduced")
_KEPT = 224 / 256
"""Share of the shorter side that validation takes."""


class HeadraceLoader:
    """The Loader with its defaults, and as many workers as it is told."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._path = Path(place.folder, str(place.options.get("file", "x.beton")))
        self._loader: Loader | None = None
        self._told: dict[str, float] = {}

    def write(self) -> None:
        """As ``headrace create`` does it: as they are, with an index."""
        samples = [(path.read_bytes(), number) for number, path in enumerate(self._place.files())]
        write(self._path, samples, fields=FIELDS)

    def epoch(self) -> Iterable[Any]:
        """An epoch of the same loader."""
        if self._loader is None:
            told = {name: value for name, value in self._place.options.items() if name not in _NOT_OF_A_LOADER}
            self._loader = Loader(
                self._path,
                self._place.batch,
                order="quasi_random",
                workers=self._place.workers or "auto",
                drop_last=False,
                pipelines={"image": self._pipeline(), "label": None},
                **told,
            )
        for batch in self._loader:
            yield batch.image

    def _pipeline(self) -> list[Any]:
        options, side = self._place.options, self._place.side
        crop: Any = RandomResizedCrop(side, reduced=bool(options.get("reduced")))
        if options.get("crop") == "center":
            crop = CenterCrop(side, ratio=_KEPT)
        return [crop, *([RandomHorizontalFlip()] if options.get("flip") else []), ToLayout("NCHW")]

    def stages(self) -> dict[str, float]:
        """Seconds of each stage since the last time."""
        now = stage_seconds(self._loader.stats) if self._loader is not None else {}
        since = {name: seconds - self._told.get(name, 0.0) for name, seconds in now.items()}
        self._told = now
        return since

    def whole(self, data: bytes) -> Any:
        """By a loader of one sample."""
        path = Path(self._place.folder, "whole.beton")
        write(path, [(data, 0)], fields=FIELDS, force=True)
        loader = Loader(path, 1, pipelines={"image": [Resize(self._place.side)], "label": None})
        return next(iter(loader)).image[0]


def stage_seconds(stats: LoaderStats) -> dict[str, float]:
    """Seconds of each stage, and how long either side waited for the other; no sums of several of these."""
    return {**stats.stages, "wait": stats.wait_s, "idle": stats.idle_s}
