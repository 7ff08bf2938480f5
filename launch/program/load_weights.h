// Loads the initial weights of a model: those of model.pretrained or random ones, and the adapters of
// lora.path or new ones.
#pragma once

#include <string>
#include <vector>

#include "launch/config/config.h"
#include "parallel/model.h"
#include "parallel/weights.h"

namespace recollect {

// Returns the parameters that were initialised at random because no file has them, except new adapters.
// Throws kInput if a file does not fit. Also throws if a random parameter is frozen, because model.pretrained
// and the saved adapters would not contain it.
std::vector<std::string> load_weights(const Config& config, const Model& model, const Weights& weights);

// Of a run that goes on from a snapshot, which lacks them: frozen weights that are stored in fewer bits, as they were.
void load_stored_base(const Config& config, const Model& model, const Weights& weights);

}  // namespace recollect
