"""All pipelines of a loader as one graph, and how a batch goes through it.

Every operation is a node; a pipeline that branches off another one begins at the node of the operation it names, so
what they share is computed once. For pictures the decoder and the operations behind it that headrace knows become one
native call; it may run for several batches at a time. What is left runs one batch after the other: headrace's own
operations as they are, a user's compiled with numba where it is installed.

Code is made once; states and memory are asked for at the beginning of every epoch, so that for example a decoder's
output size can change between epochs.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch

from headrace.compat.ffcv.fields.rgb_image import SimpleRGBImageDecoder
from headrace.compat.ffcv.pipeline.allocation_query import AllocationQuery
from headrace.compat.ffcv.pipeline.compiled import compiled
from headrace.compat.ffcv.pipeline.fusion import FusedImages
from headrace.compat.ffcv.pipeline.own_random import OwnRandom
from headrace.compat.ffcv.pipeline.state import State
from headrace.compat.ffcv.transforms.module import ModuleWrapper
from headrace.compat.passed_on import pass_on
from headrace.errors import CorruptSampleError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from headrace.compat.ffcv.pipeline.pipeline_spec import PipelineSpec
    from headrace.loader.slots import SlotPool
    from headrace.ops import Draws
    from headrace.types import Source

__all__ = ["INITIAL_STATE", "Graph", "Node"]
pass_on(
    globals(),
    "ABC AllocationQuery Callable Compiler List ModuleWrapper Operation Optional PipelineSpec Sequence Set State "
    "abstractmethod allocate_query ast astor ch defaultdict np warnings",
    Dict="typing.Dict",
    warn="distutils.log.warn",
)

INITIAL_STATE = State(jit_mode=True, device=torch.device("cpu"), dtype=np.dtype("u1"), shape=None)


class DrawsOf(Protocol):
    """Random numbers by number of the operation and samples."""

    def __call__(self, key: int, samples: Any) -> Draws: ...


class Node:
    """One operation in one pipeline."""

    def __init__(self, number: int, operation: Any, parent: Node | None, field: str) -> None:
        self.id = number
        self.operation = operation
        self.parent = parent
        self.field = field  # of the decoder it begins with
        self.children: list[Node] = []
        self.allocation: Any = None
        self.shared_allocation: Any = None
        self.state: Any = None
        self.code: Callable[..., Any] | None = None
        self.shared_code: Callable[..., Any] | None = None
        if parent is not None:
            parent.children.append(self)

    @property
    def root(self) -> Node:
        """The decoder it begins with."""
        return self if self.parent is None else self.parent.root


class Graph:
    """The nodes of all pipelines, in an order in which they can be computed."""

    def __init__(
        self,
        pipeline_specs: Mapping[str, PipelineSpec],
        handlers: Mapping[str, Any],
        fieldname_to_fix: Mapping[str, int],
        metadata: Any,
        memory_read: Any,
        path: str = "dataset",
    ) -> None:
        self.path = path
        self.pipeline_specs = pipeline_specs
        self.handlers = handlers
        self.fieldname_to_fix = fieldname_to_fix
        self.metadata = metadata
        self.memory_read = memory_read
        self.nodes: list[Node] = []
        self.leaf_nodes: dict[str, Node] = {}
        for name, spec in pipeline_specs.items():
            if isinstance(spec.source, str):
                if spec.source not in handlers:
                    raise ValueError(f"pipeline {name!r}: no field {spec.source!r}; there are {', '.join(handlers)}")
                spec.accept_decoder(handlers[spec.source].get_decoder_class(), name)
            elif spec.source is None:
                raise ValueError(f"Field {name} has no source")
            else:
                spec.accept_decoder(None, name)
        self._add_nodes(pipeline_specs)
        self.fused: dict[Node, FusedImages] = {}
        self._left: list[Node] = []  # nodes that no native call does
        self._columns: dict[str, Any] = {}
        self._generate_code()

    def _add_nodes(self, specs: Mapping[str, PipelineSpec]) -> None:
        nodes_of: dict[Any, list[Node]] = defaultdict(list)
        waiting = dict(specs)
        while waiting:
            ready = [n for n, s in waiting.items() if isinstance(s.source, str) or nodes_of.get(s.source)]
            if not ready:
                raise ValueError(f"{next(iter(waiting.values())).source} not found in other pipelines")
            for name in ready:
                spec = waiting.pop(name)
                self.leaf_nodes[name] = self._add_chain(spec, nodes_of)
        self.leaf_nodes = {name: self.leaf_nodes[name] for name in specs}

    def _add_chain(self, spec: PipelineSpec, nodes_of: dict[Any, list[Node]]) -> Node:
        if isinstance(spec.source, str):
            node = self._add_node(spec.decoder, None, spec.source, nodes_of)
        else:
            if len(nodes_of[spec.source]) > 1:
                raise ValueError(f"Reference to {spec.source} ambiguous")
            node = nodes_of[spec.source][0]
        for operation in spec.transforms:
            node = self._add_node(operation, node, node.field, nodes_of)
        return node

    def _add_node(self, operation: Any, parent: Node | None, field: str, nodes_of: dict[Any, list[Node]]) -> Node:
        node = Node(len(self.nodes), operation, parent, field)
        self.nodes.append(node)
        nodes_of[operation].append(node)
        return node

    def column_of(self, field: str) -> Any:
        """The metadata of a field, the same object each time."""
        if field not in self._columns:
            self._columns[field] = self.metadata[f"f{self.fieldname_to_fix[field]}"]
        return self._columns[field]

    @property
    def gpus(self) -> set[torch.device]:
        """Those that pipelines lead to."""
        devices = {torch.device(node.state.device) for node in self.nodes}
        return {device for device in devices if device.type == "cuda"}

    def allocate_memory(self, batch_size: int, batches_ahead: int) -> dict[str, dict[int, Any]]:
        """Ask the operations anew what they need; there is nothing to hold, for every batch gets memory of its own."""
        self.collect_requirements()
        return {"operation": {}, "shared": {}}

    def collect_requirements(self) -> None:
        """Ask every operation for its state and memory, from the decoders on."""
        for node in self.nodes:
            self._declare(node)

    def _declare(self, node: Node) -> None:
        operation, before = node.operation, INITIAL_STATE if node.parent is None else node.parent.state
        operation.accept_field(self.handlers[node.field])
        operation.accept_globals(self.column_of(node.field), self.memory_read)
        node.state, node.allocation = operation.declare_state_and_memory(before)
        node.shared_allocation = operation.declare_shared_memory(before)

    def _generate_code(self) -> None:
        for node in self.nodes:
            operation = node.operation
            self._declare(node)  # an operation may stand in several places: its code belongs to what it has just heard
            if isinstance(operation, ModuleWrapper) and node.state.device.type == "cpu":
                warnings.warn(
                    "a module of torch on the CPU is slow; move it to the GPU, or use an operation of ffcv",
                    ResourceWarning,
                    stacklevel=4,
                )
            node.code = operation.generate_code()
            node.shared_code = operation.generate_code_for_shared_state()
        self._fuse()
        own_random = OwnRandom()
        for node in self.nodes:
            if node.state.jit_mode:
                name = type(node.operation).__name__
                node.code = compiled(node.code, name, own_random)
                node.shared_code = None if node.shared_code is None else compiled(node.shared_code, name, own_random)

    def _fuse(self) -> None:
        """Find the runs that become one native call; they end where a pipeline branches."""
        outputs = set(self.leaf_nodes.values())
        for root in [node for node in self.nodes if node.parent is None]:
            is_ours = isinstance(root.operation, SimpleRGBImageDecoder) and (
                type(root.operation).generate_code is SimpleRGBImageDecoder.generate_code
            )
            if not is_ours:
                continue
            run, node = FusedImages(root.operation, self.column_of(root.field)), root
            while len(node.children) == 1 and node not in outputs:
                longer = run.extended(node.children[0].operation, node.children[0].id)
                if longer is None:
                    break
                run, node = longer, node.children[0]
            self.fused[node] = run
        inside = {n for node in self.fused for n in (node, *_ancestors(node))}
        self._left = [node for node in self.nodes if node not in inside]

    def begin(
        self,
        indices: Any,
        draws: DrawsOf,
        native: Any,
        slots: SlotPool,
        state: Any,
        source: Source | None,
    ) -> dict[Node, Any]:
        """The native calls of a batch; may run for several batches at a time."""
        begun = {}
        bound = functools.partial(draws, samples=indices)
        for node, run in self.fused.items():
            with self._noting(node):
                begun[node] = run.load(indices, node.root.state.shape, bound, native, slots, state, source)
        return begun

    def finish(
        self, begun: dict[Node, Any], indices: Any, draws: DrawsOf, slots: SlotPool, state: Any
    ) -> dict[Node, Any]:
        """The rest of a batch, one batch after the other: what every operation gave."""
        results = dict(begun)
        shared: dict[Any, Any] = {}
        for node in self._left:
            with self._noting(node):
                results[node] = self._run(node, results, shared, indices, draws, slots, state)
        return results

    def outputs(self, results: dict[Node, Any]) -> tuple[Any, ...]:
        """What the loader gives of them."""
        return tuple(results[leaf] for leaf in self.leaf_nodes.values())

    def _run(
        self,
        node: Node,
        results: dict[Node, Any],
        shared: dict[Any, Any],
        indices: Any,
        draws: DrawsOf,
        slots: SlotPool,
        state: Any,
    ) -> Any:
        assert node.code is not None
        makes_memory = getattr(node.code, "makes_memory", False)
        memory = None if makes_memory else _allocate(node.allocation, len(indices), slots)
        if node.parent is None:
            return node.code(indices, memory, self.column_of(node.field), state)
        extra: list[Any] = []
        if getattr(node.code, "with_draws", False):
            extra.append(draws(node.id, indices))
        if getattr(node.code, "with_indices", False):
            extra.append(indices)
        if node.shared_code is not None:
            if node.operation not in shared:
                shared[node.operation] = _allocate(node.shared_allocation, len(indices), slots)
                node.shared_code(shared[node.operation])
            extra.append(shared[node.operation])
        return node.code(results[node.parent], memory, *extra)

    @contextlib.contextmanager
    def _noting(self, node: Node) -> Iterator[None]:
        """Say of an exception where it comes from."""
        try:
            yield
        except CorruptSampleError as error:
            raise CorruptSampleError(
                self.path, sample=error.sample, field=node.field, problem=error.problem, fix=error.fix
            ) from None
        except Exception as error:
            error.add_note(f"in the operation {type(node.operation).__name__} of the field {node.field!r}")
            raise


def _ancestors(node: Node) -> list[Node]:
    found = []
    while node.parent is not None:
        node = node.parent
        found.append(node)
    return found


def _allocate(query: Any, count: int, slots: SlotPool) -> Any:
    if query is None:
        return None
    if not isinstance(query, AllocationQuery):
        return tuple(_allocate(one, count, slots) for one in query)
    shape = (count, *(int(side) for side in query.shape))
    if isinstance(query.dtype, torch.dtype):
        return torch.empty(shape, dtype=query.dtype, device=query.device)
    return slots.take(shape, query.dtype)
