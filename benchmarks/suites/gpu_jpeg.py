"""Random crops of JPEGs on a GPU: the whole loader beside our CPU decoder, nvJPEG and DALI, and what training keeps.

Everything runs in one process on one GPU, in turn, from a file that is in the page cache: RandomResizedCrop(224), flip
and normalize to float16. nvJPEG (through torchvision) decodes the same pictures whole, without a crop or a resize. A
rate is the median of rounds, each as long as HEADRACE_BENCH_SECONDS says. Stages are what CUPTI saw on the GPU, and the
time of the processor for a picture. The suite takes under five minutes; without a GPU it says so and measures nothing.
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
from headrace._native import gpu_kernels
from headrace.progress import format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

QUESTION = "How many crops of JPEGs a second does a GPU load, and what does training notice of it?"
ROUNDS = int(os.environ.get("HEADRACE_BENCH_ROUNDS", "2"))
SECONDS = float(os.environ.get("HEADRACE_BENCH_SECONDS", "0.7"))
SAMPLES = int(os.environ.get("HEADRACE_BENCH_SAMPLES", "8192"))
TRAIN_BATCHES = [int(n) for n in os.environ.get("HEADRACE_BENCH_TRAIN_BATCHES", "256").split(",")]
TRAIN_SECONDS = 3.0
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
        for name, max_side in FILES.items():
            jpegs = [jpeg_of(path, max_side) for path in photographs()]
            path = Path(folder) / "x.beton"
            write(path, jpegs)
            rates = loader_rates(path)
            rows += [rate_row(f"{key}, {name}", values) for key, values in rates.items()]
            peers = nvjpeg_rates(jpegs) | dali_rates(jpegs)
            rows += [rate_row(f"{key}, {name}", values) for key, values in peers.items()]
            rows += ratios(name, rates, peers)
            rows += stages(name, path)
            rows += training(name, path)
            path.unlink()
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


def make_loader(path: Path, *, batch: int, workers: int, jpeg: Any) -> hr.Loader:
    pipeline = [
        ops.RandomResizedCrop(SIZE),
        ops.RandomHorizontalFlip(),
        ops.Normalize(MEAN, STD, dtype="float16"),
        ops.ToLayout("channels_last"),
    ]
    return hr.Loader(
        path,
        batch,
        order="random",
        workers=workers,
        pipelines={"image": pipeline},
        device="cuda",
        jpeg=jpeg,
        cache="os",
    )


def endless(loader: hr.Loader) -> Iterator[Any]:
    while True:
        yield from loader


def rate(batches: Iterator[Any], *, warm_up: int = 4, least: int = 3) -> float:
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
                    is_slow = jpeg == "window" and workers == 1
                    found = rate(endless(loader), warm_up=1 if is_slow else 4, least=2 if is_slow else 3)
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
        for _ in range(4):
            next(batches)
        count = 4096 // batch
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


# -- training -------------------------------------------------------------------------------------------------------


def training(name: str, path: Path) -> list[dict[str, Any]]:
    """A compiled ResNet-18 from memory and from the loader with one worker, in turn."""
    try:
        models = importlib.import_module("torchvision.models")
    except ImportError:
        return []
    rows = []
    for batch in TRAIN_BATCHES:
        step = training_step(models)
        batches = endless(make_loader(path, batch=batch, workers=1, jpeg="gpu"))
        fixed = next(batches)
        for _ in range(10):
            step(fixed)
        rates: dict[str, list[float]] = {"from memory": [], "from the loader, 1 worker": []}
        for _ in range(max(2, ROUNDS)):
            rates["from memory"].append(train_rate(step, itertools.repeat(fixed)))
            rates["from the loader, 1 worker"].append(train_rate(step, batches))
        what = f"ResNet-18, compiled, bf16, batch {batch}, {name}"
        rows += [rate_row(f"{what}, {key}", values) for key, values in rates.items()]
        memory, loader = (statistics.median(values) for values in rates.values())
        rows.append(ratio(what, loader / memory, "its speed from memory"))
        rows += gpu_share(what, step, batches)
        del batches, step
        _torch.cuda.empty_cache()
    return rows


def training_step(models: Any) -> Callable[[Any], None]:
    torch = _torch
    model = models.resnet18(num_classes=1000).cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    compiled = torch.compile(model)

    def step(batch: Any) -> None:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(compiled(batch.image.to(torch.bfloat16)), batch.label)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def train_rate(step: Callable[[Any], None], batches: Iterator[Any]) -> float:
    _torch.cuda.synchronize()
    start_s, images = time.perf_counter(), 0
    while time.perf_counter() - start_s < TRAIN_SECONDS:
        for _ in range(8):  # steps are queued; the clock is looked at now and then
            batch = next(batches)
            step(batch)
            images += len(batch.image)
        _torch.cuda.synchronize()
    return images / (time.perf_counter() - start_s)


def gpu_share(what: str, step: Callable[[Any], None], batches: Iterator[Any]) -> list[dict[str, Any]]:
    """How much of the GPU's busy time decoding takes."""
    steps = 20
    events = traced(lambda: [step(next(batches)) for _ in range(steps)])
    kernels = [event for event in events if event["cat"] == "kernel"]
    total = sum(event["dur"] for event in kernels)
    if not total:
        return []
    decoding = sum(event["dur"] for event in kernels if stage_of(event))
    text = f"{decoding / total:.1%} of the GPU's time in kernels, {decoding / steps / 1e3:.2f} ms a step"
    return [{"what": f"decoding beside {what}", "share": decoding / total, "text": text}]
