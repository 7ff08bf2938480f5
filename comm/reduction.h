// Elementwise reduction of the ranks' parts in rank order: ((part 0 + part 1) + part 2) + ... for every
// element, however the elements are divided into calls. Every communicator on the CPU reduces with this
// function, so all give the same bits.
#pragma once

#include <cstdint>

#include "comm/communicator.h"

namespace recollect {

// Returns true for f64, f32, bf16, f16 and i64.
bool is_reducible(DType dtype);

// Sets out[i] = parts[0][i] op parts[1][i] op ... for i < elements; `out` may be one of the parts. There are
// `count` parts, at least one. bf16 and f16 are summed in float and rounded once. i64 sums wrap around. The
// maximum with a NaN is a NaN.
void reduce_parts(DType dtype, ReduceOp op, const void* const* parts, int count, void* out, int64_t elements);

}  // namespace recollect
