// What is known of keys without effect: a table whose parts stand in inert.cpp and inert_data.cpp.
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

// Of keys that say what samples are made of.
std::vector<InertRule> inert_data_rules();

}  // namespace recollect
