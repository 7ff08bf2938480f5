// Where the weights are of a model that is not trained any more.
#pragma once

#include <string>
#include <vector>

#include "launch/config/config.h"

namespace recollect {

// Makes model.pretrained what `keys`, those of the command line, say; else what the run of this configuration has saved in
// output_dir, or what it started from. Error kConfiguration where there is nothing.
void choose_saved_weights(const std::vector<std::string>& keys, Config& config);

// What the config.json there calls its classes, in order; none where it does not say, or says LABEL_0 and so on.
std::vector<std::string> saved_label_names(const std::string& folder);

bool sets_pretrained(const std::vector<std::string>& keys);

}  // namespace recollect
