// AdamW and Lion with states of one byte a number, as bitsandbytes has them (engine/ops/quantised_states.h). Vectors, and
// matrices of few numbers, keep states like the gradient and are the other rule's.
#pragma once

#include <memory>
#include <string>

#include "parallel/optimizers/rule.h"

namespace recollect {

inline constexpr int64_t kLeastQuantised = 4096;  // numbers of a tensor of the model's files

// Whether its states are of one byte a number: the same for any number of tensor ranks.
bool is_quantised(const Parameter& parameter);

// Behind a state's name, that of the sizes of its blocks: "_absmax", and of how many parts of a row where a tensor rank's columns
// do not end where a block does. Such blocks are of that many tensor ranks alone.
std::string sizes_suffix(const Parameter& parameter, int tensor_size);

// `settings.name` is the op's.
std::unique_ptr<OptimizerRule> make_eight_bit(const OptimizerSettings& settings);

}  // namespace recollect
