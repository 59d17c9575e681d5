#!/usr/bin/env bash
# Runs pytest in a temporary folder of its own, and fails if the tests left anything there, in shared memory or in
# the tree.
# usage: scripts/tests.sh [PYTEST-OPTION...]     (from the repository's root; PYTEST_PYTHON names another Python)
set -uo pipefail

python=${PYTEST_PYTHON:-.venv/bin/python}
own=$(mktemp -d "${TMPDIR:-/tmp}/headrace-tests.XXXXXX") || exit 1
trap 'chmod -R u+rwX "$own" 2>/dev/null; rm -rf "$own"' EXIT
mkdir "$own/tmp"

in_tree() { git status --porcelain 2>/dev/null || true; }
# Shared memory of this user that no running process has mapped or open.
in_shared_memory() {
  local path number
  for path in /dev/shm/*; do
    [ -O "$path" ] && number=$(stat -c %i "$path" 2>/dev/null) || continue
    grep -qsE "^([^ ]+ ){4}$number " /proc/[0-9]*/maps || find -L /proc/[0-9]*/fd -inum "$number" 2>/dev/null |
      grep -q . || echo "$path"
  done
}

in_tree >"$own/tree"
in_shared_memory >"$own/shared"
# torch keeps what it compiled for the next time.
TMPDIR=$own/tmp TORCHINDUCTOR_CACHE_DIR=$own/torch "$python" -m pytest "$@"
code=$?

# pytest keeps the folders of failed tests, and a Chromium that is ended at once its own; they go too.
rm -rf "$own"/tmp/pytest-of-* "$own"/tmp/{,.}org.chromium.*
left=$(
  ls -A "$own/tmp"
  in_tree | diff "$own/tree" - | sed -n 's/^> //p'
  in_shared_memory | diff "$own/shared" - | sed -n 's/^> //p'
)
if [ -n "$left" ]; then
  printf 'The tests left behind:\n%s\n' "$left" >&2
  [ "$code" != 0 ] || code=1
fi
exit "$code"
