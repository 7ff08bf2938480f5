// Counts for each layer what a plan does with the activations that backward needs.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "checkpointing/plan.h"
#include "launch/config/config.h"

namespace recollect {

// A group of layers with the same treatment.
struct LayerChoices {
  std::string layers;                     // "0-7, 9"
  std::map<std::string, int64_t> values;  // values per layer, by the word in a plan file
};

// Ordered by the first layer of each group; empty for a named mode, whose name is enough.
std::vector<LayerChoices> choices_by_layer(const Config& config, const Plan& plan, const Graph& graph);

// {"layers 0-7, 9", "3 values on the device, 9 recomputed"}; a few lines.
std::vector<std::pair<std::string, std::string>> layer_sentences(const std::vector<LayerChoices>& choices);

}  // namespace recollect
