"""Random crops of JPEGs on a GPU: the whole loader beside our CPU decoder, nvJPEG and DALI, and what training keeps.

Everything runs in one process on one GPU, in turn, from a file that is in the page cache: RandomResizedCrop(224), flip
and normalize to float16. The file is pinned while the first epoch goes by, and then measured. nvJPEG (through
torchvision) decodes the same pictures whole, without a crop or a resize. Stages are what CUPTI saw on the GPU, and the
time of the processor for a picture.
"""

from __future__ import annotations

import importlib
import itertools
import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace import ops
from headrace._native import RangeReader, gpu_kernels
from headrace.bench.charts import bars_of
from headrace.bench.peers.peer import is_there
from headrace.bench.pictures import photograph_bytes, typical_bytes
from headrace.bench.rows import Missing, compared_rows, exact_row
from headrace.bench.suite import Suite
from headrace.bench.turns import self_timed
from headrace.codecs import jpeg as jpeg_codec
from headrace.fields import Image, Int
from headrace.formats.write import write
from headrace.loader import Loader
from headrace.progress import format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from headrace.bench.rows import Finding, Row
    from headrace.bench.suite import Settings, Tell
    from headrace.charts import Chart

__all__ = ["SUITE"]

_WORKERS, _BATCHES, _SIDE = (1, 2, 4, 8, 16), (256, 1024), 224
_MEAN, _STD = [123.7, 116.3, 103.5], [58.4, 57.1, 57.4]
_STORED = {"originals": None, "JPEG 90 of 500 pixels": 500}
_NVJPEG, _MEMORY, _PLAIN = "nvJPEG, whole pictures", "from memory", "plain reads"
_DALI = tuple(f"DALI, the same crops, {format_count(threads, 'thread')}" for threads in (1, 16))
_PEERS = (_NVJPEG, *_DALI, _MEMORY, _PLAIN)
_DIFFERENT = 240
"""Photographs; a file has them again and again, with bytes of their own for each sample."""
_KERNELS = {
    "destuff_pictures": "stuffed bytes out",
    "order_tiles": "order of the tiles",
    "fetch_pictures": "fetch from pinned memory",
    "sum_pictures": "checksums",
    "decode_tiles": "Huffman and inverse DCT",
    "plan_axes": "weights of the resampling",
    "fill_around": "colour around pictures",
    "resample_smooth": "upsampling, colour, resize, normalize",
    "resample_sharp": "upsampling, colour, resize, normalize",
    "resample_floats": "upsampling, colour, resize, normalize",
    "apply_steps": "steps on pixels",
}
_torch: Any = None


def _missing() -> str:
    """What the suite needs and is not here; empty when all is."""
    global _torch
    if not is_there("torch"):
        return "torch is not installed"
    _torch = importlib.import_module("torch")
    if _torch.version.cuda is None or not _torch.cuda.is_available():
        return "torch finds no GPU of NVIDIA here"
    return "" if gpu_kernels() is not None else "this build of headrace has no kernels for GPUs"


def _count(settings: Settings) -> int:
    return settings.count(quick=4096, full=32768)


def _room_bytes(settings: Settings) -> int:
    """Each file has the same photographs again and again; none is larger than it was taken."""
    different = min(_DIFFERENT, _count(settings))
    times = -(-_count(settings) // different)
    return len(_STORED) * times * typical_bytes(settings.images, different) * 5 // 4 + (1 << 26)


def _seconds(settings: Settings) -> float:
    return 0.3 if settings.quick else 0.7


def _run(settings: Settings, tell: Tell) -> Iterator[Finding]:
    photographs = photograph_bytes(settings.images, min(_DIFFERENT, _count(settings)))
    paths: dict[str, Path] = {}
    absent = [name for name in ("torchvision", "nvidia.dali") if not is_there(name)]
    yield from (Missing(name, f"not installed: {name}") for name in absent)
    for name, max_side in _STORED.items():
        tell(f"{name}: writing")
        jpegs = [_jpeg_of(data, max_side) for data in photographs]
        paths[name] = settings.work / f"{len(paths)}.beton"
        _write(paths[name], jpegs, _count(settings))
        for batch in _BATCHES:
            tell(f"{name}: batches of {batch}")
            yield from _rates(f"{name}, batches of {batch}", paths[name], jpegs, batch, settings)
            yield from _stages(name, paths[name], batch, settings)
        tell(f"{name}: not in memory")
        yield from _cold(name, paths[name], settings)
    if "torchvision" not in absent:
        tell("training")
        yield from _training(paths, settings)


def _jpeg_of(data: bytes, max_side: int | None) -> bytes:
    """A photograph as it is, or scaled and encoded anew."""
    if max_side is None:
        return data
    payload = Image(mode="jpg", max_side=max_side, quality=90).encode(jpeg_codec.decode(data), 0).payload
    return payload or b""


def _write(path: Path, jpegs: list[bytes], count: int) -> None:
    """Every sample has bytes of its own, so that codes come from memory and not from the processor's caches."""
    samples = [(jpegs[i % len(jpegs)], i % 1000) for i in range(count)]
    write(path, samples, fields={"image": Image(mode="jpg"), "label": Int()})
    with open(path, "rb", buffering=0) as file:
        while file.read(1 << 24):
            pass


def _pipeline() -> list[Any]:
    return [
        ops.RandomResizedCrop(_SIDE),
        ops.RandomHorizontalFlip(),
        ops.Normalize(_MEAN, _STD, dtype="float16"),
        ops.ToLayout("channels_last"),
    ]


def _loader(path: Path, batch: int, *, workers: Any, jpeg: Any = "gpu", **options: Any) -> Loader:
    told: dict[str, Any] = {"order": "random", "cache": "os", **options}
    pipelines: dict[str, Any] = {"image": _pipeline()}
    return Loader(path, batch, workers=workers, pipelines=pipelines, device="cuda", jpeg=jpeg, **told)


def _endless(loader: Loader) -> Iterator[Any]:
    while True:
        yield from loader


# Rates: seconds of one picture


def _rates(section: str, path: Path, jpegs: list[bytes], batch: int, settings: Settings) -> Iterator[Finding]:
    """The GPU, the CPU and the peers in turn, for every number of workers that the machine has."""
    cores, contenders = len(os.sched_getaffinity(0)), {}
    for workers in [n for n in _WORKERS if n <= cores]:
        for way in ("gpu", "window"):
            name = f"jpeg={way!r}, {format_count(workers, 'worker')}"
            contenders[name] = _loading(path, batch, workers, way, settings)
    contenders |= _nvjpeg(jpegs, batch, settings) | _dali(jpegs, batch, settings)
    seconds, failures = self_timed(contenders, settings.repeats(quick=1, full=3), _PEERS)
    yield from (Missing(f"{section}: {name}", reason) for name, reason in failures.items())
    yield from compared_rows(section, seconds, _PEERS, unit="images/s", cache="warm")


def _loading(path: Path, batch: int, workers: int, way: str, settings: Settings) -> Callable[[], float]:
    def run() -> float:
        batches = _endless(_loader(path, batch, workers=workers, jpeg=way))
        # An epoch, in which the file is pinned; a processor is warm after a batch.
        for _ in range(_count(settings) // batch if way == "gpu" else 1):
            next(batches)
        return _seconds_each(lambda: len(next(batches).image), settings, is_synchronous=False)

    return run


def _seconds_each(call: Callable[[], int], settings: Settings, *, is_synchronous: bool = True) -> float:
    """Of one picture; a call gives how many there were."""
    _torch.cuda.synchronize()
    start_s, images, count = time.perf_counter(), 0, 0
    while count < 2 or time.perf_counter() - start_s < _seconds(settings):
        images += call()
        count += 1
        if is_synchronous:
            _torch.cuda.synchronize()
    _torch.cuda.synchronize()
    return (time.perf_counter() - start_s) / images


def _nvjpeg(jpegs: list[bytes], batch: int, settings: Settings) -> dict[str, Callable[[], float]]:
    """Whole pictures by nvJPEG, no crop and no resize; nothing where torchvision is not installed."""
    if not is_there("torchvision"):
        return {}
    decode = importlib.import_module("torchvision.io").decode_jpeg
    tensors = [_torch.from_numpy(np.frombuffer(data, np.uint8).copy()) for data in jpegs]
    chosen = [tensors[i % len(tensors)] for i in range(batch)]
    return {_NVJPEG: lambda: _seconds_each(lambda: len(decode(chosen, device="cuda")), settings)}


def _dali(jpegs: list[bytes], batch: int, settings: Settings) -> dict[str, Callable[[], float]]:
    """The same crops by DALI, decoded on the GPU; nothing where it is not installed."""
    if not is_there("nvidia.dali"):
        return {}
    pipes = {name: _dali_pipe(jpegs, batch, threads) for name, threads in zip(_DALI, (1, 16), strict=True)}

    def running(pipe: Any) -> Callable[[], float]:
        # It goes on ahead of the call, as the loader does.
        return lambda: _seconds_each(lambda: len(pipe.run()[0]), settings, is_synchronous=False)

    return {name: running(pipe) for name, pipe in pipes.items()}


def _dali_pipe(jpegs: list[bytes], batch: int, threads: int) -> Any:
    dali: Any = importlib.import_module("nvidia.dali")
    fn: Any = importlib.import_module("nvidia.dali.fn")
    types: Any = importlib.import_module("nvidia.dali.types")
    arrays = [np.frombuffer(data, np.uint8) for data in jpegs]
    pipe = dali.Pipeline(batch_size=batch, num_threads=threads, device_id=0, seed=1)
    with pipe:
        source = itertools.cycle([[arrays[i % len(arrays)] for i in range(batch)]])
        codes = fn.external_source(source=source, batch=True, dtype=types.UINT8, ndim=1)
        crops = {"random_area": [0.08, 1.0], "random_aspect_ratio": [0.75, 4 / 3]}
        images = fn.decoders.image_random_crop(codes, device="mixed", output_type=types.RGB, **crops)
        images = fn.resize(images, size=[_SIDE, _SIDE])
        images = fn.crop_mirror_normalize(
            images, dtype=types.FLOAT16, output_layout="HWC", mean=_MEAN, std=_STD, mirror=fn.random.coin_flip()
        )
        pipe.set_outputs(images)
    pipe.build()
    return pipe


# Stages


def _traced(work: Callable[[], Any]) -> list[dict[str, Any]]:
    """What ran on the GPU meanwhile: name, category and microseconds; nothing where CUPTI may not look."""
    profiler = _torch.profiler
    with profiler.profile(activities=[profiler.ProfilerActivity.CUDA]) as profile:
        work()
        _torch.cuda.synchronize()
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        profile.export_chrome_trace(file.name)
        events = json.loads(Path(file.name).read_text())["traceEvents"]
    return [event for event in events if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]


def _stage_of(event: dict[str, Any]) -> str:
    """The stage that a kernel or a copy belongs to; empty when it is not ours."""
    if event["cat"] == "gpu_memcpy":
        return "copy to the GPU" if "HtoD" in event["name"] else ""
    return next((stage for kernel, stage in _KERNELS.items() if kernel in event["name"]), "")


def _stages(name: str, path: Path, batch: int, settings: Settings) -> Iterator[Row]:
    """Seconds of a batch, stage by stage, and the processor's time for a picture."""
    batches = _endless(_loader(path, batch, workers=1))
    for _ in range(16):
        next(batches)
    count = max(
        1, _count(settings) // batch
    )  # many: what is ahead at the beginning and at the end does not count for much
    total_s: dict[str, float] = {}
    for event in _traced(lambda: [next(batches) for _ in range(count)]):
        total_s[_stage_of(event)] = total_s.get(_stage_of(event), 0.0) + event["dur"] / 1e6
    for stage, spent_s in total_s.items():
        if stage:
            section = f"stages on the GPU, {name}, batches of {batch}"
            yield exact_row(section, stage, spent_s / count, unit="s", better="lower")
    cpu_s, images = time.process_time(), 0
    for _ in range(2 * count):
        images += len(next(batches).image)
    taken = (time.process_time() - cpu_s) / images
    yield exact_row(
        "the processor's time for a picture", f"{name}, batches of {batch}", taken, unit="s", better="lower"
    )


# A file that is not in memory


def _cold(name: str, path: Path, settings: Settings) -> Iterator[Finding]:
    """Pages read ahead past the system's cache, beside plain reads of the same file by as many requests at once."""
    os.sync()
    loader = _loader(path, 256, workers=4, order="quasi_random", cache="512MB")

    def load() -> float:
        start_s = time.perf_counter()
        for _batch in loader:
            pass
        _torch.cuda.synchronize()
        return time.perf_counter() - start_s

    # The first round, in which memory is pinned for the pages, does not count.
    contenders = {"the loader, 4 workers": load, _PLAIN: lambda: _read_all(path)}
    seconds, _ = self_timed(contenders, settings.repeats(quick=1, full=3))
    size = path.stat().st_size
    yield from compared_rows(f"{name}, not in memory", seconds, _PEERS, samples=size / 1e9, unit="GB/s", cache="cold")


def _read_all(path: Path) -> float:
    """The disk by itself: large reads past the cache, many at once; gives the seconds of the whole file."""
    reader, piece, at_once = RangeReader(str(path), direct=True), 1 << 20, 64
    buffer = np.empty(piece * at_once, np.uint8)
    starts = np.arange(at_once, dtype=np.uint64) * np.uint64(piece)
    sizes = np.full(at_once, piece, np.uint64)
    size = path.stat().st_size
    count = max(1, size // (piece * at_once))
    start_s = time.perf_counter()
    for i in range(count):
        reader.read(starts + np.uint64(i * piece * at_once), sizes, buffer, starts)
    return (time.perf_counter() - start_s) * size / (count * piece * at_once)


# Training


def _training(paths: dict[str, Path], settings: Settings) -> Iterator[Finding]:
    """Compiled models from memory and from the loader with one worker, in turn; the larger ones from originals only."""
    models = importlib.import_module("torchvision.models")
    for model, make in list(_MODELS.items())[: 1 if settings.quick else None]:
        for batch in _BATCHES[: 1 if settings.quick else None]:
            step = _training_step(make(models))
            for name, path in paths.items() if model == "ResNet-18" else list(paths.items())[:1]:
                yield from _train(f"{model}, compiled, bf16, batches of {batch}, {name}", step, path, batch, settings)
            if (model, batch) == ("ResNet-18", _BATCHES[0]):
                yield from _chosen(f"{model}, batches of {batch}, the CPU decodes", step, path, batch, settings)
            del step
            _torch.cuda.empty_cache()


def _train(section: str, step: Callable[[Any], None], path: Path, batch: int, settings: Settings) -> Iterator[Finding]:
    batches = _endless(_loader(path, batch, workers=1))
    fixed = next(batches)
    for _ in range(10):
        step(fixed)
    for _ in range(_count(settings) // batch):
        next(batches)
    busy: list[float] = []

    def from_loader() -> float:
        cpu_s, start_s = time.process_time(), time.perf_counter()
        found = _train_seconds(step, batches, settings)
        busy.append((time.process_time() - cpu_s) / (time.perf_counter() - start_s))
        return found

    ours = "from the loader, 1 worker"
    contenders = {ours: from_loader, _MEMORY: lambda: _train_seconds(step, itertools.repeat(fixed), settings)}
    seconds, _ = self_timed(contenders, settings.repeats(quick=1, full=3))
    facts = {ours: {"cores busy": statistics.median(busy), **_gpu_share(step, batches)}}
    yield from compared_rows(section, seconds, _PEERS, unit="images/s", facts=facts)


def _chosen(section: str, step: Callable[[Any], None], path: Path, batch: int, settings: Settings) -> Iterator[Finding]:
    """Numbers of workers beside what a loader chooses by itself, which takes it some seconds."""
    every = len(os.sched_getaffinity(0))
    numbers = sorted({every, max(1, every - 2), max(1, every * 3 // 4), max(1, every // 2)}, reverse=True)
    fixed = next(iter(_loader(path, batch, workers=1)))

    def training(workers: Any) -> Callable[[], float]:
        def run() -> float:
            batches = _endless(_loader(path, batch, workers=workers, jpeg="window"))
            end_s = time.perf_counter() + 7 * _seconds(settings)
            while time.perf_counter() < end_s:
                step(next(batches))
            return _train_seconds(step, batches, settings)

        return run

    contenders = {"as the loader chooses": training("auto")}
    contenders |= {format_count(number, "worker"): training(number) for number in numbers}
    contenders[_MEMORY] = lambda: _train_seconds(step, itertools.repeat(fixed), settings)
    seconds, _ = self_timed(contenders, settings.repeats(quick=1, full=3))
    yield from compared_rows(section, seconds, _PEERS, unit="images/s")


def _training_step(plain: Any) -> Callable[[Any], None]:
    torch = _torch
    model = plain.cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    compiled = torch.compile(model, dynamic=False)

    def step(batch: Any) -> None:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(compiled(batch.image.to(torch.bfloat16)), batch.label)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def _vit_small(models: Any) -> Any:
    return models.VisionTransformer(
        image_size=_SIDE, patch_size=16, num_layers=12, num_heads=6, hidden_dim=384, mlp_dim=1536, num_classes=1000
    )


_MODELS: dict[str, Callable[[Any], Any]] = {
    "ResNet-18": lambda models: models.resnet18(num_classes=1000),
    "ResNet-50": lambda models: models.resnet50(num_classes=1000),
    "ViT-S/16": _vit_small,
}


def _train_seconds(step: Callable[[Any], None], batches: Iterator[Any], settings: Settings) -> float:
    """Of one picture. Steps are queued, as in a loop that looks at its loss now and then."""
    _torch.cuda.synchronize()
    start_s, images = time.perf_counter(), 0
    while time.perf_counter() - start_s < 3 * _seconds(settings):
        for _ in range(50):
            batch = next(batches)
            step(batch)
            images += len(batch.image)
        _torch.cuda.synchronize()
    return (time.perf_counter() - start_s) / images


def _gpu_share(step: Callable[[Any], None], batches: Iterator[Any]) -> dict[str, float]:
    """How much of the GPU's busy time decoding takes."""
    events = _traced(lambda: list(map(step, itertools.islice(batches, 48))))  # many: batches come in groups
    kernels = [event for event in events if event["cat"] == "kernel"]
    total = sum(event["dur"] for event in kernels)
    if not total:
        return {}
    return {"decoding, of the GPU's time": sum(event["dur"] for event in kernels if _stage_of(event)) / total}


def _charts(rows: Sequence[Row]) -> list[Chart]:
    sections = dict.fromkeys(row.section for row in rows)
    return [chart for section in sections for chart in bars_of(rows, section, [section])]


SUITE = Suite(
    name="gpu",
    question="How many crops of JPEGs a second does a GPU load, and what does training notice of it?",
    run=_run,
    charts=_charts,
    room_bytes=_room_bytes,
    rooms=("loader", "read", "order", "ops", "frameworks", "formats/beton"),
    missing=_missing,
    notes=(
        "RandomResizedCrop(224), flip, and normalize to float16, on one GPU, warm; a file is pinned while the first "
        "epoch goes by, which does not count. nvJPEG, through torchvision, decodes the same pictures whole, without a "
        "crop or a resize. DALI makes the same crops.",
        "Stages are what CUPTI saw on the GPU: times of kernels that share it add up to more than they take.",
        "Training: compiled models that get the same batch from memory again and again, and from the loader with one "
        "worker, in turns.",
    ),
)
