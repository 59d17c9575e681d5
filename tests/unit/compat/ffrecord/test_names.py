"""Every module that programs import, with every public name, its arguments and their defaults, as FFRecord has them."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import subprocess
import sys
from typing import Any

import pytest

HAS_TORCH = importlib.util.find_spec("torch") is not None
needs_torch = pytest.mark.skipif(not HAS_TORCH, reason="ffrecord.torch needs torch")

READER = "fname, check_data=True"
WRITER = "fname, n"
PACK = "folder, out_file, verbose=False"
PACKED = "ffr_file, check_data=True"
DATASET = "fnames, check_data=True"
SUBSET = "dataset, indices"
LOADER = (
    "dataset, batch_size=1, shuffle=False, sampler=None, batch_sampler=None, num_workers=0, collate_fn=None, "
    "pin_memory=False, drop_last=False, timeout=0, worker_init_fn=None, generator=None, *, prefetch_factor=2, "
    "persistent_workers=False, skippable=True"
)
DATASETS = {"ConcatDataset": "datasets", "Dataset": DATASET, "ReaderRegistry": "", "Subset": SUBSET}

NAMES: dict[str, dict[str, str]] = {
    "": {
        "FileReader": READER,
        "FileWriter": WRITER,
        "PackedFolder": PACKED,
        "checkFsAlign": "fd",
        "pack_folder": PACK,
    },
    "fileio": {"FileReader": READER, "FileWriter": WRITER, "checkFsAlign": "fd"},
    "package": {"PackedFolder": PACKED, "pack_folder": PACK},
    "utils": {"dump": "dataset, fname, nfiles, verbose=False"},
    "torch": {**DATASETS, "DataLoader": LOADER},
    "torch.dataset": DATASETS,
    "torch.dataloader": {"DataLoader": LOADER},
}
METHODS = {
    "FileReader.read": "self, indices",
    "FileReader.read_one": "self, index",
    "FileReader.validate": "self",
    "FileReader.get_offsets": "self, file_index",
    "FileReader.get_checksums": "self, file_index",
    "FileReader.close": "self",
    "FileWriter.write_one": "self, data",
    "FileWriter.close": "self",
    "PackedFolder.num_files": "self",
    "PackedFolder.exists": "self, path",
    "PackedFolder.is_file": "self, path",
    "PackedFolder.is_dir": "self, path",
    "PackedFolder.list": "self, path=None, list_file=True, list_dir=True, recursive=False",
    "PackedFolder.read": "self, fnames",
    "PackedFolder.read_one": "self, fname",
    "torch.Dataset.process": "self, indices, data",
    "torch.ReaderRegistry.ffreaders": "self",
    "torch.DataLoader.set_step": "self, step",
}
# What headrace takes besides: FileWriter without a number, other start methods, newer options of torch.
MORE = {"n", "multiprocessing_context", "options"}


def find(path: str) -> Any:
    found: Any = importlib.import_module("headrace.compat.ffrecord")
    for part in path.split("."):
        if not hasattr(found, part):
            importlib.import_module(f"{found.__name__}.{part}")
        found = getattr(found, part)
    return found


def arguments_of(function: Any) -> str:
    words: list[str] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in MORE - {"n"}:
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in words:
            words.append("*")
        has_default = parameter.default is not parameter.empty and parameter.name not in MORE
        words.append(parameter.name + (f"={parameter.default!r}" if has_default else ""))
    return ", ".join(words)


def skip_without_torch(path: str) -> None:
    if path.startswith("torch") and not HAS_TORCH:
        pytest.skip("ffrecord.torch needs torch")


@pytest.mark.parametrize("module", NAMES)
def test_modules_have_their_names(module: str) -> None:
    skip_without_torch(module)
    home = importlib.import_module(f"headrace.compat.ffrecord.{module}".rstrip("."))
    for name, arguments in NAMES[module].items():
        assert arguments_of(getattr(home, name)) == arguments, f"{module}.{name}"
    assert set(NAMES[module]) <= set(home.__all__)


@pytest.mark.parametrize("path", METHODS)
def test_methods_take_their_arguments(path: str) -> None:
    skip_without_torch(path)
    assert arguments_of(find(path)) == METHODS[path]


def test_version() -> None:
    assert find("__version__") == "1.4.0"


def run(code: str) -> str:
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_without_torch_everything_but_torch_works() -> None:
    hidden = "import sys; sys.modules['torch'] = None; from headrace.compat import install; install('ffrecord')\n"
    code = f"{hidden}import ffrecord, ffrecord.utils\ntry: import ffrecord.torch\nexcept ImportError as e: print(e)"
    expected = (
        "headrace.compat.ffrecord.torch needs the 'torch' package. Install it with: pip install 'headrace[torch]'"
    )
    assert run(code) == expected


def test_the_import_is_light() -> None:
    """It needs neither setuptools (2 of FFRecord's defects) nor torch, nor anything but numpy."""
    code = (
        "import sys; sys.modules['pkg_resources'] = sys.modules['setuptools'] = None; import headrace.compat.ffrecord; "
    )
    assert run(f"{code} print([m for m in ('torch', 'PIL', 'tqdm') if m in sys.modules])") == "[]"


@needs_torch
def test_nothing_of_torch_is_changed() -> None:
    code = """
from torch.utils.data import dataloader
before = {name: vars(dataloader._DatasetKind)[name] for name in vars(dataloader._DatasetKind)}
import headrace.compat.ffrecord.torch
print(before == dict(vars(dataloader._DatasetKind)))
"""
    assert run(code) == "True"
