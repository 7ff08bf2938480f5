#!/usr/bin/env bash
# Every test: installs what is missing, builds, and runs them all; then again under AddressSanitizer and
# UndefinedBehaviorSanitizer, and again under ThreadSanitizer, all but those that start MPI, whose locks it does not
# know (tests/CMakeLists.txt says how they run). Where nvcc is, the first build has the CUDA backend too; what needs a
# GPU skips itself without one. "tests/run.sh cpu" runs that preset only; "tests/run.sh fuzz" searches
# on with libFuzzer from the corpora of tests/fuzz, where clang is.
set -euo pipefail
cd "$(dirname "$0")/.."
. launch/setup.sh
install_packages $test_packages
fetch_tensorboard
cpu=cpu
command -v nvcc >/dev/null && cpu=cuda  # the same tests, and the CUDA backend beside them
presets=${*:-$cpu asan tsan}

# What failed in PRESET, and where, once more and in short: at the end, where it is looked for.
name_failures() {
  echo "== what failed in $1 =="
  awk '/^[0-9]+\/[0-9]+ Testing: / { part = $3; run = last = "" }
       /^\[ RUN / { run = $4 }
       /^\[       OK |^\[  SKIPPED / { run = "" }
       /: Failure$/ { print part ": " run; lines = 5 }
       lines-- > 0 { print "  " $0 }
       /^Test time = / { seconds = $4 }
       /^Test Failed/ { print part " ended after " seconds " s" (run ? ", in or after " run : "") ": " last }
       /./ && !/^(<end|Test time|---)/ { last = $0 }' \
    "build/$1/Testing/Temporary/LastTest.log"
}

for preset in $presets; do
  if [ "$preset" = fuzz ] && ! can_fuzz; then
    echo "== the fuzzers are left out: there is no clang++ with libFuzzer =="
    continue
  fi
  echo "== $preset =="
  build "$preset"
  ctest --test-dir "build/$preset" --output-on-failure --timeout 1200 --parallel "$(nproc)" || {
    status=$?
    name_failures "$preset" >&2
    exit $status
  }
done
