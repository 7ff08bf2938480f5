#include "launch/config/import.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "engine/core/error.h"
#include "engine/core/printable.h"
#include "engine/io/file_text.h"
#include "engine/io/json.h"
#include "engine/io/strict_json.h"
#include "launch/config/foreign_answers.h"
#include "launch/config/foreign_keys.h"
#include "launch/config/keys.h"
#include "launch/config/read.h"

namespace recollect {
namespace {

// What is so there without being said, and here is not: where the file has `path` with a value that begins so, and no
// `unless`.
struct Unsaid {
  std::string_view path, begins, unless, why;
};

// Whose files can be read, and what a key is there that is not given, where that is not what it is here.
struct Trainer {
  std::string_view name, what;
  std::vector<std::pair<std::string_view, std::string_view>> defaults;
  std::vector<Unsaid> unsaid = {};
};

std::span<const Trainer> trainers() {
  static const Trainer kTrainers[] = {
      {"DeepSpeed",
       "DeepSpeed's configuration",
       {{"optimizer.max_grad_norm", "0"}},
       {{"scheduler.type", "Warmup", "scheduler.params.warmup_type",
         "its rate rises with the logarithm of the step where no warmup_type is given; here it rises evenly"},
        {"fp16.enabled", "auto", "",
         "what fp16 says besides is left out: write training.precision: fp16 where it is on"}}},
      {"accelerate", "accelerate's configuration", {}},
      {"Transformers",
       "Transformers' TrainingArguments",
       {{"optimizer.learning_rate", "5e-5"},
        {"scheduler.name", "linear"},
        {"training.micro_batch_size", "8"}}}};
  return kTrainers;
}

constexpr const char* kKnown =
    "config import reads DeepSpeed's JSON, Transformers' TrainingArguments as JSON, and accelerate's YAML";

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

// How many names of a file are known to be that trainer's.
int likeness(const YamlNode& root, const Trainer& trainer) {
  const auto is_of = [&](std::string_view row_of) {
    return row_of.find(trainer.name) != std::string_view::npos;
  };
  int sum = 0;
  for (const auto& entry : root.entries) {
    const std::string& key = entry.key.text;
    const std::string inside = key + ".";
    const bool is_mapping = entry.value.kind == YamlNode::Kind::kMapping;
    const auto rows = foreign_keys();
    const auto names = foreign_names();
    const bool known = std::any_of(rows.begin(), rows.end(), [&](const ForeignKey& row) {
      return is_of(row.of) && (row.name == key || (is_mapping && row.name.starts_with(inside)));
    });
    const bool alias = !is_mapping && std::any_of(names.begin(), names.end(), [&](const ForeignName& row) {
      return is_of(row.of) && row.name == key;
    });
    sum += known || alias ? 1 : 0;
  }
  return sum;
}

const Trainer& trainer_of(const std::string& name, const YamlNode& root) {
  const auto has = [&](const char* key) {
    return std::any_of(root.entries.begin(), root.entries.end(),
                       [&](const auto& e) { return e.key.text == key; });
  };
  if (has("architectures") || has("model_type"))
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
  for (const Trainer& trainer : trainers())
    if (const int likes = likeness(root, trainer); likes > most) most = likes, best = &trainer;
  if (!best) refuse_file(name, "holds no key of a trainer that is known", kKnown);
  return *best;
}

// A value of the file that is not a mapping, or a mapping that the tables know as a whole.
struct Leaf {
  std::string path;
  std::optional<std::string> value;
};

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

void add_leaves(const std::string& path, const YamlNode& node, std::vector<Leaf>& leaves) {
  if (says_nothing(node)) return;
  const bool is_root = path.empty(), is_list = is_foreign_section(path) && !node.items.empty();
  if (node.kind == YamlNode::Kind::kMapping && (is_root || is_foreign_section(path))) {
    const bool undecided = !is_root && enabled(node) == "auto";  // what it holds is for when it is on
    for (const auto& [key, value] : node.entries)
      if (!undecided || key.text == "enabled")
        add_leaves(is_root ? key.text : fmt::format("{}.{}", path, key.text), value, leaves);
  } else if (is_list) {  // whose entries have names of their own
    for (std::size_t i = 0; i < node.items.size(); ++i)
      add_leaves(fmt::format("{}.{}", path, i), node.items[i], leaves);
  } else {
    leaves.push_back({path, text_of(node)});
  }
}

class Importer {
 public:
  Importer(const std::string& name, const Trainer& trainer) : name_(name), trainer_(trainer) {}

  void take(std::vector<Leaf> leaves) {
    const auto order = [](const Leaf& leaf) { return row_number(leaf.path); };
    std::stable_sort(leaves.begin(), leaves.end(),
                     [&](const Leaf& a, const Leaf& b) { return order(a) < order(b); });
    for (const Unsaid& one : trainer_.unsaid) note(one, leaves);
    for (const Leaf& leaf : leaves) take(leaf);
    for (const auto& [path, value] : trainer_.defaults)
      if (!values_.contains(std::string(path)) && !spoken_of_.contains(path))
        write(std::string(path), std::string(value), "", " # not given there");
  }

  Imported finish() {
    for (std::string wrong = refused(); !wrong.empty() && drop(wrong);) wrong = refused();
    return {text(), left_out_};
  }

 private:
  struct Value {
    std::string printed, remark;
    std::string from;          // what it was there
    std::string refused = {};  // why the reader does not take it
  };

  static std::size_t row_number(std::string_view path) {
    const auto rows = foreign_keys();
    return static_cast<std::size_t>(
        std::find_if(rows.begin(), rows.end(), [&](const ForeignKey& row) { return row.name == path; }) -
        rows.begin());
  }

  void leave_out(const std::string& from, const std::string& why) {
    const std::string line = fmt::format("{}: {}", from, why);
    if (std::find(left_out_.begin(), left_out_.end(), line) == left_out_.end()) left_out_.push_back(line);
  }

  void note(const Unsaid& unsaid, const std::vector<Leaf>& leaves) {
    const auto find = [&](std::string_view path) {
      return std::find_if(leaves.begin(), leaves.end(), [&](const Leaf& leaf) { return leaf.path == path; });
    };
    const auto leaf = find(unsaid.path);
    if (leaf != leaves.end() && leaf->value && leaf->value->starts_with(unsaid.begins) &&
        find(unsaid.unless) == leaves.end())
      leave_out(fmt::format("{} {}", leaf->path, *leaf->value), std::string(unsaid.why));
  }

  void take(const Leaf& leaf) {
    const std::string from = leaf.value ? fmt::format("{} {}", leaf.path, *leaf.value) : leaf.path;
    const auto found = translate_foreign(leaf.path, leaf.value);
    if (!found) return take_own(leaf, from);
    spoken_of_.insert(found->ours);
    for (const auto& [path, value] : found->writes) write(path, value, from);
    const bool whole =
        leaf.path.starts_with(fmt::format("{}.", found->name));  // what is said of all keys in it
    const bool off = found->advice == kLeaveItOut || (leaf.value == "false" && found->writes.empty());
    if (whole && found->advice.starts_with("write its keys")) return leave_out(from, "not known here");
    if (!found->advice.empty() && !off) leave_out(whole ? std::string(found->name) : from, found->advice);
    if (!leaf.value && found->advice.empty() && found->writes.empty())
      leave_out(from, fmt::format("holds more than a value of {}", found->ours));
  }

  // A key that is called as ours: of the same section, or of none.
  void take_own(const Leaf& leaf, const std::string& from) {
    const std::size_t dot = leaf.path.rfind('.');
    const std::string section = dot == std::string::npos ? "" : leaf.path.substr(0, dot),
                      name = leaf.path.substr(dot == std::string::npos ? 0 : dot + 1);
    const ConfigKey* key = table_.find(section, name);
    for (const std::string_view home : table_.sections())
      if (!key && section.empty() && !home.starts_with("model")) key = table_.find(std::string(home), name);
    if (!key || !leaf.value) return leave_out(from, "not known here");
    if (const ForeignValue* row = find_foreign_value(key->path(), key->name, *leaf.value)) {
      for (const auto& [path, value] : writes_of(*row, key->path(), *leaf.value)) write(path, value, from);
      if (row->writes.empty() && row->advice != kLeaveItOut) leave_out(from, std::string(row->advice));
      return;
    }
    write(key->path(), *leaf.value, from);
  }

  void write(const std::string& path, std::string value, const std::string& from,
             const std::string& remark = "") {
    const std::size_t dot = path.rfind('.');
    const ConfigKey* key = table_.find(dot == std::string::npos ? "" : path.substr(0, dot),
                                       path.substr(dot == std::string::npos ? 0 : dot + 1));
    if (!key) return leave_out(from, fmt::format("{} is no key of every model", path));
    if (value == "auto" && key->type != "text" && key->type != "choice")
      return leave_out(from, "it is filled in from TrainingArguments: import these, too");
    if (key->type == "integer" && value.ends_with(".0")) value.resize(value.size() - 2);
    YamlNode node;
    node.kind = YamlNode::Kind::kScalar;
    node.text = value;
    Problems unreadable;
    if ((key->type == "texts" || key->type == "groups") && value.starts_with('['))
      node = parse_document("value", value, unreadable);
    Config scratch = table_.defaults();
    if (const std::string wrong = key->read(scratch, node); !wrong.empty() || !unreadable.empty())
      return leave_out(from, fmt::format("{}: {}", key->path(), wrong.empty() ? "cannot be read" : wrong));
    const auto [at, is_new] = values_.emplace(key->path(), Value{key->print(scratch), remark, from});
    if (!is_new && at->second.printed != key->print(scratch))
      leave_out(from,
                fmt::format("{} is {} already, by {}", key->path(), at->second.printed, at->second.from));
  }

  // All keys as YAML, each on a line of its own; those that are refused as comments.
  std::string text() {
    std::string yaml = fmt::format("# {}, from {}: model and data are still to be added.\n", trainer_.what,
                                   printable(name_));
    lines_.assign(1, "");
    std::string open;
    for (const ConfigKey& key : table_.keys()) {
      const auto found = values_.find(key.path());
      if (found == values_.end()) continue;
      const auto& [path, value] = *found;
      const bool is_comment = !value.refused.empty();
      if (!is_comment) open_section(key.section, open, yaml);
      const std::size_t depth =
          key.section.empty() ? 0 : 2 + 2 * std::count(key.section.begin(), key.section.end(), '.');
      yaml += is_comment ? fmt::format("# {}: {}\n", path, value.printed)
                         : fmt::format("{}{}: {}{}\n", std::string(depth, ' '), key.name, value.printed,
                                       value.remark);
      lines_.push_back(is_comment ? "" : path);
    }
    return yaml;
  }

  // Begins the sections of a key that are not open yet.
  void open_section(const std::string& section, std::string& open, std::string& yaml) {
    if (section == open || section.empty()) return;
    const std::size_t dot = section.find('.');
    const std::string outer = section.substr(0, dot);
    if (open.substr(0, open.find('.')) != outer) {
      yaml += outer + ":\n";
      lines_.emplace_back();
    }
    if (dot != std::string::npos) {
      yaml += fmt::format("  {}:\n", section.substr(dot + 1));
      lines_.emplace_back();
    }
    open = section;
  }

  // In place of the data that such a file does not hold; and ranks that divide the default model, for one that the
  // file does not hold either.
  std::vector<std::string> what_is_added() const {
    std::vector<std::string> words;
    const auto evaluates = values_.find("evaluation.every_steps");
    const bool needs_end = values_.contains("training.epochs") ||  // which random data has not
                           (evaluates != values_.end() && evaluates->second.printed != "0");
    if (!values_.contains("data.format") && !values_.contains("data.path"))
      words.emplace_back(needs_end ? "data.path=texts" : "data.format=random");
    if (evaluates != values_.end() && evaluates->second.printed != "0" &&
        !values_.contains("evaluation.path"))
      words.emplace_back("evaluation.path=texts");
    const auto tensor = values_.find("parallelism.tensor_parallel_size");
    if (tensor != values_.end() && tensor->second.printed != "1") words.push_back(tensor->first + "=2");
    const auto length = values_.find("data.sequence_length");
    if (length != values_.end())
      words.push_back(fmt::format("model.max_position_embeddings={}", length->second.printed));
    return words;
  }

  // What the strict reader says first of a key that stands in the text: "LINE:COLUMN: message"; "" where it takes
  // all of them.
  std::string refused() {
    const std::string yaml = text();
    try {
      read_config_text("import", yaml, what_is_added(), {.cuda = true});
    } catch (const Error& error) {
      const std::string_view said = error.what();
      const std::string_view first = said.substr(0, said.find('\n'));
      if (first.starts_with("import:")) return std::string(first.substr(7));
    }
    return "";
  }

  // Makes a comment of the key that is refused; false where none stands there.
  bool drop(const std::string& refusal) {
    const std::size_t line = std::strtoul(refusal.c_str(), nullptr, 10);
    const std::string path = line >= 1 && line <= lines_.size() ? lines_[line - 1] : "";
    const auto found = values_.find(path);
    if (found == values_.end()) return leave_out("still to be done", refusal), false;
    const std::size_t message = refusal.find(": ");
    found->second.refused = refusal.substr(message + 2);
    const std::string from = found->second.from.empty() ? path : found->second.from;
    leave_out(from, found->second.refused);
    return true;
  }

  const std::string& name_;
  const Trainer& trainer_;
  const KeyTable& table_ = KeyTable::of(model_families().front());
  std::map<std::string, Value> values_;
  std::set<std::string_view>
      spoken_of_;                   // keys that the file says something of, whether it can be written or not
  std::vector<std::string> lines_;  // what key each line of the text holds
  std::vector<std::string> left_out_;
};

}  // namespace

Imported import_config_text(const std::string& name, std::string_view text) {
  const YamlNode root = parse_foreign(name, text);
  if (root.kind != YamlNode::Kind::kMapping) refuse_file(name, "holds no keys", kKnown);
  Importer importer(name, trainer_of(name, root));
  std::vector<Leaf> leaves;
  add_leaves("", root, leaves);
  importer.take(std::move(leaves));
  return importer.finish();
}

Imported import_config(const std::string& path) {
  std::string text;
  if (const std::string wrong = read_file_text(path, kMaxDocumentBytes, text); !wrong.empty())
    refuse_file(path, wrong, kKnown);
  return import_config_text(path, text);
}

}  // namespace recollect
