"""What the suite uses: batches of a loader, listings of folders, errors that are expected, tests that are skipped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from headrace.fields import Image

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from headrace.types import Dataset

__all__ = ["assert_raises", "import_or_skip", "listing_of", "load_batches", "outcome_of", "skip"]


def load_batches(dataset: Dataset, keys: Mapping[str, str], *, batch_size: int = 4, seed: int = 3) -> list[Any]:
    """Two epochs of shuffled batches: pictures cropped, flipped and resized, everything else as it is.

    Args:
        dataset: what is loaded.
        keys: names for the result, and the names of the fields in the dataset.
        batch_size: samples in a batch.
        seed: fixes all of it.
    """
    from headrace import ops
    from headrace.loader import Loader

    pipelines: dict[str, Any] = {
        key: [ops.RandomResizedCrop(16, share="crop"), ops.RandomHorizontalFlip(share="flip")]  # whatever its name
        for key in keys.values()
        if isinstance(dataset.schema[key], Image)
    }
    loader = Loader(dataset, batch_size, order="random", seed=seed, workers=2, pipelines=pipelines)
    return [tuple(np.asarray(batch[key]) for key in keys.values()) for _ in range(2) for batch in loader]


def listing_of(folder: Path) -> dict[str, tuple[int, int]]:
    """Sizes and times of all that is below a folder, by relative path."""
    found = {}
    for file in folder.rglob("*"):
        status = file.lstat()
        found[str(file.relative_to(folder))] = (0, 0) if file.is_dir() else (status.st_size, status.st_mtime_ns)
    return found


def outcome_of(work: Callable[[], object]) -> BaseException | None:
    """What a call raises, or None."""
    try:
        work()
    except BaseException as error:
        return error
    return None


def assert_raises(kinds: Any, work: Callable[[], object], what: str) -> None:
    """Fail when a call does not raise one of some errors."""
    problem = outcome_of(work)
    assert isinstance(problem, kinds), f"{what}: expected {kinds}, got {problem!r}"


def import_or_skip(package: str) -> Any:
    """A package; the test is skipped where it is missing."""
    import importlib

    try:
        return importlib.import_module(package)
    except ImportError:
        skip(f"{package} is not installed")


def skip(reason: str) -> NoReturn:
    """End the test, with a word."""
    import pytest

    pytest.skip(reason)
