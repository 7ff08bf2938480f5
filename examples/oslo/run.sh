#!/usr/bin/env bash
# What each switch buys in the case of OSLO's tutorial: six rows, predicted for its batch of 128 and, with a smaller batch,
# measured in a run on four ranks; and what is held after forward, where the tutorial measures.
#
#   examples/oslo/run.sh [BATCH]     BATCH: sequences of the runs (default 4); 0: no runs
set -euo pipefail
cd "$(dirname "$0")/../.."
batch=${1:-4}
recollect=${RECOLLECT:-recollect}
config=examples/oslo/oslo.yaml
output=$(mktemp -d)
trap 'rm -rf "$output"' EXIT

# number KEY...: the number at this path of the JSON on stdin, which has one key a line.
number() {
  awk -v path="$*" '
    BEGIN { n = split(path, keys, " ") }
    at < n && index($0, "\"" keys[at + 1] "\":") { at++; if (at == n) { gsub(/[^0-9]/, "", $2); print $2 } }'
}
gib() { awk -v bytes="$1" 'BEGIN { printf "%.2f", bytes / 1073741824 }'; }
mib() { awk -v bytes="$1" 'BEGIN { printf "%.2f", bytes / 1048576 }'; }

ac=activation_checkpointing
off="$ac.contiguous_checkpointing=false"
rows=(
  "none"
  "full|$ac.mode=full $off"
  "+ partition|$ac.mode=full $off $ac.keep_last=0 $ac.partition_activations=true"
  "+ host|$ac.mode=full $off $ac.keep_last=0 $ac.partition_activations=true $ac.cpu_checkpointing=true"
  "+ arena|$ac.mode=full $ac.keep_last=0 $ac.partition_activations=true $ac.cpu_checkpointing=true"
)

predicted() {
  echo "predicted for batch 128: MiB of each of the 4 ranks"
  printf '%-28s%14s%14s%14s%14s%14s\n' "" "layer inputs" "in host mem" "device" "host" "device saved"
  # What a loss that holds its logits would add: one float for every token and word, in the memory of this rank.
  local none logits
  none=$("$recollect" estimate $config --json | number memory arena)
  logits=$((128 * 128 * 50304 / 4 * 4))
  printf '%-28s%14s%14s%14s%14s%14s\n' "none, logits held (computed)" "" "" "$(mib $((none + logits)))" "" ""
  local before=$((none + logits))
  for row in "${rows[@]}"; do
    local name=${row%%|*} words=${row#*|} json arena
    [ "$words" = "$name" ] && words=
    json=$("$recollect" estimate $config --json $words)
    arena=$(number memory arena <<<"$json")
    printf '%-28s%14s%14s%14s%14s%14s\n' "$name" "$(mib "$(number layer_inputs device <<<"$json")")" \
      "$(mib "$(number layer_inputs host <<<"$json")")" "$(mib "$arena")" "$(mib "$(number memory host_arena <<<"$json")")" \
      "$(mib $((before - arena)))"
    before=$arena
  done
}

# The tutorial reads its figures when forward is over: no gradients then, no optimizer states, but logits of the whole
# vocabulary in fp32 twice, as the model returns them and as its loss keeps them.
after_forward() {
  local logits=$((2 * 128 * 128 * 50257 * 4)) name words json held
  echo
  echo "after forward, GiB of a rank: parameters and activations"
  printf '%-28s%14s%25s%14s\n' "" "here" "logits held (computed)" "tutorial"
  for row in "none|12.86" "+ arena|6.68"; do
    name=${row%%|*}
    for words in "${rows[@]}"; do [ "${words%%|*}" != "$name" ] || break; done
    [ "$words" = "$name" ] && words= || words=${words#*|}
    json=$("$recollect" estimate $config --json $words)
    held=$(($(number after_forward parameters <<<"$json") + $(number after_forward activations <<<"$json")))
    printf '%-28s%14s%25s%14s\n' "$name" "$(gib $held)" "$(gib $((held + logits)))" "${row#*|}"
  done
}

measured() {
  echo
  echo "measured with batch $batch: bytes of rank 0"
  printf '%-28s%14s%14s%14s%14s\n' "" "device" "predicted" "host" "predicted"
  for row in "${rows[@]}"; do
    local name=${row%%|*} words=${row#*|} json="$output/memory.rank0.json"
    [ "$words" = "$name" ] && words=
    "$recollect" train $config training.micro_batch_size="$batch" output_dir="$output" $words >"$output/log"
    printf '%-28s%14s%14s%14s%14s\n' "$name" "$(number measured arena <"$json")" "$(number predicted arena <"$json")" \
      "$(number measured host_arena <"$json")" "$(number predicted host_arena <"$json")"
  done
}

predicted
after_forward
[ "$batch" = 0 ] || measured
