"""The loader with FFCV's arguments, on headrace's engine."""

from __future__ import annotations

import enum
import functools
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from headrace._native import ImageLoader
from headrace.compat.ffcv.loader.epoch_iterator import EpochIterator
from headrace.compat.ffcv.memory_managers import MemoryManager, OSCacheManager, ProcessCacheManager
from headrace.compat.ffcv.pipeline.compiler import Compiler
from headrace.compat.ffcv.pipeline.graph import DrawsOf, Graph
from headrace.compat.ffcv.pipeline.pipeline_spec import PipelineSpec
from headrace.compat.ffcv.reader import Reader
from headrace.compat.ffcv.storage import read_span
from headrace.compat.ffcv.traversal_order import QuasiRandom, Random, Sequential
from headrace.compat.ffcv.traversal_order.base import TraversalOrder
from headrace.compat.passed_on import pass_on
from headrace.loader.slots import SlotPool
from headrace.ops import Draws
from headrace.storage import allocate_pages

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.types import Source

__all__ = ["DEFAULT_OS_CACHE", "DEFAULT_PROCESS_CACHE", "ORDER_MAP", "ORDER_TYPE", "Loader", "OrderOption"]
pass_on(
    globals(),
    "Any Callable Collection Compiler Enum EpochIterator Field Graph Literal Mapping MemoryManager OSCacheManager "
    "Operation Pipeline PipelineSpec ProcessCacheManager QuasiRandom Random Reader Sequence Sequential "
    "TraversalOrder Type Union ast auto ch cpu_count defaultdict enum environ np sub unique",
)


@enum.unique
class OrderOption(enum.Enum):
    """The orders that are known by name."""

    SEQUENTIAL = enum.auto()
    RANDOM = enum.auto()
    QUASI_RANDOM = enum.auto()


ORDER_TYPE = TraversalOrder | OrderOption

ORDER_MAP: dict[Any, Any] = {
    OrderOption.RANDOM: Random,
    OrderOption.SEQUENTIAL: Sequential,
    OrderOption.QUASI_RANDOM: QuasiRandom,
}

DEFAULT_PROCESS_CACHE = int(os.environ.get("FFCV_DEFAULT_CACHE_PROCESS", "0"))
DEFAULT_OS_CACHE = not DEFAULT_PROCESS_CACHE


class Loader:
    """Batches of a .beton file: tuples in field order, one loop for each epoch."""

    def __init__(
        self,
        fname: Any,
        batch_size: int,
        num_workers: int = -1,
        os_cache: bool = DEFAULT_OS_CACHE,
        order: Any = OrderOption.SEQUENTIAL,
        distributed: bool = False,
        seed: int | None = None,
        indices: Any = None,
        pipelines: Mapping[str, Any] | None = None,
        custom_fields: Mapping[str, Any] | None = None,
        drop_last: bool = True,
        batches_ahead: int = 3,
        recompile: bool = False,
        order_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        seed = _chosen_seed(seed, distributed, order)
        self._args: dict[str, Any] = {
            "fname": fname,
            "batch_size": batch_size,
            "num_workers": num_workers,
            "os_cache": os_cache,
            "order": order,
            "distributed": distributed,
            "seed": seed,
            "indices": indices,
            "pipelines": dict(pipelines or {}),
            "custom_fields": dict(custom_fields or {}),
            "drop_last": drop_last,
            "batches_ahead": batches_ahead,
            "recompile": recompile,
            "order_kwargs": dict(order_kwargs or {}),
        }
        self.fname = fname
        self.batch_size = int(batch_size)
        self.batches_ahead = batches_ahead
        self.seed = seed
        self.num_workers = num_workers if num_workers >= 1 else len(os.sched_getaffinity(0))
        self.drop_last = drop_last
        self.distributed = distributed
        self.recompile = recompile
        self.reader = Reader(fname, custom_fields)
        self.pipelines: dict[str, Any] = {}  # empty, as in FFCV; see pipeline_specs
        self.indices = np.arange(self.reader.num_samples, dtype="uint64")
        if indices is not None:
            self.indices = self._checked_indices(indices)
        self.next_epoch = 0
        self._prepare()

    def _prepare(self) -> None:
        """Make what reads, orders and computes, and plan the pipelines."""
        Compiler.set_num_threads(self.num_workers)
        manager = OSCacheManager if self._args["os_cache"] else ProcessCacheManager
        self.memory_manager: MemoryManager = manager(self.reader)
        self.traversal_order = self._make_order(self._args["order"])
        self.native = ImageLoader(self.num_workers)
        self.pipeline_specs = self._make_specs(self._args["pipelines"])
        self.field_name_to_f_ix = {name: i for i, name in enumerate(self.reader.handlers)}
        self.graph: Graph
        self.code: Any = None
        self._slots: tuple[Any, SlotPool] | None = None
        self.generate_code()
        self.first_traversal_order = self.next_traversal_order()

    def _checked_indices(self, indices: Any) -> Any:
        chosen = np.array(indices)
        if chosen.ndim != 1 or (len(chosen) and chosen.dtype.kind not in "iu"):
            raise ValueError(f"indices must be a list of whole numbers, got {chosen.dtype} of shape {chosen.shape}")
        if len(chosen) and not 0 <= int(chosen.min()) <= int(chosen.max()) < self.reader.num_samples:
            limits = f"{chosen.min()} to {chosen.max()}"
            raise IndexError(f"indices must be 0 to {self.reader.num_samples - 1}, found {limits}")
        return chosen.astype(np.int64) if not len(chosen) else chosen

    def checked_indices(self, order: Any) -> npt.NDArray[np.int64]:
        """The samples of an epoch as an array; IndexError or ValueError for what cannot be."""
        samples: npt.NDArray[np.int64] = self._checked_indices(order).astype(np.int64)
        return samples

    def _make_order(self, order: Any) -> TraversalOrder:
        kind: Any = ORDER_MAP[order] if isinstance(order, OrderOption) else order
        if not issubclass(kind, TraversalOrder):
            raise ValueError(f"Order {order} is not a supported order type or a subclass of TraversalOrder")
        made: TraversalOrder = kind(self, **self._args["order_kwargs"])
        return made

    def _make_specs(self, pipelines: Mapping[str, Any]) -> dict[str, PipelineSpec]:
        custom: dict[str, PipelineSpec] = {}
        for name, spec in pipelines.items():
            if isinstance(spec, PipelineSpec):
                custom[name] = PipelineSpec(spec.source, spec.decoder, spec.transforms)
            elif isinstance(spec, Sequence):
                custom[name] = PipelineSpec(name, decoder=None, transforms=spec)
                custom[name].default_pipeline = False
            elif spec is not None:
                raise ValueError(f"The pipeline for {name} has to be either a PipelineSpec or a sequence of operations")
        specs = {}
        for name in self.reader.handlers:
            if name in custom:
                specs[name] = custom[name]
            elif name not in pipelines:
                specs[name] = PipelineSpec(name)
        return specs | {name: spec for name, spec in custom.items() if name not in specs}

    def generate_code(self) -> None:
        """Plan the pipelines anew."""
        reader = self.reader
        # Compiling loads numba, and only operations of a user's own read by themselves.
        memory_read = self.memory_manager.compile_reader() if self._has_own_operations() else read_span
        self.graph = Graph(
            self.pipeline_specs,
            reader.handlers,
            self.field_name_to_f_ix,
            reader.metadata,
            memory_read,
            reader.file_name,
        )
        numbers = [node.id for node in self.graph.leaf_nodes.values()]
        self.code = [(functools.partial(self._run_stage), numbers)], numbers  # not equal to what was made before

    def _run_stage(self, batch_indices: Any, metadata: Any, storage_state: Any, **memory: Any) -> tuple[Any, ...]:
        """All of a batch, for iterators of a user's own that run the stages of ``code`` themselves."""
        return self.make_batch(batch_indices, storage_state, None)

    def make_batch(self, indices: Any, state: Any, source: Source | None) -> tuple[Any, ...]:
        """A batch of some samples, in the epoch that was begun last."""
        samples, draws = np.asarray(indices, np.int64), self.draws_of_epoch()
        begun = self.graph.begin(samples, draws, self.native, self.slots, state, source)
        return self.graph.outputs(self.graph.finish(begun, samples, draws, self.slots, state))

    def draws_of_epoch(self) -> DrawsOf:
        """Random numbers by number of the operation and samples, in the epoch that was begun last."""
        seed, epoch = self.seed, max(0, self.next_epoch - 1)
        return lambda key, samples: Draws(seed, epoch, key, samples)

    @property
    def slots(self) -> SlotPool:
        """Memory of batches, pinned where they go to a GPU; it is kept from epoch to epoch."""
        allocate = pinned if self.graph.gpus else allocate_pages
        if self._slots is None or self._slots[0] is not allocate:
            self._slots = allocate, SlotPool(self.batches_ahead + 2, allocate)
        return self._slots[1]

    def _has_own_operations(self) -> bool:
        specs = self.pipeline_specs.values()
        used = [*self.reader.handlers.values(), *(op for spec in specs for op in (spec.decoder, *spec.transforms))]
        return any(op is not None and not type(op).__module__.startswith("headrace.compat.") for op in used)

    def next_traversal_order(self) -> Any:
        """The samples of the next epoch."""
        return self.traversal_order.sample_order(self.next_epoch)

    def __iter__(self) -> EpochIterator:
        Compiler.set_num_threads(self.num_workers)
        order = self.next_traversal_order()[: len(self) * self.batch_size]
        self.next_epoch += 1
        if self.code is None or self.recompile:
            self.generate_code()
        return EpochIterator(self, order)

    def __len__(self) -> int:
        samples = len(self.first_traversal_order)
        return samples // self.batch_size if self.drop_last else -(-samples // self.batch_size)

    def filter(self, field_name: str, condition: Callable[[Any], bool]) -> Loader:
        """A loader over those samples whose value, as the field's pipeline gives it, fulfils a condition."""
        given = self._args["pipelines"].get(field_name)
        if given is None and field_name not in self.reader.handlers:
            raise KeyError(f"no field {field_name!r}; the fields are {', '.join(self.reader.handlers)}")
        pipelines: dict[str, Any] = dict.fromkeys(self.reader.handlers)
        pipelines[field_name] = PipelineSpec(field_name) if given is None else given
        arguments = self._args | {
            "pipelines": pipelines,
            "order": OrderOption.SEQUENTIAL,
            "drop_last": False,
            "distributed": False,
            "order_kwargs": {},
        }
        kept = [bool(condition(sample)) for (batch,) in Loader(**arguments) for sample in batch]
        return Loader(**(self._args | {"indices": self.indices[np.array(kept, bool)]}))


def _chosen_seed(seed: int | None, distributed: bool, order: Any) -> int:
    if seed is not None:
        return seed
    if distributed and order in (OrderOption.RANDOM, OrderOption.QUASI_RANDOM):
        print(
            "Warning: no ordering seed was specified with distributed=True. "
            "Setting seed to 0 to match PyTorch distributed sampler."
        )
        return 0
    return int(np.random.randint(0, np.iinfo("int32").max))


def pinned(size_bytes: int) -> npt.NDArray[np.uint8]:
    """Memory that a GPU can copy from while the processor does something else."""
    memory: npt.NDArray[np.uint8] = torch.empty(size_bytes, dtype=torch.uint8, pin_memory=True).numpy()
    return memory
