#include "launch/config/import.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "engine/core/error.h"
#include "engine/core/printable.h"
#include "engine/io/file_text.h"
#include "engine/io/json.h"
#include "engine/io/strict_json.h"
#include "launch/config/foreign_answers.h"
#include "launch/config/foreign_keys.h"
#include "launch/config/import_file.h"
#include "launch/config/importer.h"
#include "launch/config/toml_document.h"

namespace recollect {
namespace {

// Whose files can be read, and what is to be known of them that no table of keys says.
struct Trainer {
  std::string_view name, what;
  void (*arrange)(ForeignFile&) = nullptr;
};

constexpr Trainer kTrainers[] = {{"DeepSpeed", "DeepSpeed's configuration", arrange_deepspeed},
                                 {"accelerate", "accelerate's configuration", arrange_accelerate},
                                 {"Transformers", "Transformers' TrainingArguments", arrange_transformers},
                                 {"axolotl", "axolotl's configuration", arrange_axolotl},
                                 {"OSLO", "OSLO's configuration", arrange_oslo},
                                 {"torchtitan", "torchtitan's configuration", arrange_torchtitan}};
constexpr const Trainer &kDeepSpeed = kTrainers[0], &kTransformers = kTrainers[2];
constexpr const Trainer& kTorchtitan = kTrainers[5];

constexpr const char* kKnown =
    "config import reads DeepSpeed's and OSLO's JSON, Transformers' TrainingArguments as JSON, accelerate's "
    "and "
    "axolotl's YAML, and torchtitan's TOML";

[[noreturn]] void refuse_file(const std::string& name, const std::string& why, const std::string& hint) {
  throw Error(ExitCode::kConfiguration, fmt::format("{}: {}", printable(name), why), hint);
}

YamlNode tree_of(const nlohmann::json& value) {
  YamlNode node;
  if (value.is_null()) return node;
  if (value.is_object()) {
    node.kind = YamlNode::Kind::kMapping;
    for (const auto& [name, inner] : value.items()) {
      node.entries.push_back({{}, tree_of(inner)});
      node.entries.back().key.kind = YamlNode::Kind::kScalar;
      node.entries.back().key.text = name;
    }
  } else if (value.is_array()) {
    node.kind = YamlNode::Kind::kSequence;
    for (const auto& item : value) node.items.push_back(tree_of(item));
  } else {
    node.kind = YamlNode::Kind::kScalar;
    node.text = value.is_string() ? value.get<std::string>() : value.dump();
  }
  return node;
}

YamlNode parse_foreign(const std::string& name, std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) refuse_file(name, "is empty", kKnown);
  Problems problems;
  if (is_toml(name, text)) {
    YamlNode root = parse_toml(name, text, problems);
    problems.raise(kKnown);
    return root;
  }
  if (text[first] != '{') {
    YamlNode root = parse_document(name, text, problems);
    problems.raise(kKnown);
    return root;
  }
  try {
    return tree_of(parse_strict_json(text, name));
  } catch (const Error& error) {
    throw Error(ExitCode::kConfiguration, error.what(), kKnown);
  }
}

// How many names of a file are known to be that trainer's, those of a section with it.
int likeness(const YamlNode& mapping, const std::string& section, const Trainer& trainer) {
  const auto is_of = [&](std::string_view row_of) {
    return row_of.find(trainer.name) != std::string_view::npos;
  };
  int sum = 0;
  for (const auto& entry : mapping.entries) {
    const std::string& key = entry.key.text;
    const std::string path = section.empty() ? key : fmt::format("{}.{}", section, key), inside = path + ".";
    const bool is_mapping = entry.value.kind == YamlNode::Kind::kMapping;
    const auto rows = foreign_keys();
    const auto names = foreign_names();
    const bool known = std::any_of(rows.begin(), rows.end(), [&](const ForeignKey& row) {
      return is_of(row.of) && (row.name == path || (is_mapping && row.name.starts_with(inside)));
    });
    const bool alias = !is_mapping && std::any_of(names.begin(), names.end(), [&](const ForeignName& row) {
      return is_of(row.of) && row.name == key;
    });
    sum += known || alias ? 1 : 0;
    if (is_mapping && section.empty()) sum += likeness(entry.value, key, trainer);
  }
  return sum;
}

const Trainer& trainer_of(const std::string& name, const YamlNode& root, bool is_of_tables) {
  const auto has = [&](const char* key) {
    return std::any_of(root.entries.begin(), root.entries.end(),
                       [&](const auto& e) { return e.key.text == key; });
  };
  if (is_of_tables) {
    if (likeness(root, "", kTorchtitan) == 0)
      refuse_file(name, "holds no key of a trainer that is known", kKnown);
    return kTorchtitan;
  }
  if (has("architectures") || (has("model_type") && !has("base_model")))
    refuse_file(name, "is a model's config.json",
                fmt::format("write config: {} in section 'model'", printable(name)));
  const auto is_section = [&](const char* key) {
    return std::any_of(root.entries.begin(), root.entries.end(), [&](const auto& e) {
      return e.key.text == key && e.value.kind == YamlNode::Kind::kMapping;
    });
  };
  if (is_section("training") || is_section("model"))
    refuse_file(name, "is a configuration of ours already", kKnown);
  const Trainer* best = nullptr;
  int most = 0;
  for (const Trainer& trainer : kTrainers)
    if (const int likes = likeness(root, "", trainer); likes > most) most = likes, best = &trainer;
  const bool has_arguments = std::any_of(root.entries.begin(), root.entries.end(), [](const auto& entry) {
    return is_training_argument(entry.key.text);
  });
  if (!best && has_arguments) return kTransformers;
  if (!best) refuse_file(name, "holds no key of a trainer that is known", kKnown);
  return *best;
}

// What a section says of itself, "" where it says nothing.
std::string_view enabled(const YamlNode& section) {
  for (const auto& entry : section.entries)
    if (entry.key.text == "enabled") return entry.value.text;
  return "";
}

// Nothing, an empty text, list or mapping, or a section that says that it is off.
bool says_nothing(const YamlNode& node) {
  if (node.kind == YamlNode::Kind::kNull) return true;
  if (node.kind == YamlNode::Kind::kScalar) return node.text.empty();
  return node.items.empty() && (node.entries.empty() || enabled(node) == "false");
}

void add_leaves(const Trainer& trainer, const std::string& path, const YamlNode& node,
                std::vector<ForeignLeaf>& leaves) {
  if (says_nothing(node)) return;
  const bool is_root = path.empty(), is_list = is_foreign_section(path) && !node.items.empty();
  const bool is_table = &trainer == &kTorchtitan;
  if (node.kind == YamlNode::Kind::kMapping && (is_root || is_table || is_foreign_section(path))) {
    const bool undecided = !is_root && enabled(node) == "auto";  // what it holds is for when it is on
    for (const auto& [key, value] : node.entries)
      if (!undecided || key.text == "enabled")
        add_leaves(trainer, is_root ? key.text : fmt::format("{}.{}", path, key.text), value, leaves);
  } else if (is_list) {  // whose entries have names of their own
    for (std::size_t i = 0; i < node.items.size(); ++i)
      add_leaves(trainer, fmt::format("{}.{}", path, i), node.items[i], leaves);
  } else {
    const std::optional<std::string> value = text_of(node);
    leaves.push_back({path, value, value && is_default_there(trainer.name, path, *value)});
  }
}

// Dictionaries that a command line gives as text: "{\"num_cycles\": 3}".
void open_texts(const std::string& name, YamlNode& root) {
  for (YamlNode::Entry& entry : root.entries)
    if (entry.value.kind == YamlNode::Kind::kScalar && entry.value.text.starts_with('{')) {
      try {
        entry.value = tree_of(parse_strict_json(entry.value.text, name));
      } catch (const Error&) {  // the key says what is wrong with it
      }
    }
}

ForeignFile arranged(const Trainer& trainer, const YamlNode& root) {
  std::vector<ForeignLeaf> leaves;
  add_leaves(trainer, "", root, leaves);
  ForeignFile file(root, std::move(leaves));
  if (trainer.arrange) trainer.arrange(file);
  return file;
}

}  // namespace

Imported import_config_text(const std::string& name, std::string_view text) {
  YamlNode root = parse_foreign(name, text);
  if (root.kind != YamlNode::Kind::kMapping) refuse_file(name, "holds no keys", kKnown);
  open_texts(name, root);
  // DeepSpeed's own configuration may stand inside: it fills in what the other leaves to it.
  const auto inner = std::find_if(root.entries.begin(), root.entries.end(), [](const YamlNode::Entry& entry) {
    return entry.key.text == "deepspeed" && entry.value.kind == YamlNode::Kind::kMapping;
  });
  YamlNode of_deepspeed;
  if (inner != root.entries.end()) {
    of_deepspeed = std::move(inner->value);
    root.entries.erase(inner);
  }
  const Trainer& trainer = trainer_of(name, root, is_toml(name, text));
  Importer importer(name, trainer.what);
  importer.take(arranged(trainer, root));
  if (of_deepspeed.kind == YamlNode::Kind::kMapping)
    importer.take(arranged(kDeepSpeed, of_deepspeed), "deepspeed");
  return importer.finish();
}

Imported import_config(const std::string& path) {
  std::string text;
  if (const std::string wrong = read_file_text(path, kMaxDocumentBytes, text); !wrong.empty())
    refuse_file(path, wrong, kKnown);
  return import_config_text(path, text);
}

}  // namespace recollect
