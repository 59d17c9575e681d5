#!/usr/bin/env bash
# Makes sure that what pip cannot bring is there, and installs what is missing with apt-get.
# usage: scripts/system-packages.sh PYTHON [gtest]
set -euo pipefail

python=$1
want_gtest=${2:-}
missing=()
optional=() # what makes PNG and WebP fast

compiles() { # compiles HEADER [EXTRA...]: can a C++ file include this header?
  local header=$1; shift
  printf '#include <cstddef>\n#include <cstdio>\n#include <%s>\nint main() {}\n' "$header" |
    g++ "$@" -x c++ -fsyntax-only - 2>/dev/null
}

command -v g++ >/dev/null || missing+=(g++)
"$python" -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
include=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
[ -f "$include/Python.h" ] || missing+=(python3-dev)
if command -v g++ >/dev/null; then
  compiles jpeglib.h || missing+=(libjpeg-dev)
  [ -z "$want_gtest" ] || compiles gtest/gtest.h || missing+=(libgtest-dev)
  compiles png.h || optional+=(libpng-dev)
  compiles libdeflate.h || optional+=(libdeflate-dev)
  compiles webp/decode.h || optional+=(libwebp-dev)
else
  missing+=(libjpeg-dev)
  [ -z "$want_gtest" ] || missing+=(libgtest-dev)
  optional=(libpng-dev libdeflate-dev libwebp-dev)
fi
[ $((${#missing[@]} + ${#optional[@]})) -gt 0 ] || exit 0

install=(apt-get install -y --no-install-recommends)
sudo=()
[ "$(id -u)" = 0 ] || sudo=(sudo -n)
if command -v apt-get >/dev/null && { [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }; then
  echo "installing ${missing[*]} ${optional[*]} with apt-get"
  export DEBIAN_FRONTEND=noninteractive
  "${sudo[@]}" apt-get update -q >/dev/null || echo "apt-get update failed; trying with the package lists at hand" >&2
  if "${sudo[@]}" "${install[@]}" "${missing[@]}" "${optional[@]}" >/dev/null; then exit 0; fi
  if [ ${#missing[@]} -gt 0 ] && "${sudo[@]}" "${install[@]}" "${missing[@]}" >/dev/null; then missing=(); fi
fi
if [ ${#missing[@]} -eq 0 ]; then
  echo "without ${optional[*]}, which could not be installed: PNG and WebP are slower, or left to Pillow"
  exit 0
fi
cat >&2 <<MESSAGE
headrace needs these system packages, and they could not be installed from here: ${missing[*]}
Please run this line, then the same make command again:

    sudo apt-get update && sudo ${install[*]} ${missing[*]} ${optional[*]}

(Other systems: the headers of libjpeg-turbo and of Python, and Python's venv module.)
MESSAGE
exit 1
