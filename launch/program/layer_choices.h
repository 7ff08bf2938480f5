// What a plan does with the activations that backward needs, counted layer by layer.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "checkpointing/plan.h"
#include "launch/config/config.h"

namespace recollect {

// Layers that are treated alike.
struct LayerChoices {
  std::string layers;                     // "0-7, 9"
  std::map<std::string, int64_t> values;  // how many of each layer, by the word of a plan file
};

// In the order of the layers that come first; empty where a named mode says it all.
std::vector<LayerChoices> choices_by_layer(const Config& config, const Plan& plan, const Graph& graph);

// {"layers 0-7, 9", "3 values on the device, 9 recomputed"}; a few lines.
std::vector<std::pair<std::string, std::string>> layer_sentences(const std::vector<LayerChoices>& choices);

}  // namespace recollect
