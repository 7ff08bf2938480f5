// What every way to checkpoint a model starts from: its forward graph, and behind it the graph of its gradients.
#pragma once

#include <memory>
#include <optional>

#include "checkpointing/checkpoint.h"
#include "checkpointing/saved_activations.h"
#include "engine/graph/op_def.h"
#include "launch/config/config.h"
#include "parallel/mesh.h"
#include "parallel/model.h"

namespace recollect {

struct ModelGraph {
  std::shared_ptr<const OpRegistry> registry;  // the graph's ops point into it
  Model model;
  Graph graph;
  std::optional<SavedActivations> saved = {};  // of a differentiated graph: what there is to plan for
  int64_t samples = 1;                         // of a micro-batch, or of half of it (overlap_halves)
  int64_t pieces = 0;                          // as overlap_collectives takes them
  AttentionMemory attention = {};              // as the graph's ops have it
};

// Forward alone.
ModelGraph build_model(const Config& config, const Mesh& mesh, const BatchShape& shape);

// Forward and backward: every parameter knows its gradient, and how it is treated. Those that are frozen have none.
ModelGraph differentiate_model(ModelGraph forward, const Config& config);

}  // namespace recollect
