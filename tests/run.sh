#!/usr/bin/env bash
# Every test: installs what is missing, builds, and runs them all; then again under AddressSanitizer and
# UndefinedBehaviorSanitizer, and again under ThreadSanitizer, all but those that start MPI, whose locks it does not know
# (tests/CMakeLists.txt says how they run). "tests/run.sh cpu" runs the first part only.
set -euo pipefail
cd "$(dirname "$0")/.."
. launch/setup.sh
install_packages $test_packages
presets=${*:-cpu asan tsan}
for preset in $presets; do
  echo "== $preset =="
  build "$preset"
  ctest --test-dir "build/$preset" --output-on-failure --timeout 1800
done
