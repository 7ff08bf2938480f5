#!/usr/bin/env bash
# Builds build/bundle/dist/recollect-VERSION-py3-none-manylinux_*.whl: for every x86-64 with Python and a C library of
# Debian 11's age, with kernels that are chosen where it runs. Installs with apt what is missing to build it, and trains
# two steps on two ranks with the program. `pip install` takes the file. Where nvcc is, the program has the CUDA backend too,
# and `pip install FILE[cuda]` also installs NVIDIA's libraries.
set -euo pipefail
cd "$(dirname "$0")/../.."
. launch/setup.sh
install_packages python3
build bundle recollect
launch/package/portable/check.sh 2.31 build/bundle/recollect
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
build/bundle/recollect run --nproc-per-node 2 train configs/gpt2-tiny.yaml training.max_steps=2 output_dir="$folder/run"
launch/package/wheel/build.py build/bundle/recollect build/bundle/dist
