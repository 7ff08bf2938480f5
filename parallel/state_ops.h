// The ops that move optimizer states between the device and where they are kept between two updates. They change no bit.
//
// kind          inputs            outputs
// fetch_state   kept[, ring]      the same in device memory
// store_state   v[, ring]         the same, as kept: a value that the caller has made
//     ring: DiskStore::kRingBytes of host memory that persist, where what is kept is on the disk
#pragma once

#include "engine/graph/op_def.h"
#include "engine/io/disk_store.h"
#include "engine/runtime/kernel.h"

namespace recollect {

void register_state_ops(OpRegistry& registry);
// `disk`, which must outlive the kernels, may be null where no state is kept on the disk.
void register_state_kernels(KernelTable& table, DiskStore* disk = nullptr);

}  // namespace recollect
