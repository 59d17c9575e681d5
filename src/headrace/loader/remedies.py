"""What can be changed about a dataset or a loader, each with what it would bring.

Every function looks at one thing and gives an ``Advice``, or None where there is nothing to gain or nothing to see.
A factor is measured (both ways were run), computed (from what was measured) or none: then the advice follows from a
fact, and the text says from which.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import tempfile
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from headrace._native import simd_level
from headrace.errors import HeadraceError
from headrace.fields import Image
from headrace.formats.open import locate, open_dataset
from headrace.formats.sets import subset
from headrace.formats.tile_index import tile_index_of
from headrace.formats.write import write
from headrace.loader.launcher import own_cores
from headrace.loader.measurement import (
    Measured,
    drop_from_page_cache,
    measure,
    native_seconds,
    sample_pictures,
    spans_of,
    within,
)
from headrace.ops import CenterCrop, RandomResizedCrop, Resize
from headrace.ops.sizes import size_at
from headrace.progress import format_bytes, format_count
from headrace.storage import RemotePath, available_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from headrace.errors import PathLike
    from headrace.formats.contract import Format
    from headrace.loader.loader import Loader
    from headrace.loader.measurement import Pictures
    from headrace.types import ImageSpans

__all__ = ["REMEDIES", "Advice", "Case", "make_case"]

_JPEG, _RAW, _PNG, _WEBP = 0, 1, 2, 3
_WORTH = 1.1  # times as fast: less is not worth a word
_WORTH_OF_OPTION = 1.05  # the same for what costs the user nothing
_WIDE = 500 / 224  # the longer side of stored pictures, for each pixel of the side of a crop
_HOW_SHRUNK = {
    _JPEG: "Pictures are shrunk and compressed again",
    _RAW: "Pictures are shrunk and stay raw",
    _PNG: "Pictures are shrunk and become JPEGs",
}
"""What ``convert --max-side`` does, by how pictures are stored."""
_SMALL_BATCH = 64
_MOST_FILES = 1024  # of a set
_MEMORY = "/dev/shm"
_MOST_SAMPLES, _MOST_BYTES = 512, 32 << 20  # of a part of a dataset that is written for a measurement


@dataclass(frozen=True, kw_only=True, slots=True)
class Advice:
    """One thing to change: what, how many times as fast the loader becomes, and how that is known.

    ``factor`` is None for what is not about speed, and for facts of which nothing was measured.
    """

    kind: str
    text: str
    factor: float | None
    basis: Literal["measured", "computed", "fact"]

    def __str__(self) -> str:
        known = self.basis if self.factor is None else f"{self.factor:.1f}x, {self.basis}"
        return f"{self.text} [{known}]"


@dataclass(frozen=True, slots=True)
class Case:
    """A loader that was measured, and some of its pictures."""

    loader: Loader
    measured: Measured
    pictures: tuple[Pictures, ...]
    seconds: float  # that a further measurement may last

    @property
    def path(self) -> str:
        """The dataset as a command takes it; of what is made of several, each of the files."""
        own = self.loader.dataset.path
        if _format_of(own) is not None:
            return shlex.quote(own)
        return f"FILE (each of {format_count(len(self.files), 'file')})"

    @property
    def format(self) -> Format | None:
        """Of the dataset, or of the first of its files; None where there are none."""
        files = self.files
        return _format_of(self.loader.dataset.path) or (_format_of(files[0]) if files else None)

    @property
    def files(self) -> list[str]:
        """Of the dataset, those that are files on this machine."""
        dataset = self.loader.dataset
        spots = np.linspace(0, len(dataset) - 1, min(len(dataset), _MOST_FILES)).astype(np.int64)
        paths = {os.fspath(dataset.origin_of(int(spot))[0]) for spot in spots}
        return sorted(path for path in paths if os.path.isfile(path))

    def rate_with(self, seconds: float | None = None, **changes: object) -> float:
        """Samples per second with some options changed."""
        return _rate_of(self.loader._remade(**changes), seconds or self.seconds)

    def times_as_fast(self, **changes: object) -> float:
        """The same against the loader as it is, by turns."""
        as_it_is, changed = [], []
        for _ in range(2):
            as_it_is.append(self.rate_with(self.seconds / 2))
            changed.append(self.rate_with(self.seconds / 2, **changes))
        return max(changed) / max(*as_it_is, 1e-9)


def _format_of(path: PathLike) -> Format | None:
    try:
        return locate(path).format
    except (HeadraceError, OSError, ValueError):
        return None


def make_case(loader: Loader, seconds: float) -> Case:
    """Measure a loader; half of the time goes into this, and the rest into what it could be."""
    measured = measure(loader, seconds / 2)
    return Case(loader, measured, tuple(sample_pictures(loader)), max(0.2, seconds / 8))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Nothing is told twice: the first measurement has warned."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


# -- pictures --------------------------------------------------------------------------------------------------------


def missing_index(case: Case) -> Advice | None:
    """JPEGs without a tile index, and what one would bring: made in memory for some of them."""
    best: tuple[float, float] | None = None
    for pictures in case.pictures:
        spans = pictures.spans
        is_bare = (spans.modes == _JPEG) & ~_has_index(spans)
        if is_bare.mean() < 0.2 or case.loader.options.jpeg == "libjpeg":
            continue
        before_s, after_s = native_seconds(pictures, [(spans, _is_fast(case)), (_indexed(pictures), _is_fast(case))])
        factor = within(case.measured.stats, {"native": after_s / before_s})
        best = max(best or (0.0, 0.0), (factor, before_s / after_s))
    if best is None or best[0] < _WORTH:
        return None
    found = case.format
    if found is None or found.index is None:
        how = f"convert it into a .beton, which has one: headrace convert {case.path} NEW.beton"
    elif not case.loader.dataset.is_local:
        how = "make one before it is uploaded: headrace index FILE"
    else:
        how = f"headrace index {case.path}"
    text = f"the JPEGs have no index, by which a crop is decoded without the rest of its picture: {how}"
    if best[1] > best[0] * 1.2:
        text += f" (pictures are made {best[1]:.1f}x as fast; then something else binds)"
    return Advice(kind="jpeg_index", text=text, factor=best[0], basis="measured")


def stored_too_large(case: Case) -> Advice | None:
    """Pictures that are stored much larger than the crops that are taken of them: some are stored smaller."""
    for pictures in case.pictures:
        crop = None if pictures.run.crop is None else pictures.run.crop.op
        if not isinstance(crop, RandomResizedCrop | CenterCrop | Resize):
            continue  # a crop of so many pixels would be of something else
        wanted = round(max(size_at(crop.size, 0)) * _WIDE)
        sides = np.maximum(pictures.spans.widths, pictures.spans.heights)
        if np.median(sides) < 1.2 * wanted:
            continue
        kind = _most_are(pictures.spans)
        smaller = _stored_again(pictures, Image(mode="raw" if kind == _RAW else "jpg", max_side=wanted))
        if smaller is None:
            continue
        ways = [(pictures.spans, _is_fast(case)), (smaller, _is_fast(case))]
        before_s, after_s = native_seconds(pictures, ways)
        factor = within(case.measured.stats, {"native": after_s / before_s})
        if factor < _WORTH:
            continue
        text = (
            f"{pictures.field} is stored at {int(np.median(sides))} px (the longer side, median), and crops of "
            f"{max(size_at(crop.size, 0))} px are taken: store it at {wanted} px with: headrace convert {case.path} "
            f"NEW.beton --max-side {wanted}. {_HOW_SHRUNK.get(kind, _HOW_SHRUNK[_PNG])}, so pixels change"
        )
        return Advice(kind="max_side", text=text, factor=factor, basis="measured")
    return None


def slow_codec(case: Case) -> Advice | None:
    """PNG and WebP, which are decoded whole: some are stored as JPEG."""
    for pictures in case.pictures:
        modes = pictures.spans.modes
        if np.isin(modes, (_PNG, _WEBP)).mean() < 0.2:
            continue
        again = _stored_again(pictures, Image(quality=95))
        if again is None:
            continue
        ways = [(pictures.spans, _is_fast(case)), (again, _is_fast(case))]
        before_s, after_s = native_seconds(pictures, ways)
        factor = within(case.measured.stats, {"native": after_s / before_s})
        if factor < _WORTH:
            continue
        kind = "PNG" if (modes == _PNG).sum() >= (modes == _WEBP).sum() else "WebP"
        text = (
            f"{pictures.field} is stored as {kind}, which is decoded whole: store JPEGs with an index with: headrace "
            f"convert {case.path} NEW.beton --image-mode jpg --quality 95. JPEG loses a little of every picture"
        )
        return Advice(kind="codec", text=text, factor=factor, basis="measured")
    return None


def fast_precision(case: Case) -> Advice | None:
    """Colours at the size of the result, where that is faster."""
    options = case.loader.options
    if options.precision == "fast" or options.jpeg not in ("auto", "window") or simd_level() != "avx512":
        return None
    for pictures in case.pictures:
        before_s, after_s = native_seconds(pictures, [(pictures.spans, False), (pictures.spans, True)])
        factor = within(case.measured.stats, {"native": after_s / before_s})
        if factor >= _WORTH_OF_OPTION:
            text = "Loader(precision='fast') makes pictures that differ from the exact ones by about 49 dB"
            return Advice(kind="precision", text=text, factor=factor, basis="measured")
    return None


def _most_are(spans: ImageSpans) -> int:
    """How most of the pictures are stored."""
    return int(np.bincount(spans.modes).argmax())


def _is_fast(case: Case) -> bool:
    return case.loader.options.precision == "fast"


def _has_index(spans: ImageSpans) -> npt.NDArray[np.bool_]:
    return np.zeros(len(spans.modes), bool) if spans.tile_indices is None else spans.tile_indices[2] > 0


def _indexed(pictures: Pictures) -> ImageSpans:
    """The same pictures, each JPEG with a tile index."""
    return _with_indices(pictures.spans, pictures.stored())


def _with_indices(spans: ImageSpans, files: Sequence[bytes]) -> ImageSpans:
    packed = [
        tile_index_of(file) if mode == _JPEG else b"" for file, mode in zip(files, spans.modes.tolist(), strict=True)
    ]
    sizes = np.array([len(one) for one in packed], np.uint64)
    offsets = (np.cumsum(sizes) - sizes).astype(np.uint64)
    return replace(spans, tile_indices=(np.frombuffer(b"".join(packed), np.uint8), offsets, sizes))


def _stored_again(pictures: Pictures, field: Image) -> ImageSpans | None:
    """The pictures as a new file would have them, JPEGs with their indices; None where that cannot be done."""
    spans = pictures.spans
    stored = []
    try:
        for number, data in enumerate(pictures.stored()):
            value: object = data
            if spans.modes[number] == _RAW:
                shape = int(spans.heights[number]), int(spans.widths[number]), 3
                value = np.frombuffer(data, np.uint8).reshape(shape)
            stored.append(field.encode(value, number))
    except (HeadraceError, ValueError):
        return None
    files = [one.payload or b"" for one in stored]
    sides = [(int(one.facts[1]), int(one.facts[2])) for one in stored]
    return _with_indices(spans_of(files, [int(one.facts[0]) for one in stored], sides), files)


# -- the loader ------------------------------------------------------------------------------------------------------


def python_op(case: Case) -> Advice | None:
    """An op in Python that holds all else back."""
    stats = case.measured.stats
    if not stats.python_ops:
        return None
    name, seconds = max(stats.python_ops.items(), key=lambda item: item[1])
    left = 1 - seconds / max(stats.stages["python"] + stats.stages["collate"], 1e-12)
    factor = within(stats, {"python": left})
    if factor < _WORTH:
        return None
    share = seconds / stats.loop_s
    text = (
        f"{name} runs in Python, one batch after the other, and takes {share:.0%} of the time"
        ": use an op of headrace.ops in its place, do it to the tensor on the GPU, or store its result"
    ).replace("%", " %")
    return Advice(kind="python_op", text=text, factor=factor, basis="computed")


def workers(case: Case) -> Advice | None:
    """Fewer or more threads than this process has cores."""
    given, cores = case.loader.options.workers, own_cores()
    if not isinstance(given, int) or not case.measured.stats.native_s:
        return None
    has = f"workers={given}, and this process has {format_count(cores, 'core')}"
    if given > cores:
        text = f"{has}, of which the training needs some: leave it out"
        return Advice(kind="workers", text=text, factor=None, basis="fact")
    if within(case.measured.stats, {"native": given / cores}) < _WORTH:
        return None
    factor = case.times_as_fast(workers=cores)
    if factor < _WORTH:
        return None
    text = f"{has}: leave it out, and the loader finds a number"
    return Advice(kind="workers", text=text, factor=factor, basis="measured")


def small_batches(case: Case) -> Advice | None:
    """Batches so small that the work for each of them counts."""
    size = case.loader.options.batch_size
    larger = min(4 * size, case.loader.samples)
    if size >= _SMALL_BATCH or larger < 2 * size:
        return None
    factor = case.times_as_fast(batch_size=larger, drop_last=False)
    if factor < 1.2:
        return None
    text = f"batches of {size} are small: with {format_count(larger, 'sample')} in a batch each of them costs less"
    return Advice(kind="batch_size", text=text, factor=factor, basis="measured")


def checks(case: Case) -> Advice | None:
    """What comparing checksums costs."""
    stats = case.measured.stats
    factor = within(stats, {"native": 1 - stats.stages["check"] / max(stats.native_s, 1e-12)})
    if factor < _WORTH_OF_OPTION or not case.loader.dataset.has_checksums or case.measured.waits_for_disk:
        return None
    text = "checksums are compared: Loader(verify=False) leaves that out, and then damage may go unnoticed"
    return Advice(kind="verify", text=text, factor=factor, basis="computed")


def to_device(case: Case) -> Advice | None:
    """Copies of values that are wider than they need be."""
    stats = case.measured.stats
    wide = [name for name, form in case.loader.forms().items() if form.dtype == "float32" and len(form.shape or ()) > 1]
    factor = within(stats, {"copy": 0.5})
    if not wide or factor < _WORTH:
        return None
    text = f"{', '.join(wide)} goes to the device as float32: float16 (ops.ToDtype) is half as much to copy"
    return Advice(kind="dtype", text=text, factor=factor, basis="computed")


# -- the file --------------------------------------------------------------------------------------------------------


def order(case: Case) -> Advice | None:
    """A random order over pages that come from a disk."""
    loader = case.loader
    if loader.options.order != "random" or not loader.dataset.is_local or loader.dataset.page_numbers() is None:
        return None
    files, free_bytes = case.files, available_bytes()
    size_bytes = sum(map(os.path.getsize, files))
    how = "order='quasi_random' shuffles as well, and reads pages one after the other"
    if case.measured.waits_for_disk:
        for path in files:
            drop_from_page_cache(path)
        as_it_is = case.rate_with()
        for path in files:
            drop_from_page_cache(path)
        factor = case.rate_with(order="quasi_random") / max(as_it_is, 1e-9)
        if factor >= _WORTH:
            text = f"samples are read from the disk in random order: {how}"
            return Advice(kind="order", text=text, factor=factor, basis="measured")
    elif size_bytes > free_bytes:
        text = (
            f"the dataset has {format_bytes(size_bytes)}, and {format_bytes(free_bytes)} of memory are free, so most "
            f"of a random order comes from the disk: {how}"
        )
        return Advice(kind="order", text=text, factor=None, basis="fact")
    return None


def another_format(case: Case) -> Advice | None:
    """A format whose values take long to read: a part of the dataset is written as .beton."""
    dataset, found = case.loader.dataset, case.format
    is_slow = within(case.measured.stats, {"read": 0.0}) >= _WORTH
    if not is_slow or not dataset.is_local or found is None or found.name == "beton" or case.measured.waits_for_disk:
        return None
    count = _part_size(case)
    chosen = np.linspace(0, len(dataset) - 1, count).astype(np.int64)
    with tempfile.TemporaryDirectory(prefix="headrace-doctor-", dir=_memory_folder()) as folder:
        path = os.path.join(folder, "part.beton")
        try:
            write(path, subset(dataset, chosen).sources(), fields=dict(dataset.schema))
        except (HeadraceError, ValueError, TypeError, OSError):
            return None  # it cannot hold this, or there is no room: nothing is known
        size = min(case.loader.options.batch_size, count)
        with open_dataset(path) as written:
            new = case.loader._remade(written, batch_size=size, indices=None, drop_last=False)
            old = case.loader._remade(batch_size=size, indices=chosen, drop_last=False)
            rates = [_possible_rate(one, case.seconds / 2) for one in (old, new, old, new)]
    factor = max(rates[1::2]) / max(*rates[::2], 1e-9)
    if factor < _WORTH:
        return None
    text = f"values take long to read from a {found.name}: headrace convert {case.path} NEW.beton"
    return Advice(kind="format", text=text, factor=factor, basis="measured")


def _memory_folder() -> str | None:
    """A folder that is memory, so that nothing is written to a disk; None: the temporary folder."""
    return _MEMORY if os.access(_MEMORY, os.W_OK) else None


def _part_size(case: Case) -> int:
    """How many samples are written: few, and not many bytes."""
    stats, n = case.measured.stats, len(case.loader.dataset)
    each = max(1.0, stats.bytes_read / max(1, stats.samples))
    return max(1, min(n, _MOST_SAMPLES, int(_MOST_BYTES / each)))


def _rate_of(loader: Loader, seconds: float) -> float:
    with _quiet():
        return measure(loader, seconds).rate


def _possible_rate(loader: Loader, seconds: float) -> float:
    with _quiet():
        return measure(loader, seconds).possible_rate


def no_cache(case: Case) -> Advice | None:
    """A store whose bytes come anew in every epoch."""
    path = case.loader.dataset.path
    if case.loader.dataset.is_local or (isinstance(path, RemotePath) and path.storage.cache_dir is not None):
        return None
    text = "every epoch is read from the store anew: Loader(cache_dir=FOLDER) keeps it on the local disk"
    return Advice(kind="cache_dir", text=text, factor=None, basis="fact")


def no_checksums(case: Case) -> Advice | None:
    """Values that cannot be checked."""
    found = case.format
    if case.loader.dataset.has_checksums or found is None or found.index is None or not found.index_has_checksums:
        return None
    text = f"there are no checksums, so damage may go unnoticed: headrace index {case.path}"
    return Advice(kind="checksums", text=text, factor=None, basis="fact")


REMEDIES: tuple[Callable[[Case], Advice | None], ...] = (
    missing_index,
    stored_too_large,
    slow_codec,
    another_format,
    python_op,
    workers,
    small_batches,
    order,
    to_device,
    no_cache,
    checks,
    fast_precision,
    no_checksums,
)
