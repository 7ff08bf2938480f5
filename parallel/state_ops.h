// The ops that move optimizer states between the device and where they are kept between two updates, which change no bit; and
// those of states that are updated where they are kept, in the host's memory: gradients go there and parameters come back.
//
// kind            inputs                         outputs                              attributes
// fetch_state     kept[, ring]                   the same in device memory
// store_state     v[, ring]                      the same, as kept: a value that the caller has made
//     ring: DiskStore::kRingBytes of host memory that persist, where what is kept is on the disk
// host_update     schedule, factor, gradient     master, states..., parameter         rule, and the rule's
//     an update rule of engine/ops/ops.h with its operands in the host's memory, by the host's processor. The parameter is
//     the master's numbers in another place and maybe another dtype, also where the factor is no number and all else stays
// await_updates   -                              -
//     nothing, on the compute stream behind the last of them
#pragma once

#include <memory>

#include "engine/graph/op_def.h"
#include "engine/io/disk_store.h"
#include "engine/runtime/kernel.h"

namespace recollect {

void register_state_ops(OpRegistry& registry);
// `disk`, which must outlive the kernels, may be null where no state is kept on the disk; `host`, the kernels of the host's
// processor, where it updates none.
void register_state_kernels(KernelTable& table, DiskStore* disk = nullptr,
                            std::shared_ptr<const KernelTable> host = nullptr);

}  // namespace recollect
