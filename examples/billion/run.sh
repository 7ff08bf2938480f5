#!/usr/bin/env bash
# Ten steps of a model of 1.3 billion parameters on two ranks, in each of the ways that fit: one run a row.
#
#   examples/billion/run.sh FOLDER [section.key=value ...]      FOLDER is on the disk that keeps states, with room for 16 GiB
set -euo pipefail
cd "$(dirname "$0")/../.."
. examples/number.sh
recollect=${RECOLLECT:-recollect}
if [ $# = 0 ] || ! [ -d "$1" ]; then
  echo "run.sh: the first word is a folder on the disk that keeps states" >&2
  exit 2
fi
folder=$1
shift
output=$(mktemp -d)
trap 'rm -rf "$output"' EXIT

budget=activation_checkpointing.memory_budget
rows=(
  "bf16 masters|"
  "bf16 masters, 8-bit states|optimizer.name=adamw8bit $budget=6500MiB"
  "fp32 masters and states on the disk|training.master_dtype=fp32 optimizer.offload=disk optimizer.offload_path=$folder $budget=5500MiB"
)
printf '%-37s%9s%10s%9s%20s%10s%20s%18s\n' "" "" "" "exposed" "arena a rank, MiB" "disk" "both ranks, GiB" "loss of" \
  "" "tokens/s" "s/step" "s/step" "predicted  measured" "MiB" "predicted  measured" "step 1      last"
for row in "${rows[@]}"; do
  # shellcheck disable=SC2086
  "$recollect" run --nproc-per-node 2 train examples/billion/billion.yaml output_dir="$output/run" ${row#*|} "$@" >"$output/log"
  first=$output/run/memory.rank0.json second=$output/run/memory.rank1.json metrics=$output/run/metrics.jsonl
  loss='s/.*"loss": \([-0-9.e]*\),.*/\1/'
  awk -v name="${row%%|*}" -v tokens="$(number "$output/run/train_results.json" train_tokens_per_second)" \
    -v step="$(number "$first" device_model measured step)" -v exposed="$(number "$first" device_model measured exposed)" \
    -v predicted="$(number "$first" predicted arena)" -v measured="$(number "$first" measured arena)" \
    -v disk="$(number "$first" reserved disk)" \
    -v known="$(($(number "$first" resident predicted) + $(number "$second" resident predicted)))" \
    -v found="$(($(number "$first" resident measured) + $(number "$second" resident measured)))" \
    -v begin="$(head -n 1 "$metrics" | sed "$loss")" -v end="$(tail -n 1 "$metrics" | sed "$loss")" 'BEGIN {
      mib = 1048576; gib = 1024 * mib
      printf "%-37s%9.1f%10.3f%9.3f%9.1f%11.1f%10.1f%9.2f%11.2f%9.4f%9.4f\n", name, tokens, step, exposed, predicted / mib,
             measured / mib, disk / mib, known / gib, found / gib, begin, end }'
done
