#include "engine/data/tagged_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

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

std::string tag_of_json(const nlohmann::json& name, const std::string& path, int64_t line,
                        const std::string& tags) {
  const double number = name.is_number_float() ? name.get<double>() : 0;
  const bool whole = name.is_number_float() && number == std::floor(number) && std::abs(number) < 1e15;
  if (!name.is_string() && !name.is_number_integer() && !whole)
    fail_at_line(path, line,
                 fmt::format("{} has {}, which is neither a name nor a whole number", escaped_name(tags),
                             name.dump()));
  if (name == -100 || name == "")
    fail_at_line(path, line,
                 fmt::format("{} has {}, which is the tag of no word", escaped_name(tags), name.dump()));
  if (whole) return fmt::to_string(static_cast<int64_t>(number));  // 1.0 is class 1
  return name.is_string() ? name.get<std::string>() : name.dump();
}

// CoNLL-U's: "# text = ...", "# newdoc". A word that begins so has as many columns as all words.
bool is_comment(const std::vector<std::string_view>& columns, std::size_t columns_of_words) {
  if (!columns[0].starts_with('#')) return false;
  return (columns_of_words > 0 && columns.size() != columns_of_words) ||
         (columns.size() > 2 && columns[2] == "=") ||
         (columns.size() > 1 && (columns[1] == "newdoc" || columns[1] == "newpar"));
}

// Of the first line that can be no comment; 0 where there is none.
std::size_t count_columns(std::string_view whole) {
  std::vector<std::string_view> columns;
  while (!whole.empty()) {
    const std::size_t end = std::min(whole.find_first_of("\r\n"), whole.size());
    split_columns(whole.substr(0, end), columns);
    whole.remove_prefix(std::min(end + 1, whole.size()));
    if (!columns.empty() && !columns[0].starts_with('#') && !columns[0].starts_with("-DOCSTART-"))
      return columns.size();
  }
  return 0;
}

void check_columns(const std::string& path, int64_t line, const std::vector<std::string_view>& columns,
                   bool tagged, std::size_t wanted) {
  if (tagged && columns.size() < 2)
    fail_at_line(path, line, fmt::format("the word {} has no tag", escaped_name(columns[0])),
                 "a line is a word, and its tag in the last column");
  if (columns.size() != wanted)
    fail_at_line(
        path, line, fmt::format("{} columns, and {} in the lines before", columns.size(), wanted),
        "a line has a word, its tag in the last column, and as many columns as the others; sentences end at "
        "empty lines");
}

}  // namespace

TaggedWords TaggedWords::read_conll(const std::string& path, bool tagged, BadRecords& bad) {
  TaggedWords words(path);
  const std::string whole = read_utf8(path);
  check_no_json(whole, path, "data.format jsonl reads words under tokens, and tags under tags or ner_tags");
  std::vector<std::string_view> columns;
  const std::size_t of_words = count_columns(whole);
  std::size_t wanted = 0;
  int64_t line = 0;
  bool dropped = false;  // the rest of the sentence, too
  for (std::string_view rest = whole; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view text = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (text.ends_with('\r')) text.remove_suffix(1);
    ++line;
    split_columns(text, columns);
    if (columns.empty() || columns[0].starts_with("-DOCSTART-")) {
      words.end_sentence();
      dropped = false;
      continue;
    }
    if (dropped || is_comment(columns, of_words)) continue;
    try {
      check_columns(path, line, columns, tagged, wanted == 0 ? columns.size() : wanted);
      wanted = columns.size();
    } catch (const Error& error) {
      if (!bad.passes_over(error)) throw;
      words.drop_sentence();
      dropped = true;
      continue;
    }
    words.add_word(columns.front(), line);
    if (tagged) words.add_tag(columns.back());
  }
  words.end_sentence();
  if (words.ends_.empty()) throw Error(ExitCode::kInput, path + ": there is not a single word");
  return words;
}

TaggedWords TaggedWords::read_jsonl(const std::string& path, const std::string& words,
                                    const std::string& tags, BadRecords& bad) {
  TaggedWords result(path);
  const std::string whole = read_utf8(path);
  for_each_json_line(whole, path, bad, [&](const nlohmann::json& row, int64_t line) {
    result.read_json_line(row, line, words, tags);
  });
  if (result.ends_.empty() && bad.count() > 0) bad.fail_for_all(path);
  if (result.ends_.empty()) throw Error(ExitCode::kInput, path + ": there is not a single line");
  return result;
}

void TaggedWords::read_json_line(const nlohmann::json& row, int64_t line, const std::string& words,
                                 const std::string& tags) {
  const nlohmann::json& texts = list_of(row, words, path_, line);
  for (const nlohmann::json& text : texts)
    if (!text.is_string())
      fail_at_line(path_, line,
                   fmt::format("{} has something that is no text: {}", escaped_name(words), text.dump()));
  std::vector<std::string> names;
  if (!tags.empty())
    for (const nlohmann::json& name : list_of(row, tags, path_, line))
      names.push_back(tag_of_json(name, path_, line, tags));
  if (!tags.empty() && names.size() != texts.size())
    fail_at_line(path_, line,
                 fmt::format("{} words, and {} under {}", texts.size(), names.size(), escaped_name(tags)));
  for (const nlohmann::json& text : texts) add_word(text.get_ref<const std::string&>(), line);
  for (const std::string& name : names) add_tag(name);
  ends_.push_back(word_ends_.size());
  sentence_lines_.push_back(line);
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

void TaggedWords::drop_sentence() {
  const std::size_t words = begin(ends_.size());
  text_.resize(words == 0 ? 0 : word_ends_[words - 1]);
  word_ends_.resize(words);
  lines_.resize(words);
  tag_of_.resize(std::min(tag_of_.size(), words));
}

void TaggedWords::end_sentence() {
  const std::size_t before = begin(ends_.size());
  if (before == word_ends_.size()) return;
  ends_.push_back(word_ends_.size());
  sentence_lines_.push_back(lines_[before]);
}

}  // namespace recollect
