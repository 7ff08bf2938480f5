#include "launch/config/importer.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include <fmt/format.h>

#include "engine/core/error.h"
#include "engine/core/printable.h"
#include "launch/config/foreign_keys.h"
#include "launch/config/read.h"

namespace recollect {
namespace {

constexpr const char* kFilledIn = "it is filled in from TrainingArguments: import these, too";

std::size_t row_number(std::string_view path) {
  const auto rows = foreign_keys();
  return static_cast<std::size_t>(
      std::find_if(rows.begin(), rows.end(), [&](const ForeignKey& row) { return row.name == path; }) -
      rows.begin());
}

std::pair<std::string, std::string> section_and_name(const std::string& path) {
  const std::size_t dot = path.rfind('.');
  if (dot == std::string::npos) return {"", path};
  return {path.substr(0, dot), path.substr(dot + 1)};
}

}  // namespace

void Importer::take(const ForeignFile& file, std::string_view within) {
  within_ = within;
  for (const ForeignFile::LeftOut& one : file.left_out())
    if (within.empty() || !one.from.ends_with(" auto")) leave_out({one.from}, one.why);
  for (const ForeignFile::Write& one : file.writes())
    write(one.path, one.value, {one.from, one.unset, one.remark, one.refused});
  std::vector<ForeignLeaf> leaves = file.leaves();
  std::stable_sort(leaves.begin(), leaves.end(), [](const ForeignLeaf& a, const ForeignLeaf& b) {
    return row_number(a.path) < row_number(b.path);
  });
  for (const ForeignLeaf& leaf : leaves) take(leaf);
}

Imported Importer::finish() {
  for (std::string wrong = refused(); !wrong.empty() && drop(wrong);) wrong = refused();
  return {text(), left_out_};
}

void Importer::leave_out(const Origin& origin, const std::string& why) {
  if (origin.silent) return;
  const std::string line = fmt::format("{}{}{}: {}", within_, within_.empty() ? "" : ".", origin.from, why);
  if (std::find(left_out_.begin(), left_out_.end(), line) == left_out_.end()) left_out_.push_back(line);
}

void Importer::take(const ForeignLeaf& leaf) {
  const Origin origin{leaf.shown(), leaf.unset};
  if (leaf.value == "auto" && !within_.empty()) return;  // what holds the file says it
  const auto found = translate_foreign(leaf.path, leaf.value);
  if (!found) return take_own(leaf, origin);
  for (const auto& [path, value] : found->writes) write(path, value, origin);
  const bool whole =
      leaf.path.starts_with(fmt::format("{}.", found->name));  // what is said of all keys in it
  const bool off = found->advice == kLeaveItOut || (leaf.value == "false" && found->writes.empty());
  if (whole && found->advice.starts_with("write its keys"))
    return leave_out(origin, leaf.value == "auto" ? kFilledIn : "not known here");
  if (!found->advice.empty() && !off)
    leave_out(whole ? Origin{std::string(found->name), leaf.unset} : origin, found->advice);
  if (!leaf.value && found->advice.empty() && found->writes.empty())
    leave_out(origin, fmt::format("holds more than a value of {}", found->ours));
}

// A key that is called as ours: of the same section, or of none.
void Importer::take_own(const ForeignLeaf& leaf, const Origin& origin) {
  const auto [section, name] = section_and_name(leaf.path);
  const ConfigKey* key = table_.find(section, name);
  for (const std::string_view home : table_.sections())
    if (!key && section.empty() && !home.starts_with("model")) key = table_.find(std::string(home), name);
  if (!key && leaf.value == "auto") return leave_out(origin, kFilledIn);
  if (!key || !leaf.value) return leave_out(origin, "not known here");
  if (const ForeignValue* row = find_foreign_value(key->path(), key->name, *leaf.value)) {
    for (const auto& [path, value] : writes_of(*row, key->path(), *leaf.value)) write(path, value, origin);
    if (row->writes.empty() && row->advice != kLeaveItOut) leave_out(origin, std::string(row->advice));
    return;
  }
  write(key->path(), *leaf.value, origin);
}

void Importer::write(const std::string& path, std::string value, const Origin& origin) {
  const auto [section, name] = section_and_name(path);
  const ConfigKey* key = table_.find(section, name);
  if (!key) return leave_out(origin, fmt::format("{} is no key of every model", path));
  if (value == "auto" && key->type != "text" && key->type != "choice") return leave_out(origin, kFilledIn);
  if (key->type == "integer" && value.ends_with(".0")) value.resize(value.size() - 2);
  YamlNode node;
  node.kind = YamlNode::Kind::kScalar;
  node.text = value;
  Problems unreadable;
  if ((key->type == "texts" || key->type == "groups") && value.starts_with('['))
    node = parse_document("value", value, unreadable);
  Config scratch = table_.defaults();
  if (const std::string wrong = key->read(scratch, node); !wrong.empty() || !unreadable.empty())
    return leave_out(origin, fmt::format("{}: {}", key->path(), wrong.empty() ? "cannot be read" : wrong));
  const std::string printed = key->print(scratch);
  const auto [at, is_new] =
      values_.emplace(key->path(), Value{printed, origin.remark, origin.from, origin.silent, origin.why});
  if (is_new || at->second.printed == printed) return;
  leave_out(origin, fmt::format("{} is {} already, by {}", key->path(), at->second.printed,
                                at->second.from.empty() ? "what the file does not say" : at->second.from));
}

// All keys as YAML, each on a line of its own; those that are refused as comments.
std::string Importer::text() {
  std::string yaml =
      fmt::format("# {}, from {}: model and data are still to be added.\n", what_, printable(name_));
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
    yaml += is_comment
                ? fmt::format("# {}: {}\n", path, value.printed)
                : fmt::format("{}{}: {}{}\n", std::string(depth, ' '), key.name, value.printed, value.remark);
    lines_.push_back(is_comment ? "" : path);
  }
  return yaml;
}

// Begins the sections of a key that are not open yet.
void Importer::open_section(const std::string& section, std::string& open, std::string& yaml) {
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
std::vector<std::string> Importer::what_is_added() const {
  std::vector<std::string> words;
  const auto says = [&](const char* key) {
    const auto found = values_.find(key);
    return found != values_.end() && found->second.refused.empty() && found->second.printed != "0";
  };
  const bool evaluates = says("evaluation.every_steps") || says("evaluation.every_epochs");
  const auto has = [&](const char* key) { return values_.contains(key); };
  const bool needs_lines = evaluates || says("training.epochs") || says("snapshot.every_epochs") ||
                           says("logging.every_epochs") || has("data.packing") ||
                           has("data.group_by_length") || has("data.padding");  // which random data has not
  if (!has("data.format") && !has("data.path")) {
    words.emplace_back(needs_lines ? "data.format=jsonl" : "data.format=random");
    if (needs_lines) words.emplace_back("data.path=lines.jsonl");
  }
  if (evaluates && !values_.contains("evaluation.path")) words.emplace_back("evaluation.path=texts");
  const auto tensor = values_.find("parallelism.tensor_parallel_size");
  if (tensor != values_.end() && tensor->second.printed != "1") words.push_back(tensor->first + "=2");
  const auto length = values_.find("data.sequence_length");
  if (length != values_.end())
    words.push_back(fmt::format("model.max_position_embeddings={}", length->second.printed));
  return words;
}

// What the strict reader says first of a key that stands in the text: "LINE:COLUMN: message"; "" where it takes
// all of them.
std::string Importer::refused() {
  const std::string yaml = text();
  try {
    read_config_text("import", yaml, what_is_added(), kAnyBuild);
  } catch (const Error& error) {
    const std::string_view said = error.what();
    const std::string_view first = said.substr(0, said.find('\n'));
    if (first.starts_with("import:")) return std::string(first.substr(7));
  }
  return "";
}

// Makes a comment of the key that is refused, or takes it away where nobody gave it; false where none stands there.
bool Importer::drop(const std::string& refusal) {
  within_.clear();
  const std::size_t line = std::strtoul(refusal.c_str(), nullptr, 10);
  const std::string path = line >= 1 && line <= lines_.size() ? lines_[line - 1] : "";
  const auto found = values_.find(path);
  if (found == values_.end()) return leave_out({"still to be done"}, refusal), false;
  if (found->second.silent) return values_.erase(found), true;
  const std::size_t message = refusal.find(": ");
  found->second.refused = refusal.substr(message + 2);
  const std::string from = found->second.from.empty() ? path : found->second.from;
  leave_out({from}, found->second.why.empty() ? found->second.refused : found->second.why);
  return true;
}

}  // namespace recollect
