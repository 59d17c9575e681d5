"""Pipelines, checked and compiled: what one field goes through, as few calls as possible.

A pipeline is a list of ops. The longest runs of picture ops become one native call for a batch each (see ``fused``);
what is left runs as ordinary Python. The last item of a pipeline may be a mapping of names to further pipelines: then
what stands before it is computed once, and every name becomes an output of the batch.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from headrace._native import crc32c
from headrace.loader.collate import Collate, collate
from headrace.loader.fused import FusedRun, KeyedOp
from headrace.loader.stages import stored_bytes
from headrace.ops import ArrayOp, Form
from headrace.ops.sizes import SizeSchedule, op_at

if TYPE_CHECKING:
    from headrace.loader.job import Job
    from headrace.types import Field

__all__ = ["FieldPlan", "Pipeline", "compile_pipeline"]

Pipeline: TypeAlias = Sequence[Any]
"""Ops, and at the end perhaps a mapping of output names to pipelines."""

_FIRST_CALL = re.compile(r"(one native call(?: on the GPU)? \()")
_ARRAYS = ("ndarray", "tensor")
_JOINED = ("bytes", "text")  # stored as they come out: joined without making an object of each


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A value in the middle of a chain: the next stage must wait for its turn."""

    value: Any


@dataclass(frozen=True, slots=True)
class _Chain:
    """Stages one after the other, and what follows: an output, or chains that all begin with the result."""

    stages: tuple[FusedRun | KeyedOp, ...]
    modules: tuple[Any, ...]  # of torch; they run last, on the tensor
    output: str
    branches: tuple[_Chain, ...]
    collate: Collate | None
    is_json: bool
    form: Form = field(default=Form(), repr=False, compare=False)  # of one value before it is collated

    def begin(self, value: Any, job: Job) -> Any:
        """Do what may be done for several batches at a time: the native calls up to the first Python."""
        for count, stage in enumerate(self.stages):
            if not isinstance(stage, FusedRun):
                return _Waiting((value, count))
            value = stage.run(value, job)
        return self._begin_branches(value, job) if self.branches else _Waiting((value, len(self.stages)))

    def part(self, begun: Any, first: int, last: int, job: Job) -> Any:
        """Of what was begun for several batches as one, that of the samples from ``first`` to before ``last``."""
        if isinstance(begun, list):
            return [branch.part(one, first, last, job) for branch, one in zip(self.branches, begun, strict=True)]
        value, done = begun.value
        if isinstance(value, np.ndarray | list):
            return _Waiting((value[first:last], done))
        assert job.gpu is not None  # it has made the value
        assert job.gpu.output.part is not None
        return _Waiting((job.gpu.output.part(value, first, last), done))

    def is_native(self) -> bool:
        """Nothing runs in Python or torch, which could look at a whole batch: samples do not depend on each other."""
        is_own = not self.modules and all(isinstance(stage, FusedRun) for stage in self.stages)
        return is_own and all(branch.is_native() for branch in self.branches)

    def can_part(self) -> bool:
        """What is begun has a value for each sample, so that it can be parted."""
        return self.collate is None and all(branch.can_part() for branch in self.branches)

    def _begin_branches(self, value: Any, job: Job) -> list[Any]:
        # Ops may change their array in place: every branch but one gets its own, unless a native call copies anyway.
        begun = []
        for k, branch in enumerate(self.branches):
            is_shared = k > 0 and isinstance(value, np.ndarray) and not branch.begins_fused()
            begun.append(branch.begin(value.copy() if is_shared else value, job))
        return begun

    def first_run(self) -> FusedRun | None:
        """The native call that decodes, or the first of them."""
        if self.stages:
            return self.stages[0] if isinstance(self.stages[0], FusedRun) else None
        return next((run for branch in self.branches if (run := branch.first_run()) is not None), None)

    def runs_by_output(self) -> dict[str, tuple[FusedRun, ...]]:
        """The native calls that each output goes through, in order; of a picture the first one decodes."""
        own = tuple(stage for stage in self.stages if isinstance(stage, FusedRun))
        if not self.branches:
            return {self.output: own}
        return {name: own + runs for branch in self.branches for name, runs in branch.runs_by_output().items()}

    def begins_fused(self) -> bool:
        """The first thing that happens is a native call."""
        return bool(self.stages) and isinstance(self.stages[0], FusedRun)

    def finish(self, begun: Any, job: Job) -> dict[str, Any]:
        """Do the rest, one batch after the other."""
        if isinstance(begun, list):
            parts = [branch.finish(part, job) for branch, part in zip(self.branches, begun, strict=True)]
            return {name: value for part in parts for name, value in part.items()}
        value, done = begun.value
        for stage in self.stages[done:]:
            value = stage.run(value, job) if isinstance(stage, FusedRun) else self._apply(stage, value, job)
        if self.branches:
            return self.finish(self._begin_branches(value, job), job)
        if self.collate is not None:
            start_s = time.perf_counter()
            value = collate(value, self.collate, is_json=self.is_json)
            job.clock.add("collate", start_s)
        return {self.output: value}

    def _apply(self, keyed: KeyedOp, value: Any, job: Job) -> Any:
        start_s = time.perf_counter()
        try:
            return keyed.op.apply(value, job.draws(keyed.key))
        except Exception as error:
            samples = job.indices.tolist()
            shown = f"{samples[:4]}"[:-1] + (", ...]" if len(samples) > 4 else "]")
            error.add_note(f"in the loader's op {_name_of(keyed.op)}, for the samples {shown}")
            raise
        finally:
            job.clock.add_python(_name_of(keyed.op), start_s)

    def outputs(self) -> dict[str, tuple[Any, ...]]:
        """Names of what comes out, and the modules that each goes through at the end."""
        if not self.branches:
            return {self.output: self.modules}
        return {name: modules for branch in self.branches for name, modules in branch.outputs().items()}

    def forms(self) -> dict[str, Form]:
        """What one value of each output looks like; nothing is known behind a module."""
        if not self.branches:
            return {self.output: Form() if self.modules else self.form}
        return {name: form for branch in self.branches for name, form in branch.forms().items()}

    def on_gpu(self, refusal: Callable[[FusedRun], str]) -> tuple[_Chain, dict[str, str]]:
        """The chain with the runs marked that a GPU does, and why it does not make the other outputs."""
        if self.branches and not self.stages:  # each branch decodes for itself
            placed = [branch.on_gpu(refusal) for branch in self.branches]
            reasons = {name: reason for _, refused in placed for name, reason in refused.items()}
            return replace(self, branches=tuple(branch for branch, _ in placed)), reasons
        run, reason = self.stages[0], self._cpu_reason()
        if not reason and isinstance(run, FusedRun) and not (reason := refusal(run)):
            return replace(self, stages=(replace(run, is_on_gpu=True),)), {}
        return self, dict.fromkeys(self.outputs(), reason)

    def _cpu_reason(self) -> str:
        """Why no GPU can do it, whatever its run is: what follows needs arrays in memory."""
        python = [_name_of(stage.op) for stage in self.stages if isinstance(stage, KeyedOp)]
        if python:
            return f"{python[0]} runs in Python"
        if len(self.stages) > 1:
            return "the ops are more than one native call"
        if self.branches:
            return "its branches share what is decoded"
        return f"collate={self.collate!r}" if self.collate is not None else ""

    def advice(self) -> list[str]:
        """What was probably meant otherwise: a native call gets pixels from 0 to 255."""
        normalizes = [stage.normalize for stage in self.stages if isinstance(stage, FusedRun)]
        own = [op.advice() for op in normalizes if op is not None]
        return [text for text in own if text] + [text for branch in self.branches for text in branch.advice()]

    def describe(self) -> list[str]:
        """The stages in words, one line for each output."""
        words = []
        for stage in self.stages:
            if isinstance(stage, FusedRun):
                where = " on the GPU" if stage.is_on_gpu else ""
                words.append(f"one native call{where} ({stage.ops_text()})")
            else:
                words.append(f"Python: {_name_of(stage.op)}")
        words += [f"torch: {type(module).__name__}" for module in self.modules]
        words += [f"collate: {self.collate}"] if self.collate else []
        if not self.branches:
            return ["; then ".join(words)]
        lines = ["; then ".join([*words, "for each of the following:"] if words else ["for each of the following:"])]
        for branch in self.branches:
            lines += [f"  {line}" for line in branch.describe_named()]
        return lines

    def describe_named(self) -> list[str]:
        """The stages in words, behind the name of the output."""
        first, *rest = self.describe()
        return [f"{self.output}: {first or 'as it is'}", *rest]


@dataclass(frozen=True, slots=True)
class FieldPlan:
    """How the outputs of one field are made."""

    field: str
    kind: str
    chain: _Chain

    def begin(self, job: Job) -> Any:
        """Read and decode; may run for several batches at a time."""
        start_s = time.perf_counter()
        value = self._read(job)
        job.clock.add("read", start_s)
        job.clock.bytes_read += stored_bytes(value)
        return self.chain.begin(value, job)

    def _read(self, job: Job) -> Any:
        if self.kind == "image":
            return job.dataset.image_spans(job.indices, self.field, job.source)
        if self.kind in _JOINED and not self.chain.stages and self.chain.collate in ("pad", "offsets"):
            return job.dataset.read_ragged(job.indices, self.field, job.source)
        if self.kind in _ARRAYS:
            return job.dataset.read_arrays(job.indices, self.field, job.slots.take, job.source)
        return job.dataset.read_values(job.indices, self.field, job.source)

    def part(self, begun: Any, first: int, last: int, job: Job) -> Any:
        """Of what was begun for several batches as one, that of the samples from ``first`` to before ``last``."""
        return self.chain.part(begun, first, last, job)

    def is_native(self) -> bool:
        """Nothing runs in Python or torch: a sample does not depend on the others in its batch."""
        return self.chain.is_native()

    def runs_by_output(self) -> dict[str, tuple[FusedRun, ...]]:
        """The native calls that each output goes through, in order."""
        return self.chain.runs_by_output()

    def can_part(self) -> bool:
        """Several batches can be begun as one."""
        return self.chain.can_part()

    def finish(self, begun: Any, job: Job) -> dict[str, Any]:
        """Run what is Python; one batch after the other."""
        return self.chain.finish(begun, job)

    def outputs(self) -> dict[str, tuple[Any, ...]]:
        """Names of what comes out, and the modules that each goes through at the end."""
        return self.chain.outputs()

    def forms(self) -> dict[str, Form]:
        """What one value of each output looks like."""
        return self.chain.forms()

    def on_gpu(self, refusal: Callable[[FusedRun], str]) -> tuple[FieldPlan, dict[str, str]]:
        """The plan with the runs marked that a GPU does, and why it does not make the other outputs."""
        chain, reasons = self.chain.on_gpu(refusal)
        return replace(self, chain=chain), reasons

    def advice(self) -> list[str]:
        """What was probably meant otherwise."""
        return [f"pipelines[{self.field!r}]: {text}" for text in self.chain.advice()]

    def describe(self) -> str:
        """Say in words what is done, and how."""
        lines = self.chain.describe()
        if self.kind == "image":
            # Without a shared part every branch decodes for itself.
            for i in range(1 if self.chain.stages else len(lines)):
                lines[i] = _FIRST_CALL.sub(r"\1decode, ", lines[i], count=1)
        else:
            lines[0] = "; then ".join(word for word in ("one read for a batch", lines[0]) if word)
        return "\n".join([f"{self.field}: {lines[0]}", *lines[1:]])


class _Compiler:
    """Checks the pipeline of one field and cuts it into stages."""

    def __init__(self, field: str, kind: str, collates: Mapping[str, Collate]) -> None:
        self._field = field
        self._kind = kind
        self._collates = collates

    def chain(self, output: str, ops: Pipeline, form: Form, *, is_first: bool, path: str) -> _Chain:
        """Compile a pipeline or a branch of one."""
        plain, branches = _split(output, ops)
        modules = _trailing_modules(output, plain)
        stages: list[FusedRun | KeyedOp] = []
        if is_first and self._kind == "image" and not (branches and not plain):
            stages.append(FusedRun(self._field))  # pictures are decoded by a run, even an empty one
        for position, op in enumerate(plain[: len(plain) - len(modules)]):
            before, form = form, self._form(op, form)
            self._append(stages, KeyedOp(op, _key(path, position, op)), is_picture=_is_picture(before))
        if modules and branches:
            raise ValueError(f"pipelines[{output!r}]: modules of torch must stand in the branches, not before them")
        is_open = is_first and not plain  # nothing is shared: each branch decodes for itself
        inner = tuple(
            self.chain(name, rest, form, is_first=is_open, path=f"{path}/{name}") for name, rest in branches.items()
        )
        is_ragged = form.dtype == "list" and not modules and not inner
        kind = self._collates.get(output, self._collates.get("") if is_ragged else None)
        is_json = self._kind == "json" and form.dtype == "list"  # no op has changed the values
        return _Chain(tuple(stages), modules, output, inner, kind, is_json, form)

    def _form(self, op: Any, form: Form) -> Form:
        if isinstance(op, list | tuple):
            raise TypeError(
                f"pipelines[{self._field!r}]: there is a list inside the list of ops; write the ops one after the other"
            )
        if not hasattr(op, "form"):
            raise TypeError(
                f"pipelines[{self._field!r}]: {op!r} is not an op; take one from headrace.ops, "
                "or wrap a function in Apply"
            )
        try:
            after: Form = op.form(form)
        except ValueError as error:
            raise ValueError(f"pipelines[{self._field!r}]: {error}") from None
        return after

    def _append(self, stages: list[FusedRun | KeyedOp], keyed: KeyedOp, *, is_picture: bool) -> None:
        last = stages[-1] if stages else None
        longer = last.extended(keyed) if isinstance(last, FusedRun) else None
        if longer is not None:
            stages[-1] = longer
            return
        fresh = FusedRun(self._field).extended(keyed)
        is_python = isinstance(keyed.op, ArrayOp) and not (is_picture and fresh is not None)
        stages.append(keyed if is_python or fresh is None else fresh)


def compile_pipeline(name: str, field: Field, ops: Pipeline, collates: Mapping[str, Collate]) -> FieldPlan:
    """Check the ops of a field and plan them; the error says which op does not fit and why.

    Args:
        name: of the field.
        field: its type.
        ops: the pipeline.
        collates: how ragged outputs are put together, by name; the empty name is for those that are not named.
    """
    compiler = _Compiler(name, field.kind, collates)
    for epoch in sorted(_epochs_of(ops)):  # with sizes by epoch, what follows must fit all of them
        try:
            compiler.chain(name, _ops_at(ops, epoch), _first_form(field), is_first=True, path=name)
        except ValueError as error:
            raise ValueError(f"{error} (from epoch {epoch} on)") from None
    return FieldPlan(name, field.kind, compiler.chain(name, ops, _first_form(field), is_first=True, path=name))


def _epochs_of(ops: Pipeline) -> set[int]:
    """The epochs at which a size of an op changes."""
    if isinstance(ops, str) or not isinstance(ops, Sequence):  # an error that is told elsewhere
        return set()
    sizes = [op.size for op in ops if isinstance(getattr(op, "size", None), SizeSchedule)]
    branches = [branch for op in ops if isinstance(op, Mapping) for branch in op.values()]
    return {epoch for size in sizes for epoch in size.epochs}.union(*map(_epochs_of, branches))


def _ops_at(ops: Pipeline, epoch: int) -> Pipeline:
    """The pipeline as it is in an epoch."""
    if isinstance(ops, str) or not isinstance(ops, Sequence):
        return ops
    return [
        {name: _ops_at(branch, epoch) for name, branch in op.items()} if isinstance(op, Mapping) else op_at(op, epoch)
        for op in ops
    ]


def _first_form(field: Field) -> Form:
    if field.kind == "image":
        return Form("uint8", (None, None, 3))
    if field.kind in ("int", "float"):
        return Form("int64" if field.kind == "int" else "float64", ())
    dtype, shape = getattr(field, "dtype", None), getattr(field, "shape", None)
    return Form("list") if dtype is None or shape is None else Form(np.dtype(dtype).name, tuple(shape))


def _split(output: str, ops: Pipeline) -> tuple[list[Any], Mapping[str, Pipeline]]:
    if isinstance(ops, str) or not isinstance(ops, Sequence):
        is_op = hasattr(ops, "form") or callable(ops)
        fix = f"; put it into a list: [{_name_of(ops)}(...)]" if is_op else ""
        raise TypeError(f"pipelines[{output!r}] must be a list of ops or None, got {ops!r}{fix}")
    plain = list(ops)
    for op in plain:
        if isinstance(op, type):
            name = op.__name__
            raise TypeError(f"pipelines[{output!r}]: {name} is a class, not an op; write {name}(...), with parentheses")
    branches = plain.pop() if plain and isinstance(plain[-1], Mapping) else {}
    if any(isinstance(op, Mapping) for op in plain):
        raise ValueError(f"pipelines[{output!r}]: a mapping of branches must be the last item")
    return plain, branches


def _is_picture(form: Form) -> bool:
    return form.dtype == "uint8" and form.shape is not None and len(form.shape) == 3 and form.shape[2] == 3


def is_module(op: Any) -> bool:
    """A module of torch, told without importing torch."""
    return callable(op) and hasattr(op, "forward") and hasattr(op, "state_dict")


def _trailing_modules(output: str, ops: list[Any]) -> tuple[Any, ...]:
    first = next((i for i, op in enumerate(ops) if is_module(op)), len(ops))
    for op in ops[first:]:
        if not is_module(op):
            raise ValueError(f"pipelines[{output!r}]: {_name_of(op)} comes after a module of torch; modules come last")
    return tuple(ops[first:])


def _key(path: str, position: int, op: Any) -> int:
    """What names the random numbers of an op; ops that share a word share their numbers."""
    share = getattr(op, "share", None)
    return crc32c(f"share {share}".encode() if share is not None else f"{path} {position}".encode())


def _name_of(op: Any) -> str:
    return getattr(op, "name", "") or getattr(op, "__name__", "") or type(op).__name__
