"""The options of a loader as one value, checked once."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from headrace.loader.collate import Collate, check_collate
from headrace.progress import parse_bytes

if TYPE_CHECKING:
    from headrace.errors import CorruptSampleError
    from headrace.types import IndexArray

__all__ = ["Cache", "ErrorPolicy", "LoaderOptions", "OrderChoice", "find_rank"]

OrderFunction: TypeAlias = Callable[[int, int, int], "IndexArray"]
OrderChoice: TypeAlias = Literal["sequential", "random", "quasi_random"] | OrderFunction
ErrorPolicy: TypeAlias = Literal["raise", "skip"] | Callable[["CorruptSampleError"], None]
Cache: TypeAlias = Literal["os"] | int | str | None

_ORDERS = ("sequential", "random", "quasi_random")
# What launchers tell the processes they start: torchrun and most others, then Slurm.
_RANK_VARIABLES = (("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS"))


@dataclass(frozen=True, kw_only=True, slots=True)
class LoaderOptions:
    """See Loader."""

    batch_size: int
    order: OrderChoice
    seed: int
    workers: int
    pipelines: Mapping[str, Any]
    device: Any
    drop_last: bool
    batches_ahead: int
    rank: int
    world: int
    on_error: ErrorPolicy
    cache: Cache
    collate: Collate | Mapping[str, Collate]
    verify: bool | None
    pool_pages: int
    jpeg: Literal["window", "slice", "libjpeg"]
    precision: Literal["exact", "fast"] = "exact"

    def __post_init__(self) -> None:
        for name in ("batch_size", "workers", "batches_ahead", "pool_pages", "seed", "rank", "world"):
            value = getattr(self, name)
            if isinstance(value, bool) or not hasattr(value, "__index__"):
                raise TypeError(f"{name} must be a whole number, got {value!r}")
            if value < 1 and name not in ("seed", "rank"):
                raise ValueError(f"{name} must be at least 1, got {value}")
            object.__setattr__(self, name, int(value))  # numpy's would not go into JSON
        if self.order not in _ORDERS and not callable(self.order):
            raise ValueError(f"order must be one of {', '.join(_ORDERS)} or a function, got {self.order!r}")
        if self.on_error not in ("raise", "skip") and not callable(self.on_error):
            raise ValueError(f"on_error must be 'raise', 'skip' or a function, got {self.on_error!r}")
        if self.jpeg not in ("window", "slice", "libjpeg"):
            raise ValueError(f"jpeg must be 'window', 'slice' or 'libjpeg', got {self.jpeg!r}")
        if self.precision not in ("exact", "fast"):
            raise ValueError(f"precision must be 'exact' or 'fast', got {self.precision!r}")
        if self.precision == "fast" and self.jpeg != "window":
            raise ValueError(f"precision='fast' needs jpeg='window', got jpeg={self.jpeg!r}: libjpeg-turbo is exact")
        for kind in self.collate.values() if isinstance(self.collate, Mapping) else [self.collate]:
            check_collate(kind)
        _ = self.cache_bytes

    @property
    def cache_bytes(self) -> int | None:
        """The budget for reading ahead, or None when none was named."""
        if self.cache is None or self.cache == "os":
            return None
        if isinstance(self.cache, bool) or not (isinstance(self.cache, str) or hasattr(self.cache, "__index__")):
            raise TypeError(f"cache must be 'os' or a number of bytes, got {self.cache!r}")
        try:
            size = parse_bytes(self.cache) if isinstance(self.cache, str) else int(self.cache)
        except ValueError as error:
            raise ValueError(f"cache: {error}") from None
        if size < 1:
            raise ValueError(f"cache must be 'os' or a number of bytes, got {self.cache!r}")
        return size

    def describe_jpegs(self, level: str) -> str:
        """Say in words how JPEGs are decoded on a processor that runs at this level."""
        if self.jpeg == "libjpeg":
            return "JPEGs: by libjpeg-turbo; exact"
        if self.jpeg == "slice" or level not in ("avx2", "avx512"):
            return "JPEGs: what a crop needs, cut out by the index for libjpeg-turbo; without one the whole; exact"
        if level == "avx2":
            exact = "exact" if self.precision == "exact" else "exact, for precision='fast' needs AVX-512"
            return f"JPEGs: what a crop needs, by the index; without one by libjpeg-turbo; {exact}"
        precision = "exact" if self.precision == "exact" else "fast: close to exact, for area and bilinear"
        return f"JPEGs: what a crop needs, by the index or from the first row on; {precision}"

    def collates(self) -> dict[str, Collate]:
        """How to put ragged outputs together, by name; the empty name is for those that are not named."""
        return dict(self.collate) if isinstance(self.collate, Mapping) else {"": self.collate}


def find_rank(*, distributed: bool, rank: int | None, world: int | None) -> tuple[int, int]:
    """Which of how many processes this is: as given, or as torch.distributed or the launcher says."""
    if (rank is None) != (world is None):
        raise ValueError(f"rank and world belong together, got rank={rank} and world={world}")
    if rank is not None and world is not None:
        return rank, world
    if not distributed:
        return 0, 1
    torch_distributed: Any = sys.modules.get("torch.distributed")
    if torch_distributed is not None and torch_distributed.is_available() and torch_distributed.is_initialized():
        return torch_distributed.get_rank(), torch_distributed.get_world_size()
    for rank_name, world_name in _RANK_VARIABLES:
        if rank_name in os.environ and world_name in os.environ:
            return int(os.environ[rank_name]), int(os.environ[world_name])
    raise ValueError(
        "distributed=True, but neither torch.distributed is initialised nor are RANK and WORLD_SIZE set; "
        "start the program with torchrun, or name rank and world"
    )
