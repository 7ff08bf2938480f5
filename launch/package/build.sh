#!/usr/bin/env bash
# Builds build/package/recollect_VERSION_ARCHITECTURE.deb, whose kernels are chosen where it runs; installs with apt what is
# missing to build it.
set -euo pipefail
cd "$(dirname "$0")/../.."
. launch/setup.sh
install_packages dpkg-dev file
build package recollect
(cd build/package && cpack)
