#!/usr/bin/env bash
# The tests that tests/run.sh leaves out because they take long and rarely say more than those beside them: builds, and
# runs them. Their names begin with Long/. Further words go to the test program, such as --gtest_filter='Long/Exact*'.
# "tests/long/run.sh clang" lets clang read the sources instead (clang.py).
set -euo pipefail
cd "$(dirname "$0")/../.."
. launch/setup.sh
if [ "${1:-}" = clang ]; then
  install_packages $test_packages
  build cpu recollect
  exec python3 tests/long/clang.py build/cpu
fi
install_packages
build cpu test_launch test_parallel
for tests in launch parallel; do
  OMP_NUM_THREADS=1 build/cpu/tests/test_$tests --gtest_filter='Long/*' "$@"
done
