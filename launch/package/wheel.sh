#!/usr/bin/env bash
# Builds build/wheel/dist/recollect-VERSION-py3-none-manylinux_*.whl: for every x86-64 with Python and a C library of
# Debian 11's age, with kernels that are chosen where it runs. Installs with apt what is missing to build it, and trains
# two steps on two ranks with the program. `pip install` takes the file. (launch/package/wheel/build.py makes a wheel of
# any other build's program, such as one with CUDA.)
set -euo pipefail
cd "$(dirname "$0")/../.."
. launch/setup.sh
install_packages python3
build wheel recollect
launch/package/portable/check.sh 2.31 build/wheel/recollect
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
build/wheel/recollect run --nproc-per-node 2 train configs/gpt2-tiny.yaml training.max_steps=2 output_dir="$folder/run"
launch/package/wheel/build.py build/wheel/recollect build/wheel/dist
