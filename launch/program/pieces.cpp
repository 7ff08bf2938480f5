#include "launch/program/pieces.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "checkpointing/batch_halves.h"
#include "checkpointing/collective_pieces.h"
#include "engine/nvidia/multiprocessors.h"

namespace recollect {

namespace {

// On a CPU a thread moves the bytes. Without a core of its own it takes one from the overlapped product. If
// the device model states the cores, they count, not those of this node.
bool has_core_for_collectives(const Config& config, const DeviceModel& device) {
  if (config.device.backend == BackendKind::kCuda) return true;
  return device.cores > 0 ? device.spare_cores >= 1 : config.device.spare_cores;
}

}  // namespace

void decide_pieces(const Config& config, const DeviceModel& device, ModelGraph& built) {
  if (config.parallelism.overlap_halves) {
    built.pieces = 1;
    mark_products_of_halves(built.graph);
    return;
  }
  built.pieces = config.parallelism.collective_pieces;
  if (built.pieces >= 0) return;
  built.pieces = choose_pieces(built.graph, *built.registry, device);
  if (built.pieces == kInPlace || has_core_for_collectives(config, device)) return;
  built.pieces = kInPlace;
}

void add_second_half(const Config& config, int64_t samples, TrainingProgram& training, Graph& graph) {
  if (!config.parallelism.overlap_halves) return;
  Model& model = training.model;
  std::vector<ValueId> inputs;
  for (const auto& [name, value] : model.inputs) inputs.push_back(value);
  const std::map<ValueId, ValueId> both =
      add_second_half(graph, *training.registry, inputs, model.logits, samples);
  for (auto& [name, value] : model.inputs) value = both.at(value);
  if (model.logits != kNone) model.logits = both.at(model.logits);
  training.checkpointed.gathered = gathered_again(graph);
}

void note_pieces(const Config& config, int64_t pieces, TrainingProgram& training) {
  training.checkpointed.pieces = pieces;
  if (pieces == kInPlace || config.parallelism.tensor_parallel_size == 1) return;
  if (config.parallelism.overlap_halves) {
    training.remarks.push_back({"parallelism.overlap_halves",
                                "the halves of a micro-batch take turns: tensor ranks' collectives of one "
                                "overlap with the ops of the other"});
    return;
  }
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
