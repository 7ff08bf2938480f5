// The guard of the first promise: every value that is recomputed, gathered or fetched is hashed and
// compared with the hash of the value that forward made. Checking changes no bit of the training; it costs a
// pass over those values and 64 bytes for each.
//
// kind               inputs        outputs     attributes
// checkpoint_hash    v             hash [1] i64
// checkpoint_verify  again, hash               value layer (of the original)
//     Error kIntegrity when the hash of `again` is another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "checkpointing/plan.h"
#include "engine/graph/op_def.h"
#include "engine/runtime/kernel.h"

namespace recollect {

void register_verify_ops(OpRegistry& registry);
void register_verify_kernels(KernelTable& table, int world_rank);  // the rank is for messages

// Inserts a hash behind the producer of every original and a comparison where its reproduction is there:
// behind a recomputed value's op, and before the first use of one that comes over a side stream, so that
// nothing waits earlier. To be called after recompute() and place_saved_activations(), with what they
// returned.
void verify_reproductions(Graph& graph, const OpRegistry& registry,
                          const std::vector<Reproduction>& reproductions);

}  // namespace recollect
