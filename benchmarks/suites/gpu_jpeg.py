"""Random crops of JPEGs on a GPU: the whole loader beside our CPU decoder, nvJPEG and DALI, and what training keeps.

Everything runs in one process on one GPU, in turn, from a file that is in the page cache: RandomResizedCrop(224), flip
and normalize to float16. The file is pinned while the first epoch goes by, and then measured. nvJPEG (through
torchvision) decodes the same pictures whole, without a crop or a resize. A rate is the median of rounds, each as long
as HEADRACE_BENCH_SECONDS says. Stages are what CUPTI saw on the GPU, and the time of the processor for a picture. The
suite takes under ten minutes; without a GPU it says so and measures nothing.
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

import headrace as hr
from benchmarks.harness import photographs, ratio
from headrace import ops
from headrace._native import RangeReader, gpu_kernels
from headrace.progress import format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

QUESTION = "How many crops of JPEGs a second does a GPU load, and what does training notice of it?"
ROUNDS = int(os.environ.get("HEADRACE_BENCH_ROUNDS", "2"))
SECONDS = float(os.environ.get("HEADRACE_BENCH_SECONDS", "0.7"))
SAMPLES = int(os.environ.get("HEADRACE_BENCH_SAMPLES", "32768"))
TRAIN_BATCHES = [int(n) for n in os.environ.get("HEADRACE_BENCH_TRAIN_BATCHES", "256,1024").split(",")]
TRAIN_ROUNDS, TRAIN_SECONDS, TRAIN_STEPS = 2, 2.5, 50
WORKERS, BATCHES = (1, 2, 4, 8, 16), (256, 1024)
SIZE = 224
MEAN, STD = [123.7, 116.3, 103.5], [58.4, 57.1, 57.4]
FILES = {"originals": None, "q90, longer side 500": 500}
KERNELS = {
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


def missing() -> str:
    """What the suite needs and is not here; empty when all is."""
    global _torch
    try:
        _torch = importlib.import_module("torch")
    except ImportError:
        return "torch is not installed"
    if _torch.version.cuda is None or not _torch.cuda.is_available():
        return "torch finds no GPU of NVIDIA here"
    return "" if gpu_kernels() is not None else "this build of headrace has no kernels for GPUs"


def run() -> list[dict[str, Any]]:
    if reason := missing():
        raise RuntimeError(f"gpu_jpeg measures nothing: {reason}")
    rows: list[dict[str, Any]] = [{"what": "GPU", "text": _torch.cuda.get_device_name(0)}]
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: Path(folder) / f"{number}.beton" for number, name in enumerate(FILES)}
        for name, path in paths.items():
            jpegs = [jpeg_of(photograph, FILES[name]) for photograph in photographs()]
            write(path, jpegs)
            rates = loader_rates(path)
            rows += [rate_row(f"{key}, {name}", values) for key, values in rates.items()]
            peers = nvjpeg_rates(jpegs) | dali_rates(jpegs)
            rows += [rate_row(f"{key}, {name}", values) for key, values in peers.items()]
            rows += ratios(name, rates, peers)
            rows += stages(name, path)
            rows += cold(name, path)
        rows += training(paths)
    return rows


def jpeg_of(path: Path, max_side: int | None) -> bytes:
    """A photograph as it is, or scaled and encoded anew."""
    if max_side is None:
        return path.read_bytes()
    raw, small = hr.Image(mode="raw"), hr.Image(mode="jpg", max_side=max_side, quality=90)
    pixels = raw.encode(str(path), 0)
    payload = small.encode(raw.decode(pixels.facts, memoryview(pixels.payload or b"")), 0).payload
    assert payload is not None
    return payload


def write(path: Path, jpegs: list[bytes]) -> None:
    """Every sample has bytes of its own, so that codes come from memory and not from the processor's caches."""
    samples = [(jpegs[i % len(jpegs)], i % 1000) for i in range(SAMPLES)]
    hr.write(path, samples, fields={"image": hr.Image(mode="jpg"), "label": hr.Int()})
    with open(path, "rb", buffering=0) as file:
        while file.read(1 << 24):
            pass


def picture_pipeline() -> list[Any]:
    return [
        ops.RandomResizedCrop(SIZE),
        ops.RandomHorizontalFlip(),
        ops.Normalize(MEAN, STD, dtype="float16"),
        ops.ToLayout("channels_last"),
    ]


def make_loader(path: Path, *, batch: int, workers: int, jpeg: Any) -> hr.Loader:
    return hr.Loader(
        path,
        batch,
        order="random",
        workers=workers,
        pipelines={"image": picture_pipeline()},
        device="cuda",
        jpeg=jpeg,
        cache="os",
    )


def endless(loader: hr.Loader) -> Iterator[Any]:
    while True:
        yield from loader


def rate(batches: Iterator[Any], *, warm_up: int, least: int) -> float:
    """Pictures a second, from one batch to another; what was ready before the first does not count for much."""
    for _ in range(warm_up):
        next(batches)
    _torch.cuda.synchronize()
    start_s, images, count = time.perf_counter(), 0, 0
    while count < least or time.perf_counter() - start_s < SECONDS:
        images += len(next(batches).image)
        count += 1
    _torch.cuda.synchronize()
    return images / (time.perf_counter() - start_s)


def loader_rates(path: Path) -> dict[str, list[float]]:
    """The GPU and the CPU in turn, for every number of workers that the machine has."""
    cores = len(os.sched_getaffinity(0))
    rates: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for workers in [n for n in WORKERS if n <= cores]:
            for batch in BATCHES:
                for jpeg in ("gpu", "window"):
                    loader = make_loader(path, batch=batch, workers=workers, jpeg=jpeg)
                    # An epoch, in which the file is pinned; a processor is warm after a batch.
                    warm_up = SAMPLES // batch if jpeg == "gpu" else 1
                    found = rate(endless(loader), warm_up=warm_up, least=2)
                    rates.setdefault(f"jpeg={jpeg!r}, {format_count(workers, 'worker')}, batch {batch}", []).append(
                        found
                    )
                    del loader
    return rates


def nvjpeg_rates(jpegs: list[bytes]) -> dict[str, list[float]]:
    """Whole pictures by nvJPEG, no crop and no resize; nothing where torchvision is not installed."""
    try:
        decode = importlib.import_module("torchvision.io").decode_jpeg
    except (ImportError, AttributeError):
        return {}
    tensors = [_torch.from_numpy(np.frombuffer(data, np.uint8).copy()) for data in jpegs]
    rates: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for batch in BATCHES:
            chosen = [tensors[i % len(tensors)] for i in range(batch)]
            rates.setdefault(f"nvJPEG, whole pictures, batch {batch}", []).append(
                calls_rate(lambda chosen=chosen: decode(chosen, device="cuda"), batch)  # type: ignore[misc]
            )
    return rates


def calls_rate(call: Callable[[], Any], images: int) -> float:
    call()
    _torch.cuda.synchronize()
    start_s, count = time.perf_counter(), 0
    while count < 2 or time.perf_counter() - start_s < SECONDS:
        call()
        _torch.cuda.synchronize()
        count += 1
    return images * count / (time.perf_counter() - start_s)


def dali_rates(jpegs: list[bytes]) -> dict[str, list[float]]:
    """The same crops by DALI, decoded on the GPU; nothing where it is not installed."""
    try:
        dali: Any = importlib.import_module("nvidia.dali")
        fn: Any = importlib.import_module("nvidia.dali.fn")
        types: Any = importlib.import_module("nvidia.dali.types")
    except ImportError:
        return {}
    arrays = [np.frombuffer(data, np.uint8) for data in jpegs]
    rates: dict[str, list[float]] = {}
    for threads in (1, min(16, len(os.sched_getaffinity(0)))):
        for batch in BATCHES:
            pipe = dali.Pipeline(batch_size=batch, num_threads=threads, device_id=0, seed=1)
            with pipe:
                codes = fn.external_source(
                    source=lambda batch=batch: [arrays[i % len(arrays)] for i in range(batch)],  # type: ignore[misc]
                    batch=True,
                    dtype=types.UINT8,
                    ndim=1,
                )
                images = fn.decoders.image_random_crop(
                    codes,
                    device="mixed",
                    output_type=types.RGB,
                    random_area=[0.08, 1.0],
                    random_aspect_ratio=[0.75, 4 / 3],
                )
                images = fn.resize(images, size=[SIZE, SIZE])
                images = fn.crop_mirror_normalize(
                    images, dtype=types.FLOAT16, output_layout="HWC", mean=MEAN, std=STD, mirror=fn.random.coin_flip()
                )
                pipe.set_outputs(images)
            pipe.build()
            found = [calls_rate(pipe.run, batch) for _ in range(ROUNDS)]
            rates[f"DALI, the same crops, {threads} threads, batch {batch}"] = found
            del pipe
    return rates


def rate_row(what: str, rates: list[float]) -> dict[str, Any]:
    median = statistics.median(rates)
    spread = {"min_per_s": min(rates), "max_per_s": max(rates), "repeats": len(rates)}
    return {"what": what, "samples_per_s": median, **spread, "text": f"{median:,.0f} images/s"}


def ratios(name: str, ours: dict[str, list[float]], peers: dict[str, list[float]]) -> list[dict[str, Any]]:
    """The GPU against our CPU decoder and the peers' best, and batch 256 against 1024, within this run."""
    medians = {key: statistics.median(values) for key, values in (ours | peers).items()}
    rows = []
    for key in ours:
        other = key.replace("jpeg='gpu'", "jpeg='window'")
        if other != key:
            rows.append(ratio(f"{key}, {name}", medians[key] / medians[other], "the speed of jpeg='window'"))
        large = key.replace("batch 256", "batch 1024")
        if other != key and large != key:
            rows.append(ratio(f"{key}, {name}", medians[key] / medians[large], "the speed of batch 1024"))
    best = max((key for key in ours if "jpeg='gpu'" in key), key=lambda key: medians[key])
    return rows + [ratio(f"{best}, {name}", medians[best] / medians[peer], f"the speed of {peer}") for peer in peers]


# -- stages ---------------------------------------------------------------------------------------------------------


def traced(work: Callable[[], Any]) -> list[dict[str, Any]]:
    """What ran on the GPU meanwhile: name, category and microseconds; nothing where CUPTI may not look."""
    profiler = _torch.profiler
    with profiler.profile(activities=[profiler.ProfilerActivity.CUDA]) as profile:
        work()
        _torch.cuda.synchronize()
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        profile.export_chrome_trace(file.name)
        events = json.loads(Path(file.name).read_text())["traceEvents"]
    return [event for event in events if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]


def stage_of(event: dict[str, Any]) -> str:
    """The stage that a kernel or a copy belongs to; empty when it is not ours."""
    if event["cat"] == "gpu_memcpy":
        return "copy to the GPU" if "HtoD" in event["name"] else ""
    return next((stage for kernel, stage in KERNELS.items() if kernel in event["name"]), "")


def stages(name: str, path: Path) -> list[dict[str, Any]]:
    """Milliseconds of a batch, stage by stage, and the processor's time for a picture."""
    rows = []
    for batch in BATCHES:
        batches = endless(make_loader(path, batch=batch, workers=1, jpeg="gpu"))
        for _ in range(16):
            next(batches)
        count = 32768 // batch  # many: what is ahead at the beginning and at the end does not count for much
        total_ms: dict[str, float] = {}
        for event in traced(lambda batches=batches, count=count: [next(batches) for _ in range(count)]):  # type: ignore[misc]
            stage = stage_of(event)
            total_ms[stage] = total_ms.get(stage, 0.0) + event["dur"] / 1e3
        for stage, spent_ms in total_ms.items():
            if stage:
                text = f"{spent_ms / count:.3f} ms a batch"
                rows.append({"what": f"{stage}, batch {batch}, {name}", "batch_ms": spent_ms / count, "text": text})
        cpu_s, images = time.process_time(), 0
        for _ in range(2 * count):
            images += len(next(batches).image)
        cpu_us = (time.process_time() - cpu_s) / images * 1e6
        text = f"{cpu_us:.1f} us a picture"
        rows.append({"what": f"processor, 1 worker, batch {batch}, {name}", "cpu_us": cpu_us, "text": text})
        del batches
    return rows


# -- a file that is not in memory -----------------------------------------------------------------------------------


def cold(name: str, path: Path) -> list[dict[str, Any]]:
    """Pages read ahead past the system's cache, beside plain reads of the same file by as many requests at once."""
    os.sync()
    size = path.stat().st_size
    plain, loaded = [], []
    for _ in range(ROUNDS):
        plain.append(read_rate(path))
        pipelines = {"image": picture_pipeline()}
        loader = hr.Loader(
            path, 256, order="quasi_random", workers=4, pipelines=pipelines, device="cuda", jpeg="gpu", cache="512MB"
        )
        for _ in range(2):  # the second counts: in the first, memory is pinned for the pages
            start_s = time.perf_counter()
            for _batch in loader:
                pass
            _torch.cuda.synchronize()
            spent_s = time.perf_counter() - start_s
        loaded.append(size / spent_s)
        del loader
    what = f"an epoch of a file that is not in memory, 4 workers, batch 256, {name}"
    rows = [
        {"what": f"{what}: {key}", "bytes_per_s": statistics.median(rates), "text": f"{max(rates) / 1e9:.2f} GB/s"}
        for key, rates in (("plain reads", plain), ("the loader", loaded))
    ]
    return [*rows, ratio(what, statistics.median(loaded) / statistics.median(plain), "the speed of plain reads")]


def read_rate(path: Path) -> float:
    """Bytes a second of the disk: large reads past the cache, many at once."""
    reader = RangeReader(str(path), direct=True)
    piece, at_once = 1 << 20, 64
    buffer = np.empty(piece * at_once, np.uint8)
    starts = np.arange(at_once, dtype=np.uint64) * np.uint64(piece)
    sizes = np.full(at_once, piece, np.uint64)
    count = path.stat().st_size // (piece * at_once)
    start_s = time.perf_counter()
    for i in range(count):
        reader.read(starts + np.uint64(i * piece * at_once), sizes, buffer, starts)
    return count * piece * at_once / (time.perf_counter() - start_s)


# -- training -------------------------------------------------------------------------------------------------------


def training(paths: dict[str, Path]) -> list[dict[str, Any]]:
    """Compiled models from memory and from the loader with one worker, in turn; the larger ones from originals only."""
    try:
        models = importlib.import_module("torchvision.models")
    except ImportError:
        return []
    rows = []
    for model, make in MODELS.items():
        for batch in TRAIN_BATCHES:
            step = training_step(make(models))
            for name, path in paths.items() if model == "ResNet-18" else list(paths.items())[:1]:
                rows += train(f"{model}, compiled, bf16, batch {batch}, {name}", step, path, batch)
            del step
            _torch.cuda.empty_cache()
    return rows


def train(what: str, step: Callable[[Any], None], path: Path, batch: int) -> list[dict[str, Any]]:
    batches = endless(make_loader(path, batch=batch, workers=1, jpeg="gpu"))
    fixed = next(batches)
    for _ in range(10):
        step(fixed)
    for _ in range(SAMPLES // batch):
        next(batches)
    rates: dict[str, list[float]] = {"from memory": [], "from the loader, 1 worker": []}
    cpu: list[float] = []
    for _ in range(TRAIN_ROUNDS):
        rates["from memory"].append(train_rate(step, itertools.repeat(fixed)))
        cpu_s, start_s = time.process_time(), time.perf_counter()
        rates["from the loader, 1 worker"].append(train_rate(step, batches))
        cpu.append((time.process_time() - cpu_s) / (time.perf_counter() - start_s))
    rows = [rate_row(f"{what}, {key}", values) for key, values in rates.items()]
    memory, loader = (statistics.median(values) for values in rates.values())
    rows.append(ratio(what, loader / memory, "its speed from memory"))
    text = f"{statistics.median(cpu):.2f} cores busy, the training loop among them"
    rows.append({"what": f"processor beside {what}", "cores": statistics.median(cpu), "text": text})
    return rows + gpu_share(what, step, batches)


def training_step(plain: Any) -> Callable[[Any], None]:
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


def vit_small(models: Any) -> Any:
    return models.VisionTransformer(
        image_size=SIZE, patch_size=16, num_layers=12, num_heads=6, hidden_dim=384, mlp_dim=1536, num_classes=1000
    )


MODELS: dict[str, Callable[[Any], Any]] = {
    "ResNet-18": lambda models: models.resnet18(num_classes=1000),
    "ResNet-50": lambda models: models.resnet50(num_classes=1000),
    "ViT-S/16": vit_small,
}


def train_rate(step: Callable[[Any], None], batches: Iterator[Any]) -> float:
    _torch.cuda.synchronize()
    start_s, images = time.perf_counter(), 0
    while time.perf_counter() - start_s < TRAIN_SECONDS:
        for _ in range(TRAIN_STEPS):  # they are queued, as in a loop that looks at its loss now and then
            batch = next(batches)
            step(batch)
            images += len(batch.image)
        _torch.cuda.synchronize()
    return images / (time.perf_counter() - start_s)


def gpu_share(what: str, step: Callable[[Any], None], batches: Iterator[Any]) -> list[dict[str, Any]]:
    """How much of the GPU's busy time decoding takes."""
    steps = 48  # many: batches come in groups
    events = traced(lambda: [step(next(batches)) for _ in range(steps)])
    kernels = [event for event in events if event["cat"] == "kernel"]
    total = sum(event["dur"] for event in kernels)
    if not total:
        return []
    decoding = sum(event["dur"] for event in kernels if stage_of(event))
    text = f"{decoding / total:.1%} of the GPU's time in kernels, {decoding / steps / 1e3:.2f} ms a step"
    return [{"what": f"decoding beside {what}", "share": decoding / total, "text": text}]
