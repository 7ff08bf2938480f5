// Optimizers and values of other trainers, as several of their files need them.
#pragma once

#include <string>
#include <string_view>

#include "launch/config/foreign_rules.h"
#include "launch/config/import_file.h"

namespace recollect {

// What is said of a division over data parallel ranks where the file does not say how many there are.
inline constexpr const char* kNeedsReplicas =
    "on one data parallel rank it has no effect, and is refused: start several, as by recollect run "
    "--nproc-per-node N train CONFIG.yaml";

std::string lower_case(std::string_view text);
// The same number, however it is written, or the same text.
bool is_same_value(const std::string& value, std::string_view other);

// Keys of theirs that an optimizer may take, each with what it is where not given.
struct OptimizerArguments {
  std::string_view beta1, beta1_default, beta2, beta2_default, epsilon, epsilon_default;
};

// The rule of an optimizer that `key` names, with those arguments that it takes; the others are settled.
void write_optimizer(ForeignFile& file, const ForeignOptimizer& rule, std::string_view key,
                     const OptimizerArguments& arguments);

}  // namespace recollect
