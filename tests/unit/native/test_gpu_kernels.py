"""The compiled kernels as package data, and the script that makes them."""

from __future__ import annotations

import importlib.util
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace import _native

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).parents[3]
NEEDED = ("cmake", "ninja")


@pytest.fixture(scope="module")
def kernels() -> ModuleType:
    """The script that compiles them, as a module."""
    spec = importlib.util.spec_from_file_location("kernels", ROOT / "scripts/kernels.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_package_has_kernels_or_says_that_it_has_none(kernels: ModuleType) -> None:
    content = _native.gpu_kernels()
    if content is None:
        pytest.skip("this build has no kernels: there was no nvcc")
    parts = kernels.parts_of(content)
    ptx = [number for kind, number in parts if kind == "compute"]
    assert ptx == [min(number for _, number in parts)]
    assert {kind for kind, _ in parts} <= {"compute", "sm"}
    assert content is _native.gpu_kernels()


def test_a_build_without_kernels_gives_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(_native._core, "__file__", str(tmp_path / "_core.so"))
    assert _native.gpu_kernels.__wrapped__() is None
    (tmp_path / "kernels.fatbin").write_bytes(b"kernels")
    assert _native.gpu_kernels.__wrapped__() == b"kernels"


def _fatbin(*parts: tuple[int, int]) -> bytes:
    content = b"".join(struct.pack("<HHIQ12xI32x8x", kind, 257, 64, 8, number) for kind, number in parts)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(content)) + content


def test_the_parts_of_a_fat_binary(kernels: ModuleType) -> None:
    assert kernels.parts_of(_fatbin((1, 75), (2, 90))) == [("compute", 75), ("sm", 90)]
    for wrong in (b"\0" * 64, _fatbin((2, 90))[:-1]):
        with pytest.raises(ValueError, match="no fat binary"):
            kernels.parts_of(wrong)


def test_the_sources_are_those_that_the_compiler_reads(kernels: ModuleType) -> None:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("there is no g++")
    folders = [f"-I{folder}" for folder in kernels.FOLDERS]
    command = [compiler, "-std=c++20", "-MM", "-x", "c++", *folders, str(kernels.SOURCE)]
    said = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    read = {str(Path(name)) for name in said.replace("\\\n", " ").split()[1:]}
    assert read <= {str(path) for path in kernels.sources()}


def _fake_nvcc(folder: Path) -> Path:
    """A compiler that notes its options and writes a fat binary of what it was asked for."""
    nvcc = folder / "nvcc"
    fatbin = _fatbin((2, 80), (1, 80))
    nvcc.write_text(
        f"#!{sys.executable}\n"
        "import pathlib, sys\n"
        "known = 'compute_80\\ncompute_90\\ncompute_121'\n"
        "words = {'--list-gpu-arch': known, '--help': '', '--version': 'release 13.0'}\n"
        "if sys.argv[1] in words:\n"
        "    sys.exit(print(words[sys.argv[1]]))\n"
        f"with open({str(folder / 'calls')!r}, 'a') as calls: print(*sys.argv[1:], file=calls)\n"
        f"pathlib.Path(sys.argv[sys.argv.index('-o') + 1]).write_bytes({fatbin!r})\n"
    )
    nvcc.chmod(0o755)
    return nvcc


def _fake_gpus(folder: Path, said: str) -> None:
    tool = folder / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\nprintf '{said}'\n")
    tool.chmod(0o755)


def _compile(nvcc: Path, output: Path, *options: str, cache: Path | None = None) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "HEADRACE_KERNEL_CACHE"}
    environment["PATH"] = f"{nvcc.parent}{os.pathsep}{environment['PATH']}"
    if cache is not None:
        environment["HEADRACE_KERNEL_CACHE"] = str(cache)
    command = [sys.executable, ROOT / "scripts/kernels.py", "compile", nvcc, output, *options]
    subprocess.run(command, check=True, env=environment)


def test_the_architectures_that_the_compiler_knows(tmp_path: Path) -> None:
    nvcc = _fake_nvcc(tmp_path)
    _compile(nvcc, tmp_path / "a.fatbin", "--depfile", str(tmp_path / "a.d"))
    for gpus in ("9.0\\n9.0\\n8.6\\n", "No devices were found\\n"):  # the compiler does not know 8.6
        _fake_gpus(tmp_path, gpus)
        _compile(nvcc, tmp_path / "b.fatbin", "--quick")
    calls = (tmp_path / "calls").read_text().splitlines()
    full, own, none = ([word for word in call.split() if "gencode" in word] for call in calls)
    assert [word.split("code=")[2] for word in full] == ["sm_80", "sm_90", "compute_80"]
    assert [word.split("code=")[2] for word in own] == ["sm_90", "compute_80"]
    assert [word.split("code=")[2] for word in none] == ["compute_80"]
    assert all("-fmad=false" in call for call in calls)
    assert "gpu/tiles.hpp" in (tmp_path / "a.d").read_text()


def test_the_same_sources_are_compiled_once(tmp_path: Path) -> None:
    nvcc = _fake_nvcc(tmp_path)
    for name in ("a", "b"):
        _compile(nvcc, tmp_path / name, cache=tmp_path / "cache")
    assert len((tmp_path / "calls").read_text().splitlines()) == 1
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    _compile(nvcc, tmp_path / "c", "--quick", cache=tmp_path / "cache")
    assert len((tmp_path / "calls").read_text().splitlines()) == 2


@pytest.mark.slow
def test_compiled_twice_the_kernels_are_the_same(tmp_path: Path, kernels: ModuleType) -> None:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("there is no nvcc")
    for name in ("a", "b"):
        _compile(Path(nvcc), tmp_path / name, "--quick")
    content = (tmp_path / "a").read_bytes()
    assert content == (tmp_path / "b").read_bytes()
    assert [kind for kind, _ in kernels.parts_of(content)].count("compute") == 1


def _configure(folder: Path, *options: str, cuda_home: Path | None = None) -> subprocess.CompletedProcess[str]:
    """What CMake says to the build of the extension where there is no nvcc, or only the one that is named."""
    cmake, ninja = (shutil.which(name, path=f"{Path(sys.executable).parent}:{os.environ['PATH']}") for name in NEEDED)
    if cmake is None or ninja is None or shutil.which("g++") is None:
        pytest.skip("there is no cmake, ninja or g++")
    folders = {*os.environ["PATH"].split(":"), "/usr/local/cuda/bin"}
    nvccs = [folder for folder in folders if Path(folder, "nvcc").exists()]
    environment = {key: value for key, value in os.environ.items() if key not in ("CUDA_HOME", "CUDA_PATH")}
    if cuda_home is not None:
        environment["CUDA_HOME"] = str(cuda_home)
    command = [cmake, "-S", ROOT, "-B", folder, "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}"]
    command += [f"-DPython_EXECUTABLE={sys.executable}", "-DHEADRACE_BUILD_PYTHON=ON"]
    command += [f"-DCMAKE_IGNORE_PATH={';'.join(nvccs)}", "-DCMAKE_CXX_COMPILER_LAUNCHER=", *options]
    return subprocess.run(command, env=environment, check=False, capture_output=True, text=True)


@pytest.mark.slow
def test_a_build_without_nvcc_says_what_it_leaves_out(tmp_path: Path) -> None:
    plain = _configure(tmp_path / "build")
    assert plain.returncode == 0, plain.stderr
    assert "GPU kernels: left out, for there is no nvcc on the PATH or below CUDA_HOME" in plain.stdout
    insisting = _configure(tmp_path / "build", "-DHEADRACE_GPU=ON")
    assert insisting.returncode != 0
    assert "HEADRACE_GPU=ON, but there is no nvcc" in insisting.stderr
    without = _configure(tmp_path / "build", "-DHEADRACE_GPU=OFF")
    assert (without.returncode, "GPU kernels" in without.stdout) == (0, False)
    wrong = _configure(tmp_path / "build", "-DHEADRACE_GPU=perhaps")
    assert "HEADRACE_GPU must be AUTO, ON or OFF, got perhaps" in wrong.stderr


@pytest.mark.slow
def test_an_nvcc_that_cannot_compile_them_stops_no_installation(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    nvcc = _fake_nvcc(tmp_path / "bin")
    works = _configure(tmp_path / "works", cuda_home=tmp_path)
    assert f"GPU kernels: for every architecture, by {nvcc}" in works.stdout
    nvcc.write_text("#!/bin/sh\necho C++20 is not known >&2\nexit 1\n")
    broken = _configure(tmp_path / "broken", cuda_home=tmp_path)
    assert broken.returncode == 0, broken.stderr
    assert f"GPU kernels: left out, for {nvcc} cannot compile them" in broken.stdout
    assert "C++20 is not known" in broken.stdout
