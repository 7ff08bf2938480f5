#!/usr/bin/env bash
# From a bare Debian machine to a GPT training on two tensor-parallel ranks: installs what is missing, builds, runs.
# Further arguments go to the run, e.g. training.max_steps=20. A second run replaces the first one's files.
set -euo pipefail
cd "$(dirname "$0")/.."
. launch/setup.sh
install_packages
build cpu recollect
exec mpirun -np 2 build/cpu/recollect train configs/gpt2-tiny.yaml overwrite=true "$@"
