#!/usr/bin/env bash
# The C++ tests of the GPU's kernels on a GPU, under NVIDIA's compute-sanitizer: memcheck (no access outside of what a
# launch was given), racecheck (no two threads at one place of shared memory without a sync), synccheck (no sync that
# some threads miss) and initcheck (no value that nobody wrote). The pictures have damaged codes, tables, entry points
# and predictors among them. Ends with 0 only if there was no finding.
# usage: scripts/gpu-sanitize.sh [JOBS [ROUNDS]]     (from the repository's root, after .venv exists, on a machine with a
#        GPU, its driver and the CUDA toolkit: nvcc and compute-sanitizer; ROUNDS of damaged pictures, 30)
set -euo pipefail

jobs=${1:-2}
export HEADRACE_GPU_ROUNDS=${2:-30}
export PATH="$PWD/.venv/bin:$PATH:${CUDA_HOME:-/usr/local/cuda}/bin"
for tool in nvcc compute-sanitizer; do
  command -v "$tool" >/dev/null || { echo "$tool is not on the PATH or below CUDA_HOME: install the CUDA toolkit" >&2; exit 1; }
done
build=build/native-gpu
cmake -S . -B "$build" -G Ninja -DHEADRACE_WERROR=ON -DHEADRACE_BUILD_TESTS=ON >/dev/null
cmake --build "$build" -j "$jobs" --target headrace_tests >"$build.log" || { cat "$build.log"; exit 1; }
export HEADRACE_GPU_KERNELS=$PWD/$build/kernels.fatbin
python scripts/kernels.py compile "$(command -v nvcc)" "$HEADRACE_GPU_KERNELS"

failed=0
check() { # check TOOL TESTS [OPTION...]
  local tool=$1 tests=$2
  shift 2
  echo "== $tool"
  compute-sanitizer --tool "$tool" --error-exitcode 9 --print-limit 20 "$@" \
    "$build/native/tests/headrace_tests" --gtest_filter="$tests" --gtest_brief=1 || failed=1
}

# A forked child has no driver: the sanitizer would wait for it.
all='*Gpu*/gpu*:-*AForkedChild*'
check memcheck "$all" --leak-check full
check racecheck "$all" --racecheck-report all
check synccheck "$all"
# Of undamaged pictures only: what a damaged one leaves unwritten is read, and then thrown away. decode_tiles and the
# resampling read whole words, and use what of them was written: their findings do not count. That nothing else of them
# gets into a pixel is shown by the tests on the CPU, where memory is full of what nobody expects.
echo "== initcheck"
compute-sanitizer --tool initcheck --print-limit 10000000 --log-file "$build.init" "$build/native/tests/headrace_tests" \
  --gtest_filter='*GpuLoaders.Undamaged/gpu*:*GpuLoaders.CropsThatStickOut/gpu*' --gtest_brief=1 || failed=1
found=$(grep '^=========     at ' "$build.init" | grep -cvE ' at (decode_tiles|resample_)' || true)
echo "$found reads of what nobody wrote, outside of decode_tiles and the resampling"
[ "$found" = 0 ] || failed=1
exit "$failed"
