#include "engine/data/tagged_words.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/core/error.h"
#include "engine/io/strict_json.h"

namespace recollect {
namespace {

// Where the line's columns are; what separates them is blanks and tabs.
void split_columns(std::string_view line, std::vector<std::string_view>& columns) {
  constexpr std::string_view kBetween = " \t";
  columns.clear();
  for (std::size_t at = line.find_first_not_of(kBetween); at != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(kBetween, at), line.size());
    columns.push_back(line.substr(at, end - at));
    at = line.find_first_not_of(kBetween, end);
  }
}

const nlohmann::json& list_of(const nlohmann::json& row, const std::string& key, const std::string& path,
                              int64_t line) {
  const auto found = row.find(key);
  if (found == row.end()) fail_at_line(path, line, fmt::format("there is no {}", escaped_name(key)));
  if (!found->is_array()) fail_at_line(path, line, fmt::format("{} is no list", escaped_name(key)));
  return *found;
}

}  // namespace

TaggedWords TaggedWords::read_conll(const std::string& path, bool tagged) {
  TaggedWords words(path);
  const std::string whole = read_utf8(path);
  std::vector<std::string_view> columns;
  std::size_t wanted = 0;
  int64_t line = 0;
  for (std::string_view rest = whole; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view text = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (text.ends_with('\r')) text.remove_suffix(1);
    ++line;
    split_columns(text, columns);
    if (columns.empty() || columns[0].starts_with("-DOCSTART-")) {
      words.end_sentence();
      continue;
    }
    if (tagged && columns.size() < 2)
      fail_at_line(path, line, fmt::format("the word {} has no tag", escaped_name(columns[0])),
                   "a line is a word, and its tag in the last column");
    if (wanted == 0) wanted = columns.size();
    if (columns.size() != wanted)
      fail_at_line(path, line, fmt::format("{} columns, and {} in the lines before", columns.size(), wanted));
    words.add_word(columns.front(), line);
    if (tagged) words.add_tag(columns.back());
  }
  words.end_sentence();
  if (words.ends_.empty()) throw Error(ExitCode::kInput, path + ": there is not a single word");
  return words;
}

TaggedWords TaggedWords::read_jsonl(const std::string& path, const std::string& words,
                                    const std::string& tags) {
  TaggedWords result(path);
  const std::string whole = read_utf8(path);
  for_each_json_line(whole, path, [&](const nlohmann::json& row, int64_t line) {
    result.read_json_line(row, line, words, tags);
  });
  if (result.ends_.empty()) throw Error(ExitCode::kInput, path + ": there is not a single line");
  return result;
}

void TaggedWords::read_json_line(const nlohmann::json& row, int64_t line, const std::string& words,
                                 const std::string& tags) {
  const nlohmann::json& texts = list_of(row, words, path_, line);
  for (const nlohmann::json& text : texts) {
    if (!text.is_string())
      fail_at_line(path_, line, fmt::format("{} has something that is no text", escaped_name(words)));
    add_word(text.get_ref<const std::string&>(), line);
  }
  ends_.push_back(word_ends_.size());
  sentence_lines_.push_back(line);
  if (tags.empty()) return;
  const nlohmann::json& names = list_of(row, tags, path_, line);
  if (names.size() != texts.size())
    fail_at_line(path_, line,
                 fmt::format("{} words, and {} under {}", texts.size(), names.size(), escaped_name(tags)));
  for (const nlohmann::json& name : names) {
    if (!name.is_string() && !name.is_number_integer())
      fail_at_line(path_, line,
                   fmt::format("{} has what is neither a name nor a number", escaped_name(tags)));
    if (name == -100 || name == "")
      fail_at_line(path_, line,
                   fmt::format("{} has {}, which is the tag of no word", escaped_name(tags), name.dump()));
    add_tag(name.is_string() ? name.get_ref<const std::string&>() : name.dump());
  }
}

void TaggedWords::add_word(std::string_view word, int64_t line) {
  text_ += word;
  word_ends_.push_back(text_.size());
  lines_.push_back(line);
}

void TaggedWords::add_tag(std::string_view tag) {
  const auto [found, added] = numbers_of_tags_.emplace(std::string(tag), static_cast<uint32_t>(tags_.size()));
  if (added) tags_.emplace_back(tag);
  tag_of_.push_back(found->second);
}

void TaggedWords::end_sentence() {
  const std::size_t before = begin(ends_.size());
  if (before == word_ends_.size()) return;
  ends_.push_back(word_ends_.size());
  sentence_lines_.push_back(lines_[before]);
}

}  // namespace recollect
