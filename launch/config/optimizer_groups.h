// The key optimizer.groups: a list of mappings.
#pragma once

#include <string>
#include <vector>

#include "engine/io/yaml_document.h"
#include "launch/config/keys.h"

namespace recollect {

ConfigKey groups_key();
// What each says that contradicts itself or another key.
void check_groups(const Config& config, std::vector<Finding>& found);
// As update rules read them: rates relative to optimizer.learning_rate, and where each was given.
std::vector<ParameterGroup> parameter_groups(const Config& config);

}  // namespace recollect
