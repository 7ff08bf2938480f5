// Carries out the other half of a plan: where saved activations live. A value that leaves is stored as soon
// as it is made (its slice, its copy to the host, its way to the disk) and fetched on side streams ahead of
// the layer that needs it. Its place on the device is free in between: the compute stream goes on to the second
// layer after only when the copy is out; and where host memory is the buffer before the disk, to the third
// only when it is on the disk. What is then wanted soon stays in that buffer and does not go to the disk.
//
// What is needed at once never leaves: values first read by the ops behind the layers or by the last
// `keep_last` layers. All others may be stored in fewer bits, wherever they are kept: the one thing here that
// changes what backward reads. Those of 8 bits have a scale each (engine/ops/float8.h), which stays on the device.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "checkpointing/plan.h"
#include "checkpointing/saved_activations.h"
#include "checkpointing/settings.h"
#include "engine/graph/op_def.h"

namespace recollect {

struct ResidencySettings {
  int64_t tensor_size = 1;
  int64_t keep_last = 1;
  bool pooled = false;   // saved and fetched values in a best-fit pool instead of the planned arena
  int64_t halves = 1;    // the graph is that of one of so many, which the report counts all (batch_halves.h)
  int64_t prefetch = 1;  // a fetch begins with the backward of the layer so many layers ahead
  StorageDType storage = StorageDType::kSame;  // of floats of more bits, statistics excepted
};

// Values that the plan lets leave and that stay, by what they were to do.
struct Staying {
  int64_t partition = 0, host = 0, disk = 0;
};

// What the switches do in one micro-batch on this rank.
struct ResidencyReport {
  int64_t partitioned_values = 0, host_values = 0, disk_values = 0, packed_values = 0;
  uint64_t partition_saved_bytes = 0;  // of device memory between forward and backward
  uint64_t host_saved_bytes = 0;
  uint64_t gathered_bytes = 0;  // made whole again
  uint64_t to_host_bytes = 0, to_device_bytes = 0;
  uint64_t disk_saved_bytes = 0;  // of the memory from which they go there, the host's or the device's
  uint64_t to_disk_bytes = 0, from_disk_bytes = 0;
  uint64_t packed_saved_bytes = 0;  // by storing them in fewer bits, whole values counted
  std::array<uint64_t, kMemorySpaceCount>
      layer_inputs{};                                   // bytes of those that are saved, by where they wait
  std::vector<Reproduction> returned;                   // gathered or fetched
  std::vector<std::pair<ValueId, Decision>> otherwise;  // what was done where it is not what the plan says
  Staying read_behind_layers, read_in_last_layers;      // the latter because of keep_last
  // A larger one does no more. keep_last: 0 where it holds nothing back, with keep_last 0 what 1 would do.
  int64_t keep_last_that_matters = 0, prefetch_that_matters = 0;
};

// To be called after recompute().
ResidencyReport place_saved_activations(Graph& graph, const OpRegistry& registry,
                                        const SavedActivations& saved, const Plan& plan,
                                        const ResidencySettings& settings);

}  // namespace recollect
