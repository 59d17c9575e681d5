#!/usr/bin/env bash
# Sees to it that CUDA_HOME names an nvcc of CUDA 12 or later: the one there, the one on the PATH, else one from PyPI,
# installed in .venv/cuda. Fails where none can be had. With the word "found" nothing is installed.
# usage: . scripts/nvcc.sh [found]     (from the repository's root, after .venv exists)
is_nvcc() {
  local release
  release=$("$1" --version 2>/dev/null | sed -n 's/.*release \([0-9]*\).*/\1/p')
  [ "${release:-0}" -ge 12 ]
}

nvcc_home=$PWD/.venv/cuda/nvidia/cu13
if is_nvcc "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc"; then
  export CUDA_HOME=${CUDA_HOME:-/usr/local/cuda}
elif is_nvcc nvcc; then
  unset CUDA_HOME
else
  if [ "${1:-}" != found ] && ! is_nvcc "$nvcc_home/bin/nvcc"; then
    echo "== there is no nvcc here: installing the one from PyPI into .venv/cuda"
    .venv/bin/python -m pip --disable-pip-version-check -q install --upgrade --target .venv/cuda --group cuda || true
  fi
  is_nvcc "$nvcc_home/bin/nvcc" && export CUDA_HOME=$nvcc_home
fi
