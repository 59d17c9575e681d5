#!/usr/bin/env bash
# Builds an sdist and from it a wheel with libjpeg-turbo (and libpng, libdeflate and libwebp) inside, both in dist/, then installs the wheel in an empty
# environment where no compiler can be found and runs the quick tests against it.
# usage: scripts/wheel.sh [PYTEST-OPTION...]     (from the repository's root, after .venv exists)
set -euo pipefail

bin=$PWD/.venv/bin
own=$(mktemp -d "${TMPDIR:-/tmp}/headrace-wheel.XXXXXX")
trap 'rm -rf "$own"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1

# shellcheck source=scripts/nvcc.sh
if . scripts/nvcc.sh; then
  gpu=ON
else
  gpu=OFF
  echo "== LEFT OUT: the kernels for GPUs, for there is no nvcc and none could be installed; the wheel decodes on the CPU"
fi

echo "== building an sdist, and a wheel from it (some minutes)"
HEADRACE_KERNEL_CACHE=$PWD/build/kernels "$bin/python" -m build --no-isolation -C cmake.define.HEADRACE_GPU=$gpu \
  -C cmake.define.HEADRACE_PICTURES="${HEADRACE_PICTURES:-AUTO}" \
  --outdir "$own/built" . >"$own/build.log" 2>&1 || { tail -n 60 "$own/build.log"; exit 1; }
sed -n 's/^.*-- \(Pictures:.*\)/== \1/p' "$own/build.log"
rm -rf dist
PATH="$bin:$PATH" "$bin/auditwheel" -v repair --wheel-dir dist "$own"/built/*.whl >"$own/repair.log" 2>&1 ||
  { cat "$own/repair.log"; exit 1; }
cp "$own"/built/*.tar.gz dist/
ls -l dist

echo "== installing the wheel where there is no compiler"
mkdir "$own/tools"
for tool in /usr/local/bin/* /usr/bin/* /bin/* /usr/sbin/* /sbin/*; do
  case ${tool##*/} in
    cc | c++ | cpp | c89* | c99* | *gcc* | *g++* | *clang* | ld | ld.* | *-ld | *-ld.* | as | *-as | nvcc | cmake | ninja | make | python* | pip*) ;;
    *) [ -e "$own/tools/${tool##*/}" ] || ln -s "$tool" "$own/tools/" ;;
  esac
done
"$bin/python" -m venv "$own/env"
export PATH="$own/env/bin:$own/tools"
unset PYTHONPATH VIRTUAL_ENV
pip install -q -U 'pip>=25.1'
pip install -q --only-binary :all: dist/*.whl
pip install -q --only-binary :all: --group test
python - "$gpu" <<'CHECK'
import pathlib, re, shutil, sys
import headrace
from headrace._native import _core, gpu_kernels

assert not [tool for tool in ("cc", "c++", "gcc", "g++", "clang", "ld") if shutil.which(tool)]
assert pathlib.Path(headrace.__file__).is_relative_to(sys.prefix), headrace.__file__
assert pathlib.Path(_core.__file__).is_relative_to(sys.prefix), _core.__file__
jpegs = {line.split()[-1] for line in open("/proc/self/maps") if "libjpeg" in line}
assert jpegs and all(pathlib.Path(path).is_relative_to(sys.prefix) for path in jpegs), jpegs
pictures = {line.split()[-1] for line in open("/proc/self/maps") if re.search("lib(png|webp|deflate)", line)}
assert all(pathlib.Path(path).is_relative_to(sys.prefix) for path in pictures), pictures
assert len(pictures) >= len(_core.picture_decoders()) - 1, (pictures, _core.picture_decoders())
jpegs |= pictures
print(f"headrace {headrace.__version__} with {', '.join(sorted(pathlib.Path(path).name for path in jpegs))}")

sys.path.insert(0, "scripts")
from kernels import parts_of

assert (gpu_kernels() is not None) == (sys.argv[1] == "ON")
if gpu_kernels() is not None:
    size, parts = len(gpu_kernels()), parts_of(gpu_kernels())
    missing = {("sm", number) for number in (75, 80, 86, 89, 90)} - set(parts)  # every CUDA since 12 has these
    assert not missing and ("compute", min(number for _, number in parts)) in parts, missing
    assert size < 2_000_000, size
    print(f"with kernels for GPUs, {size} bytes: {', '.join(f'{kind}_{number}' for kind, number in parts)}")
CHECK
PYTEST_PYTHON="$own/env/bin/python" bash scripts/tests.sh -m "not slow" "$@"
