#include "engine/runtime/disk_ring.h"

#include <string>

#include "engine/io/disk_store.h"

namespace recollect {

ValueId disk_ring(Graph& graph) {
  if (const ValueId there = graph.find(kDiskRing); there != kNone) return there;
  return graph.add_value({.name = std::string(kDiskRing),
                          .shape = {static_cast<int64_t>(DiskStore::kRingBytes)},
                          .dtype = DType::kU8,
                          .category = Category::kWorkspace,
                          .space = MemorySpace::kHost,
                          .persistent = true});
}

}  // namespace recollect
