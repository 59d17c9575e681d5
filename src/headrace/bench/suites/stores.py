"""Photographs from an object store on this machine, cropped at random: this package and others.

The store is a small server of our own that stays on the first core. Every contender may use all cores and decodes on
one: one thread of the Loader, or one process of a DataLoader; the rest is for the network. Every epoch is in shuffled
order and begins with opening. On few cores the server, the network and decoding share them; so an epoch is also
measured behind a network of a known rate, which is then the limit.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.bench.charts import bars_of
from headrace.bench.child import Child, ChildError
from headrace.bench.peers.headrace_loader import FIELDS
from headrace.bench.peers.peer import OURS, Peer, is_there
from headrace.bench.pictures import photograph_count, typical_bytes
from headrace.bench.rows import Missing, compared_rows
from headrace.bench.suite import Suite
from headrace.bench.suites.loader import CHECKED, compare_pixels, write_photographs
from headrace.bench.turns import self_timed, timed
from headrace.formats.open import open_dataset
from headrace.formats.write import write
from headrace.loader import Loader
from headrace.ops import RandomResizedCrop, ToLayout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from headrace.bench.peers.contender import Place
    from headrace.bench.rows import Finding, Row
    from headrace.bench.suite import Settings, Tell
    from headrace.charts import Chart

__all__ = ["SUITE"]

_PEERS = (
    Peer("WebDataset", "store_loaders:WebDatasetStore", ("torch", "webdataset")),
    Peer("LitData", "store_loaders:LitDataStore", ("torch", "litdata")),
    Peer("MosaicML Streaming", "store_loaders:MosaicStore", ("torch", "streaming", "boto3")),
)
_BUCKET, _NAME, _LATENCY_MS = "bucket", "photographs.beton", 20
_GET_BYTES, _GETS_AT_ONCE = 8 << 20, 16
_BYTES, _BYTES_PER_S = 1200 << 20, 125_000_000
_OURS = Peer(OURS, "headrace_loader:HeadraceLoader")
_LOCAL, _GETS = "a local file", f"plain GETs of {_GET_BYTES >> 20} MiB by obstore, {_GETS_AT_ONCE} at a time"
_BASES = (_LOCAL, _GETS, *(peer.name for peer in _PEERS))
_EPOCHS, _LATENCY, _FIRST = "random crops, an epoch", f"random crops, {_LATENCY_MS} ms of latency", "the first batch"
_NETWORK = "random crops, a network of 1 Gbit/s"


@dataclass(frozen=True, slots=True)
class _Bucket:
    """Where the files are: a folder with one bucket in it, as a contender is told it."""

    folder: Path
    place: Place
    count: int

    @property
    def path(self) -> Path:
        return self.folder / _BUCKET / _NAME

    def load(self, store: Mapping[str, Any] | None, *, batches: int | None = None, **options: Any) -> None:
        """An epoch, or its first batches, by this package; from the local file without a store."""
        reached = {} if store is None else {"storage_options": _storage(store), **options}
        path = self.path if store is None else f"s3://{_BUCKET}/{_NAME}"
        with open_dataset(path, **reached) as dataset:
            side, size = self.place.side, self.place.batch
            pipelines: dict[str, Any] = {"image": [RandomResizedCrop(side), ToLayout("NCHW")]}
            loader = Loader(dataset, size, order="quasi_random", workers=1, drop_last=False, pipelines=pipelines)
            loaded = 0
            for number, batch in enumerate(loader, start=1):
                loaded += len(batch.image)
                if number == batches:
                    return
        if loaded != self.count:
            raise ValueError(f"{loaded} photographs of {self.count} were loaded")

    def filled(self, store: Mapping[str, Any]) -> None:
        """An epoch that also keeps everything in an empty folder."""
        with tempfile.TemporaryDirectory(dir=self.folder) as cache:
            self.load(store, cache_dir=cache, cache_size="10GB")

    def get_all(self, store: Mapping[str, Any]) -> None:
        """The same bytes, and nothing else."""
        from obstore.store import S3Store

        size, remote = self.path.stat().st_size, S3Store(_BUCKET, **_storage(store))

        def get(start: int) -> int:
            return len(remote.get_range(_NAME, start=start, end=min(size, start + _GET_BYTES)))

        with ThreadPoolExecutor(_GETS_AT_ONCE) as pool:
            if sum(pool.map(get, range(0, size, _GET_BYTES))) != size:
                raise ValueError("a GET was too short")


def _storage(store: Mapping[str, Any]) -> dict[str, Any]:
    return {**store, "region": "us-east-1", "client_options": {"allow_http": True}}


@contextlib.contextmanager
def _server(bucket: _Bucket, latency_ms: float = 0.0, bytes_per_s: float = 0.0) -> Iterator[dict[str, Any]]:
    """The store; gives how it is reached."""
    words = [sys.executable, "-m", "headrace.bench.store_server"]
    words += [str(bucket.folder), str(latency_ms), str(bytes_per_s)]
    with Child(words, cores=sorted(os.sched_getaffinity(0))[:1]) as child:
        yield child.ask()


def _run(settings: Settings, tell: Tell) -> Iterator[Finding]:
    count, rounds = _count(settings), settings.repeats(quick=3, full=4)
    tell("writing the photographs")
    folder = settings.work / "buckets"
    (folder / _BUCKET).mkdir(parents=True)
    bucket = _Bucket(folder, write_photographs(settings, count), count)
    samples = ((path.read_bytes(), number) for number, path in enumerate(bucket.place.files()))
    write(bucket.path, samples, fields=FIELDS)
    yield _prepare(_OURS, bucket)
    peers = []
    for peer in _PEERS:
        if reason := peer.missing():
            yield Missing(peer.name, reason)
            continue
        tell(f"writing files for {peer.name}")
        try:
            yield _prepare(peer, bucket)
        except ChildError as error:
            yield Missing(peer.name, f"it cannot write here: {error}")
        else:
            peers.append(peer)
    tell("epochs, in turns")
    yield from _epochs(bucket, peers, rounds)
    tell("a network of a known rate")
    yield from _behind_network(bucket, rounds)
    tell("with latency")
    yield from _with_latency(bucket, rounds)


def _prepare(peer: Peer, bucket: _Bucket) -> Row:
    """Let a contender write the photographs, where it is not us, and compare its pixels."""
    place = replace(bucket.place, folder=str(bucket.folder)) if peer is _OURS else _placed(peer, bucket)
    Path(place.folder).mkdir(exist_ok=True)
    with Child(peer.command(place)) as child:
        if peer is not _OURS:
            child.ask({"do": "write"})
        row = compare_pixels(child, place, peer.name)
    Path(place.folder, CHECKED).unlink()  # it is none of the files that are streamed
    return row


def _placed(peer: Peer, bucket: _Bucket, **options: Any) -> Place:
    prefix = peer.name.replace(" ", "-").lower()
    told = {"bucket": _BUCKET, "prefix": prefix, **options}
    return replace(bucket.place, folder=str(bucket.folder / _BUCKET / prefix), options=told)


def _epochs(bucket: _Bucket, peers: Sequence[Peer], rounds: int) -> Iterator[Finding]:
    with _server(bucket) as store, tempfile.TemporaryDirectory(dir=bucket.folder) as cache:
        kept: dict[str, Any] = {"cache_dir": cache, "cache_size": "10GB"}
        contenders: dict[str, Callable[[], float]] = {
            OURS: timed(lambda: bucket.load(store)),
            "headrace, filling a cache": timed(lambda: bucket.filled(store)),
            "headrace, second epoch, from the cache": timed(lambda: bucket.load(store, **kept)),
            _LOCAL: timed(lambda: bucket.load(None)),
            _GETS: timed(lambda: bucket.get_all(store)),
        }
        contenders |= {peer.name: _streaming(peer, bucket, store) for peer in peers}
        # They take longest, and each epoch has a process of its own: there is nothing that a first round would warm up.
        last = {peer.name: max(1, rounds - 1) for peer in peers}
        seconds, failures = self_timed(contenders, rounds, _BASES, last_rounds=last)
    yield from (Missing(name, reason) for name, reason in failures.items())
    yield from compared_rows(_EPOCHS, seconds, _BASES, samples=bucket.count, unit="images/s")


def _streaming(peer: Peer, bucket: _Bucket, store: Mapping[str, Any]) -> Callable[[], float]:
    """An epoch in a process of its own, with nothing kept from before."""

    def epoch() -> float:
        with tempfile.TemporaryDirectory(dir=bucket.folder) as cache:
            place = _placed(peer, bucket, store=dict(store), cache=cache)
            with Child(peer.command(place)) as child:
                answer = child.ask({"do": "epoch"})
        if answer["images"] != bucket.count:
            raise ChildError(f"{peer.name} gave {answer['images']} photographs of {bucket.count}")
        return float(answer["seconds"])

    return epoch


def _behind_network(bucket: _Bucket, rounds: int) -> Iterator[Finding]:
    with _server(bucket, bytes_per_s=_BYTES_PER_S) as store:
        contenders: dict[str, Callable[[], float]] = {
            OURS: timed(lambda: bucket.load(store)),
            _LOCAL: timed(lambda: bucket.load(None)),
            _GETS: timed(lambda: bucket.get_all(store)),
        }
        seconds, _ = self_timed(contenders, rounds)
    yield from compared_rows(_NETWORK, seconds, _BASES, samples=bucket.count, unit="images/s")


def _with_latency(bucket: _Bucket, rounds: int) -> Iterator[Finding]:
    near_name, far_name = "no latency", f"{_LATENCY_MS} ms of latency"
    with _server(bucket) as near, _server(bucket, _LATENCY_MS) as far:
        stores = {far_name: far, near_name: near}
        for section, batches, unit in ((_LATENCY, None, "images/s"), (_FIRST, 1, "s")):
            contenders = {
                name: timed(lambda store=store, batches=batches: bucket.load(store, batches=batches))  # type: ignore[misc]
                for name, store in stores.items()
            }
            seconds, _ = self_timed(contenders, rounds)
            yield from compared_rows(section, seconds, [near_name], samples=bucket.count, unit=unit)


def _count(settings: Settings) -> int:
    return photograph_count(settings, quick=256, full=24_000, full_bytes=_BYTES)


def _charts(rows: Sequence[Row]) -> list[Chart]:
    sections = (_EPOCHS, _NETWORK, _LATENCY, _FIRST)
    return [chart for section in sections for chart in bars_of(rows, section.capitalize(), [section])]


SUITE = Suite(
    name="stores",
    question="How many photographs a second come from an object store, beside a local file and other packages?",
    run=_run,
    charts=_charts,
    room_bytes=lambda settings: 8 * typical_bytes(settings.images, _count(settings)) + (1 << 26),
    rooms=("storage", "loader", "read", "order", "ops", "formats/beton", "codecs"),
    missing=lambda: "" if is_there("obstore") else "obstore is not installed: pip install 'headrace[remote]'",
    notes=(
        "The store is a small server on the first core of this machine, which speaks as much of S3 as is read here. "
        "Random crops to 224 pixels, batches of 64; decoding on one thread or in one process. Nothing is kept from an "
        "epoch to the next, unless the name says it; every epoch begins with opening, imports are over before.",
        "WebDataset streams tars through curl, LitData and MosaicML Streaming fetch chunks of 64 MB; they crop with "
        "Pillow, which decodes at a half, a quarter or an eighth where the crop allows it. They take part in the last "
        "rounds alone, and are compared with what the others did in these.",
        "A network of 1 Gbit/s: the server sends at most 125 MB/s over all connections together. Plain GETs of the "
        "whole file, which decode nothing, are then the most that the network allows.",
        "Difference: whole photographs at 224 pixels by the decoder and filter of each, beside Pillow's full decoder "
        "and antialiased bilinear filter.",
    ),
)
