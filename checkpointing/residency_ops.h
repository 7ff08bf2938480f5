// The ops that move kept values. They change no bit of what they move.
//
// kind               inputs      outputs                              attributes
// checkpoint_slice   v           part [ceil(n / size)]: this rank's   size
//     share of v's n elements in memory order, the last one padded with zeros
// checkpoint_gather  part        v                                    size rank dim0 dim1 dim2 (of v; 0:
// absent) copy_to_host       v           the same in host memory copy_to_device     v           the same in
// device memory
#pragma once

#include "comm/collective_ops.h"
#include "engine/graph/op_def.h"
#include "engine/runtime/kernel.h"

namespace recollect {

void register_checkpointing_ops(OpRegistry& registry);
void register_checkpointing_kernels(KernelTable& table, const CommunicatorLookup& lookup);

// An op that makes `value` whole again from its part.
Attributes gather_attributes(const Value& value, int64_t size);

}  // namespace recollect
