#!/usr/bin/env bash
# Installs the package, editable, and shows how far the build is. All that the build said is in build/install.log.
# usage: scripts/install.sh     (from the repository's root, after .venv exists; HEADRACE_GPU=ON insists on GPU kernels)
set -uo pipefail

# shellcheck source=scripts/nvcc.sh
. scripts/nvcc.sh found || true

mkdir -p build
every=15
[ ! -t 1 ] || every=1
.venv/bin/python -m pip --disable-pip-version-check install -v --no-build-isolation --no-deps \
  -C cmake.define.HEADRACE_GPU="${HEADRACE_GPU:-AUTO}" -e . 2>&1 | tee build/install.log |
  awk -v every="$every" '
    match($0, /\[[0-9]+\/[0-9]+\] Building/) {
      split(substr($0, RSTART + 1), at, /[\/\]]/)
      if (at[1] % every == 0 || at[1] == at[2]) {
        printf every == 1 ? "\r  compiled %d of %d" : "  compiled %d of %d\n", at[1], at[2]
        fflush()
        shown = 1
      }
    }
    END { if (shown && every == 1) print "" }'
code=${PIPESTATUS[0]}
[ "$code" = 0 ] || tail -n 60 build/install.log >&2
[ "$code" != 0 ] || sed -n 's/^ *-- \(\(GPU kernels\|Pictures\):.*\)/  \1/p' build/install.log
exit "$code"
