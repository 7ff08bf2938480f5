// What other trainers' optimizers and schedules really are: which of our rules, and which of the settings that the file
// holds reach it.
#pragma once

#include <span>
#include <string_view>

namespace recollect {

struct ForeignOptimizer {
  std::string_view name;  // in lower case
  std::string_view ours;  // the rule; "" where there is none like it
  bool betas = false, epsilon = false;
  std::string_view also = {};  // "section.key=value;..." that it always has
  std::string_view note = {};  // what differs all the same, or why there is none
};

struct ForeignSchedule {
  std::string_view name;  // in lower case
  std::string_view ours;  // "" where there is none like it
  bool warms_up = true;
  std::string_view note = {};
};

// An argument of a schedule.
struct ForeignArgument {
  enum class Kind {
    kValue,       // of our key
    kPartOfRate,  // times the learning rate it is our key
    kOnly,        // ours has what it is where not given, and nothing else
  };
  std::string_view schedule, name;
  std::string_view ours;
  std::string_view otherwise;  // what it is where not given; "" where our key leaves it open in the same way
  Kind kind = Kind::kValue;
};

std::span<const ForeignOptimizer> transformers_optimizers();
std::span<const ForeignSchedule> transformers_schedules();
std::span<const ForeignArgument> transformers_arguments();

}  // namespace recollect
