// Builds the graph of a model: forward, followed by its gradients. All activation checkpointing starts from
// it.
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
  std::shared_ptr<const OpRegistry> registry;  // the graph's ops refer to it
  Model model;
  Graph graph;
  std::optional<SavedActivations> saved = {};  // set for a differentiated graph
  int64_t samples = 1;                         // in a micro-batch, or in half of one (overlap_halves)
  int64_t pieces = 0;                          // the number of chunks for overlap_collectives
  AttentionMemory attention = {};              // the choice in the graph's ops
};

// Builds only forward.
ModelGraph build_model(const Config& config, const Mesh& mesh, const BatchShape& shape);

// Adds backward. Every parameter then has its gradient and its optimizer group; frozen ones have no gradient.
ModelGraph differentiate_model(ModelGraph forward, const Config& config);

}  // namespace recollect
