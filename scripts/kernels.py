"""Compile native/gpu/kernels.cu into one fat binary for many GPUs, or list what a fat binary holds.

usage: python scripts/kernels.py compile NVCC OUTPUT [--quick] [--depfile FILE]
       python scripts/kernels.py list FILE

The fat binary has machine code for each architecture below that this nvcc knows, and PTX of the oldest one, which the
driver of any later GPU compiles by itself. With --quick it has this PTX, and machine code only for the GPUs of this
machine: seconds to compile, for development. What was compiled is kept in the folder named by HEADRACE_KERNEL_CACHE, if
there is one, under the hash of the sources, the options and the compiler's version.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SOURCE = Path("native/gpu/kernels.cu")
FOLDERS = (Path("native"), Path("native/include"))
# No fused multiply-add: pixels are those of the CPU to the last bit.
OPTIONS = ("-std=c++20", "-O3", "-fmad=false", "--expt-relaxed-constexpr", "-fatbin")
ARCHITECTURES = (70, 75, 80, 86, 89, 90, 100, 120)
_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
_MAGIC = 0xBA55ED50
_FILE_HEADER = struct.Struct("<IHHQ")  # magic, version, size of this header, size of what follows
_PART_HEADER = struct.Struct("<HHIQIIHHI")  # kind, version, sizes of header and rest, four more, architecture
_KINDS = {1: "compute", 2: "sm"}


class Part(NamedTuple):
    """One part of a fat binary: machine code (``sm``) or PTX (``compute``) for an architecture."""

    kind: str
    architecture: int


def parts_of(fatbin: bytes) -> list[Part]:
    """What a fat binary holds."""
    magic, _, start, size = _FILE_HEADER.unpack_from(fatbin)
    if magic != _MAGIC or start + size != len(fatbin):
        raise ValueError("this is no fat binary of CUDA, or not a whole one")
    parts = []
    while start < len(fatbin):
        kind, _, header_size, size, *_, architecture = _PART_HEADER.unpack_from(fatbin, start)
        parts.append(Part(_KINDS.get(kind, f"kind {kind}"), architecture))
        start += header_size + size
    return parts


def sources() -> list[Path]:
    """The kernels' source and all of ours that it includes, in a fixed order."""
    found, waiting = set(), [SOURCE]
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found.add(path)
        for name in _INCLUDE.findall((ROOT / path).read_text()):
            waiting += [folder / name for folder in (*FOLDERS, path.parent) if (ROOT / folder / name).is_file()][:1]
    return sorted(found)


def targets(nvcc: str, *, is_quick: bool) -> list[str]:
    """The options that name architectures: those of the list that this compiler knows."""
    known = {int(number) for number in re.findall(r"compute_(\d+)\b", _said(nvcc, "--list-gpu-arch"))}
    wanted = [number for number in ARCHITECTURES if number in known]
    if not wanted:
        raise SystemExit(f"{nvcc} knows none of the architectures {', '.join(map(str, ARCHITECTURES))}")
    ptx = f"-gencode=arch=compute_{wanted[0]},code=compute_{wanted[0]}"
    machine_code = sorted(_own_gpus() & known) if is_quick else wanted
    return [*(f"-gencode=arch=compute_{number},code=sm_{number}" for number in machine_code), ptx]


def _own_gpus() -> set[int]:
    """The architectures of the GPUs of this machine."""
    if shutil.which("nvidia-smi") is None:
        return set()
    command = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
    said = subprocess.run(command, check=False, capture_output=True, text=True).stdout
    return {int(major + minor) for major, minor in re.findall(r"^(\d+)\.(\d)$", said, re.MULTILINE)}


def compile_kernels(nvcc: str, output: Path, *, is_quick: bool) -> None:
    """Write the fat binary, from the cache when it is there."""
    options = [*OPTIONS, *(f"-I{folder}" for folder in FOLDERS), *targets(nvcc, is_quick=is_quick)]
    if "--compress-mode" in _said(nvcc, "--help"):  # since CUDA 12.8; a quarter of the size
        options.append("--compress-mode=size")
    key = hashlib.sha256(repr((options, _said(nvcc, "--version"))).encode())
    for path in sources():
        key.update(b"\0".join((str(path).encode(), (ROOT / path).read_bytes(), b"")))
    cache = os.environ.get("HEADRACE_KERNEL_CACHE")
    kept = Path(cache, f"{key.hexdigest()}.fatbin") if cache else None
    if kept is not None and kept.is_file():
        _copy(kept, output)
        return
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder, "kernels.fatbin")
        subprocess.run([nvcc, *options, "--threads=0", SOURCE, "-o", fresh], cwd=ROOT, check=True)
        parts_of(fresh.read_bytes())
        for place in (output, kept):
            if place is not None:
                _copy(fresh, place)


def _copy(source: Path, target: Path) -> None:
    """So that nobody sees a half of it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    half = target.with_name(f"{target.name}.{os.getpid()}")
    shutil.copyfile(source, half)
    half.replace(target)


def _said(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    compiling = verbs.add_parser("compile")
    compiling.add_argument("nvcc")
    compiling.add_argument("output", type=Path)
    compiling.add_argument("--quick", action="store_true")
    compiling.add_argument("--depfile", type=Path)
    verbs.add_parser("list").add_argument("file", type=Path)
    args = parser.parse_args()
    if args.verb == "list":
        for part in parts_of(args.file.read_bytes()):
            print(f"{part.kind}_{part.architecture}")
        return
    try:
        compile_kernels(args.nvcc, args.output, is_quick=args.quick)
    except subprocess.CalledProcessError as error:
        sys.exit(f"{args.nvcc} failed with exit code {error.returncode}\n{error.stderr or ''}")
    if args.depfile is not None:
        names = " ".join(str(ROOT / path).replace(" ", "\\ ") for path in sources())
        args.depfile.write_text(f"{str(args.output).replace(' ', chr(92) + ' ')}: {names}\n")


if __name__ == "__main__":
    main()
