#!/usr/bin/env bash
# Hours of what make test-all does for a minute: a fault at every call of every writing command, full disks, and readers
# beside a writer. Prints tables; writes nothing into the tree.
# usage: scripts/soak.sh JOBS [OPTION-OF-tests.faults...]     (from the repository's root; STRESS_S: seconds of readers
#        beside a writer, 600 if it is not set)
set -uo pipefail

python=.venv/bin/python
jobs=$1; shift
seconds=${STRESS_S:-600}
own=$(mktemp -d "${TMPDIR:-/tmp}/headrace-soak.XXXXXX") || exit 1
trap 'rm -rf "$own"' EXIT
export TMPDIR=$own PYTHONDONTWRITEBYTECODE=1
failed=0

part() { # part TITLE MODULE [OPTION...]: run one part; 77 means that this system cannot
  echo "== $1"
  local code=0
  "$python" -m "${@:2}" || code=$?
  case $code in 0) ;; 77) echo "left out" ;; *) failed=1 ;; esac
}

part "a fault at every call to the system" tests.faults --jobs "$jobs" "$@"
part "disks that are really full" tests.faults --disks "$@"
if [ $# = 0 ]; then
  part "readers beside a writer, for $seconds s" tests.faults.stress --seconds "$seconds"
  part "the same with a write-ahead log" tests.faults.stress --seconds $((seconds / 10 + 1)) --wal
fi
left=$(ls -A "$own")
[ -z "$left" ] || { printf 'left behind:\n%s\n' "$left" >&2; failed=1; }
exit "$failed"
