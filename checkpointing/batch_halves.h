// The two halves of a micro-batch take turns: while the tensor ranks sum or gather what one has made, the other computes
// (Wang et al., "Domino: Eliminating Communication in LLM Training via Generic Tensor Slicing and Overlapping", 2024).
//
// The graph is that of the first half. What depends on the batch is done for the second half too: a collective ends a
// block of ops, and behind the first half's block stands the second's. Both add to the same gradients and the same loss,
// the first half first; what depends on weights alone is made once. Dropout drops what it drops of the whole batch.
//
// The two halves have the ops of two micro-batches of half the size: no plan changes their bits, and where a gradient is
// the sum of one op's they are those of accumulating two such of the same samples.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "engine/graph/op_def.h"

namespace recollect {

// On a differentiated graph before anything is recomputed: all matrix products of its layers may run beside collectives.
void mark_products_of_halves(Graph& graph);

// Behind everything else that is done to forward and backward of the first half, which has `samples` samples, and before
// gradients are reduced. Returns the values of both halves together, by those of the first: of the inputs with a row or
// more a sample, which become parts of them, and of the logits, unless they are kNone. Tensor ranks' sums and gathers leave
// the compute stream.
std::map<ValueId, ValueId> add_second_half(Graph& graph, const OpRegistry& registry,
                                           const std::vector<ValueId>& inputs, ValueId logits,
                                           int64_t samples);

}  // namespace recollect
