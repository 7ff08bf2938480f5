#include "parallel/models/rope.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "engine/core/error.h"
#include "engine/io/json.h"
#include "parallel/models/keys.h"

namespace recollect {

namespace {

const char* const kEarlier = "original_max_position_embeddings";

std::string in_section(const RopeKeys& rope, std::string_view key) {
  return fmt::format("{}.{}", rope.section, key);
}

const std::string& type_of(const RopeKeys& rope, const ModelValues& m) {
  return m.text(in_section(rope, "rope_type"));
}

double number_of(const RopeKeys& rope, const ModelValues& m, std::string_view key) {
  return m.real(in_section(rope, key));
}

bool is_type(const RopeKeys& rope, const ModelValues& m, std::initializer_list<std::string_view> types) {
  return std::find(types.begin(), types.end(), type_of(rope, m)) != types.end();
}

// The keys of rope_scaling that a type reads.
struct TypeKeys {
  std::string_view type;
  std::vector<std::string_view> keys;
};
const std::vector<TypeKeys>& type_keys() {
  static const std::vector<TypeKeys> all = {
      {"default", {}},
      {"linear", {"factor"}},
      {"dynamic", {"factor"}},
      {"yarn",
       {"factor", kEarlier, "attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim",
        "truncate"}},
      {"longrope", {"factor", kEarlier, "attention_factor", "short_factor", "long_factor"}},
      {"llama3", {"factor", "low_freq_factor", "high_freq_factor", kEarlier}},
  };
  return all;
}

bool has_key(std::string_view type, std::string_view key) {
  for (const TypeKeys& of : type_keys())
    if (of.type == type) return std::find(of.keys.begin(), of.keys.end(), key) != of.keys.end();
  return true;  // unknown type: whoever reads the type reports it
}

// Whether one of the family's types has the key.
bool reads(const RopeKeys& rope, std::string_view key) {
  return std::any_of(rope.types.begin(), rope.types.end(),
                     [&](std::string_view type) { return has_key(type, key); });
}

std::string earlier_key(const RopeKeys& rope) {
  return rope.earlier_length > 0 ? kEarlier : in_section(rope, kEarlier);
}

// [1, 1.05] becomes "1, 1.05"; numbers_of() does the reverse.
std::string list_text(const nlohmann::json& list) {
  std::string text;
  for (const nlohmann::json& number : list) text += (text.empty() ? "" : ", ") + number.dump();
  return text;
}

// Empty if the text is not a list of numbers.
std::vector<double> numbers_of(std::string text) {
  std::replace(text.begin(), text.end(), ',', ' ');
  std::istringstream in(text);
  in.imbue(std::locale::classic());
  std::vector<double> numbers;
  for (std::string word; in >> word;) {
    const auto number = nlohmann::json::parse(word, nullptr, false);
    if (!number.is_number() || number.get<double>() <= 0) return {};
    numbers.push_back(number.get<double>());
  }
  return numbers;
}

int64_t turned_of(const RopeKeys& rope, const ModelValues& m, int64_t head_size) {
  if (!rope.part) return head_size;
  return static_cast<int64_t>(static_cast<double>(head_size) * m.real(rope.part));
}

// By how much sequences are longer than in the earlier training.
double ratio_of(const RopeKeys& rope, const ModelValues& m) {
  if (const double factor = number_of(rope, m, "factor"); factor > 0) return factor;
  return static_cast<double>(m.integer("max_position_embeddings")) /
         static_cast<double>(m.integer(earlier_key(rope)));
}

double attention_factor_of(const RopeKeys& rope, const ModelValues& m) {
  if (!is_type(rope, m, {"yarn", "longrope"})) return 1;
  if (const double given = number_of(rope, m, "attention_factor"); given > 0) return given;
  const double ratio = ratio_of(rope, m);
  if (ratio <= 1) return 1;
  if (is_type(rope, m, {"longrope"}))
    return std::sqrt(1 + std::log(ratio) / std::log(static_cast<double>(m.integer(earlier_key(rope)))));
  const auto grown = [&](double scale) { return 0.1 * scale * std::log(ratio) + 1; };
  const double scale = number_of(rope, m, "mscale"), all = number_of(rope, m, "mscale_all_dim");
  return scale != 0 && all != 0 ? grown(scale) / grown(all) : grown(1);
}

void check_factor_lists(const RopeKeys& rope, const ModelValues& m, int64_t pairs,
                        std::vector<Finding>& found) {
  for (const char* name : {"short_factor", "long_factor"}) {
    const std::string key = "model." + in_section(rope, name), &text = m.text(in_section(rope, name));
    const auto numbers = static_cast<int64_t>(numbers_of(text).size());
    if (numbers == pairs) continue;
    found.push_back(
        {{"model." + in_section(rope, "rope_type"), key},
         numbers == 0 ? fmt::format("{} is needed: {} positive numbers, with commas between", key, pairs)
                      : fmt::format("{} has {} numbers, and {} pairs of a head turn", key, numbers, pairs)});
  }
}

void add_yarn_keys(const RopeKeys& rope, std::vector<ModelKey>& keys) {
  const auto number = [&](const char* name, double otherwise, const char* help) {
    keys.push_back({.name = in_section(rope, name), .otherwise = otherwise, .low = 0, .help = help});
  };
  number("attention_factor", 0.0,
         "yarn, longrope: cosines and sines are multiplied by it; 0: computed from factor");
  // Transformers takes 0 for the default of these two; here it is refused.
  number("beta_fast", 32.0,
         "yarn: pairs that rotate more often than this over the earlier length are not scaled");
  keys.back().low_open = true;
  number("beta_slow", 1.0, "yarn: pairs that rotate less often than this are scaled by the whole factor");
  keys.back().low_open = true;
  number("mscale", 0.0, "yarn: with mscale_all_dim, gives attention_factor where that is 0");
  number("mscale_all_dim", 0.0, "yarn: see mscale");
  keys.push_back({.name = in_section(rope, "truncate"),
                  .otherwise = true,
                  .help = "yarn: the ramp between beta_fast and beta_slow begins and ends at whole pairs"});
  for (const auto& [name, help] :
       {std::pair("short_factor",
                  "longrope: each pair's frequency is divided by its number, as text: 1.0, 1.05, ..."),
        std::pair("long_factor",
                  "longrope: the same, for sequences beyond original_max_position_embeddings")})
    keys.push_back({.name = in_section(rope, name), .otherwise = std::string(), .help = help});
}

}  // namespace

void add_rope_keys(const RopeKeys& rope, std::vector<ModelKey>& keys) {
  keys.push_back({.name = rope.theta,
                  .otherwise = rope.theta_by_default,
                  .low = 1,
                  .help = fmt::format("base of the rotary positions' wavelengths{}", rope.where)});
  if (rope.part)
    keys.push_back({.name = rope.part,
                    .otherwise = rope.part_by_default,
                    .low = 0,
                    .high = 1,
                    .low_open = true,
                    .help = "the fraction of a head's elements, from the first on, that is rotated"});
  if (rope.earlier_length > 0)
    keys.push_back(
        model_size(kEarlier, rope.earlier_length, 1, kMostModelSize,
                   "longrope: sequences beyond this are long; the longest of an earlier training"));
  std::vector<ModelKey> inside;
  inside.push_back({.name = in_section(rope, "rope_type"),
                    .aliases = {"type"},
                    .otherwise = std::string("default"),
                    .choices = rope.types,
                    .help = "default: none"});
  inside.push_back({.name = in_section(rope, "factor"),
                    .otherwise = 0.0,
                    .low = 0,
                    .help = "how much longer sequences become, at least 1; linear, dynamic, llama3 need it; "
                            "yarn, longrope: 0: by the two lengths"});
  inside.push_back({.name = in_section(rope, "low_freq_factor"),
                    .otherwise = 1.0,
                    .low = 0,
                    .low_open = true,
                    .help = "llama3: waves longer than original_max_position_embeddings / this are scaled"});
  inside.push_back({.name = in_section(rope, "high_freq_factor"),
                    .otherwise = 4.0,
                    .low = 0,
                    .low_open = true,
                    .help = "llama3: waves shorter than original_max_position_embeddings / this are not"});
  if (rope.earlier_length == 0)
    inside.push_back(model_size(in_section(rope, kEarlier), 0, 0, kMostModelSize,
                                "llama3, yarn, longrope: the longest sequence of the model before; 0: "
                                "model.max_position_embeddings"));
  add_yarn_keys(rope, inside);
  const std::size_t prefix = in_section(rope, "").size();
  for (ModelKey& key : inside) {
    const std::string_view name = std::string_view(key.name).substr(prefix);
    if (name == "rope_type" || reads(rope, name)) keys.push_back(std::move(key));
  }
}

ModelSection rope_section() {
  return {"model.rope_scaling", "How rotary positions reach beyond the sequences of an earlier training."};
}

ModelSection local_rope_section() {
  return {"model.local_rope_scaling",
          "The same for layers with a window; their base is rope_local_base_freq."};
}

std::vector<UnusedModelKeys> unused_rope_keys(const RopeKeys& rope) {
  std::vector<UnusedModelKeys> unused;
  for (const TypeKeys& of : type_keys()) {
    std::vector<std::string> others;
    for (const char* key :
         {"factor", "low_freq_factor", "high_freq_factor", kEarlier, "attention_factor", "beta_fast",
          "beta_slow", "mscale", "mscale_all_dim", "truncate", "short_factor", "long_factor"})
      if (reads(rope, key) && !has_key(of.type, key))
        others.push_back(key == kEarlier ? earlier_key(rope) : in_section(rope, key));
    unused.push_back({others, in_section(rope, "rope_type"),
                      [rope, type = of.type](const ModelValues& m) { return is_type(rope, m, {type}); },
                      of.type == "default"  ? "positions are not scaled"
                      : of.type == "linear" ? "all waves are scaled alike"
                                            : fmt::format("type {} does not read it", of.type)});
  }
  return unused;
}

namespace {

// A value that is no object would be passed over without a word.
void check_rope_object(const nlohmann::json& document) {
  const auto found = document.find("rope_parameters");
  if (found != document.end() && !found->is_object() && !found->is_null())
    throw Error(ExitCode::kConfiguration, fmt::format("rope_parameters is {}, and no object", found->dump()));
}

}  // namespace

// Newer files keep rope_scaling and the keys beside it in one object, rope_parameters. As in
// Transformers: rope_scaling goes before rope_parameters, a key inside the object before the same key
// beside it (not so original_max_position_embeddings). Keys that a type does not read are ignored.
void translate_rope(const RopeKeys& rope, nlohmann::json& document) {
  check_rope_object(document);
  const auto is_there = [&](const char* key) {
    const auto found = document.find(key);
    return found != document.end() && found->is_object() && !found->empty();
  };
  if (!is_there(rope.section) && is_there("rope_parameters"))
    document[rope.section] = document["rope_parameters"];
  document.erase("rope_parameters");
  if (is_there(rope.section)) {
    nlohmann::json& object = document[rope.section];
    for (const auto& [inside, beside] :
         {std::pair("rope_theta", rope.theta),
          std::pair("partial_rotary_factor", rope.part ? rope.part : "partial_rotary_factor")})
      if (const auto value = object.find(inside); value != object.end()) {
        if (!value->is_null()) document[beside] = *value;
        object.erase(inside);
      }
    if (const auto older = object.find("type"); older != object.end()) {
      if (!object.contains("rope_type")) object["rope_type"] = *older;
      object.erase("type");
    }
    const auto named = object.find("rope_type");
    if (rope.earlier_length > 0 && named != object.end() && (*named == "su" || *named == "yarn"))
      *named = "longrope";
    const std::string type = named != object.end() && named->is_string() ? *named : "default";
    const auto beside = document.find(kEarlier);
    if (rope.earlier_length > 0)
      object.erase(kEarlier);
    else if (beside != document.end())
      object[kEarlier] = *beside;
    for (const TypeKeys& of : type_keys())
      for (const std::string_view key : of.keys)
        if (!has_key(type, key)) object.erase(std::string(key));
    for (const char* key : {"short_factor", "long_factor"})
      if (const auto list = object.find(key); list != object.end() && list->is_array())
        *list = list_text(*list);
  }
  if (rope.earlier_length == 0) document.erase(kEarlier);
}

void complete_rope(const RopeKeys& rope, ModelValues& m, std::vector<CompletedValue>& completed) {
  if (rope.earlier_length == 0 && is_type(rope, m, {"llama3", "yarn", "longrope"}) &&
      m.integer(in_section(rope, kEarlier)) == 0) {
    m.set(in_section(rope, kEarlier), m.integer("max_position_embeddings"));
    completed.push_back({in_section(rope, kEarlier), "model.max_position_embeddings"});
  }
  if (is_type(rope, m, {"yarn"}) && number_of(rope, m, "factor") == 0) {
    m.set(in_section(rope, "factor"), ratio_of(rope, m));
    completed.push_back(
        {in_section(rope, "factor"), "model.max_position_embeddings / " + in_section(rope, kEarlier)});
  }
}

void check_rope(const RopeKeys& rope, const ModelValues& m, int64_t head_size, std::vector<Finding>& found) {
  const int64_t turned = turned_of(rope, m, head_size);
  const std::string part = rope.part ? fmt::format("model.{}", rope.part) : "";
  if (rope.part && (turned == 0 || turned % 2 != 0))
    found.push_back({{part},
                     fmt::format("{} {} of heads of {} is {} elements: rotary positions take pairs", part,
                                 m.real(rope.part), head_size, turned)});
  const std::string& type = type_of(rope, m);
  const auto key = [&](const char* name) { return "model." + in_section(rope, name); };
  const bool needs_factor = is_type(rope, m, {"linear", "dynamic", "llama3"});
  if (const double factor = number_of(rope, m, "factor");
      factor < 1 && (needs_factor || (factor > 0 && type != "default")))
    found.push_back({{key("rope_type"), key("factor")},
                     factor == 0 ? fmt::format("{} {} needs {}", key("rope_type"), type, key("factor"))
                                 : fmt::format("{} {} is below 1", key("factor"), factor)});
  const auto in_order = [&](const char* less, const char* more) {
    const double low = number_of(rope, m, less), high = number_of(rope, m, more);
    if (low >= high)
      found.push_back(
          {{key(less), key(more)}, fmt::format("{} {} is not below {} {}", key(less), low, more, high)});
  };
  if (type == "llama3") in_order("low_freq_factor", "high_freq_factor");
  if (type == "yarn") in_order("beta_slow", "beta_fast");
  if (type == "longrope") check_factor_lists(rope, m, turned / 2, found);
  if (type == "dynamic" && turned == 2)
    found.push_back(
        {{key("rope_type")}, key("rope_type") + " dynamic needs heads of which more than one pair turns"});
}

namespace {

// Null: positions are not scaled.
nlohmann::ordered_json scaling_json(const RopeKeys& rope, const ModelValues& m) {
  const std::string& type = type_of(rope, m);
  if (type == "default") return nullptr;
  // Transformers 4 accepts exactly three keys for Phi-3, among them the older name "type", which all versions read.
  nlohmann::ordered_json object = {{rope.earlier_length > 0 ? "type" : "rope_type", type}};
  for (const TypeKeys& of : type_keys()) {
    if (of.type != type) continue;
    for (const std::string_view name : of.keys) {
      const std::string key(name);
      if (key == kEarlier && rope.earlier_length > 0) continue;
      const ModelValue& value = m.at(in_section(rope, key));
      if (const auto* number = std::get_if<double>(&value); number && *number == 0)
        continue;  // 0: it is not given
      if (const auto* text = std::get_if<std::string>(&value))
        object[key] = numbers_of(*text);
      else
        std::visit([&](const auto& v) { object[key] = v; }, value);
    }
  }
  return object;
}

}  // namespace

void write_rope(const RopeKeys& rope, const ModelValues& m, nlohmann::ordered_json& document) {
  document[rope.theta] = m.real(rope.theta);
  if (rope.part) document[rope.part] = m.real(rope.part);
  if (rope.earlier_length > 0) document[kEarlier] = m.integer(kEarlier);
  document[rope.section] = scaling_json(rope, m);
}

// Transformers 5 has an object for each kind of layers in rope_parameters. As there: rope_scaling goes before
// the object of full_attention, and a base inside an object before the same base beside it.
void translate_rope_of_kinds(const RopeKeys& all, const RopeKeys& windowed, nlohmann::json& document) {
  const auto take = [](nlohmann::json& from, const char* key) {
    nlohmann::json taken = nlohmann::json::object();
    if (const auto found = from.find(key); found != from.end() && found->is_object()) taken = *found;
    return taken;
  };
  check_rope_object(document);
  nlohmann::json kinds = take(document, "rope_parameters"), of_all = take(kinds, "full_attention");
  of_all.update(take(document, all.section));
  document[all.section] = std::move(of_all);
  if (kinds.contains("sliding_attention")) document[windowed.section] = take(kinds, "sliding_attention");
  for (const RopeKeys* rope : {&all, &windowed})
    if (const auto object = document.find(rope->section);
        object != document.end() && object->contains("type") && !object->contains("rope_type"))
      throw Error(
          ExitCode::kConfiguration,
          fmt::format(
              "{}.type is not read by Transformers where layers of two kinds have positions of their own",
              rope->section),
          "write rope_type");
  document.erase("rope_parameters");
  document.erase(kEarlier);
  translate_rope(all, document);
  translate_rope(windowed, document);
}

// Only Transformers 5 knows scaled positions of layers with a window, and only in its own words.
void write_rope_of_kinds(const RopeKeys& all, const RopeKeys& windowed, const ModelValues& m,
                         nlohmann::ordered_json& document) {
  write_rope(all, m, document);
  document[windowed.theta] = m.real(windowed.theta);
  if (is_type(windowed, m, {"default"})) return;
  for (const auto& [kind, rope] :
       {std::pair("full_attention", &all), std::pair("sliding_attention", &windowed)}) {
    nlohmann::ordered_json object = scaling_json(*rope, m);
    if (object.is_null()) object["rope_type"] = "default";
    object["rope_theta"] = m.real(rope->theta);
    document["rope_parameters"][kind] = std::move(object);
  }
}

RotaryOptions rotary_options(const RopeKeys& rope, const ModelValues& m, int64_t head_size) {
  RotaryOptions options{.turned = turned_of(rope, m, head_size),
                        .theta = m.real(rope.theta),
                        .scaling = type_of(rope, m),
                        .attention_factor = attention_factor_of(rope, m)};
  if (!is_type(rope, m, {"default"})) options.factor = number_of(rope, m, "factor");
  if (is_type(rope, m, {"llama3"})) {
    options.low_freq_factor = number_of(rope, m, "low_freq_factor");
    options.high_freq_factor = number_of(rope, m, "high_freq_factor");
  } else if (is_type(rope, m, {"yarn"})) {
    options.beta_fast = number_of(rope, m, "beta_fast");
    options.beta_slow = number_of(rope, m, "beta_slow");
    options.truncate = m.flag(in_section(rope, "truncate"));
  } else if (is_type(rope, m, {"longrope"})) {
    options.short_factor = m.text(in_section(rope, "short_factor"));
    options.long_factor = m.text(in_section(rope, "long_factor"));
  }
  if (is_type(rope, m, {"dynamic"}))
    options.original_positions = m.integer("max_position_embeddings");
  else if (is_type(rope, m, {"llama3", "yarn", "longrope"}))
    options.original_positions = m.integer(earlier_key(rope));
  return options;
}

int64_t cache_ends_by_rope(const RopeKeys& rope, const ModelValues& m) {
  return rope.earlier_length > 0 && is_type(rope, m, {"longrope"}) ? m.integer(kEarlier) : 0;
}

ModelFact longest_by_rope(const RopeKeys& rope, const ModelValues& m) {
  ModelFact longest = fact_of(m, "max_position_embeddings");
  if (is_type(rope, m, {"dynamic"}))
    longest.value = static_cast<int64_t>(static_cast<double>(longest.value) *
                                         std::max(number_of(rope, m, "factor"), 1.0));
  return longest;
}

}  // namespace recollect
