// What happens every so many steps, or every so many epochs: a configuration says one of the two.
#pragma once

#include <string>
#include <vector>

#include "launch/config/validate.h"

namespace recollect {

// Of two keys that say how often the same thing happens.
struct Occasion {
  std::string steps, epochs;  // the keys
  int64_t& every_steps;
  double& every_epochs;
};

std::vector<Occasion> occasions(Config& config);
void check_occasions(const Config& config, std::vector<Finding>& found);

}  // namespace recollect
