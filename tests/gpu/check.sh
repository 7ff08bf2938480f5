#!/usr/bin/env bash
# Everything that needs a GPU, from a bundle and nothing else; under 8 minutes on one GPU. Prints one table and ends
# with 1 if any line of it failed. Each line has a time limit of its own: one that hangs is ended and failed, and the
# next one runs. Make the bundle where nvcc is:
#     cmake --preset bundle && cmake --build --preset bundle && cmake --install build/bundle --prefix bundle
#     bundle/check.sh [--no-bench]
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
export here RECOLLECT_GOLDENS=$here/share/golden
bench=yes
[ "${1:-}" = --no-bench ] && bench=no
export work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache  # where the algorithms of products are kept: all runs here take the same
failed=0
running=
results=()
trap 'kill -KILL -- -$running 2>/dev/null; exit 130' INT TERM  # timeout has made a group of its own for what it runs

# line SECONDS NAME COMMAND...: runs it for so long at most, keeps its output, and adds a row to the table. The command
# may be a function, which is why a shell of its own runs it: what is ended is that shell and all that it started.
line() {
  local limit=$1 name=$2 start=$SECONDS verdict=ok status
  shift 2
  timeout --signal=KILL "$limit" bash -uo pipefail -c '"$@"' check "$@" >"$work/log" 2>&1 &
  running=$!
  wait $running 2>/dev/null
  status=$?
  if [ $status != 0 ]; then
    verdict=FAILED failed=1
    echo "--- $name"
    tail -n 40 "$work/log"
    [ $status = 137 ] && echo "(killed; its limit is $limit s)"
  fi
  results+=("$(printf '%-44s %-7s %4d s' "$name" "$verdict" $((SECONDS - start)))")
}

# A test that skips itself here, or a filter that no test is called by, is a failure.
gtest() {  # FILTER [LAUNCHER...]
  local filter=$1 log=$work/gtest
  shift
  "$@" "$here/bin/test_gpu" --gtest_brief=1 --gtest_filter="$filter" 2>&1 | tee "$log"
  local status=${PIPESTATUS[0]}
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

export -f gtest tiny nccl sanitizer

timeout --signal=KILL 60 "$here/bin/recollect" doctor | sed -n '/^GPU/,/^$/p'
line 300 "ops against the reference, fp32 bf16 fp16" gtest 'Ops/DeviceOps*'
line 180 "products by cuBLASLt, attention by cuDNN" gtest 'DeviceGemm.*:DeviceAttention.*'
line 180 "GPT-2 goldens and reference, fp32 bf16 fp16" gtest 'GoldensOnGpu*:NearTheReference*'
line 480 "modes x switches, bit for bit" gtest '*ExactOnGpu*:GraphsOnGpu.*'
line 180 "memory against the driver" gtest 'MemoryOnGpu*'
line 300 "two processes over NCCL, bit for bit" nccl
line 480 "compute-sanitizer memcheck" sanitizer memcheck 'Ops/DeviceOps16.Bfloat16/*:GoldensOnGpu.*'
line 480 "compute-sanitizer racecheck" sanitizer racecheck 'Ops/DeviceOps.Float/*'
if [ $bench = yes ]; then
  line 1800 "benchmark" python3 "$here/share/bench/compare.py" --recollect "$here/bin/recollect" --rounds 1 --steps 30
  cat "$work/log"
fi
printf '%s\n' "${results[@]}"
exit $failed
