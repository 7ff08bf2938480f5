// The table of update rules: a new one is a pair of files in this folder and a row in rules.cpp.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "parallel/optimizers/rule.h"

namespace recollect {

struct OptimizerEntry {
  // A member of OptimizerSettings that the rule does not read, and what users are told of it.
  struct Unused {
    std::string_view setting, why;
  };

  // A member of OptimizerSettings whose default is another with this rule.
  struct Default {
    std::string_view setting;
    double value;
  };

  std::string_view name;
  std::unique_ptr<OptimizerRule> (*make)(const OptimizerSettings&);
  std::vector<Unused> unused;
  std::vector<Default> defaults = {};
  // Its updates need all of a matrix, or sums over it: data ranks cannot divide its states.
  bool of_whole_matrices = false;
  // Its updates need whole rows.
  bool of_whole_rows = false;
};

// The first is the default.
std::span<const OptimizerEntry> optimizer_rules();
// Error kInternal for a name that is not in the table.
const OptimizerEntry& optimizer_entry(std::string_view name);
std::unique_ptr<OptimizerRule> make_optimizer_rule(const OptimizerSettings& settings);

}  // namespace recollect
