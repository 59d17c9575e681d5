"""What all loaders are told, and what they do."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["Contender", "Place"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where the photographs are, and how batches are to be.

    Args:
        photographs: a folder of JPEG files, the same for all.
        folder: for what a contender writes: it is made once, and read for all numbers of workers.
        workers: threads or processes that decode; 0 lets a Loader of this package choose.
        batch: pictures in a batch.
        side: of the pictures in it.
        options: what differs from the usual: ``file``, a name in the folder; ``crop``, random or center; ``flip``;
            and what a Loader of this package is told.
    """

    photographs: str
    folder: str
    workers: int
    batch: int
    side: int
    options: Mapping[str, Any] = field(default_factory=dict)

    def files(self) -> list[Path]:
        """The photographs."""
        return sorted(Path(self.photographs).glob("*.jpg"))

    def facts(self) -> dict[str, Any]:
        """What another process makes this from."""
        return asdict(self)


class Contender(Protocol):
    """A loader; made with a Place."""

    def __init__(self, place: Place) -> None: ...

    def write(self) -> None:
        """Write the photographs as this loader reads them, byte for byte."""

    def epoch(self) -> Iterable[Any]:
        """Random crops of all photographs in shuffled order: batches of uint8, NCHW."""
        ...

    def whole(self, data: bytes) -> Any:
        """A whole JPEG at the size of the batches, by the same decoder and filter: side x side x 3."""
        ...
