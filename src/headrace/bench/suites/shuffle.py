"""Orders of an epoch: how fast is each, how random is it, and does a model notice?

The file holds samples of 20 kB on pages of a fortieth of the file. A stream of shards is what WebDataset does: tars of
the same samples, in shuffled order, read from the front by ``tarfile`` into a buffer that gives a random one of what it
holds.
"""

from __future__ import annotations

import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.bench.charts import bars_of
from headrace.bench.orders import buffered_order, order_of, randomness, shard_order, shuffle_buffer
from headrace.bench.page_cache import forget
from headrace.bench.rows import Missing, compared_rows, exact_row, median_row
from headrace.bench.small_model import train_and_test
from headrace.bench.suite import Suite
from headrace.bench.turns import one_core, take_turns
from headrace.charts import Point, PointChart
from headrace.fields import Bytes, Int
from headrace.formats.beton.layout import MIN_PAGE_SIZE
from headrace.formats.open import open_dataset
from headrace.formats.write import write
from headrace.loader import Loader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from headrace.bench.rows import Cache, Finding, Row
    from headrace.bench.suite import Settings, Tell
    from headrace.charts import Chart
    from headrace.types import IndexArray

__all__ = ["SUITE"]

_SAMPLE_BYTES, _BATCH, _PAGES = 20_000, 64, 40
_SEEDS = 5
_PLAIN = "the file in sequence, no loader"


@dataclass(frozen=True, slots=True)
class _Way:
    """One order: of the Loader, or of a stream of shards where it has a buffer; both counted in pages."""

    name: str
    kind: str
    pool_pages: int = 0
    buffer_pages: float = 0

    def order(self, pages: IndexArray, seed: int) -> IndexArray:
        if self.kind == "shards":
            shard = _shard_samples(len(pages))
            return buffered_order(len(pages), shard_samples=shard, buffer=self.buffer(len(pages)), seed=seed)
        return order_of(self.kind, pages, seed=seed, pool_pages=max(1, self.pool_pages))

    def buffer(self, n: int) -> int:
        return max(1, int(self.buffer_pages * _shard_samples(n)))


_WAYS = (
    _Way("sequential", "sequential"),
    _Way("random", "random"),
    _Way("quasi-random, 1 page", "quasi_random", 1),
    _Way("quasi-random, 4 pages", "quasi_random", 4),
    _Way("quasi-random, 16 pages", "quasi_random", 16),
    _Way("shards, buffer of 1 shard", "shards", buffer_pages=1),
    _Way("shards, buffer of 4 shards", "shards", buffer_pages=4),
)


def _shard_samples(n: int) -> int:
    return max(1, -(-n // _PAGES))


def _run(settings: Settings, tell: Tell) -> Iterator[Finding]:
    count = settings.count(quick=4000, full=40_000)
    rounds = settings.repeats(quick=3, full=5)
    tell("writing the samples")
    path, shards = _write(settings.work, count)
    with open_dataset(path) as dataset:
        pages = dataset.page_numbers()
    if pages is None:
        pages = np.arange(count) // _shard_samples(count)
    yield from _randomness(pages)
    if settings.warm_only:
        yield Missing("cold reads", settings.warm_only)
    caches: tuple[Cache, ...] = ("warm",) if settings.warm_only else ("warm", "cold")
    for cache in caches:
        tell(f"loading, {cache}")
        yield from _rates(path, shards, count, rounds, cache)
    tell("training a small model in each order")
    yield from _training(settings)


def _write(work: Path, count: int) -> tuple[Path, list[str]]:
    rng = np.random.default_rng(0)
    blob = rng.bytes(_SAMPLE_BYTES + count)
    fields: dict[str, Any] = {"data": Bytes(), "label": Int()}

    def samples() -> Iterator[tuple[bytes, int]]:
        return ((blob[i : i + _SAMPLE_BYTES], i) for i in range(count))

    path = work / "x.beton"
    write(path, samples(), fields=fields, page_size=_page_size(count))
    write(str(work / "shard-%06d.tar"), samples(), fields=fields, shard_samples=_shard_samples(count))
    return path, sorted(map(str, work.glob("shard-*.tar")))


def _page_size(count: int) -> int:
    """The power of two from which on there are at most some forty pages."""
    size = MIN_PAGE_SIZE
    while size * _PAGES < count * _SAMPLE_BYTES:
        size *= 2
    return size


def _randomness(pages: IndexArray) -> Iterator[Row]:
    for way in _WAYS:
        found = randomness(way.order(pages, seed=0), pages, _BATCH)
        facts: dict[str, Any] = {
            "rank correlation": found.rank_correlation,
            "batch-mates from one page": found.page_mates,
        }
        section = "how random (distance of neighbours; random is 1)"
        yield exact_row(section, way.name, found.distance, unit="", **facts)


def _rates(path: Path, shards: list[str], count: int, rounds: int, cache: Cache) -> Iterator[Row]:
    contenders: dict[str, Callable[[int], object]] = {}
    for way in _WAYS:
        if way.kind == "shards":
            contenders[way.name] = _streaming(shards, count, way.buffer(count))
        else:
            contenders[way.name] = _loading(path, way)
    contenders[_PLAIN] = lambda turn: _read_through(path)
    before = (lambda name: forget(path.parent)) if cache == "cold" else (lambda name: None)
    with one_core():
        seconds = take_turns(contenders, lambda turn: [turn], rounds, before=before)
    yield from compared_rows(f"loading, {cache}", seconds, [_PLAIN], samples=count, cache=cache)


def _read_through(path: Path) -> None:
    memory = bytearray(MIN_PAGE_SIZE)
    with open(path, "rb", buffering=0) as file:
        while file.readinto(memory):
            pass


def _loading(path: Path, way: _Way) -> Callable[[int], object]:
    """An epoch; the cache is a quarter of the file, as if the file were larger than memory."""
    order: Any = way.kind
    size = max(path.stat().st_size // 4, 1 << 24)

    def epoch(seed: int) -> int:
        loader = Loader(
            path,
            _BATCH,
            order=order,
            seed=seed,
            cache=size,
            pool_pages=max(1, way.pool_pages),
            collate="offsets",
            drop_last=False,
            workers=1,
        )
        return sum(len(batch.label) for batch in loader)

    return epoch


def _streaming(shards: list[str], count: int, buffer: int) -> Callable[[int], object]:
    per_shard = _shard_samples(count)

    def samples(seed: int) -> Iterator[bytes]:
        for shard in shard_order(count, per_shard, seed):
            with tarfile.open(shards[shard.start // per_shard], "r|") as tar:
                for member in tar:
                    file = tar.extractfile(member)
                    if file is not None and member.size == _SAMPLE_BYTES:
                        yield file.read()

    def epoch(seed: int) -> int:
        batch: list[bytes] = []
        done = 0
        for sample in shuffle_buffer(samples(seed), buffer, seed):
            batch.append(sample)
            if len(batch) == _BATCH:
                done += len(b"".join(batch)) // _SAMPLE_BYTES  # put together, as for the Loader
                batch.clear()
        return done + len(batch)

    return epoch


def _training(settings: Settings) -> Iterator[Row]:
    count = max(400, min(settings.count(quick=4000, full=8000), 8000))
    pages = np.arange(count) // _shard_samples(count)
    for way in _WAYS:
        shares = [train_and_test(count, _epochs(way, pages, seed), seed) for seed in range(_SEEDS)]
        yield median_row("a small model, data sorted by class", way.name, shares, unit="right", better="higher")


def _epochs(way: _Way, pages: IndexArray, seed: int) -> Callable[[int], IndexArray]:
    return lambda epoch: way.order(pages, seed=1000 * seed + epoch)


def _charts(rows: Sequence[Row]) -> list[Chart]:
    random = {row.name: row.value for row in rows if row.section.startswith("how random")}
    charts: list[Chart] = []
    for cache in ("cold", "warm"):
        points = [
            Point(random[row.name], row.value, row.name, "stream of shards" if "shards" in row.name else "Loader")
            for row in rows
            if row.section == f"loading, {cache}" and row.name in random
        ]
        if points:
            charts.append(
                PointChart(
                    title=f"Speed against randomness, {cache}",
                    x_label="distance of neighbours in the file (a random order is 1)",
                    y_label="samples/s",
                    points=points,
                )
            )
    sections = [row.section for row in rows if row.section.startswith("a small model")]
    charts += bars_of(rows, "Does it matter? A small model, on data sorted by class", sections[:1])
    return charts


SUITE = Suite(
    name="shuffle",
    question="What does each order cost, how random is it, and does a model notice?",
    run=_run,
    charts=_charts,
    room_bytes=lambda settings: 3 * settings.count(quick=4000, full=40_000) * _SAMPLE_BYTES + (1 << 26),
    rooms=("order", "loader", "read", "formats/beton"),
    notes=(
        "Samples of 20 kB, a page or shard is a fortieth of them. The Loader has one worker and a cache of a quarter "
        "of the file. A stream of shards is what WebDataset does: shuffled tars, read from the front by Python's "
        "tarfile into a buffer that gives a random one of what it holds; it runs in one thread. All are on one "
        "core. The file in sequence is what the disk and the system give: plain reads of a page each.",
        "Rank correlation: of places in the epoch and places in the file. Batch-mates: share of the pairs of a batch "
        f"of {_BATCH} that lie on one page. Distance: of neighbours, beside that of a random order.",
        "The model is a small network on points of ten classes that lie in the file class by class: two epochs, "
        f"{_SEEDS} seeds, tested on new points after the last step.",
    ),
)
