// What a model begins with: the weights of model.pretrained, or drawn ones, and the adapters of lora.path or new ones.
#pragma once

#include <string>
#include <vector>

#include "launch/config/config.h"
#include "parallel/model.h"
#include "parallel/weights.h"

namespace recollect {

// Returns the parameters that no file has, which were drawn; new adapters do not count. Error kInput where a file does not
// fit, or where what was drawn is frozen: nobody who has model.pretrained and the adapters would have it.
std::vector<std::string> load_weights(const Config& config, const Model& model, const Weights& weights);

// Of a run that goes on from a snapshot, which lacks them: frozen weights that are stored in fewer bits, as they were.
void load_stored_base(const Config& config, const Model& model, const Weights& weights);

}  // namespace recollect
