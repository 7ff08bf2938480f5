#include "engine/data/text_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>

#include "engine/core/error.h"
#include "engine/core/printable.h"
#include "engine/data/labels.h"
#include "engine/data/text_file.h"
#include "engine/io/strict_json.h"

namespace recollect {
namespace {

// Rows of fields, one after another. Its states are those of Python's csv module: a quote opens where a field begins,
// a doubled one within stands for itself, and what follows a closing one belongs to the field.
class DelimitedReader {
 public:
  DelimitedReader(std::string_view text, char delimiter, bool quotes, const std::string& path)
      : text_(text), delimiter_(delimiter), quotes_(quotes), path_(path) {}

  // False at the end. `line` is where the row begins; an empty one has no fields.
  bool next(std::vector<std::string>& fields, int64_t& line) {
    fields.clear();
    if (at_ == text_.size()) return false;
    line = line_;
    if (!at_line_end()) {
      do fields.push_back(read_field());
      while (at_ < text_.size() && text_[at_] == delimiter_ && ++at_);
    }
    if (at_ < text_.size()) {
      at_ += text_.substr(at_, 2) == "\r\n" ? 2 : 1;
      ++line_;
    }
    return true;
  }

 private:
  bool at_line_end() const { return text_[at_] == '\n' || text_[at_] == '\r'; }

  std::string read_field() {
    std::string field;
    if (quotes_ && at_ < text_.size() && text_[at_] == '"') read_quoted(field);
    while (at_ < text_.size() && text_[at_] != delimiter_ && !at_line_end()) field += text_[at_++];
    return field;
  }

  void read_quoted(std::string& field) {
    const int64_t opened = line_;
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '"') {
        if (at_ + 1 == text_.size() || text_[at_ + 1] != '"') return static_cast<void>(++at_);
        ++at_;
      }
      line_ += text_[at_] == '\n';
      field += text_[at_];
    }
    fail_at_line(path_, opened, "a quote that is never closed");
  }

  std::string_view text_;
  char delimiter_;
  bool quotes_;
  const std::string& path_;
  std::size_t at_ = 0;
  int64_t line_ = 1;
};

std::string kind_of_json(const nlohmann::json& value) {
  if (value.is_array()) return value.empty() ? "an empty list" : fmt::format("a list of {}", value.size());
  return value.is_object() ? "an object" : value.dump();
}

std::string field_of_json(const nlohmann::json& value, const std::string& path, int64_t line,
                          const std::string& key, bool may_be_number) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_null() && !may_be_number)
    fail_at_line(path, line, BlankRecord(fmt::format("{} is null", escaped_name(key))));
  const std::string shown = fmt::format("{} is {}", escaped_name(key), kind_of_json(value));
  if (!may_be_number) fail_at_line(path, line, shown + ", and no text");
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";  // as CSV of Python's has them
  if (!value.is_number()) fail_at_line(path, line, shown + ", and neither a text nor a number");
  return value.dump();
}

// What to write where a record lacks a key: those that it has, or who reads chats.
std::string what_there_is(const nlohmann::json& row, std::string_view wanted) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : row.items()) keys.push_back(key);
  for (const char* chat : {"messages", "conversations", "prompt", "instruction"})
    if (wanted == "text" && row.contains(chat))
      return fmt::format(
          "it has {}: conversations are trained on with task causal_lm; 'recollect tokenize --preview 3' "
          "shows them",
          list_some(keys));
  return keys.empty() ? "it has no key"
                      : fmt::format("it has {}; data.columns says which is read", list_some(keys));
}

}  // namespace

TextTable::TextTable(const std::string& path, const TableSpec& spec, BadRecords& bad)
    : path_(path), columns_(spec.columns) {
  const std::string whole = read_utf8(path);
  if (spec.format == TableFormat::kJsonl)
    read_jsonl(whole, spec, bad);
  else
    read_delimited(whole, spec, bad);
  if (lines_.empty() && bad.count() > 0) bad.fail_for_all(path);
  if (lines_.empty()) throw Error(ExitCode::kInput, path + ": there is not a single row");
}

TextTable::TextTable(const std::string& path, const TableSpec& spec)
    : TextTable(path, spec, *std::make_unique<BadRecords>()) {}

void TextTable::read_delimited(std::string_view whole, const TableSpec& spec, BadRecords& bad) {
  const bool csv = spec.format == TableFormat::kCsv;
  check_no_json(whole, path_, "data.format jsonl reads an object a line, with the same keys as columns");
  DelimitedReader reader(whole, csv ? ',' : '\t', csv, path_);
  std::vector<std::string> fields;
  int64_t line = 0;
  const auto next = [&] {  // the next row that has fields
    while (reader.next(fields, line)) {
      if (!fields.empty()) return true;
      const BlankRecord blank(fmt::format("{}:{}: an empty line", path_, line),
                              "every line is a row: remove it");
      if (!bad.passes_over(blank)) throw blank;
    }
    return false;
  };
  if (spec.has_header) {
    if (!next()) return;
    columns_ = fields;
    for (auto name = columns_.begin(); name != columns_.end(); ++name)
      if (std::find(columns_.begin(), name, *name) != name)
        fail_at_line(path_, line, fmt::format("two columns are called {}", escaped_name(*name)));
  }
  while (next()) {
    if (columns_.empty())
      for (std::size_t i = 0; i < fields.size(); ++i) columns_.push_back(fmt::to_string(i));
    try {
      add_row(fields, line, spec);
    } catch (const Error& error) {
      if (!bad.passes_over(error)) throw;
      passed_over_lines_.push_back(line);
    }
  }
}

void TextTable::add_row(std::span<const std::string> fields, int64_t line, const TableSpec& spec) {
  if (fields.size() < columns_.size() && spec.skips_short_rows) {
    skipped_lines_.push_back(line);
  } else if (fields.size() != columns_.size()) {
    fail_at_line(path_, line,
                 fmt::format("{} fields in a table of {} columns", fields.size(), columns_.size()));
  } else {
    append_row(fields, line);
  }
}

void TextTable::append_row(std::span<const std::string> fields, int64_t line) {
  for (const std::string& field : fields) {
    text_ += field;
    ends_.push_back(text_.size());
  }
  lines_.push_back(line);
}

void TextTable::read_jsonl(std::string_view whole, const TableSpec& spec, BadRecords& bad) {
  require(!spec.columns.empty(), "JSONL is read without keys");
  const auto append = [&](const nlohmann::json& row, int64_t line) {
    append_row(fields_of(row, line, spec), line);
  };
  for_each_json_line(whole, path_, bad, append, &passed_over_lines_);
}

std::vector<std::string> TextTable::fields_of(const nlohmann::json& row, int64_t line,
                                              const TableSpec& spec) {
  std::vector<std::string> fields;
  std::size_t listed = 0;
  for (const std::string& key : spec.columns) {
    const auto value = row.find(key);
    if (value == row.end())
      fail_at_line(path_, line, fmt::format("there is no {}", escaped_name(key)), what_there_is(row, key));
    if (key != spec.list) {
      fields.push_back(field_of_json(*value, path_, line, key, key == spec.label));
      continue;
    }
    if (!value->is_array()) fail_at_line(path_, line, fmt::format("{} is no list", escaped_name(key)));
    if (value->empty()) fail_at_line(path_, line, fmt::format("{} is an empty list", escaped_name(key)));
    listed = value->size();
    if (!lines_.empty() && listed + spec.columns.size() != columns_.size() + 1)
      fail_at_line(path_, line,
                   fmt::format("{} has {} texts, and {} in the first line", escaped_name(key), listed,
                               columns_.size() + 1 - spec.columns.size()));
    for (const nlohmann::json& one : *value) fields.push_back(field_of_json(one, path_, line, key, false));
  }
  if (listed > 0 && lines_.empty()) name_listed(spec.list, listed);
  return fields;
}

void TextTable::name_listed(const std::string& key, std::size_t count) {
  const auto at = columns_.erase(std::find(columns_.begin(), columns_.end(), key));
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) names.push_back(fmt::format("{}{}", key, i));
  columns_.insert(at, names.begin(), names.end());
}

std::size_t TextTable::column(std::string_view name) const {
  const auto found = std::find(columns_.begin(), columns_.end(), name);
  if (found == columns_.end())
    throw Error(ExitCode::kInput, fmt::format("{}:1: there is no column {}", path_, escaped_name(name)),
                "the columns are " + list_some(columns_));
  return static_cast<std::size_t>(found - columns_.begin());
}

std::size_t TextTable::place(std::size_t row) const {
  std::size_t place = row;
  for (const std::vector<int64_t>* lines : {&skipped_lines_, &passed_over_lines_})
    place += static_cast<std::size_t>(std::upper_bound(lines->begin(), lines->end(), lines_[row]) -
                                      lines->begin());
  return place;
}

std::string_view TextTable::at(std::size_t row, std::size_t column) const {
  require(row < rows() && column < columns_.size(), "a field outside a table");
  const std::size_t i = row * columns_.size() + column, begin = i == 0 ? 0 : ends_[i - 1];
  return std::string_view(text_).substr(begin, ends_[i] - begin);
}

int32_t TextTable::class_at(std::size_t row, std::size_t column, std::span<const std::string> names) const {
  const auto found = find_class(at(row, column), names);
  if (!found) fail_at_label(path_, lines_[row], at(row, column), names);
  return *found;
}

float TextTable::number_at(std::size_t row, std::size_t column) const {
  std::string_view field = at(row, column);  // blanks around a number are none of it, as everywhere else
  field.remove_prefix(std::min(field.find_first_not_of(" \t"), field.size()));
  field = field.substr(0, field.find_last_not_of(" \t") + 1);
  float number = 0;
  const auto read = std::from_chars(field.data(), field.data() + field.size(), number);
  if (read.ec != std::errc() || read.ptr != field.data() + field.size() || !std::isfinite(number))
    fail(row, fmt::format("the label {} is no number", escaped_name(field)));
  return number;
}

void TextTable::fail(std::size_t row, const std::string& what, std::string hint) const {
  fail_at_line(path_, lines_[row], what, std::move(hint));
}

void TextTable::fail(std::size_t row, const Error& error) const { fail_at_line(path_, lines_[row], error); }

}  // namespace recollect
