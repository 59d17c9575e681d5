"""Crops of photographs on one core: by what is stored, and by how it is decoded, beside FFCV and a plain loop.

The same pictures are stored as they were taken, as JPEG of quality 90 with a longer side of at most 500 pixels, and as
raw pixels of at most 256. Every contender runs in a process of its own, with one worker, on the same core.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.bench.charts import bars_of
from headrace.bench.child import Child, ChildError, ask_in_turns
from headrace.bench.peers.peer import FFCV, OURS, Peer
from headrace.bench.pictures import photograph_count, typical_bytes
from headrace.bench.rows import Missing, compared_rows, exact_row
from headrace.bench.suite import Suite
from headrace.bench.suites.loader import compare_pixels, write_photographs
from headrace.codecs import jpeg
from headrace.fields import Image, Int
from headrace.formats.open import open_dataset
from headrace.formats.write import write
from headrace.loader import Loader
from headrace.ops import RandomResizedCrop

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from headrace.bench.peers.contender import Place
    from headrace.bench.rows import Finding, Row
    from headrace.bench.suite import Settings, Tell
    from headrace.charts import Chart

__all__ = ["SUITE"]

_PLAIN = "simplejpeg + OpenCV"
_OURS = Peer(OURS, "headrace_loader:HeadraceLoader")
_PEERS = (Peer(FFCV, ""), Peer(_PLAIN, "simplejpeg_loader:SimplejpegLoader", ("simplejpeg", "cv2")))
_COMPARED = 32


@dataclass(frozen=True, slots=True)
class _Stored:
    """One way to store the pictures: a name, the field, and whether they are encoded anew."""

    name: str
    file: str
    image: Image
    is_anew: bool = True


_STORED = (
    _Stored("as taken", "taken.beton", Image(mode="jpg"), is_anew=False),
    _Stored("JPEG 90 of 500 pixels", "jpeg.beton", Image(mode="jpg", max_side=500, quality=90)),
    _Stored("raw, 256 pixels", "raw.beton", Image(mode="raw", max_side=256)),
)


@dataclass(frozen=True, slots=True)
class _Case:
    """One table: what is cropped, and the ways of this package that are compared."""

    stored: _Stored
    what: str
    options: Mapping[str, Any]
    ways: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def section(self) -> str:
        return f"{self.stored.name}: {self.what}"


_WAYS: dict[str, dict[str, Any]] = {
    "headrace, no tile index": {"file": "no-index-{}"},
    "headrace, reduced=True": {"reduced": True},
    "headrace, whole pictures by libjpeg-turbo": {"jpeg": "libjpeg"},
}


def _cases() -> Iterator[_Case]:
    for stored in _STORED[:2]:
        ways = {name: {k: _name(v, stored) for k, v in told.items()} for name, told in _WAYS.items()}
        yield _Case(stored, "random crops, flipped", {"flip": True}, ways)
        yield _Case(stored, "middle crops", {"crop": "center"})
    yield _Case(_STORED[2], "random crops, flipped", {"flip": True})
    yield _Case(_STORED[2], "random crops", {})


def _name(value: Any, stored: _Stored) -> Any:
    return value.format(stored.file) if isinstance(value, str) else value


def _run(settings: Settings, tell: Tell) -> Iterator[Finding]:
    place = write_photographs(settings, _count(settings))
    place = replace(place, folder=str(settings.work))
    tell("writing the photographs")
    for stored in _STORED:
        yield from _write(place, stored)
    peers = [peer for peer in _PEERS if not peer.missing()]
    yield from (Missing(peer.name, peer.missing()) for peer in _PEERS if peer.missing())
    yield _compare_pixels(_OURS, place)
    for peer in list(peers):
        try:
            yield _compare_pixels(peer, place)
        except ChildError as error:
            peers.remove(peer)
            yield Missing(peer.name, str(error))
    for case in _cases():
        tell(case.section)
        yield from _measure(case, place, peers, settings, tell)


def _compare_pixels(peer: Peer, place: Place) -> Row:
    with Child(peer.command(replace(place, options={"file": _STORED[0].file}))) as child:
        return compare_pixels(child, place, peer.name)


def _write(place: Place, stored: _Stored) -> Iterator[Row]:
    """With tile indices, and for JPEGs also without."""
    sources: list[Any] = [path.read_bytes() for path in place.files()]
    if stored.is_anew:  # all of them, not only those that are too large
        sources = [jpeg.decode(data) for data in sources]
    samples = [(source, number) for number, source in enumerate(sources)]
    fields: dict[str, Any] = {"image": stored.image, "label": Int()}
    path, plain = (Path(place.folder, name) for name in (stored.file, f"no-index-{stored.file}"))
    write(path, samples, fields=fields)
    if stored.image.mode == "raw":
        return
    write(plain, samples, fields=fields, jpeg_index=False)
    extra, jpegs = path.stat().st_size - plain.stat().st_size, _payload_bytes(plain)
    yield exact_row("size of the tile indices", stored.name, extra / jpegs, unit="of the JPEGs", better="lower")


def _payload_bytes(path: Path) -> int:
    with open_dataset(path) as dataset:
        return sum(map(len, dataset.read_bytes(np.arange(len(dataset)), "image")))


def _measure(case: _Case, place: Place, peers: Sequence[Peer], settings: Settings, tell: Tell) -> Iterator[Finding]:
    told = {OURS: {}, **case.ways}
    places = {name: replace(place, options={"file": case.stored.file, **case.options, **o}) for name, o in told.items()}
    commands = {name: _OURS.command(one) for name, one in places.items()}
    chosen = [peer for peer in peers if peer.name != _PLAIN or case.stored.image.mode != "raw"]
    commands |= {peer.name: peer.command(places[OURS]) for peer in chosen}
    rounds = settings.repeats(quick=3, full=7)
    answers, failures = ask_in_turns(
        commands, {"do": "epoch"}, rounds, cores=1, tell=lambda what: tell(f"{case.section}: {what}")
    )
    yield from (Missing(f"{case.section}: {name}", reason) for name, reason in failures.items())
    seconds = {name: [one["seconds"] / one["images"] for one in found] for name, found in answers.items()}
    facts = {name: {"off by": _difference(places[name])} for name in case.ways if name in answers}
    others = [peer.name for peer in chosen]
    yield from compared_rows(case.section, seconds, others, unit="images/s", facts=facts)


def _difference(place: Place) -> str:
    """How far random crops are from those of the same pictures that were decoded as a whole before."""
    path, options = Path(place.folder, str(place.options["file"])), place.options
    whole = Path(place.folder, "whole.beton")
    with open_dataset(path) as dataset:
        count = min(_COMPARED, len(dataset))
        pictures = [jpeg.decode(data) for data in dataset.read_bytes(np.arange(count), "image")]
    samples = [(picture, number) for number, picture in enumerate(pictures)]
    write(whole, samples, fields={"image": Image(mode="raw"), "label": Int()}, force=True)

    def crops(path: Path, **told: Any) -> Any:
        crop = RandomResizedCrop(place.side, reduced=bool(options.get("reduced")))
        return Loader(path, count, indices=range(count), pipelines={"image": [crop]}, workers=1, **told)[0].image

    found, expected = crops(path, jpeg=options.get("jpeg", "window")), crops(whole)
    off = np.abs(found.astype(np.int16) - expected.astype(np.int16))
    return f"{off.mean():.2f} of 255, {off.max()} at most" if off.max() else "nothing"


def _count(settings: Settings) -> int:
    return photograph_count(settings, quick=128, full=1000)


def _charts(rows: Sequence[Row]) -> list[Chart]:
    return [chart for case in _cases() for chart in bars_of(rows, f"Crops, {case.section}", [case.section])]


SUITE = Suite(
    name="crops",
    question="How fast is a crop of a photograph, by what is stored and by how it is decoded?",
    run=_run,
    charts=_charts,
    # Raw pixels of 256 a side are up to 200 kB; files with and without an index, and the photographs.
    room_bytes=lambda settings: _count(settings) * 400_000 + 4 * typical_bytes(settings.images, _count(settings)),
    rooms=("loader", "read", "order", "ops", "formats/beton", "codecs", "fields"),
    notes=(
        "Crops to 224 pixels, uint8 as NCHW, batches of 64, shuffled, warm; one worker on one core. FFCV reads the "
        "same .beton; it does not see the tile indices. Middle crops are those of validation, 224 of 256 pixels.",
        "simplejpeg and OpenCV are a plain loop: JPEGs decoded whole with the fast transform, crops resized without "
        "antialiasing, and channels that stand last in memory. That is less work than the others do.",
        "headrace, as it is, decodes the tiles of the crop that the index names; reduced=True lets a large crop be "
        "decoded at a half or a quarter. Off by: the mean and the largest difference of the pixels to the same crops "
        "of pictures that were decoded as a whole before.",
    ),
)
