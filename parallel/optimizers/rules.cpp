#include "parallel/optimizers/rules.h"

#include <algorithm>
#include <array>
#include <string>

#include "engine/core/error.h"
#include "parallel/optimizers/adafactor.h"
#include "parallel/optimizers/adam.h"
#include "parallel/optimizers/lion.h"
#include "parallel/optimizers/sgd.h"

namespace recollect {

std::span<const OptimizerEntry> optimizer_rules() {
  constexpr OptimizerEntry::Unused momentum{"momentum", "only sgd has momentum"};
  constexpr std::string_view of_adafactor = "only adafactor and adafactor_hf have it",
                             of_hf = "only adafactor_hf has it";
  // In the order of the keys.
  using Unused = std::vector<OptimizerEntry::Unused>;
  const auto without_adafactors = [&](Unused unused) {
    for (const char* setting : {"beta2_decay", "clip_threshold", "scale_epsilon"})
      unused.push_back({setting, of_adafactor});
    for (const char* setting : {"scale_parameter", "relative_step"}) unused.push_back({setting, of_hf});
    return unused;
  };
  const OptimizerEntry::Unused beta2{"beta2", "beta2_decay says how it follows from the step"};
  static const std::array<OptimizerEntry, 7> rules = {{
      {"adamw", make_adam, without_adafactors({momentum})},
      {"adamw_hf", make_adam, without_adafactors({momentum})},
      {"adam", make_adam, without_adafactors({momentum})},
      {"sgd", make_sgd,
       without_adafactors({{"beta1", "sgd keeps no moments"},
                           {"beta2", "sgd keeps no moments"},
                           {"epsilon", "sgd divides by nothing"}})},
      {"lion",
       make_lion,
       without_adafactors({{"epsilon", "lion divides by nothing"}, momentum}),
       {{"beta2", 0.99}}},
      {"adafactor",
       make_adafactor,
       {{"beta1", "it keeps no first moment"},
        beta2,
        momentum,
        {"scale_parameter", "it always goes by the parameter's size"},
        {"relative_step", of_hf}},
       {{"epsilon", 0}}},
      {"adafactor_hf", make_adafactor, {beta2, momentum}, {{"beta1", 0}, {"epsilon", 1e-30}}},
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
