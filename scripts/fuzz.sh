#!/usr/bin/env bash
# Coverage-guided fuzzing of every parser: the C++ targets with Clang's libFuzzer under ASan and UBSan, the Python ones
# with atheris (alone, and without Clang: python -m tests.fuzz.campaign). Inputs that are kept go to FOLDER/TARGET,
# findings to FOLDER/findings; a line for each target at the end.
# usage: scripts/fuzz.sh SECONDS FOLDER [TARGET...]     (from the repository's root, after .venv exists)
set -euo pipefail

seconds=$1
out=$(realpath -m "$2")
shift 2
bin=$PWD/.venv/bin
mkdir -p "$out/findings" "$out/logs"

clang=$(compgen -c clang++ | grep -xE 'clang\+\+(-(1[6-9]|[2-9][0-9]))?' | sort -V | tail -n 1 || true)
if [[ -z $clang ]]; then
  echo "fuzz: Clang 16 or later is missing; on Debian: apt-get install clang-19 libclang-rt-19-dev" >&2
  exit 1
fi
PATH=$bin:$PATH cmake -S . -B build/fuzz -G Ninja -DCMAKE_CXX_COMPILER="$clang" -DHEADRACE_BUILD_FUZZ=ON \
  -DHEADRACE_SANITIZE=address,undefined -DHEADRACE_UNITY=ON >/dev/null
PATH=$bin:$PATH cmake --build build/fuzz >"$out/logs/build.log" || { cat "$out/logs/build.log"; exit 1; }
"$bin/python" -c 'import atheris' 2>/dev/null || "$bin/python" -m pip -q install atheris
native=$(for file in native/fuzz/fuzz_*.cpp; do basename "$file" .cpp | sed 's/^fuzz_/cpp_/'; done)
python=$("$bin/python" -c 'from tests.fuzz.targets import TARGETS; print(*TARGETS)')
options=(-max_total_time="$seconds" -timeout=30 -rss_limit_mb=4096 -print_final_stats=1 -artifact_prefix="$out/findings/")

fuzz() { # fuzz TARGET
  local target=$1 noun=${1#cpp_}
  mkdir -p "$out/$target"
  local program=build/fuzz/native/fuzz/headrace_fuzz_$noun corpora=("$out/$target")
  HEADRACE_WRITE_SEEDS=$out/$target "$program"
  for folder in "native/fuzz/corpus/$noun" native/fuzz/corpus/jpeg; do
    [[ ! -d $folder || ($folder == */jpeg && $noun != *jpeg* && $noun != tile_index) ]] || corpora+=("$folder")
  done
  "$program" "${options[@]}" "${corpora[@]}" >"$out/logs/$target.log" 2>&1 ||
    echo "$target: a finding, see $out/logs/$target.log"
}

mine=()
for target in ${*:-$native $python}; do
  if [[ $target != cpp_* ]]; then mine+=("$target"); continue; fi
  while (($(jobs -rp | wc -l) >= $(nproc))); do wait -n || true; done
  fuzz "$target" &
done
wait
if ((${#mine[@]})); then
  rounds=$(((${#mine[@]} + $(nproc) - 1) / $(nproc)))
  "$bin/python" -m tests.fuzz.campaign --seconds $((seconds * rounds)) --out "$out" "${mine[@]}" || true
fi
for log in "$out"/logs/cpp_*.log; do
  [[ -e $log ]] || continue
  awk -v name="$(basename "$log" .log)" '/stat::number_of_executed_units/ {runs = $2}
    / cov: / {for (i = 1; i < NF; i++) if ($i == "cov:") cov = $(i + 1)}
    END {if (runs) printf "%-24s %12d runs, coverage %s\n", name, runs, cov}' "$log"
done
[[ -z $(ls "$out/findings") ]] || { echo "findings in $out/findings"; exit 1; }
