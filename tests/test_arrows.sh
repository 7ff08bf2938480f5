#!/usr/bin/env bash
# The architecture as includes: who may know whom, no foreign types in public headers, no file that nobody can read in one
# sitting; and no word of a model family outside its own files. Each rule is first shown a file that breaks it.
set -euo pipefail

# may_include FOLDER ALLOWED...: includes of our own, from anywhere below FOLDER, that lead elsewhere.
may_include() {
  local folder=$1 ours="engine|comm|parallel|checkpointing|launch|tests" allowed
  shift
  allowed=$(IFS='|'; echo "$*")
  [ -d "$folder" ] || return 0
  grep -rnE --include=*.{h,cpp,cu,cuh} "^[[:space:]]*#[[:space:]]*include[[:space:]]*[\"<]($ours)/" "$folder" |
    grep -vE "[\"<]($allowed)/" | sed 's/^/arrow: /' || true
}

# Kernels are the engine's own, and of the rank that chooses a backend: others know ops by their kinds.
kernels_within() {
  grep -rnE --include=*.{h,cpp,cu,cuh} "include [\"<]engine/ops/[a-z]+/" "$@" 2>/dev/null | sed 's/^/kernels: /' || true
}

# Inside launch: ROOM, and the rooms that it may include beside itself. Only cli knows them all.
room_may_include() {
  local room=launch/$1 allowed
  allowed=$(IFS='|'; echo "$*")
  [ -d "$room" ] || return 0
  grep -rnE --include=*.{h,cpp} "^[[:space:]]*#[[:space:]]*include[[:space:]]*[\"<]launch/" "$room" |
    grep -vE "[\"<]launch/($allowed)/" | sed 's/^/room: /' || true
}

# A new room gets a rule.
rooms_without_a_rule() {
  local room
  for room in launch/*/; do
    room=$(basename "$room")
    [ "$room" = cli ] || grep -qE "^  room_may_include $room( |\$)" "$rules" || echo "room: launch/$room has no rule"
  done
}

# Headers that others see; those in a folder of the library's own name are private to it.
foreign_types() {
  grep -rnE --exclude-dir='build*' --include=*.h "#[[:space:]]*include[[:space:]]*[\"<](mpi|cuda_runtime|cuda_runtime_api|nccl)\.h" . |
    grep -vE "^[^:]*/(mpi|cuda|nccl)/" | sed 's/^/foreign: /' || true
  grep -rnE --include=*.{h,cpp,cu} "include \"comm/(mpi|nccl)/" . | grep -vE "^\./(comm|tests/comm)/" |
    sed 's/^/private: /' || true
}

# What a family calls its keys and tensors stands in parallel/models alone. (engine/data has tokenizers and formats of token
# files, which carry the names of the models that they were made for; axolotl's keys have families in their names.)
family_words() {
  grep -rniE --include=*.{h,cpp,cu,cuh} \
    "gpt-?2|\\bbert\\b|mistral|qwen|gemma([^l]|$)|neox|\\bphi-?[34]|rotary_pct|rotary_emb_base|query_key_value|embed_out|llama([^3]|$)|conv1d|[\"\`./ ]transformer\.|n_embd|n_layer|n_head|n_inner|\\bn_positions|[a-z]+_pdrop|activation_function|initializer_range|layer_norm_epsilon|tie_word_embeddings|lm_head\.weight" \
    engine comm parallel checkpointing launch 2>/dev/null |
    grep -vE "^(engine/data|parallel/models)/|_derived_model" | sed 's/^/family: /' || true
}

too_long() {
  find . -type d \( -name '.git' -o -name 'build*' \) -prune -o -type f \
    \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' -o -name '*.py' -o -name '*.sh' \
    -o -name CMakeLists.txt \) -exec awk 'END { if (FNR > 500) print "long: " FILENAME " has " FNR " lines" }' {} \;
}

findings() {
  cd "$1"
  may_include engine engine
  may_include comm comm engine
  may_include parallel parallel comm engine
  may_include checkpointing checkpointing comm engine
  may_include launch launch parallel checkpointing comm engine
  kernels_within comm parallel checkpointing
  room_may_include config
  room_may_include ranks config
  room_may_include program config ranks
  room_may_include report config ranks program
  room_may_include generate config ranks program
  room_may_include train config ranks program report
  room_may_include predict config ranks program train
  room_may_include top config ranks program report
  room_may_include run config
  room_may_include package
  room_may_include snapshot config ranks program report train
  room_may_include doctor config ranks program train report
  rooms_without_a_rule
  foreign_types
  family_words
  too_long
}

show_that_rules_bite() {
  local tree found
  tree=$(mktemp -d)
  trap 'rm -rf "$tree"' RETURN
  mkdir -p "$tree"/{engine/data,comm/mpi,parallel/models,checkpointing,launch/{attic,predict,report,train}}
  echo '#include "comm/local.h"' >"$tree/engine/a.h"
  echo '#  include "launch/train/train.h"' >"$tree/comm/b.cpp"
  echo '#include "checkpointing/plan.h"' >"$tree/parallel/c.cpp"
  echo '#include "parallel/mesh.h"' >"$tree/checkpointing/d.h"
  echo '#include "tests/e.h"' >"$tree/launch/e.cpp"
  echo '#include <mpi.h>' >"$tree/comm/f.h"
  echo '#include <mpi.h>' >"$tree/comm/mpi/fine.h"
  echo '#include "comm/mpi/fine.h"' >"$tree/launch/g.cpp"
  echo '#include "launch/train/session.h"' >"$tree/launch/report/i.h"
  echo '#include "launch/report/i.h"' >"$tree/launch/train/fine.h"
  echo '#include "launch/report/i.h"' >"$tree/launch/predict/m.h"
  echo '#include "launch/train/fine.h"' >"$tree/launch/predict/fine.h"
  printf '\n%.0s' {1..501} >"$tree/launch/h.cpp"
  echo '// "transformer.h.0"' >"$tree/parallel/k.h"
  echo 'int n_embd;' >"$tree/launch/j.cpp"
  echo 'int n_embd;' >"$tree/parallel/models/a.h"
  echo '// of GPT-2' >"$tree/engine/data/b.cpp"
  echo '#include "engine/ops/cuda/element.h"' >"$tree/comm/l.cu"
  echo '#include "engine/ops/ops.h"' >"$tree/comm/fine.cu"
  found=$(findings "$tree" | grep -oE '[a-m]\.(h|cpp|cu)( has 501 lines|:1:)|attic has no rule' | sort | tr -d '\n')
  [ "$found" = "a.h:1:attic has no ruleb.cpp:1:c.cpp:1:d.h:1:e.cpp:1:f.h:1:g.cpp:1:h.cpp has 501 linesi.h:1:j.cpp:1:k.h:1:l.cu:1:m.h:1:" ] ||
    { echo "a rule does not bite; found only: $found" >&2; return 1; }
}

rules=$(realpath "$0")
show_that_rules_bite
root=$(cd "$(dirname "$0")/.." && pwd)
found=$(findings "$root")
[ -z "$found" ] || { echo "$found"; exit 1; }
