"""``headrace.Loader``: any dataset as batches."""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import time
import warnings
from collections import deque
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from headrace._native import ImageLoader, crc32c, simd_level
from headrace.formats import open_dataset
from headrace.formats.contract import BaseDataset, check_contract, normalize_indices
from headrace.formats.gallery import present
from headrace.formats.sample_tiles import check_size
from headrace.loader.batch_tiles import batch_gallery
from headrace.loader.block_uses import EpochReads, uses_of_blocks
from headrace.loader.byte_sources import ByteSources
from headrace.loader.engine import Prefetcher, as_error
from headrace.loader.epoch import Epoch, SampleErrors
from headrace.loader.gpu import choose_gpu
from headrace.loader.groups import GroupMaker, SingleBatches, group_size
from headrace.loader.job import Job
from headrace.loader.live_line import LiveLine
from headrace.loader.loop_clock import LoopClock
from headrace.loader.options import LoaderOptions, takes
from headrace.loader.plan import FieldPlan, compile_pipeline
from headrace.loader.slots import SlotPool
from headrace.loader.stats import LoaderStats
from headrace.loader.streaming import ComingSteps
from headrace.loader.trace import Trace
from headrace.loader.tuner import Bounds, Tuner
from headrace.loader.use_times import UseTimes, uses_of_pages
from headrace.order import ArrayOrder, BatchPlan, Order, SequentialOrder, SubsetOrder, shuffled_order
from headrace.progress import format_count
from headrace.registry import PluginTable, reach
from headrace.storage import allocate_pages
from headrace.types import Dataset, Interleaved, Located

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from headrace.errors import CorruptSampleError, PathLike
    from headrace.formats.gallery import Gallery
    from headrace.loader.byte_sources import SourceOf
    from headrace.loader.use_times import UsesOf
    from headrace.ops import Form
    from headrace.types import Batch, IndexArray, Interleaving, Output, Viewing

__all__ = ["Loader"]

_STATE_VERSION = 2  # in 1, the quasi-random order had no strands; the others were the same
# Batches begun at a time: while one runs Python, the other has native work under way. For a GPU two more: one is
# prepared by the CPU, one is fetched, and one is decoded.
_THREADS, _GPU_THREADS = 2, 4
_GROUPS = 3  # of small batches, the same for them
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # of objects without a text of their own: another in each process
_FRAMEWORKS: PluginTable[Any] = PluginTable("headrace.frameworks", kind="framework")


class Loader:
    """Turns a dataset into batches, ahead of the consumer, the same for any number of workers.

    One ``for`` loop is one epoch. A batch unpacks in field order and knows the fields' names; numbers, arrays and
    pictures come as arrays, everything else as lists. ``loader[step]`` is one batch of the current epoch.

    Args:
        dataset: a dataset, or what ``headrace.open`` takes: a path, a pattern of paths, a list of them.
        batch_size: samples in a batch (of this rank).
        order: ``"sequential"``, ``"random"``, ``"quasi_random"`` (shuffled, but only about ``pool_pages`` pages of the
            file are in use at a time), or a function of (n, seed, epoch) that gives an array of indices below n. The
            first three keep the proportions of ``headrace.mix``.
        seed: fixes shuffling and augmentation, together with the epoch.
        workers: threads that decode. ``"auto"``, the default: at first one for each core but one or two, which are
            left to the training, of the cores that affinity, control group and launcher (torchrun, Slurm, MPI) give
            this process; then as many as make the loop fastest. The batches are the same for any number.
        pipelines: field name to a list of ops, or None to leave the field out. Fields that are not named are
            loaded as they are. The last item may be a mapping of names to further lists: one output for each name,
            what stands before it done once.
        device: where batches go, such as ``"cpu"``, ``"cuda"`` or ``"cuda:1"``. On the CPU they lie on the same memory
            without a copy, to a GPU they are copied ahead. The name of a framework is short for ``framework=``.
        framework: what batches are made of: ``"numpy"`` (without a device), ``"torch"`` (with one), ``"jax"`` or
            ``"cupy"``. Without a device: torch on the CPU, JAX and CuPy where they make arrays themselves.
        indices: use only these samples.
        drop_last: leave out a last batch that is not full.
        batches_ahead: how many batches are computed before they are asked for. ``"auto"``, the default: 3, and more
            where the consumer takes them in bursts, as far as an eighth of the free memory holds them.
        distributed: take rank and world from torch.distributed, or from what torchrun or Slurm set.
        rank: which of the processes this is, when several share an epoch.
        world: how many there are.
        on_error: what a damaged sample does: ``"raise"``, ``"skip"`` (another one takes its place, and it is listed in
            ``errors``), or a function that is called with the error and raises it or returns to skip.
        cache: how a file with pages is read. ``"os"``: mapped, for files that fit into memory. A number of bytes or
            text such as ``"4GB"``: read ahead of use into a cache of that size, for files that do not. None: chosen by
            the size of the file and the free memory.
        collate: how values of different sizes are put together: ``"list"``, ``"pad"`` (zeros behind each value, and
            lengths) or ``"offsets"`` (one after the other); or a mapping of outputs to these.
        verify: check every value against its checksum. None: where the file has checksums.
        pool_pages: see order; counts for all ranks together. Ranks use different pages where ``world`` divides half of
            it. By default 16 for each rank, or what the state names that the loader goes on from.
        jpeg: ``"gpu"`` lets the GPU decode what a crop needs of a JPEG, by the tile indices, and do the ops; an error
            where it cannot. ``"auto"`` does that where it can, and is ``"window"`` elsewhere. ``"window"`` decodes what
            a crop needs on the CPU, fastest where the file has tile indices; ``"slice"`` cuts that part out by the
            index and gives it to libjpeg-turbo; ``"libjpeg"`` gives it the whole. The pixels are the same.
        precision: ``"fast"`` converts colours at the size of the result and transforms in 16 bits: about 49 dB from
            the exact pixels, and a few hundredths faster. Only where the window decoder works, with AVX-512 and the
            filters area and bilinear; all else stays exact.
        storage_options: how a store is reached where the dataset is given by a URL, see ``headrace.open``; and so are
            ``cache_dir`` and ``cache_size``.
        cache_dir: folder on a local disk that keeps what was read from stores.
        cache_size: bytes that this folder may take, or text such as ``"100GB"``.
        progress: draw a line on standard error while a loop runs: rate, share of waiting, what binds. Nothing is drawn
            where nobody watches.
        trace: a file to write at the end of every loop: what each thread did when, for Chrome or Perfetto.

    Example:
        >>> import os, tempfile, headrace
        >>> path = os.path.join(tempfile.mkdtemp(), "numbers.beton")
        >>> headrace.write(path, [(i, i / 2) for i in range(10)], fields={"n": headrace.Int(), "x": headrace.Float()})
        >>> loader = headrace.Loader(path, 4, order="random", seed=1)
        >>> len(loader), [batch.n.shape for batch in loader]
        (2, [(4,), (4,)])
    """

    @takes(LoaderOptions)
    def __init__(self, dataset: Dataset | PathLike | Sequence[PathLike], options: LoaderOptions) -> None:
        opened: Any = _opened(dataset, options) if _is_named(dataset) else dataset
        check_contract(opened, Dataset, "what the loader got", BaseDataset)
        self._prepare(opened, options)
        for advice in self._advice():  # once, here: a copy or a part of a loader has nothing new to tell
            warnings.warn(advice, stacklevel=3)

    def _advice(self) -> list[str]:
        found = [advice for plan in self._plans for advice in plan.advice()]
        if self.samples and not len(self):
            size, (_, world) = self.options.batch_size, self.options.place
            over = f"batch_size={size}" if world == 1 else f"batch_size={size} times world={world}"
            found.append(
                f"{over} is larger than the dataset, which has {self.samples} sample{'s' if self.samples > 1 else ''}: "
                "an epoch has no batches, for drop_last=True leaves out a batch that is not full. Write a smaller "
                "batch_size, or drop_last=False"
            )
        return found

    def _prepare(self, dataset: Dataset, options: LoaderOptions) -> None:
        self.dataset = _checked_dataset(dataset, options.verify)
        self.options = options
        self.epoch = 0
        self._indices = None if options.indices is None else normalize_indices(options.indices, len(self.dataset))
        rank, world = options.place
        self._batches = BatchPlan(
            batch_size=options.batch_size,
            drop_last=options.drop_last,
            rank=rank,
            world=world,
            in_blocks=self._interleaving is not None,
        )
        plans = self._compile()
        self._output = _output_of(options)
        self.stats = LoaderStats(workers=options.threads, batches_ahead=options.ahead)
        self._native = ImageLoader(self.stats.workers)
        self._gpu = choose_gpu(options, self.dataset, self._indices, plans, self._output, self._native)
        self._plans = self._gpu.plans
        allocate = allocate_pages if self._output is None else self._output.allocate
        bounds = options.bounds()
        self._slots = SlotPool(bounds.most_ahead + 2, allocate)
        self._sources = ByteSources(self.dataset, options, allocate if self._gpu.outputs else allocate_pages)
        self._problems = SampleErrors(options.on_error)
        self._known_dataset = -1, self.dataset, self._problems
        if self._gpu.outputs:  # the workers do not decode there, and batches that wait take the GPU's memory
            bounds = Bounds(self.stats.workers, self.stats.workers, self.stats.batches_ahead)
        self._tuner = Tuner(self.stats, bounds, self._set_workers)
        self._trace = None if options.trace is None else Trace(options.trace)
        self._step = 0
        self._is_begun = False
        self._loops = 0  # that run now
        self._known_order: tuple[int, Order] | None = None
        self._pool_pages = options.pool
        self._use_times = UseTimes()
        self._order(0)  # a wrong order is told now, not in the first epoch

    def __getstate__(self) -> dict[str, Any]:
        return {
            "dataset": self.dataset,
            "options": self.options,
            "epoch": self.epoch,
            "step": self._step,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._prepare(state["dataset"], state["options"])
        self.set_epoch(state["epoch"])
        self._step = state["step"]

    def _compile(self) -> tuple[FieldPlan, ...]:
        schema, pipelines, collates = self.dataset.schema, self.options.ops, self.options.collates()
        for name in pipelines:
            if name not in schema:
                close = difflib.get_close_matches(str(name), schema, n=1)
                asked = f"; did you mean {close[0]!r}?" if close else ""
                raise ValueError(f"pipelines names the field {name!r}; the fields are {', '.join(schema)}{asked}")
        wanted = {name: pipelines.get(name, ()) for name in schema}
        plans = tuple(
            compile_pipeline(name, schema[name], ops, collates) for name, ops in wanted.items() if ops is not None
        )
        outputs = [name for plan in plans for name in plan.outputs()]
        if len(set(outputs)) < len(outputs):
            raise ValueError(f"two outputs of the pipelines have the same name: {', '.join(outputs)}")
        if unknown := [name for name in collates if name and name not in outputs]:
            raise ValueError(f"collate names {', '.join(unknown)}; the outputs are {', '.join(outputs)}")
        if self.options.framework != "torch" and any(modules for plan in plans for modules in plan.outputs().values()):
            if self.options.framework != "numpy":
                raise ValueError(f"pipelines have modules of torch, and framework is {self.options.framework!r}")
            raise ValueError("pipelines with modules of torch need a device; use device='cpu' or device='cuda'")
        return plans

    @property
    def seed(self) -> int:
        """What fixes shuffling and augmentation, together with the epoch."""
        return self.options.seed

    @property
    def samples(self) -> int:
        """Samples of an epoch, over all ranks."""
        return len(self.dataset) if self._indices is None else len(self._indices)

    @property
    def errors(self) -> list[CorruptSampleError]:
        """The damaged samples that were skipped, each once, in the order in which they were met."""
        return list(self._problems.errors)

    def __len__(self) -> int:
        """Batches of an epoch."""
        return self._batches.steps(self.samples)

    def __repr__(self) -> str:
        return f"<Loader of {self.dataset!r}: {format_count(len(self), 'batch')} of {self.options.batch_size}>"

    def forms(self) -> dict[str, Form]:
        """What one value of each output looks like, as far as the fields and the ops say."""
        return {name: form for plan in self._plans for name, form in plan.forms().items()}

    def plan(self) -> str:
        """Say in words what is done to each field, and what was fused."""
        lines = [plan.describe() for plan in self._plans]
        lines += [f"{name}: left out" for name, ops in self.options.ops.items() if ops is None]
        if any(plan.kind == "image" for plan in self._plans):
            lines.append(self.options.describe_jpegs(simd_level()))
            if indexed := self.dataset.jpegs_indexed:
                lines.append(f"JPEGs: {format_count(indexed, 'tile index')}")
        lines += self._gpu.describe()
        lines.append(self._sources.describe())
        return "\n".join(lines)

    def view(self, *, port: int = 0, browser: bool = True) -> Viewing:
        """Look at the loader in a browser: its pipeline and timings, the batches that come next, single samples.

        A thread of this process serves the page, to this machine alone, at a URL with a secret in it. What is shown is
        made by a copy of the loader: this one goes on as if nobody looked, also while it is in a loop. Functions in
        its pipelines are called for the copy, too. Needs the packages of ``headrace[view]``.

        Args:
            port: to listen at; 0 takes one that is free.
            browser: open the page, where there is a screen.

        Returns:
            What has the ``url``, and ``close()``; it is a context manager, too.
        """
        viewing: Viewing = reach("viewer.server").view(self, port=port, browser=browser)
        return viewing

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next loop."""
        self.epoch, self._step, self._is_begun = int(epoch), 0, False

    def __iter__(self) -> Iterator[Batch]:
        if self._is_begun:  # the last loop was left early: this one is the next epoch
            self.set_epoch(self.epoch + 1)
        self._is_begun = True
        begun_s = time.perf_counter()
        steps, number = len(self), self.epoch
        with contextlib.ExitStack() as stack:
            is_local = self._dataset_at(number)[0].is_local
            streaming = None if is_local else self._sources.stream(self._coming(number), self._step, steps)
            if streaming is None:
                source_of = self._sources.sources(self._pages_of(number), self._step, steps, stack)
            else:
                source_of = stack.enter_context(streaming).step
            epoch = self._epoch(number, source_of)
            on_end = stack.pop_all().close
        on_stop = (lambda: None) if streaming is None else streaming.stop
        with (
            self._written_trace(),
            self._live_line(number) as line,
            self._prefetch(epoch, steps, on_end, on_stop) as batches,
        ):
            self._loops += 1
            try:
                for batch in self._deliver(batches, epoch, begun_s):
                    self._step += 1
                    if line is not None:
                        line.draw()
                    yield batch
                    del batch
            finally:
                self._loops -= 1
            self.set_epoch(number + 1)

    @contextlib.contextmanager
    def _written_trace(self) -> Iterator[None]:
        """Write what was traced at the end of a loop, also of one that is left early."""
        try:
            yield
        finally:
            if self._trace is not None:
                self._trace.write()

    def _live_line(self, epoch: int) -> AbstractContextManager[LiveLine | None]:
        if not self.options.progress:
            return contextlib.nullcontext()
        steps, order = range(self._step, len(self)), self._order(epoch)
        samples = len(steps[:-1]) * self.options.batch_size
        samples += self._batches.size_of(order, steps[-1]) if steps else 0  # the last may be shorter
        return LiveLine(self.stats, epoch, len(steps), samples)

    def _set_workers(self, workers: int) -> None:
        self._native.threads = workers

    def _prefetch(
        self, epoch: Epoch, steps: int, on_end: Callable[[], None], on_stop: Callable[[], None]
    ) -> Prefetcher[Batch] | SingleBatches:
        """Begin the batches that are left of an epoch: one by one, or groups of them."""
        size, ahead = self._group_size(), self.stats.batches_ahead
        if size == 1:
            threads = _GPU_THREADS if self._gpu.outputs else _THREADS
            return Prefetcher(epoch, self._step, steps, ahead, threads=threads, on_end=on_end, on_stop=on_stop)
        groups = GroupMaker(epoch, self._step, steps, size)
        options: dict[str, Any] = {"threads": _GROUPS, "on_end": on_end, "on_stop": on_stop}
        return SingleBatches(Prefetcher(groups, 0, len(groups), _GROUPS - 1, **options))

    def _group_size(self) -> int:
        """How many batches are made together: several small ones on a GPU, where nothing speaks against it."""
        decoder, options = self._gpu.decoder, self.options
        if not self._gpu.outputs or decoder is None or decoder.output.part is None or callable(options.on_error):
            return 1
        if self._sources.budget_bytes is not None or not all(plan.can_part() for plan in self._plans):
            return 1
        return group_size(options.batch_size, options.ahead)

    def _pages_of(self, epoch: int) -> Callable[[int], IndexArray] | None:
        """The pages that a step uses, when pages are read ahead and the order keeps to them."""
        if self._sources.budget_bytes is None or self.options.order not in ("sequential", "quasi_random"):
            return None
        pages = self._dataset_at(epoch)[0].page_numbers()
        if pages is None:
            return None
        order, batches = self._order(epoch), self._batches
        return lambda step: pages[batches.batch(order, step)]

    def _coming(self, epoch: int) -> ComingSteps:
        """What the steps of an epoch read.

        Whole pages are brought in an order that gives each rank its own. The ranks of a mixture share pages, and so
        do those of other orders.
        """
        order, batches = self._order(epoch), self._batches
        is_alone = batches.world == 1
        has_pages = self.options.order == "quasi_random" and (is_alone or not batches.in_blocks)
        pages = self._dataset_at(epoch)[0].page_numbers() if has_pages else None
        return ComingSteps(
            dataset=self._dataset_at(epoch)[0],
            fields=tuple(plan.field for plan in self._plans),
            samples_of=lambda step: batches.batch(order, step),
            pages=pages,
            samples=self._indices,
            own=None if is_alone else lambda: batches.samples(order),
            next_uses=self._next_uses(epoch, pages),
        )

    def _next_uses(self, epoch: int, pages: IndexArray | None) -> Callable[[], UsesOf] | None:
        """Finds out when what is read in an epoch is needed again; None where nobody knows."""
        now, then = self._use_times.begin(epoch, len(self))
        if callable(self.options.order):
            return None  # what it will say in the next epoch is not asked ahead
        this, following = self._dataset_at(epoch)[0], self.dataset.for_epoch(epoch + 1)
        if this is following and self.options.order == "sequential":
            return lambda: lambda step, _: (now.of(step), then.of(step))
        order = partial(self._make_order, epoch + 1, following)
        if this is following and pages is not None:
            return lambda: uses_of_pages(order(), pages, self._batches.global_batch, now, then)
        if not (isinstance(this, Located) and isinstance(following, Located)):
            return None
        first, reads = self._step, self._reads(this, self._order(epoch), pages)

        def find() -> UsesOf:
            theirs = None if pages is None else following.page_numbers()  # a mixture has others in every epoch
            return uses_of_blocks(reads, self._reads(following, order(), theirs), first, now, then)

        return find

    def _reads(self, dataset: Located, order: Order, pages: IndexArray | None) -> EpochReads:
        fields = tuple(plan.field for plan in self._plans)
        return EpochReads(dataset, fields, order, self._batches.global_batch, len(self), pages)

    def _deliver(self, batches: Prefetcher[Batch] | SingleBatches, epoch: Epoch, begun_s: float) -> Iterator[Batch]:
        output = self._output if self._output is not None and self._output.is_device else None
        sent: deque[Any] = deque()
        self._tuner.begin()
        clock = LoopClock(self.stats, batches, begun_s, self._trace)
        while True:
            clock.ask()
            if not sent:
                try:
                    batch = next(batches)
                except StopIteration:
                    return
                sent.append(batch if output is None else clock.send(output, batch, epoch.modules))
                del batch
            first = sent.popleft()
            if output is not None:
                if batches.is_ready:  # it travels while the consumer works
                    sent.append(clock.send(output, next(batches), epoch.modules))
                first = output.receive(first)
            clock.receive(self._batches.size_of(epoch.order, self._step), self._step)
            if self._tuner.is_free:
                self._tuner.note_batch(first, batches.set_batches_ahead)
            yield first
            del first

    def __getitem__(self, step: int) -> Batch:
        """One batch of the current epoch, computed at once; it does not count as used."""
        index = step + len(self) if step < 0 else step
        if not 0 <= index < len(self):
            raise IndexError(f"batch {step} is out of range, an epoch has {len(self)}")
        epoch = self._epoch(self.epoch, self._sources.single())
        try:
            batch = epoch.finish(index, epoch.begin(index))
        except StopIteration as error:
            raise as_error(error) from error
        if self._output is None or not self._output.is_device:
            return batch
        return self._output.receive(self._output.send(batch, epoch.modules))

    def show(self, step: int | None = None, *, count: int = 16, side: int = 128) -> Gallery | None:
        """Look at a batch as the model gets it: a notebook draws what this gives, anywhere else it is printed.

        It is made by a loader of its own: a loop that runs, the state, the statistics and the errors stay as they are.

        Args:
            step: which batch of the current epoch; by default the one that comes next.
            count: how many of its samples.
            side: the longest side of a picture in a notebook, in pixels.
        """
        check_size(count, side)
        epoch, coming = self._coming_batch()
        if step is not None:
            epoch, coming = self.epoch, step
        if not len(self):
            raise ValueError(f"there is no batch to show: {self!r}")
        on_error = "skip" if callable(self.options.on_error) else self.options.on_error  # nobody is told twice
        other = self._remade(workers=1, batches_ahead=1, progress=False, trace=None, on_error=on_error)
        other._use_pool(self._pool_pages)
        other.set_epoch(epoch)
        return present(
            batch_gallery(
                other[coming],
                title=f"batch {range(len(self))[coming]:,} of {len(self):,}",
                facts=f"epoch {epoch}, {format_count(self.options.batch_size, 'sample')} a batch, {self.dataset.path}",
                class_names=self.dataset.class_names,
                count=count,
                side=side,
            )
        )

    def _coming_batch(self) -> tuple[int, int]:
        """Epoch and step of the batch that comes next; after a loop that was left early, a new one begins."""
        if self._is_begun and not self._loops:
            return self.epoch + 1, 0
        return (self.epoch, self._step) if self._step < len(self) else (self.epoch + 1, 0)

    @property
    def _interleaving(self) -> Interleaving | None:
        """The pattern that orders keep; a choice of samples has none."""
        dataset = self.dataset
        return dataset.interleaving if self._indices is None and isinstance(dataset, Interleaved) else None

    def _dataset_at(self, epoch: int) -> tuple[Dataset, SampleErrors]:
        """The dataset as it is in an epoch, and what is known of its damaged samples.

        Where an epoch has other samples under the same numbers, it does not take over what is known of others.
        """
        if self._known_dataset[0] != epoch:
            dataset = self.dataset.for_epoch(epoch)
            problems = self._problems if dataset is self.dataset else self._problems.of_other_samples()
            self._known_dataset = epoch, dataset, problems
        return self._known_dataset[1:]

    def _epoch(self, number: int, source_of: SourceOf) -> Epoch:
        none = np.empty(0, np.int64)
        dataset, problems = self._dataset_at(number)
        return Epoch(
            order=self._order(number),
            batches=self._batches,
            plans=self._plans,
            job=Job(
                dataset,
                none,
                self.seed,
                number,
                self._native,
                self._slots,
                jpeg=self.options.cpu_jpeg,
                is_fast=self.options.precision == "fast",
                gpu=self._gpu.decoder,
            ),
            problems=problems,
            stats=self.stats,
            output=self._output,
            source_of=source_of,
            interleaving=self._interleaving,
            trace=self._trace,
        )

    def filter(self, field: str, condition: Callable[[Any], bool]) -> Loader:
        """A loader of the same options over those samples whose value of a field fulfils a condition.

        The condition is called once for each sample with the value as ``dataset[i]`` gives it, now.
        """
        if field not in self.dataset.schema:
            raise ValueError(f"filter names the field {field!r}; the fields are {', '.join(self.dataset.schema)}")
        if self.dataset.for_epoch(self.epoch + 1) is not self.dataset.for_epoch(self.epoch):
            raise ValueError(f"{self.dataset.path} has other samples in every epoch; filter its parts before mixing")
        indices = np.arange(len(self.dataset), dtype=np.int64) if self._indices is None else self._indices
        kept: list[bool] = []
        for start in range(0, len(indices), 1024):
            values = self.dataset.read_values(indices[start : start + 1024], field)
            values = values.tolist() if isinstance(values, np.ndarray) and values.ndim == 1 else values
            kept += [bool(condition(value)) for value in values]
        return self._remade(indices=indices[np.array(kept, bool)])

    def _remade(self, dataset: Dataset | None = None, /, **changes: Any) -> Loader:
        """A loader of the same dataset, or of one like it, at its beginning, with some options changed."""
        loader = Loader.__new__(Loader)
        loader._prepare(self.dataset if dataset is None else dataset, replace(self.options, **changes))
        return loader

    def _order(self, epoch: int) -> Order:
        if self._known_order is None or self._known_order[0] != epoch:
            self._known_order = epoch, self._make_order(epoch, self._dataset_at(epoch)[0])
        return self._known_order[1]

    def _make_order(self, epoch: int, dataset: Dataset) -> Order:
        n, choice = self.samples, self.options.order
        order: Order
        if choice == "sequential":
            order = SequentialOrder(n)
        elif callable(choice):
            order = ArrayOrder(_checked_order(choice(n, self.seed, epoch), n))
        else:
            order = shuffled_order(
                n,
                self._pages_of_samples(dataset) if choice == "quasi_random" else None,
                pool_pages=self._pool_pages,
                seed=self.seed,
                epoch=epoch,
                interleaving=self._interleaving,
            )
        return order if self._indices is None else SubsetOrder(self._indices, order)

    def _pages_of_samples(self, dataset: Dataset) -> IndexArray | None:
        pages = dataset.page_numbers()
        return pages if pages is None or self._indices is None else pages[self._indices]

    def state_dict(self) -> dict[str, Any]:
        """Where the loader stands, as a small dict that JSON can hold.

        In a loop the batch at hand counts as used. The same state serves all ranks, and any number of them as long as
        the global batch stays the same.
        """
        order = self.options.order
        return {
            "version": _STATE_VERSION,
            "epoch": self.epoch,
            "samples_used": self._step * self._batches.global_batch,
            "seed": self.seed,
            "global_batch": self._batches.global_batch,
            "drop_last": self._batches.drop_last,
            "order": order if isinstance(order, str) else "function",
            "pool_pages": self._pool_pages,
            "samples": self.samples,
            "dataset": self.dataset.fingerprint,
            "pipelines": crc32c(_ADDRESS.sub("", repr(self._plans)).encode()),
            "indices": 0 if self._indices is None else crc32c(self._indices.astype("<i8")),
        }

    def _expected_state(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """The state as it must be, but for where it stands; a number of pages that nobody has named is the state's."""
        expected = self.state_dict()
        pages = state.get("pool_pages")
        if self.options.pool_pages is None and type(pages) is int and 0 < pages < 1 << 63:
            expected["pool_pages"] = pages
        return expected

    def _use_pool(self, pages: int) -> None:
        if pages != self._pool_pages:
            self._pool_pages, self._known_order = pages, None

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where a state was taken, at once; the next loop gives the batches that were left.

        Raises:
            ValueError: the state belongs to another dataset or to other options.
        """
        expected = self._expected_state(state)
        if set(state) != set(expected):
            raise ValueError(f"this is not the state of a loader: it has {sorted(state)}, expected {sorted(expected)}")
        _check_version(state)
        for key in expected.keys() - {"version", "epoch", "samples_used"}:
            if state[key] != expected[key]:
                raise ValueError(
                    f"the state was taken with {key}={state[key]!r}, and this loader has {key}={expected[key]!r}; "
                    "it would not go on with the same batches"
                )
        used, step_size = int(state["samples_used"]), self._batches.global_batch
        if used % step_size or not 0 <= used // step_size <= len(self):
            raise ValueError(f"samples_used={used} is not a whole number of steps of {step_size} within an epoch")
        is_over = used // step_size == len(self)
        self._use_pool(expected["pool_pages"])
        self.set_epoch(int(state["epoch"]) + is_over)  # nothing is left of an epoch that is over
        self._step = 0 if is_over else used // step_size


def _check_version(state: Mapping[str, Any]) -> None:
    """Raise ValueError if the state was taken by a headrace with other batches."""
    version = state["version"]
    if version == _STATE_VERSION or (version == 1 and state["order"] != "quasi_random"):
        return
    raise ValueError(
        f"the state was taken by another headrace, whose order {state['order']!r} has other batches: it is of "
        f"version {version}, expected {_STATE_VERSION}. Go on with that headrace, or begin an epoch anew: "
        f"set_epoch({state['epoch']})"
    )


def _opened(path: PathLike | Sequence[PathLike], options: LoaderOptions) -> Dataset:
    return open_dataset(
        path,
        storage_options=options.storage_options,
        cache_dir=options.cache_dir,
        cache_size=options.cache_size,
    )


def _is_named(dataset: Dataset | PathLike | Sequence[PathLike]) -> TypeGuard[PathLike | Sequence[PathLike]]:
    """A dataset is given by what ``headrace.open`` takes."""
    if isinstance(dataset, list | tuple):
        return all(isinstance(path, str | os.PathLike) for path in dataset)
    return isinstance(dataset, str | os.PathLike)


def _output_of(options: LoaderOptions) -> Output | None:
    """What brings batches to the framework that was asked for; None where numpy's arrays are what is wanted."""
    if options.framework == "numpy":
        return None
    if options.framework not in (names := _FRAMEWORKS.names()):
        how = " (for TensorFlow see headrace.frameworks.tensorflow)" if options.framework == "tensorflow" else ""
        raise ValueError(f"framework must be one of numpy, {', '.join(names)}, got {options.framework!r}{how}")
    output: Output = _FRAMEWORKS.load(options.framework)(options.device)
    return output


def _checked_dataset(dataset: Dataset, verify: bool | None) -> Dataset:
    if verify is None:
        return dataset
    wanted = dataset.with_checksums(verify)
    if verify and not wanted.has_checksums:
        raise ValueError(
            f"verify=True, but {dataset.path} has no checksums; make them with: headrace index {dataset.path}"
        )
    return wanted


def _checked_order(indices: Any, n: int) -> IndexArray:
    array = np.asarray(indices)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise TypeError(f"the order function gave {array.dtype} of shape {array.shape}, expected n integers")
    if len(array) != n:
        raise ValueError(f"the order function gave {format_count(len(array), 'index')}, expected {n:,}")
    return normalize_indices(array, n)
