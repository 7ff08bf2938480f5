#!/usr/bin/env bash
# Everything that needs a GPU, from a bundle and nothing else; under 8 minutes on one GPU. Prints one table and ends
# with 1 if any line of it failed. Make the bundle where nvcc is:
#     cmake --preset bundle && cmake --build --preset bundle && cmake --install build/bundle --prefix bundle
#     bundle/check.sh [--no-bench]
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
export RECOLLECT_GOLDENS=$here/share/golden
bench=yes
[ "${1:-}" = --no-bench ] && bench=no
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache  # where the algorithms of products are kept: all runs here take the same
failed=0
results=()

# line NAME COMMAND...: runs it, keeps its output, and adds a row to the table.
line() {
  local name=$1 start=$SECONDS verdict=ok
  shift
  if ! "$@" >"$work/log" 2>&1; then
    verdict=FAILED failed=1
    echo "--- $name"
    tail -n 40 "$work/log"
  fi
  results+=("$(printf '%-44s %-7s %4d s' "$name" "$verdict" $((SECONDS - start)))")
}

# A test that skips itself here, or a filter that no test is called by, is a failure.
gtest() {  # FILTER [LAUNCHER...]
  local filter=$1 log=$work/gtest
  shift
  "$@" "$here/bin/test_gpu" --gtest_brief=1 --gtest_filter="$filter" >"$log" 2>&1
  local status=$?
  cat "$log"
  [ $status = 0 ] && grep -q '\[  PASSED  \] [1-9]' "$log" && ! grep -q '\[  SKIPPED \]' "$log"
}

tiny() {  # OUTPUT LAUNCHER... -- [key=value...]: a tiny training run in a folder of its own
  local output=$work/$1 launcher=()
  shift
  while [ "$1" != -- ]; do launcher+=("$1") && shift; done
  shift
  "${launcher[@]}" train "$here/share/tiny.yaml" "output_dir=$output" "$@"
}

# Two processes that share this GPU, over NCCL: whatever is checkpointed, the same losses and gradient norms.
nccl() {
  local two=("$here/bin/recollect" run --standalone --nproc-per-node 2) partition host mode
  bits() { grep -oE '"(loss|grad_norm)": [^,]*' "$work/$1/metrics.jsonl"; }
  tiny plain "${two[@]}" -- parallelism.tensor_parallel_size=2 || return 1
  [ -n "$(bits plain)" ] || return 1
  for mode in full selective; do
    for partition in false true; do
      for host in false true; do
        echo "mode $mode, partition $partition, host $host"
        tiny moved "${two[@]}" -- parallelism.tensor_parallel_size=2 activation_checkpointing.mode=$mode \
          activation_checkpointing.partition_activations=$partition \
          activation_checkpointing.cpu_checkpointing=$host || return 1
        diff <(bits plain) <(bits moved) || return 1
      done
    done
  done
}

sanitizer() {  # TOOL FILTER
  local tool
  tool=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | head -1)
  [ -n "$tool" ] || { echo "compute-sanitizer is not installed"; return 1; }
  # Our kernels; what cuBLASLt tries, and what libraries ask the driver in vain, is not ours.
  RECOLLECT_UNTIMED=1 gtest "$2" "$tool" --tool "$1" --kernel-name kns=recollect --report-api-errors no \
    --error-exitcode 1
}

"$here/bin/recollect" doctor | sed -n '/^GPU/,/^$/p'
line "ops against the reference, fp32 bf16 fp16" gtest 'Ops/DeviceOps*'
line "products by cuBLASLt, attention by cuDNN" gtest 'DeviceGemm.*:DeviceAttention.*'
line "GPT-2 goldens and reference, fp32 bf16 fp16" gtest 'GoldensOnGpu*:NearTheReference*'
line "modes x switches, bit for bit" gtest '*ExactOnGpu*:GraphsOnGpu.*'
line "memory against the driver" gtest 'MemoryOnGpu*'
line "two processes over NCCL, bit for bit" nccl
line "compute-sanitizer memcheck" sanitizer memcheck 'Ops/DeviceOps16.Bfloat16/*:GoldensOnGpu.*'
line "compute-sanitizer racecheck" sanitizer racecheck 'Ops/DeviceOps.Float/*'
if [ $bench = yes ]; then
  line "benchmark" python3 "$here/share/bench/compare.py" --recollect "$here/bin/recollect" --rounds 1 --steps 30
  cat "$work/log"
fi
printf '%s\n' "${results[@]}"
exit $failed
