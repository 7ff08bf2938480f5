// When keys of the configuration have no effect, and what is said of it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "launch/config/config.h"

namespace recollect {

struct InertRule {
  std::vector<std::string> keys;             // without effect ...
  std::vector<std::string> because;          // ... by the value of these ...
  std::function<bool(const Config&)> inert;  // ... when this holds
  std::string reason;
  bool of_any_value = false;  // nothing reads the keys then, even where they have their defaults
};

}  // namespace recollect
