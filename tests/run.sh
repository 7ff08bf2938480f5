#!/usr/bin/env bash
# tests/run.sh: installs what is missing, builds, and runs every test of the plain build, which has the CUDA backend too
# where nvcc is; what needs a GPU skips itself without one. Further words choose other builds and tests:
#   quick    some tests of each part, for use while working: minutes where the last build is at hand
#   all      the plain build, then those of the sanitizers: what CI runs
#   cpu, cuda, asan, tsan   that preset alone: AddressSanitizer with UndefinedBehaviorSanitizer; ThreadSanitizer, without
#            tests that start MPI, whose locks it does not know (tests/CMakeLists.txt says how they run)
#   fuzz     searches on with libFuzzer from the corpora of tests/fuzz, where clang is
#   tidy     looks with clang-tidy at the sources that changed since the merge base with origin/main, or, where that is
#            this commit or unknown, since the commit before
set -euo pipefail
cd "$(dirname "$0")/.."
. launch/setup.sh
install_packages $test_packages
fetch_readers
cpu=cpu
command -v nvcc >/dev/null && cpu=cuda  # the same tests, and the CUDA backend beside them
presets=${*:-$cpu}
[ "$presets" != all ] || presets="$cpu asan tsan"
# Kernels for lesser processors are tested on this one: those of the level below its own at least.
levels="baseline;avx2"
if grep -qw avx512f /proc/cpuinfo; then levels="avx2;avx512"; fi

# What changed, uncommitted too, in the way of .clang-tidy. A changed header is looked at with the source of its name.
# Each source is compiled by itself, so that the order of others in a unity build does not matter.
tidy_changes() {
  command -v clang-tidy >/dev/null || { echo "tests/run.sh tidy: clang-tidy is not installed" >&2; return 2; }
  local base
  base=$(git merge-base HEAD origin/main 2>/dev/null) || base=HEAD~
  [ "$(git rev-parse "$base")" != "$(git rev-parse HEAD)" ] || base=HEAD~
  cmake --preset cpu -B build/tidy -DCMAKE_UNITY_BUILD=OFF >/dev/null
  local changed=() file
  for file in $(git diff --name-only --diff-filter=d "$base" -- '*.h' '*.cpp' | sed 's/\.h$/.cpp/' | sort -u |
    grep -E '^(engine|comm|parallel|checkpointing|launch)/'); do
    if grep -qF "\"$PWD/$file\"" build/tidy/compile_commands.json; then changed+=("$file"); fi
  done
  [ ${#changed[@]} -gt 0 ] || return 0
  echo "== clang-tidy: ${#changed[@]} sources changed since $(git rev-parse --short "$base") =="
  printf '%s\n' "${changed[@]}" | xargs -P "$(nproc)" -n 1 clang-tidy -p build/tidy --quiet --warnings-as-errors='*'
}

# What failed in PRESET, and where, once more and in short: at the end, where it is looked for.
name_failures() {
  echo "== what failed in $1 =="
  awk '/^[0-9]+\/[0-9]+ Testing: / { part = $3; run = last = "" }
       /^\[ RUN / { run = $4 }
       /^\[       OK |^\[  SKIPPED / { run = "" }
       /^\[ / { failed = lines = 0 }
       /: Failure$/ { print part ": " run; failed = 1; lines = 5 }
       failed && /Sanitizer:|runtime error:|glibc error:/ { lines = 30 }  # from a program that the test started
       lines-- > 0 { print "  " $0 }
       /^Test time = / { seconds = $4 }
       /^Test Failed/ { print part " ended after " seconds " s" (run ? ", in or after " run : "") ": " last }
       /./ && !/^(<end|Test time|---)/ { last = $0 }' \
    "build/$1/Testing/Temporary/LastTest.log"
}

for preset in $presets; do
  if [ "$preset" = tidy ]; then
    tidy_changes
    continue
  fi
  if [ "$preset" = fuzz ] && ! can_fuzz; then
    echo "== the fuzzers are left out: there is no clang++ with libFuzzer =="
    continue
  fi
  echo "== $preset =="
  cmake_options= targets= chosen="-LE again"
  if [ "$preset" = quick ]; then
    preset=$cpu targets="test_engine test_parallel test_checkpointing test_launch" chosen="-L quick"
  fi
  [ "$preset" != "$cpu" ] || cmake_options="-DRECOLLECT_LEVELS=$levels"
  build "$preset" $targets
  # One more than there are cores: tests wait as well, for ranks and for time limits.
  ctest --test-dir "build/$preset" $chosen --output-on-failure --timeout 1200 --parallel $(($(nproc) + 1)) || {
    status=$?
    name_failures "$preset" >&2
    exit $status
  }
done
