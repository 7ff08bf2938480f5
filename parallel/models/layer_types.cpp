#include "parallel/models/layer_types.h"

#include <algorithm>

namespace recollect {

namespace {

constexpr const char *kKey = "layer_types", *kWindowed = "sliding_attention", *kFull = "full_attention";

std::vector<std::string> types_of(const ModelValues& m) {
  std::vector<std::string> types;
  const std::string& text = m.text(kKey);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    std::string type = text.substr(at, end - at);
    type.erase(0, type.find_first_not_of(' '));
    type.erase(type.find_last_not_of(' ') + 1);
    types.push_back(std::move(type));
    at = end + 1;
  }
  return types;
}

}  // namespace

ModelKey layer_types_key(const char* otherwise) {
  return {.name = kKey,
          .otherwise = std::string(),
          .help = fmt::format("of each layer {} or {}, separated by commas; empty: {}", kWindowed, kFull,
                              otherwise)};
}

void translate_layer_types(nlohmann::json& document) {
  const auto types = document.find(kKey);
  if (types == document.end()) return;
  if (types->is_null()) *types = "";
  if (!types->is_array()) return;
  std::string text;
  for (const nlohmann::json& type : *types) {
    if (!type.is_string()) return;
    text += (text.empty() ? "" : ",") + type.get<std::string>();
  }
  *types = text;
}

void check_layer_types(const ModelValues& m, std::vector<Finding>& found) {
  const std::vector<std::string> types = types_of(m);
  for (const std::string& type : types)
    if (type != kWindowed && type != kFull) {
      found.push_back(
          {{"model.layer_types"},
           fmt::format("model.layer_types names '{}'; a layer is {} or {}", type, kWindowed, kFull)});
      return;
    }
  const bool has_window =
      !m.has("sliding_window") ||
      (m.integer("sliding_window") > 0 && (!m.has("use_sliding_window") || m.flag("use_sliding_window")));
  if (!has_window && std::find(types.begin(), types.end(), kWindowed) != types.end())
    found.push_back(
        {{"model.layer_types", "model.sliding_window"},
         fmt::format("model.layer_types names {}, and the model has no sliding_window", kWindowed)});
  if (!types.empty() && static_cast<int64_t>(types.size()) != m.integer("num_hidden_layers"))
    found.push_back({{"model.layer_types", "model.num_hidden_layers"},
                     fmt::format("model.layer_types names {} layers, and model.num_hidden_layers is {}",
                                 types.size(), m.integer("num_hidden_layers"))});
}

bool attends_to_window(const ModelValues& m, int64_t layer, bool otherwise) {
  const std::vector<std::string> types = types_of(m);
  if (types.empty()) return otherwise;
  return layer < static_cast<int64_t>(types.size()) && types[static_cast<std::size_t>(layer)] == kWindowed;
}

nlohmann::ordered_json layer_types_json(const ModelValues& m) {
  const std::vector<std::string> types = types_of(m);
  return types.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(types);
}

}  // namespace recollect
