#include "checkpointing/plan.h"

#include <utility>

namespace recollect {

std::string_view name_of(Replay replay) {
  constexpr std::string_view names[] = {"segment", "bisect", "nothing", "binomial"};
  return names[static_cast<int>(replay)];
}

std::string word_of(const Decision& decision) {
  if (!decision.save) return "recompute";
  std::string word;
  for (const auto& [on, name] :
       {std::pair{decision.partition, "partitioned"}, {decision.host, "host"}, {decision.disk, "disk"}})
    if (on) word += (word.empty() ? "" : "+") + std::string(name);
  return word.empty() ? "device" : word;
}

std::string to_yaml(const Plan& plan) {
  std::string text = "replay: " + std::string(name_of(plan.replay)) + "\nvalues:\n";
  for (const auto& [name, decision] : plan.values) text += "  " + name + ": " + word_of(decision) + "\n";
  return text;
}

}  // namespace recollect
