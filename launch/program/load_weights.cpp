#include "launch/program/load_weights.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/core/error.h"
#include "engine/core/printable.h"
#include "launch/config/lora_keys.h"

namespace recollect {

std::vector<std::string> load_weights(const Config& config, const Model& model, const Weights& weights) {
  const auto seed = static_cast<uint64_t>(config.training.seed);
  std::vector<std::string> drawn;
  if (config.model.pretrained.empty())
    weights.initialize(seed);
  else
    drawn = weights.load(SafetensorsSet(config.model.pretrained), seed);
  if (!has_adapters(model.parameters)) return drawn;
  if (!config.lora.path.empty()) {
    const std::vector<std::string> loaded =
        weights.load_adapters(SafetensorsSet(config.lora.path + kAdapterFile));
    std::erase_if(drawn, [&](const std::string& name) {
      return std::find(loaded.begin(), loaded.end(), name) != loaded.end();
    });
  }
  for (const Parameter& p : model.parameters)
    if (!p.saved_with_adapters && std::find(drawn.begin(), drawn.end(), p.name) != drawn.end())
      throw Error(
          ExitCode::kInput,
          fmt::format("{} is not in {}, and adapters do not train it", p.name,
                      printable(config.model.pretrained)),
          fmt::format("train and save it with them: add {} to lora.modules_to_save", module_of(p.name)));
  return drawn;
}

void load_stored_base(const Config& config, const Model& model, const Weights& weights) {
  if (std::none_of(model.parameters.begin(), model.parameters.end(),
                   [](const Parameter& p) { return p.is_stored(); }))
    return;
  const auto seed = static_cast<uint64_t>(config.training.seed);
  if (config.model.pretrained.empty()) return weights.store_base(nullptr, seed);
  const SafetensorsSet source(config.model.pretrained);
  weights.store_base(&source, seed);
}

}  // namespace recollect
