#!/usr/bin/env bash
# Builds build/bundle/recollect_VERSION_ARCHITECTURE.deb, whose kernels are chosen where it runs; installs with apt what is
# missing to build it. Where nvcc is, the program has the CUDA backend too.
set -euo pipefail
cd "$(dirname "$0")/../.."
. launch/setup.sh
install_packages dpkg-dev file
build bundle recollect
(cd build/bundle && cpack)
