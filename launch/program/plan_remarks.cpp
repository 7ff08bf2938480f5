#include "launch/program/plan_remarks.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "checkpointing/device_model.h"
#include "engine/core/byte_count.h"
#include "engine/core/duration.h"

namespace recollect {

Remark remark_on_choice(const Config& config, const ChosenPlan& chosen, const Plan& carried_out,
                        uint64_t budget) {
  const auto& values = carried_out.values;
  const auto saved =
      std::count_if(values.begin(), values.end(), [](const auto& item) { return item.second.save; });
  std::string sentence =
      saved == std::ssize(values)
          ? fmt::format("saves all {} activations", saved)
          : fmt::format("saves {} of {} activations and recomputes the others", saved, values.size());
  sentence += fmt::format(
      "; the fastest that fits of {} candidate plan{} ({} compiled); {} of the memory budget stay free",
      chosen.known, chosen.known == 1 ? "" : "s", chosen.tried, byte_count(budget - chosen.takes.device));
  if (chosen.lower_bound > 0)
    sentence += fmt::format("; a step{} takes {} by {}, and no plan takes less than {}",
                            config.training.gradient_accumulation_steps > 1 ? " of one micro-batch" : "",
                            duration_text(chosen.takes.seconds), rates_of(config.device.model),
                            duration_text(chosen.lower_bound));
  if (chosen.price > 0)
    sentence +=
        fmt::format("; one MiB more would save at most {} per micro-batch", duration_text(chosen.price));
  return {"mode auto", std::move(sentence)};
}

std::vector<Remark> remarks_on_unreached(const Config& config) {
  std::vector<Remark> remarks;
  if (config.training.max_steps > 0 || config.unreached.size() < 2) {
    for (const auto& [key, why] : config.unreached) remarks.push_back({key, why});
    return remarks;
  }
  std::string keys;
  for (const auto& [key, why] : config.unreached) keys += (keys.empty() ? "" : ", ") + key;
  return {{"training.max_steps 0", "only evaluates; without effect: " + keys}};
}

}  // namespace recollect
