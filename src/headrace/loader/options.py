"""The options of a loader as one value, stated and checked once."""

from __future__ import annotations

import difflib
import functools
import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeAlias, TypeVar

from headrace.formats.contract import MAX_WORKERS
from headrace.loader.collate import Collate, check_collate
from headrace.loader.launcher import find_rank, own_cores, starting_workers
from headrace.loader.tuner import Bounds
from headrace.progress import parse_bytes
from headrace.storage import storage_of

if TYPE_CHECKING:
    from headrace.errors import CorruptSampleError, PathLike
    from headrace.loader.plan import Pipeline
    from headrace.types import IndexArray, Indices

__all__ = ["Cache", "ErrorPolicy", "LoaderOptions", "OrderChoice", "find_framework", "takes"]

OrderFunction: TypeAlias = Callable[[int, int, int], "IndexArray"]
OrderChoice: TypeAlias = Literal["sequential", "random", "quasi_random"] | OrderFunction
ErrorPolicy: TypeAlias = Literal["raise", "skip"] | Callable[["CorruptSampleError"], None]
Cache: TypeAlias = Literal["os"] | int | str | None

_P = ParamSpec("_P")
_This = TypeVar("_This")
_Dataset = TypeVar("_Dataset")
_Options = TypeVar("_Options")

_MOST = {"workers": MAX_WORKERS, "batches_ahead": 1 << 20}  # these may be "auto", too
_AHEAD, _MOST_AHEAD = 3, 16  # batches, where the loader chooses
_FRAMEWORKS = ("numpy", "torch", "jax", "cupy")  # those that device= may name; plug-ins have others
_PAGES_OF_A_RANK = 16  # in use at a time, in quasi-random order
_ORDERS = ("sequential", "random", "quasi_random")
_JPEGS = ("auto", "gpu", "window", "slice", "libjpeg")
# What users of torch's DataLoader and of FFCV's Loader write, and what to write here.
_OTHER_NAMES = {
    "shuffle": "write order='random'",
    "num_workers": "write workers=, the number of threads",
    "collate_fn": "write collate= for values of different sizes, or put ops.Apply(function) into pipelines=",
    "sampler": "write order= with a function of (n, seed, epoch), or indices= for some of the samples",
    "batch_sampler": "write order= with a function of (n, seed, epoch), and batch_size=",
    "pin_memory": "leave it out: device='cuda' copies from pinned memory by itself",
    "pin_memory_device": "write device=",
    "prefetch_factor": "write batches_ahead=",
    "prefetch": "write batches_ahead=",
    "persistent_workers": "leave it out: workers are threads, and stay",
    "worker_init_fn": "leave it out: workers are threads, and random numbers follow seed=",
    "multiprocessing_context": "leave it out: workers are threads",
    "generator": "write seed=",
    "timeout": "leave it out: the loop ends with the error of a worker that fails",
    "transform": "write pipelines=, such as {pipelines}",
    "transforms": "write pipelines=, such as {pipelines}",
    "target_transform": "write pipelines=, such as {pipelines}",
    "pipeline": "write pipelines=, such as {pipelines}",
    "ops": "write pipelines=, such as {pipelines}",
    "os_cache": "write cache='os', or a number of bytes such as cache='4GB' instead of os_cache=False",
    "recompile": "leave it out: nothing is compiled",
    "custom_fields": "leave it out: fields come from the file",
    "num_replicas": "write world=, and rank=",
    "world_size": "write world=, and rank=",
}
_PIPELINES = "{'image': [ops.RandomResizedCrop(224), ops.RandomHorizontalFlip()]}"


@dataclass(frozen=True, slots=True)
class LoaderOptions:
    """All that a loader can be told, checked once; ``Loader`` takes the same, and says what it means."""

    batch_size: int
    _: KW_ONLY
    order: OrderChoice = "sequential"
    seed: int = 0
    workers: int | Literal["auto"] | None = None
    pipelines: Mapping[str, Pipeline | None] | None = None
    device: object = None
    framework: str | None = None
    indices: Indices | None = None
    drop_last: bool = True
    batches_ahead: int | Literal["auto"] = "auto"
    distributed: bool = False
    rank: int | None = None
    world: int | None = None
    on_error: ErrorPolicy = "raise"
    cache: Cache = None
    collate: Collate | Mapping[str, Collate] = "list"
    verify: bool | None = None
    pool_pages: int | None = None
    jpeg: Literal["auto", "gpu", "window", "slice", "libjpeg"] = "auto"
    precision: Literal["exact", "fast"] = "exact"
    storage_options: Mapping[str, Any] | None = None
    cache_dir: PathLike | None = None
    cache_size: int | str | None = None
    progress: bool = False
    trace: PathLike | None = None

    def __post_init__(self) -> None:
        _check_pipelines(self.pipelines)
        framework, device = find_framework(self.framework, self.device)
        rank, world = find_rank(distributed=self.distributed, rank=self.rank, world=self.world)
        threads = "auto" if self.workers is None else self.workers
        # Found out once: a copy of a loader, in another process too, has the same.
        found: dict[str, object] = {
            "rank": rank,
            "world": world,
            "workers": threads,
            "pipelines": dict(self.pipelines or {}),
        }
        found |= {"framework": framework, "device": device}
        for name, value in found.items():
            object.__setattr__(self, name, value)
        for name in ("batch_size", "workers", "batches_ahead", "pool_pages", "seed", "rank", "world"):
            value = getattr(self, name)
            if (name == "pool_pages" and value is None) or (
                name in _MOST and isinstance(value, str) and value == "auto"
            ):
                continue
            if isinstance(value, bool) or not hasattr(value, "__index__"):
                also = " or 'auto'" if name in _MOST else ""
                raise TypeError(f"{name} must be a whole number{also}, got {value!r}")
            if value < 1 and name not in ("seed", "rank"):
                raise ValueError(f"{name} must be at least 1, got {value}")
            if name != "seed" and value > (most := _MOST.get(name, 2**63 - 1)):
                raise ValueError(f"{name} must be at most {most}, got {value}")
            object.__setattr__(self, name, int(value))  # numpy's would not go into JSON
        if self.order not in _ORDERS and not callable(self.order):
            raise ValueError(f"order must be one of {', '.join(_ORDERS)} or a function, got {self.order!r}")
        if self.on_error not in ("raise", "skip") and not callable(self.on_error):
            raise ValueError(f"on_error must be 'raise', 'skip' or a function, got {self.on_error!r}")
        if self.jpeg not in _JPEGS:
            raise ValueError(f"jpeg must be one of {', '.join(_JPEGS)}, got {self.jpeg!r}")
        if self.precision not in ("exact", "fast"):
            raise ValueError(f"precision must be 'exact' or 'fast', got {self.precision!r}")
        if self.precision == "fast" and self.jpeg not in ("auto", "window"):
            other = "the GPU" if self.jpeg == "gpu" else "libjpeg-turbo"
            raise ValueError(f"precision='fast' needs jpeg='window', got jpeg={self.jpeg!r}: {other} is exact")
        for kind in self.collate.values() if isinstance(self.collate, Mapping) else [self.collate]:
            check_collate(kind)
        if not isinstance(self.progress, bool):
            raise TypeError(f"progress must be True or False, got {self.progress!r}")
        if self.trace is not None and not isinstance(self.trace, str | os.PathLike):
            raise TypeError(f"trace must be the path of a file to write, got {self.trace!r}")
        _ = self.cache_bytes
        storage_of(self.storage_options, self.cache_dir, self.cache_size)

    def bounds(self) -> Bounds:
        """How many workers and batches ahead a loader may choose; no choice where a number was given."""
        least, most = (1, own_cores()) if isinstance(self.workers, str | None) else (self.workers, self.workers)
        return Bounds(least, most, _MOST_AHEAD if isinstance(self.batches_ahead, str) else self.batches_ahead)

    @property
    def threads(self) -> int:
        """How many threads decode, at first."""
        return starting_workers(own_cores()) if isinstance(self.workers, str | None) else self.workers

    @property
    def ahead(self) -> int:
        """How many batches are made ahead, at first."""
        return _AHEAD if isinstance(self.batches_ahead, str) else self.batches_ahead

    @property
    def place(self) -> tuple[int, int]:
        """Rank and world."""
        assert self.rank is not None
        assert self.world is not None
        return self.rank, self.world

    @property
    def pool(self) -> int:
        """Pages that the ranks together have in use in quasi-random order: as many for each as for one process."""
        return _PAGES_OF_A_RANK * self.place[1] if self.pool_pages is None else self.pool_pages

    @property
    def cpu_jpeg(self) -> str:
        """How the CPU decodes what it decodes."""
        return "window" if self.jpeg in ("auto", "gpu") else self.jpeg

    @property
    def ops(self) -> Mapping[str, Pipeline | None]:
        """The pipelines by field, perhaps none."""
        return self.pipelines or {}

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


def takes(
    options: Callable[_P, _Options],
) -> Callable[[Callable[[_This, _Dataset, _Options], None]], Callable[Concatenate[_This, _Dataset, _P], None]]:
    """Let an ``__init__`` of a dataset and options take the options by name, as their own class does.

    So they are stated in one place, and ``help()``, editors and type checkers know them all the same.
    """

    def decorate(
        init: Callable[[_This, _Dataset, _Options], None],
    ) -> Callable[Concatenate[_This, _Dataset, _P], None]:
        own = list(inspect.signature(init).parameters.values())[:2]
        named = inspect.signature(options).parameters

        def outer(this: _This, dataset: _Dataset, *args: _P.args, **kwargs: _P.kwargs) -> None:
            _check_names(type(this).__name__, named, args, kwargs)
            init(this, dataset, options(*args, **kwargs))

        functools.update_wrapper(outer, init)
        parameters = [*own, *named.values()]
        setattr(outer, "__signature__", inspect.Signature(parameters, return_annotation=None))  # noqa: B010
        return outer  # type: ignore[return-value]  # the dataset may also be given by name

    return decorate


def _check_names(
    owner: str, named: Mapping[str, inspect.Parameter], given: tuple[object, ...], by_name: Mapping[str, object]
) -> None:
    """Say what to write instead of names that are not known, and of values without a name."""
    for name in by_name:
        if name not in named:
            raise TypeError(f"{owner} has no option {name!r}; {_advice(name, named)}")
    placed = [p.name for p in named.values() if p.kind is not p.KEYWORD_ONLY]
    if len(given) > len(placed):
        raise TypeError(
            f"{owner} takes dataset and {', '.join(placed)} by place, and got {given[len(placed)]!r} after them; write "
            "the name of an option before its value, such as order='random'"
        )
    for name in placed[len(given) :]:
        if name not in by_name and named[name].default is inspect.Parameter.empty:
            raise TypeError(f"{owner} needs {name}, such as {owner}(dataset, {name}=256)")


def _advice(name: str, named: Mapping[str, inspect.Parameter]) -> str:
    if name in _OTHER_NAMES:
        return _OTHER_NAMES[name].format(pipelines=_PIPELINES)
    known = [*named, *_OTHER_NAMES]
    close = difflib.get_close_matches(name.lower(), known, n=1)
    if not close:
        return f"the options are {', '.join(named)}"
    return f"did you mean {close[0]}?" if close[0] in named else _OTHER_NAMES[close[0]].format(pipelines=_PIPELINES)


def _check_pipelines(pipelines: object) -> None:
    if pipelines is None or isinstance(pipelines, Mapping):
        return
    raise TypeError(
        f"pipelines must be a mapping of field names to lists of ops, such as {_PIPELINES}, got {pipelines!r}"
    )


def find_framework(framework: str | None, device: object) -> tuple[str, object]:
    """What batches are made of, and on which device: as given, or what follows from the other.

    Example:
        >>> find_framework(None, None), find_framework(None, "cuda"), find_framework("torch", None)
        (('numpy', None), ('torch', 'cuda'), ('torch', 'cpu'))
        >>> find_framework(None, "jax")
        ('jax', None)
    """
    if framework is not None and not isinstance(framework, str):
        raise TypeError(f"framework must be one of {', '.join(_FRAMEWORKS)}, got {framework!r}")
    if isinstance(device, str) and device in _FRAMEWORKS:  # short for the framework, on its own device
        if framework not in (None, device):
            raise ValueError(f"device={device!r} means framework={device!r}, and framework is {framework!r}")
        framework, device = device, None
    if framework is None:
        framework = "numpy" if device is None else "torch"
    if framework == "numpy" and device is not None:
        raise ValueError(
            f"arrays of numpy have no device, got device={device!r}; write framework='torch', or leave it out"
        )
    return framework, "cpu" if framework == "torch" and device is None else device
