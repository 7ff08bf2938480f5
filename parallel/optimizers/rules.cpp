#include "parallel/optimizers/rules.h"

#include <algorithm>
#include <array>
#include <string>

#include "engine/core/error.h"
#include "parallel/optimizers/adam.h"
#include "parallel/optimizers/lion.h"
#include "parallel/optimizers/sgd.h"

namespace recollect {

std::span<const OptimizerEntry> optimizer_rules() {
  constexpr OptimizerEntry::Unused momentum{"momentum", "only sgd has momentum"};
  static const std::array<OptimizerEntry, 5> rules = {{
      {"adamw", make_adam, {momentum}},
      {"adamw_hf", make_adam, {momentum}},
      {"adam", make_adam, {momentum}},
      {"sgd",
       make_sgd,
       {{"beta1", "sgd keeps no moments"},
        {"beta2", "sgd keeps no moments"},
        {"epsilon", "sgd divides by nothing"}}},
      {"lion", make_lion, {{"epsilon", "lion divides by nothing"}, momentum}, {{"beta2", 0.99}}},
  }};
  return rules;
}

const OptimizerEntry& optimizer_entry(std::string_view name) {
  const auto all = optimizer_rules();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const OptimizerEntry& entry) { return entry.name == name; });
  if (found == all.end())
    throw Error(ExitCode::kInternal, "there is no update rule '" + std::string(name) + "'");
  return *found;
}

std::unique_ptr<OptimizerRule> make_optimizer_rule(const OptimizerSettings& settings) {
  return optimizer_entry(settings.name).make(settings);
}

}  // namespace recollect
