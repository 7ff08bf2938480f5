#include "launch/config/occasions.h"

#include <fmt/format.h>

#include "launch/config/epochs.h"

namespace recollect {

std::vector<Occasion> occasions(Config& config) {
  return {{"evaluation.every_steps", "evaluation.every_epochs", config.evaluation.every_steps,
           config.evaluation.every_epochs},
          {"snapshot.every_steps", "snapshot.every_epochs", config.snapshot.every_steps,
           config.snapshot.every_epochs},
          {"logging.steps", "logging.every_epochs", config.logging.steps, config.logging.every_epochs}};
}

void check_occasions(const Config& config, std::vector<Finding>& found) {
  Config copy = config;
  for (const auto& [steps, epochs, every_steps, every_epochs] : occasions(copy)) {
    if (every_epochs == 0) continue;
    if (every_steps > 0)
      found.push_back({{epochs, steps}, fmt::format("{} and {} are both given; give one", epochs, steps)});
    if (every_epochs < kLeastEpochs)
      found.push_back({{epochs}, fmt::format("{} {}: the least is {}", epochs, every_epochs, kLeastEpochs)});
    if (config.data.format == DataFormat::kRandom && config.training.max_steps > 0)
      found.push_back({{epochs, "data.format"},
                       fmt::format("{}: data.format random has no end; give {}", epochs, steps)});
  }
}

}  // namespace recollect
