// The two halves of a micro-batch take turns: while the tensor ranks sum or gather what one has made, the other computes
// (Wang et al., "Domino: Eliminating Communication in LLM Training via Generic Tensor Slicing and Overlapping", 2024).
//
// The graph is that of the first half. What depends on the batch is done for the second half too: a collective ends a
// block of ops, and behind the first half's block stands the second's. Both add to the same gradients and the same loss,
// the first half first; what depends on weights alone is made once. Our kernels' dropout drops what it drops of the whole
// batch; cuDNN's masks are each half's own.
//
// The two halves have the ops of two micro-batches of half the size, and no plan changes their bits. On CPUs they are those
// of accumulating two such of the same samples, where a gradient is the sum of one op's. On a GPU products leave
// multiprocessors to collectives here, and so may have other algorithms.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "engine/graph/op_def.h"

namespace recollect {

// By value: whether it depends on what comes with a batch, and so is another one in each half.
std::vector<char> values_of_batch(const Graph& graph);
bool reads_any(const Op& op, const std::vector<char>& of_values);

// The name that a value has in the plan, which is of the first half.
std::string_view name_in_plan(std::string_view name);

// On a differentiated graph before anything is recomputed: all matrix products of its layers may run beside collectives.
void mark_products_of_halves(Graph& graph);

// Behind everything else that is done to forward and backward of the first half, which has `samples` samples, and before
// gradients are reduced. Returns the values of both halves together, by those of the first: of the inputs with a row or
// more a sample, which become parts of them, and of the logits, unless they are kNone. Tensor ranks' sums and all-gathers
// leave the compute stream; a vocabulary's statistics, which are short, stay.
std::map<ValueId, ValueId> add_second_half(Graph& graph, const OpRegistry& registry,
                                           const std::vector<ValueId>& inputs, ValueId logits,
                                           int64_t samples);

}  // namespace recollect
