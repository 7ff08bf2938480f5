// The keys of a decoder's config.json, what completes and contradicts them, and how they are written.
#include <algorithm>
#include <cmath>

#include "engine/io/json.h"
#include "parallel/models/decoder.h"
#include "parallel/models/keys.h"
#include "parallel/models/layer_types.h"

namespace recollect {

namespace {

void add_window_keys(const DecoderFamily& f, std::vector<ModelKey>& keys) {
  if (f.windows == Windows::kSwitched) {
    keys.push_back(
        {.name = "use_sliding_window", .otherwise = false, .help = "attention to a window of tokens"});
    keys.push_back(model_size("max_window_layers", 28, 0, kMostModelSize,
                              "layers below this attend to all tokens before, those from it on to a window"));
    keys.push_back(layer_types_key("max_window_layers says it"));
  }
  if (f.windows == Windows::kPattern && f.window_pattern == 2)
    keys.push_back(layer_types_key("the first and every other layer have a window"));
  if (f.windows == Windows::kPattern && f.window_pattern != 2) {
    keys.push_back(layer_types_key("sliding_window_pattern says it"));
    keys.push_back(model_size("sliding_window_pattern", f.window_pattern, 1, kMostModelSize,
                              "all layers have a window but every so many-th"));
  }
  if (f.windows == Windows::kPattern)
    keys.push_back(model_size(
        "sliding_window", f.window, 0, kMostModelSize,
        "of layers with a window: the last so many tokens that one attends to, its own among them; 0: all"));
  else if (f.windows != Windows::kNone)
    keys.push_back(model_size("sliding_window", f.window, 0, kMostModelSize,
                              "the last so many tokens that one attends to, its own among them; 0: all"));
}

// All but those of rotary positions.
std::vector<ModelKey> own_keys(const DecoderFamily& f) {
  const DecoderSizes& s = f.sizes;
  std::vector<ModelKey> keys = {
      model_size("vocab_size", s.vocabulary, 1, kMostModelSize, "token ids are below this"),
      model_size("hidden_size", s.hidden, 1, kMostModelSize, "width of the residual stream", {"n_embd"}),
      model_size("intermediate_size", s.inner, 1, kMostModelSize, "width of the MLP"),
      model_size("num_hidden_layers", s.layers, 1, kMostModelLayers, "transformer layers", {"n_layer"}),
      model_size("num_attention_heads", s.heads, 1, 65536, "attention heads", {"n_head"}),
  };
  if (f.shared_heads) {
    keys.push_back(model_size("num_key_value_heads", s.key_value_heads, 0, 65536,
                              "heads of keys and values, which groups of heads share; 0: "
                              "num_attention_heads"));
    keys.push_back(model_size("head_dim", s.head_size, 0, 65536,
                              "size of a head, an even number; 0: hidden_size / num_attention_heads"));
  }
  keys.push_back(model_size("max_position_embeddings", s.longest, 1, kMostModelSize, "longest sequence",
                            {"n_positions"}));
  keys.push_back(model_norm_epsilon(f.layer_norms ? "layer_norm_eps" : "rms_norm_eps", f.norm_epsilon));
  keys.push_back(model_dropout("attention_dropout", 0.0, "dropout of attention probabilities"));
  keys.push_back(model_init_std());
  if (f.shared_heads) keys.push_back(model_unlearnt_token(f.unlearnt_token));
  keys.push_back(
      {.name = "tie_word_embeddings", .otherwise = f.tied, .help = "the head is the token embedding"});
  keys.insert(keys.end(), f.more_keys.begin(), f.more_keys.end());
  add_window_keys(f, keys);
  return keys;
}

std::vector<ModelKey> keys_of(const DecoderFamily& f) {
  std::vector<ModelKey> keys = own_keys(f);
  add_rope_keys(f.rope, keys);
  if (f.local_rope) add_rope_keys(*f.local_rope, keys);
  return keys;
}

void translate_decoder(const DecoderFamily& f, nlohmann::json& document) {
  if (f.local_rope)
    translate_rope_of_kinds(f.rope, *f.local_rope, document);
  else
    translate_rope(f.rope, document);
  if (f.windows == Windows::kSwitched || f.windows == Windows::kPattern) translate_layer_types(document);
  for (const char* key :
       {"sliding_window", "num_key_value_heads", "attn_logit_softcapping", "final_logit_softcapping"})
    if (const auto found = document.find(key); found != document.end() && found->is_null()) *found = 0;
  if (f.shared_heads) translate_unlearnt_token(document);
}

bool has_layers(const DecoderFamily& f, const ModelValues& m, bool windowed) {
  for (int64_t layer = 0; layer < m.integer("num_hidden_layers"); ++layer)
    if (has_window(f, m, layer) == windowed) return true;
  return false;
}

ModelFacts facts_of(const DecoderFamily& f, const ModelValues& m) {
  ModelFacts facts{.vocabulary = fact_of(m, "vocab_size"),
                   .longest = longest_by_rope(f.rope, m),
                   .any_length = true,
                   .layers = fact_of(m, "num_hidden_layers"),
                   .divided = {fact_of(m, "num_attention_heads"), fact_of(m, "intermediate_size")},
                   .tanh_gelu = f.gate.empty() && is_tanh_gelu(m.text("hidden_act")),
                   .shares_head_weights = f.head_norms,
                   .cache_ends = cache_ends_by_rope(f.rope, m)};
  if (f.shared_heads)
    (f.names.query_key_value ? facts.divided : facts.divided_or_repeated)
        .push_back(fact_of(m, "num_key_value_heads"));
  return facts;
}

std::vector<CompletedValue> complete_values(const DecoderFamily& f, ModelValues& m) {
  std::vector<CompletedValue> completed;
  const auto open = [&](const char* key, int64_t value, const char* from) {
    if (m.integer(key) != 0) return;
    m.set(key, value);
    completed.push_back({key, from});
  };
  const int64_t heads = m.integer("num_attention_heads");
  if (f.shared_heads) {
    open("num_key_value_heads", heads, "model.num_attention_heads");
    open("head_dim", m.integer("hidden_size") / heads, "model.hidden_size / model.num_attention_heads");
  }
  complete_rope(f.rope, m, completed);
  if (f.local_rope) complete_rope(*f.local_rope, m, completed);
  return completed;
}

std::vector<UnusedModelKeys> unused_keys(const DecoderFamily& f) {
  std::vector<UnusedModelKeys> unused = unused_rope_keys(f.rope);
  if (f.windows == Windows::kSwitched) {
    unused.push_back({{"sliding_window"},
                      "max_window_layers",
                      [f](const ModelValues& m) {
                        return m.flag("use_sliding_window") &&
                               (!has_layers(f, m, true) || m.integer("sliding_window") == 0);
                      },
                      "no layer of the model has a window"});
    unused.push_back({{"sliding_window", "max_window_layers", "layer_types"},
                      "use_sliding_window",
                      [](const ModelValues& m) { return !m.flag("use_sliding_window"); },
                      "attention has no window"});
  }
  if (f.local_rope) {
    std::vector<UnusedModelKeys> local = unused_rope_keys(*f.local_rope);
    unused.insert(unused.end(), local.begin(), local.end());
    unused.push_back({{"sliding_window_pattern"},
                      "layer_types",
                      [](const ModelValues& m) { return !m.text("layer_types").empty(); },
                      "it names the kind of each layer"});
    for (const bool windowed : {false, true}) {
      std::vector<ModelKey> keys;
      add_rope_keys(windowed ? *f.local_rope : f.rope, keys);
      std::vector<std::string> names;
      for (const ModelKey& key : keys) names.push_back(key.name);
      unused.push_back({names, "num_hidden_layers",
                        [f, windowed](const ModelValues& m) { return !has_layers(f, m, windowed); },
                        windowed ? "no layer has a window" : "every layer has a window"});
    }
  }
  return unused;
}

std::vector<Finding> check_values(const DecoderFamily& f, const ModelValues& m) {
  std::vector<Finding> found;
  const int64_t heads = m.integer("num_attention_heads"), width = m.integer("hidden_size"),
                size = decoder_head_size(f, m);
  if (!f.shared_heads || (size * heads != width && size == width / heads))
    check_heads(m, "hidden_size", "num_attention_heads", found);
  if (!f.shared_heads && !found.empty()) return found;
  if (f.shared_heads) {
    check_rotary_heads(m, found);
    check_unlearnt_token(m, found);
  }
  if (m.has("layer_types")) check_layer_types(m, found);
  check_rope(f.rope, m, size, found);
  if (!f.local_rope) return found;
  check_rope(*f.local_rope, m, size, found);
  for (const RopeKeys* rope : {&f.rope, &*f.local_rope})
    if (const std::string key = std::string(rope->section) + ".truncate"; !m.flag(key))
      found.push_back(
          {{"model." + key},
           fmt::format("model.{} false is not read by Transformers where layers of two kinds have "
                       "positions of their own: leave it out",
                       key)});
  return found;
}

// What config.json has for a key that has no value here.
nlohmann::ordered_json value_in_file(const ModelValues& m, const std::string& key) {
  if (key == "layer_types") return layer_types_json(m);
  if (key == "pad_token_id") return unlearnt_token_json(m);
  const ModelValue& value = m.at(key);
  const auto* number = std::get_if<double>(&value);
  if (key == "sliding_window" && m.integer(key) == 0) return nullptr;
  if (key.ends_with("_softcapping") && *number == 0) return nullptr;
  // Transformers takes only whole numbers.
  if (key == "query_pre_attn_scalar" && *number == std::floor(*number)) return static_cast<int64_t>(*number);
  return std::visit([](const auto& v) { return nlohmann::ordered_json(v); }, value);
}

std::string config_json_of(const DecoderFamily& f, const ModelValues& m, std::string_view dtype) {
  nlohmann::ordered_json document = {{"architectures", {f.architecture}}, {"model_type", f.type}};
  for (const ModelKey& key : own_keys(f)) document[key.name] = value_in_file(m, key.name);
  if (!f.gate.empty()) document[f.gate_key] = f.gate;
  for (const auto& [key, value] : f.written) document[key] = value;
  document["torch_dtype"] = dtype;
  if (f.local_rope)
    write_rope_of_kinds(f.rope, *f.local_rope, m, document);
  else
    write_rope(f.rope, m, document);
  return document.dump(2) + '\n';
}

ModelValues sketch_of(const ModelFamily& family, const ModelSketch& sketch) {
  ModelValues m(family.keys);
  m.set("vocab_size", sketch.vocabulary);
  m.set("max_position_embeddings", sketch.longest);
  m.set("hidden_size", sketch.width);
  m.set("intermediate_size", 4 * sketch.width);
  m.set("num_hidden_layers", sketch.layers);
  m.set("num_attention_heads", sketch.heads);
  for (const char* open : {"num_key_value_heads", "head_dim"})
    if (m.has(open)) m.set(open, int64_t{0});
  for (const char* dropout : {"attention_dropout", "hidden_dropout"})
    if (m.has(dropout)) m.set(dropout, sketch.dropout);
  if (m.has("pad_token_id") && m.integer("pad_token_id") >= sketch.vocabulary)
    m.set("pad_token_id", int64_t{-1});
  return m;
}

std::vector<std::pair<std::string, ModelValue>> fixed_of(const DecoderFamily& f) {
  std::vector<std::pair<std::string, ModelValue>> fixed = f.fixed;
  fixed.emplace_back("is_causal", true);
  if (!f.gate.empty()) fixed.emplace_back(f.gate_key, std::string(f.gate));
  if (!f.rope.part) fixed.emplace_back("partial_rotary_factor", 1.0);
  return fixed;
}

}  // namespace

bool has_window(const DecoderFamily& f, const ModelValues& m, int64_t layer) {
  if (f.windows == Windows::kPattern) {
    const int64_t pattern =
        m.has("sliding_window_pattern") ? m.integer("sliding_window_pattern") : f.window_pattern;
    return attends_to_window(m, layer, (layer + 1) % pattern != 0);
  }
  if (f.windows == Windows::kSwitched)
    return m.flag("use_sliding_window") &&
           attends_to_window(m, layer, layer >= m.integer("max_window_layers"));
  return f.windows == Windows::kAllLayers;
}

int64_t decoder_head_size(const DecoderFamily& f, const ModelValues& m) {
  return f.shared_heads ? m.integer("head_dim") : m.integer("hidden_size") / m.integer("num_attention_heads");
}

ModelFamily decoder_family(const DecoderFamily& f) {
  std::vector<ModelSection> sections = {rope_section()};
  if (f.local_rope) sections.insert(sections.begin(), local_rope_section());
  return {
      .type = f.type,
      .whole = f.whole,
      .tasks = {Task::kCausalLm},
      .adapted = f.adapted,
      .keys = keys_of(f),
      .sections = sections,
      .unused = unused_keys(f),
      .fixed = fixed_of(f),
      .kept = f.kept,
      .translate = [f](nlohmann::json& document) { translate_decoder(f, document); },
      .facts = [f](const ModelValues& m) { return facts_of(f, m); },
      .complete = [f](ModelValues& m) { return complete_values(f, m); },
      .check = [f](const ModelValues& m) { return check_values(f, m); },
      .config_json = [f](const ModelValues& m, Task,
                         std::string_view dtype) { return config_json_of(f, m, dtype); },
      .sketch = sketch_of,
      .build = [f](Graph& graph, const OpRegistry& registry, const ModelValues& m, const TaskSettings& task,
                   const BatchShape& batch, ParallelLayout layout,
                   DType dtype) { return build_decoder(f, graph, registry, m, task, batch, layout, dtype); }};
}

}  // namespace recollect
