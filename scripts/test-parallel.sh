#!/usr/bin/env bash
# All tests in several processes, one for each part of the tree; prints what failed.
# usage: scripts/test-parallel.sh [PYTHON]     (from the repository's root)
set -uo pipefail

python=${1:-.venv/bin/python}
logs=$(mktemp -d)
parts=(tests/docs tests/conformance tests/property tests/integration/test_[a-e]* tests/integration/test_[f-k]*
  tests/integration/test_[l-z]* tests/unit/test_*.py)
for folder in tests/unit/*/; do parts+=("$folder"); done
for part in "${parts[@]}"; do
  ("$python" -m pytest -q -p no:cacheprovider "$part" >"$logs/${part//\//_}" 2>&1 || true) &
done
wait
grep -hE "^(FAILED|ERROR)" "$logs"/* || true
tail -qn 1 "$logs"/*
! grep -qE "^(FAILED|ERROR)" "$logs"/*
