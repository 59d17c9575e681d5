"""Module by module and name by name: what the originals' modules have, also by their own imports, can be imported."""

from __future__ import annotations

import importlib
import importlib.util
import json
import subprocess
import sys
import typing
import warnings
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

GOLDEN = Path(__file__).parents[2] / "golden"
TREES: dict[str, dict[str, str | None]] = {
    **json.loads((GOLDEN / "ffcv" / "names.json").read_text()),
    **json.loads((GOLDEN / "ffr" / "names.json").read_text()),
}
# Parts of machines that headrace has not: FFCV's code generator, its page reader, the workers of its writer.
LEFT_OUT = {
    "ffcv.memory_managers.process_cache.context": {"Schedule", "ScheduleExecutor", "compute_schedule"},
    "ffcv.pipeline.graph": {"DecoderNode", "RefNode", "TransformNode"},
    "ffcv.writer": {
        "count_samples_in_shard",
        "from_shard",
        "handle_sample",
        "worker_job_indexed_dataset",
        "worker_job_webdataset",
    },
    "ffrecord.package": {"dump_files", "dump_structure"},
}
LEFT_OUT_MODULES = {
    "ffcv.memory_managers.process_cache.page_reader",
    "ffcv.memory_managers.process_cache.schedule",
}
MAY_BE_MISSING = {"astor", "cv2", "distutils", "numba", "tqdm"}
NAMES = [
    (module, name)
    for module, names in TREES.items()
    if module not in LEFT_OUT_MODULES
    for name in names
    if name not in LEFT_OUT.get(module, ())
]


def at(place: str) -> Any:
    """What stands at a dotted place; the originals' names mean their adapters."""
    if place.partition(".")[0] in ("ffcv", "ffrecord"):
        place = f"headrace.compat.{place}"
    home, _, member = place.rpartition(".")
    if home and hasattr(importlib.import_module(home), member):
        return getattr(importlib.import_module(home), member)
    return importlib.import_module(place)


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_every_name_can_be_imported(module: str, name: str) -> None:
    home, place = at(module), TREES[module][name]
    package = (place or "").partition(".")[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # distutils
        if package in MAY_BE_MISSING and importlib.util.find_spec(package) is None:
            with pytest.raises(ImportError, match=rf"'{package}', which is not installed.*pip install {package}"):
                getattr(home, name)
            return
        found = getattr(home, name)
        if place is None:
            assert name in home.__all__
        else:
            expected = at(place)
            assert found is expected or found is typing.get_origin(expected)


@pytest.mark.parametrize("module", [name for name in TREES if name not in LEFT_OUT_MODULES])
def test_a_star_import_gives_them_unless_a_package_may_be_missing(module: str) -> None:
    names = {n for m, n in NAMES if m == module}
    certain = {n for n in names if (TREES[module][n] or "").partition(".")[0] not in MAY_BE_MISSING}
    given: dict[str, Any] = {}
    exec(f"from headrace.compat.{module} import *", given)
    is_package = Path(at(module).__file__).name == "__init__.py"  # these say themselves what a star gives
    assert is_package or certain <= set(given)


def test_what_is_not_there_is_an_attribute_error() -> None:
    operation = at("ffcv.pipeline.operation")
    with pytest.raises(AttributeError, match=r"module 'headrace.compat.ffcv.pipeline.operation' has no attribute 'x'"):
        _ = operation.x
    assert not hasattr(operation, "__path__")


def test_packages_that_may_be_missing_are_not_imported_before_they_are_asked_for() -> None:
    modules = [module for module in TREES if module.startswith("ffcv") and module not in LEFT_OUT_MODULES]
    code = f"""
import importlib, sys
from headrace.compat import install
install("ffcv")
for module in {modules!r}:
    if "fast_crop" not in module:
        importlib.import_module(module)
print([name for name in ("numba", "cv2", "tqdm", "pdb") if name in sys.modules and name != "tqdm"])
from ffcv.pipeline.operation import Operation, AllocationQuery
from ffcv.pipeline.allocation_query import AllocationQuery as same
assert AllocationQuery is same
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in ("[]", "['pdb']")  # torch may import it
