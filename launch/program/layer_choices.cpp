#include "launch/program/layer_choices.h"

#include <algorithm>

#include <fmt/format.h>

namespace recollect {

namespace {

constexpr std::size_t kMostLines = 6;

using Counts = std::map<std::string, int64_t>;

// Formats ascending numbers as "0-7, 9".
std::string runs_text(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", numbers[i]);
    if (last > i) text += fmt::format("-{}", numbers[last]);
    i = last + 1;
  }
  return text;
}

std::string sentence_of(const Counts& values) {
  std::string text;
  for (const auto& [word, count] : values) {
    const std::string where = word == "recompute" ? "recomputed" : word == "device" ? "on the device" : word;
    text += fmt::format("{}{} {}{}", text.empty() ? "" : ", ", count,
                        text.empty() ? (count == 1 ? "value " : "values ") : "", where);
  }
  return text;
}

}  // namespace

std::vector<LayerChoices> choices_by_layer(const Config& config, const Plan& plan, const Graph& graph) {
  const CheckpointingSettings& c = config.activation_checkpointing;
  if (c.plan.empty() && static_cast<std::size_t>(c.mode) < kNamedModes.size()) return {};
  std::map<int, Counts> by_layer;
  for (const Value& value : graph.values())
    if (const auto decided = plan.values.find(value.name); decided != plan.values.end() && value.layer >= 0)
      ++by_layer[value.layer][word_of(decided->second)];
  std::vector<std::pair<Counts, std::vector<int>>> kinds;
  for (const auto& [layer, counts] : by_layer) {
    const auto known = std::ranges::find(kinds, counts, &std::pair<Counts, std::vector<int>>::first);
    if (known == kinds.end())
      kinds.push_back({counts, {layer}});
    else
      known->second.push_back(layer);
  }
  std::vector<LayerChoices> choices;
  for (const auto& [counts, layers] : kinds) choices.push_back({runs_text(layers), counts});
  return choices;
}

std::vector<std::pair<std::string, std::string>> layer_sentences(const std::vector<LayerChoices>& choices) {
  std::vector<std::pair<std::string, std::string>> sentences;
  for (const LayerChoices& one : choices) {
    if (sentences.size() + 1 == kMostLines && choices.size() > kMostLines) {
      sentences.emplace_back("other layers",
                             fmt::format("in {} more ways; `recollect explain` names every value",
                                         choices.size() - sentences.size()));
      break;
    }
    sentences.emplace_back(
        (one.layers.find_first_of("-,") == std::string::npos ? "layer " : "layers ") + one.layers,
        sentence_of(one.values));
  }
  return sentences;
}

}  // namespace recollect
