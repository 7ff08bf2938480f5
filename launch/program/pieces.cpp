#include "launch/program/pieces.h"

#include <string>

#include <fmt/format.h>

#include "checkpointing/collective_pieces.h"
#include "engine/nvidia/multiprocessors.h"

namespace recollect {

namespace {

// On a CPU a thread moves the bytes: without a core of its own it takes one from the product beside it. Where the
// device's file knows the cores it is believed, for whatever node it describes.
bool has_core_for_collectives(const Config& config, const DeviceModel& device) {
  if (config.device.backend == BackendKind::kCuda) return true;
  return device.cores > 0 ? device.spare_cores >= 1 : config.device.spare_cores;
}

}  // namespace

void decide_pieces(const Config& config, const DeviceModel& device, ModelGraph& built) {
  built.pieces = config.parallelism.collective_pieces;
  if (built.pieces >= 0) return;
  built.pieces = choose_pieces(built.graph, *built.registry, device);
  if (built.pieces == kInPlace || has_core_for_collectives(config, device)) return;
  built.pieces = kInPlace;
}

void note_pieces(const Config& config, int64_t pieces, TrainingProgram& training) {
  training.checkpointed.pieces = pieces;
  if (pieces == kInPlace || config.parallelism.tensor_parallel_size == 1) return;
  const std::string cut =
      pieces == 1 ? "" : fmt::format(", of which those that can be are cut into {} pieces", pieces);
  const std::string room =
      config.device.backend == BackendKind::kCuda
          ? fmt::format(", which leave them {} multiprocessors", cuda::kMultiprocessorsOfCollectives)
          : "";
  training.remarks.push_back(
      {"parallelism.collective_pieces",
       fmt::format("tensor ranks' collectives overlap with matrix products{}{} ({})", cut, room,
                   config.parallelism.collective_pieces < 0 ? "simulated" : "given")});
}

}  // namespace recollect
