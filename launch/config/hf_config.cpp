#include "launch/config/hf_config.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "engine/core/error.h"
#include "engine/io/file_text.h"
#include "engine/io/files.h"
#include "launch/config/keys.h"

namespace recollect {
namespace {

using nlohmann::json;

// Keys that change the mathematics, and the one value of each that is what this program computes.
struct Fixed {
  const char* key;
  bool value;
};
constexpr std::array<Fixed, 6> kFixed = {{{"scale_attn_weights", true},
                                          {"scale_attn_by_inverse_layer_idx", false},
                                          {"reorder_and_upcast_attn", false},
                                          {"add_cross_attention", false},
                                          {"is_encoder_decoder", false},
                                          {"tie_word_embeddings", true}}};

// The value as a node, so that config.json is held to the same table as YAML.
YamlNode to_node(const json& value, const std::string& path) {
  YamlNode node;
  node.place = {path, 0, 0};
  if (value.is_null()) return node;
  node.kind = value.is_array()    ? YamlNode::Kind::kSequence
              : value.is_object() ? YamlNode::Kind::kMapping
                                  : YamlNode::Kind::kScalar;
  if (value.is_string()) {
    node.text = value.get<std::string>();
    node.plain = false;
  } else if (node.kind == YamlNode::Kind::kScalar) {
    node.text = value.dump();
  }
  return node;
}

// The document, or null after a problem. Duplicate keys of the top level are problems: a JSON library keeps
// one of them silently.
json parse(const std::string& text, const Place& place, Problems& problems) {
  std::set<std::string> seen;
  const auto watch = [&](int depth, json::parse_event_t event, json& parsed) {
    if (depth != 1 || event != json::parse_event_t::key) return true;
    const std::string key = parsed.get<std::string>();
    if (!seen.insert(key).second) problems.add(place, fmt::format("duplicate key '{}'", key));
    return true;
  };
  json document;
  try {
    document = json::parse(text, watch);
  } catch (const json::exception& error) {
    problems.add(place, fmt::format("not JSON: {:.200}", error.what()));
    return nullptr;
  }
  if (document.is_object()) return document;
  problems.add(place, "not a JSON object");
  return nullptr;
}

void check_mathematics(const json& document, const Place& place, Problems& problems) {
  for (const Fixed& fixed : kFixed) {
    const auto found = document.find(fixed.key);
    if (found == document.end() || found->is_null() || *found == json(fixed.value)) continue;
    const std::string shown = found->is_boolean() ? found->dump() : found->type_name();
    problems.add(place, fmt::format("{}: {} is not supported, only {}", fixed.key, shown, fixed.value));
  }
  for (const char* key : {"quantization_config", "pruned_heads"}) {
    const auto found = document.find(key);
    if (found != document.end() && !found->empty())
      problems.add(place, fmt::format("{} is not supported", key));
  }
}

}  // namespace

void merge_hf_config(const std::string& path, Config& config, Problems& problems) {
  const Place place{path, 0, 0};
  std::string text;
  if (std::string wrong = read_file_text(path, kMaxDocumentBytes, text); !wrong.empty()) {
    problems.add(place, wrong);
    return;
  }
  const json document = parse(text, place, problems);
  if (document.is_null()) return;
  check_mathematics(document, place, problems);
  if (!document.contains("model_type")) problems.add(place, "model_type is missing; expected gpt2");
  const KeyTable& table = KeyTable::all();
  std::map<std::string, std::string> given;  // key -> the name it was given by
  for (const auto& [name, value] : document.items()) {
    const ConfigKey* key = table.find("model", name);
    // `type`, `config` and `pretrained` are ours; a null is Transformers' way to say "the default".
    if (!key || name == "type" || name == "config" || name == "pretrained" || value.is_null()) continue;
    // The only false is reported above.
    if (name == "tie_word_embeddings") continue;
    if (const auto [first, inserted] = given.emplace(key->path(), name); !inserted) {
      problems.add(place, fmt::format("{} and {} are the same key", first->second, name));
      continue;
    }
    if (config.origins.contains(key->path())) continue;
    const std::string wrong = key->read(config, to_node(value, path));
    if (!wrong.empty()) problems.add(place, fmt::format("{}: {}", name, wrong));
    config.origins[key->path()] = place;
  }
}

Config::Model read_hf_config(const std::string& path) {
  Config config;
  Problems problems;
  merge_hf_config(path, config, problems);
  problems.raise();
  if (config.model.n_inner == 0) config.model.n_inner = 4 * config.model.n_embd;
  return config.model;
}

std::string hf_config_text(const Config::Model& model, const std::string& dtype) {
  constexpr int64_t kEndOfText = 50256;  // of GPT-2's own vocabulary; other vocabularies name none
  const json end_of_text = model.vocab_size > kEndOfText ? json(kEndOfText) : json(nullptr);
  const bool usual_mlp = model.n_inner == 0 || model.n_inner == 4 * model.n_embd;
  const nlohmann::ordered_json document = {
      {"architectures", {"GPT2LMHeadModel"}},
      {"model_type", name_of(model.type)},
      {"vocab_size", model.vocab_size},
      {"n_positions", model.n_positions},
      {"n_embd", model.n_embd},
      {"n_layer", model.n_layer},
      {"n_head", model.n_head},
      {"n_inner", usual_mlp ? json(nullptr) : json(model.n_inner)},
      {"activation_function", name_of(model.activation_function)},
      {"resid_pdrop", model.resid_pdrop},
      {"embd_pdrop", model.embd_pdrop},
      {"attn_pdrop", model.attn_pdrop},
      {"layer_norm_epsilon", model.layer_norm_epsilon},
      {"initializer_range", model.initializer_range},
      {"scale_attn_weights", true},
      {"tie_word_embeddings", model.tie_word_embeddings},
      {"bos_token_id", end_of_text},
      {"eos_token_id", end_of_text},
      {"torch_dtype", dtype},
  };
  return document.dump(2) + '\n';
}

void write_hf_config(const std::string& path, const Config::Model& model, const std::string& dtype) {
  write_text_file(path, hf_config_text(model, dtype));
}

}  // namespace recollect
