#!/usr/bin/env bash
# What each switch of activation checkpointing saves and costs, measured: one run a row, and at the end whether all of
# them ended with the same loss.
#
#   examples/switches/run.sh [section.key=value ...]
set -euo pipefail
cd "$(dirname "$0")/../.."
. examples/number.sh
recollect=${RECOLLECT:-recollect}
output=$(mktemp -d)
trap 'rm -rf "$output"' EXIT

ac=activation_checkpointing
rows=(
  "none|"
  "full|$ac.mode=full"
  "full, pool|$ac.mode=full $ac.contiguous_checkpointing=false"
  "full + partition|$ac.mode=full $ac.partition_activations=true"
  "full + host|$ac.mode=full $ac.cpu_checkpointing=true"
  "full + partition + host|$ac.mode=full $ac.partition_activations=true $ac.cpu_checkpointing=true"
)
printf '%-26s%12s%12s%12s%12s\n' "" "device MiB" "host MiB" "step ms" "waits ms"
for row in "${rows[@]}"; do
  "$recollect" train examples/switches/switches.yaml output_dir="$output/run" "$@" ${row#*|} >"$output/log"
  memory=$output/run/memory.rank0.json
  awk -v name="${row%%|*}" -v device="$(number "$memory" measured arena)" -v host="$(number "$memory" measured host_arena)" \
    -v step="$(number "$memory" device_model measured step)" -v waits="$(number "$memory" device_model measured exposed)" 'BEGIN {
      printf "%-26s%12.2f%12.2f%12.1f%12.2f\n", name, device / 1048576, host / 1048576, 1000 * step, 1000 * waits }'
  tail -n 1 "$output/run/metrics.jsonl" | sed 's/, "learning_rate.*//' >>"$output/losses"
done
echo
echo "last step of every row: $(sort -u "$output/losses")"
[ "$(sort -u "$output/losses" | wc -l)" = 1 ]
