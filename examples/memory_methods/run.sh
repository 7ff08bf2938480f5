#!/usr/bin/env bash
# Time and memory of one epoch with and without each memory method: one run a row. Rows with the same letter must end with
# the same loss, to the last bit, or this fails: what their methods change is memory and time alone.
#
#   examples/memory_methods/run.sh [--samples N] [section.key=value ...]
set -euo pipefail
cd "$(dirname "$0")/../.."
. examples/number.sh
recollect=${RECOLLECT:-recollect}
samples=512
if [ "${1:-}" = --samples ]; then
  samples=${2:-}
  shift 2 || true
fi
if ! [[ $samples =~ ^[1-9][0-9]*$ ]] || ((samples % 8 != 0)); then
  echo "run.sh: --samples is a multiple of 8, the largest batch of the rows" >&2
  exit 2
fi
output=$(mktemp -d)
trap 'rm -rf "$output"' EXIT

# letter|method|samples a pass|passes a step|keys
ac=activation_checkpointing
full=$ac.mode=full
bf16=training.precision=bf16
rows=(
  "a|baseline|4|1|"
  "|batch size 1|1|1|"
  "|batch size 8|8|1|"
  "b|gradient accumulation|1|4|"
  "a|gradient checkpointing, selective|4|1|$ac.mode=selective"
  "a|gradient checkpointing, sqrt|4|1|$ac.mode=sqrt"
  "a|gradient checkpointing, full|4|1|$full"
  "a|gradient checkpointing, recursive|4|1|$ac.mode=recursive"
  "c|mixed precision, bf16|4|1|$bf16"
  "|optimizer, SGD with momentum|4|1|optimizer.name=sgd optimizer.momentum=0.9"
  "|optimizer, Adafactor|4|1|optimizer.name=adafactor"
  "|optimizer, 8-bit AdamW|4|1|optimizer.name=adamw8bit"
  "a|optimizer states on the disk|4|1|optimizer.offload=disk optimizer.offload_path=$output"
  "a|offload to host|4|1|$ac.cpu_checkpointing=true"
  "a|offload to disk|4|1|$ac.disk_checkpointing.path=$output"
  "|activations saved as bf16|4|1|$ac.storage_dtype=bf16"
  "b|accumulation + checkpointing|1|4|$full"
  "a|checkpointing + offload to host|4|1|$full $ac.cpu_checkpointing=true"
  "c|checkpointing + bf16|4|1|$full $bf16"
  "|accumulation + checkpointing + bf16|1|4|$full $bf16"
)
printf '%-37s%10s%16s%14s%9s%22s%10s%10s%10s\n' \
  "" train_ train_samples_ train_steps_ train_ "arena, MiB" "host" "disk" "peak RSS" \
  "" runtime per_second per_second loss "predicted  measured" MiB MiB MiB
for row in "${rows[@]}"; do
  IFS='|' read -r letter method micro passes keys <<<"$row"
  # shellcheck disable=SC2086
  "$recollect" train examples/memory_methods/memory_methods.yaml output_dir="$output/run" "$@" \
    training.micro_batch_size="$micro" training.gradient_accumulation_steps="$passes" \
    training.max_steps=$((samples / (micro * passes))) $keys >"$output/log"
  memory=$output/run/memory.rank0.json results=$output/run/train_results.json
  loss=$(number "$results" train_loss)
  awk -v name="${letter:- }  $method" -v runtime="$(number "$results" train_runtime)" \
    -v samples="$(number "$results" train_samples_per_second)" -v steps="$(number "$results" train_steps_per_second)" \
    -v loss="$loss" -v predicted="$(number "$memory" predicted arena)" -v measured="$(number "$memory" measured arena)" \
    -v host="$(number "$memory" measured host_arena)" -v disk="$(number "$memory" measured disk)" -v states="$(number "$memory" predicted disk_states)" \
    -v peak="$(number "$results" resident_memory_peak)" 'BEGIN {
      mib = 1048576
      printf "%-37s%10.2f%16.3f%14.3f%9.4f%11.2f%11.2f%10.2f%10.2f%10.2f\n", name, runtime, samples, steps, loss,
             predicted / mib, measured / mib, host / mib, (disk + states) / mib, peak / mib }'
  [ -z "$letter" ] || echo "$loss" >>"$output/$letter.losses"
done
echo
for losses in "$output"/*.losses; do
  echo "train_loss of all rows $(basename "$losses" .losses): $(sort -u "$losses" | paste -sd ' ')"
  [ "$(sort -u "$losses" | wc -l)" = 1 ]
done
