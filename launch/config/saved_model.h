// Where the weights are of a model that is not trained any more.
#pragma once

#include <string>
#include <vector>

#include "launch/config/config.h"

namespace recollect {

// Makes model.pretrained what `keys`, those of the command line, say; else what the run of this configuration has saved in
// output_dir, or what it started from. Error kConfiguration where there is nothing.
void choose_saved_weights(const std::vector<std::string>& keys, Config& config);

bool sets_pretrained(const std::vector<std::string>& keys);

}  // namespace recollect
