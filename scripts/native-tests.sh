#!/usr/bin/env bash
# C++ tests three times (plain, ASan+UBSan, TSan), the fuzz targets, and the package's own fuzz tests and golden
# files with the extension built under ASan.
# usage: scripts/native-tests.sh JOBS     (from the repository's root, after .venv exists)
set -euo pipefail

jobs=${1:-2}
bin=$PWD/.venv/bin
bash scripts/system-packages.sh "$bin/python" gtest
export PATH="$bin:$PATH"

build() { # build NAME SANITIZERS [CMAKE-OPTION...]
  local name=$1 sanitizers=$2
  shift 2
  cmake -S . -B "build/$name" -G Ninja -DHEADRACE_WERROR=ON -DHEADRACE_SANITIZE="$sanitizers" "$@" >/dev/null
  cmake --build "build/$name" -j "$jobs" >"build/$name.log" || { cat "build/$name.log"; exit 1; }
}

# The plain build compiles each file alone, so that each must include what it needs; the others are faster together.
# The fuzzers run where a fault is noticed.
for flavour in plain::OFF:OFF asan:address,undefined:ON:ON tsan:thread:ON:OFF; do
  IFS=: read -r name sanitizers unity fuzz <<<"$flavour"
  echo "== C++ tests, $name"
  build "native-$name" "$sanitizers" -DHEADRACE_BUILD_TESTS=ON -DHEADRACE_BUILD_FUZZ="$fuzz" -DHEADRACE_UNITY="$unity"
  ctest --test-dir "build/native-$name" --output-on-failure --timeout 600 -j "$jobs" | tail -n 3
done

echo "== the package under ASan and UBSan"
build python-asan address,undefined -DHEADRACE_BUILD_PYTHON=ON -DHEADRACE_GPU=OFF -DHEADRACE_UNITY=ON \
  -DPython_EXECUTABLE="$bin/python"
site=$PWD/build/python-asan/site
rm -rf "$site" && mkdir -p "$site"
cp -r src/headrace "$site/"
cp build/python-asan/native/bindings/_core*.so "$site/headrace/_native/"
packages=$("$bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
# -S leaves out the editable install of the ordinary build. The interpreter itself is not built with ASan, so the
# runtime is loaded first, and what the interpreter never frees is not reported.
LD_PRELOAD="$(g++ -print-file-name=libasan.so) $(g++ -print-file-name=libubsan.so)" ASAN_OPTIONS=detect_leaks=0 \
  PYTHONPATH="$site:$packages" HEADRACE_FUZZ_ITERATIONS=${HEADRACE_FUZZ_ITERATIONS:-600} \
  "$bin/python" -S -m pytest -q -p no:cacheprovider tests/integration/test_fuzz_beton.py tests/integration/test_fuzz_ffr.py tests/integration/test_fuzz_barecat.py \
  tests/conformance
