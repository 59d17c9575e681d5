"""The same batches by the GPU and by the CPU, to be compared to the last bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from tests.unit.loader.jpegs import loader

if TYPE_CHECKING:
    from pathlib import Path

    import headrace as hr


def pair(path: Path | hr.Dataset, pipeline: list[Any], **options: Any) -> tuple[hr.Loader, hr.Loader]:
    """A loader on the GPU, and the same on the CPU."""
    return (
        loader(path, pipeline, jpeg="gpu", device="cuda", **options),
        loader(path, pipeline, jpeg="window", **options),
    )


def same(found: Any, expected: np.ndarray) -> bool:
    """A tensor on the GPU has the type, shape and bits of an array."""
    there = found.cpu().numpy()
    return there.dtype == expected.dtype and there.shape == expected.shape and there.tobytes() == expected.tobytes()


def assert_same_batches(found: hr.Loader, expected: hr.Loader, *, epochs: int = 1) -> None:
    """Every batch of some epochs, every output."""
    for _ in range(epochs):
        for step, (a, b) in enumerate(zip(found, expected, strict=True)):
            assert a.keys() == b.keys()
            for name in a.keys():  # noqa: SIM118  # a batch is a sequence
                assert not isinstance(b[name], np.ndarray) or same(a[name], b[name]), (step, name)


def assert_same(path: Path, pipeline: list[Any], *, is_counted: bool = True, **options: Any) -> hr.Loader:
    """The GPU's batches are the CPU's, and the GPU decoded what the CPU decodes by the index."""
    found, expected = pair(path, pipeline, **options)
    assert_same_batches(found, expected)
    if not is_counted:
        return found
    on_gpu, on_cpu = found.stats.jpegs, expected.stats.jpegs
    assert on_gpu["gpu"] == on_cpu["window"]
    assert {n: c for n, c in on_gpu.items() if n not in ("gpu", "window")} == {
        n: c for n, c in on_cpu.items() if n not in ("gpu", "window")
    }
    return found
