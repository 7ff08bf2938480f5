#include "parallel/optimizers/rules.h"

#include <algorithm>
#include <array>
#include <string>

#include "engine/core/error.h"
#include "parallel/optimizers/adafactor.h"
#include "parallel/optimizers/adam.h"
#include "parallel/optimizers/eight_bit.h"
#include "parallel/optimizers/lion.h"
#include "parallel/optimizers/muon.h"
#include "parallel/optimizers/sgd.h"

namespace recollect {

namespace {

using Unused = std::vector<OptimizerEntry::Unused>;

// Settings that most rules do not read, in the order of the keys.
constexpr OptimizerEntry::Unused kOfFew[] = {{"momentum", "only sgd and muon have momentum"},
                                             {"beta2_decay", "only adafactor and adafactor_hf have it"},
                                             {"clip_threshold", "only adafactor and adafactor_hf have it"},
                                             {"scale_epsilon", "only adafactor and adafactor_hf have it"},
                                             {"scale_parameter", "only adafactor_hf has it"},
                                             {"relative_step", "only adafactor_hf has it"},
                                             {"nesterov", "only muon has it"},
                                             {"ns_steps", "only muon has it"},
                                             {"adjust_lr_fn", "only muon has it"}};

// What a rule says of itself, and those of a few others.
Unused and_of_others(Unused unused, const std::vector<std::string_view>& read) {
  for (const OptimizerEntry::Unused& one : kOfFew)
    if (std::find(read.begin(), read.end(), one.setting) == read.end()) unused.push_back(one);
  return unused;
}

}  // namespace

std::span<const OptimizerEntry> optimizer_rules() {
  static const OptimizerEntry::Unused beta2{"beta2", "beta2_decay says how it follows from the step"};
  static const std::array<OptimizerEntry, 10> rules = {{
      {"adamw", make_adam, and_of_others({}, {})},
      {"adamw_hf", make_adam, and_of_others({}, {})},
      {"adam", make_adam, and_of_others({}, {})},
      {"sgd", make_sgd,
       and_of_others({{"beta1", "sgd keeps no moments"},
                      {"beta2", "sgd keeps no moments"},
                      {"epsilon", "sgd divides by nothing"}},
                     {"momentum"})},
      {"lion", make_lion, and_of_others({{"epsilon", "lion divides by nothing"}}, {}), {{"beta2", 0.99}}},
      {"adafactor",
       make_adafactor,
       and_of_others({{"beta1", "it keeps no first moment"}, beta2},
                     {"beta2_decay", "clip_threshold", "scale_epsilon"}),
       {{"epsilon", 0}},
       true},
      {"adafactor_hf",
       make_adafactor,
       and_of_others({beta2},
                     {"beta2_decay", "clip_threshold", "scale_epsilon", "scale_parameter", "relative_step"}),
       {{"beta1", 0}, {"epsilon", 1e-30}},
       true},
      {"muon",
       make_muon,
       and_of_others({}, {"momentum", "nesterov", "ns_steps", "adjust_lr_fn"}),
       {{"momentum", 0.95}},
       true},
      {"adamw8bit", make_eight_bit, and_of_others({}, {}), {}, false, true},
      {"lion8bit",
       make_eight_bit,
       and_of_others({{"epsilon", "lion divides by nothing"}}, {}),
       {{"beta2", 0.99}},
       false,
       true},
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
