// The ops that move saved activations. All but the casts change no bit of what they move.
//
// kind               inputs      outputs                              attributes
// checkpoint_slice   v           part [ceil(n / size)]: this rank's   size
//     share of v's n elements in memory order, the last one padded with zeros
// checkpoint_gather  part        v                                    size dim0..dim3 (of v; 0: absent)
// copy_to_host       v           the same in host memory
// copy_to_device     v           the same in device memory
// write_to_disk      v, ring     the same on the disk
// read_from_disk     v, ring     the same in memory                   to: device or host
//     ring: DiskStore::kRingBytes of host memory that persist
// checkpoint_pack    v           the same rounded to bf16
// checkpoint_unpack  v           the same bf16 numbers as floats      dtype: f32 or f64
#pragma once

#include "comm/collective_ops.h"
#include "engine/graph/op_def.h"
#include "engine/io/disk_store.h"
#include "engine/runtime/kernel.h"

namespace recollect {

void register_checkpointing_ops(OpRegistry& registry);
// `disk`, which must outlive the kernels, may be null where nothing goes to the disk.
void register_checkpointing_kernels(KernelTable& table, const CommunicatorLookup& lookup,
                                    DiskStore* disk = nullptr);

// An op that makes `value` whole again from its part.
Attributes gather_attributes(const Value& value, int64_t size);

}  // namespace recollect
