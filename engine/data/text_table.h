// A file of rows with texts in columns, as people have them: CSV, TSV, or JSONL. The whole file is held once, as UTF-8
// without its quoting; every field is a view into that, and every row knows the line it begins in.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/spelled.h"
#include "engine/data/bad_records.h"
#include "engine/io/json.h"

namespace recollect {

// csv:   commas; quotes as Python's csv module and pandas read them, ends of lines within them included.
// tsv:   tabs, and no quoting at all, as GLUE has it.
// Their rows end with LF, CRLF or CR.
// jsonl: an object a line; texts, and under one key also numbers as they are written.
enum class TableFormat { kCsv, kTsv, kJsonl };
template <>
inline constexpr std::array<std::string_view, 3> kSpellings<TableFormat> = {"csv", "tsv", "jsonl"};

struct TableSpec {
  TableFormat format = TableFormat::kCsv;
  // Of csv and tsv: whether the first line names the columns. Otherwise they are called as `columns` says, or 0, 1, ...
  bool has_header = true;
  std::vector<std::string> columns = {};  // of jsonl: the keys that are read, each of which every line has
  bool skips_short_rows = false;          // GLUE's readers do; an error otherwise
  // Of jsonl: that one of the keys whose value is a list of texts, as many in every line. It becomes columns of its own:
  // KEY0, KEY1, ...
  std::string list = {};
  std::string label = {};  // of jsonl: the key whose value may be a number
};

class TextTable {
 public:
  // Errors: kInput with path:line for a row of another number of fields, a quote that is never closed,
  // what is no UTF-8, what is no JSON, a key that is missing or no text; and for a file without rows.
  // Records that `bad` passes over are left out; without one, those that hold nothing are.
  TextTable(const std::string& path, const TableSpec& spec, BadRecords& bad);
  TextTable(const std::string& path, const TableSpec& spec);

  const std::string& path() const { return path_; }
  const std::vector<std::string>& columns() const { return columns_; }
  // Error kInput that names those there are.
  std::size_t column(std::string_view name) const;
  std::size_t rows() const { return lines_.size(); }
  const std::vector<int64_t>& skipped_lines() const { return skipped_lines_; }
  bool has_left_out() const { return skipped_lines_.size() + passed_over_lines_.size() > 0; }
  // The row's place in the file, from 0, where rows that were skipped count.
  std::size_t place(std::size_t row) const;
  std::string_view at(std::size_t row, std::size_t column) const;
  int64_t line(std::size_t row) const { return lines_[row]; }

  // The class that a field names, by its name or its number. Errors: kInput with path:line, and the names.
  int32_t class_at(std::size_t row, std::size_t column, std::span<const std::string> names) const;
  float number_at(std::size_t row, std::size_t column) const;
  [[noreturn]] void fail(std::size_t row, const std::string& what, std::string hint = {}) const;
  [[noreturn]] void fail(std::size_t row, const Error& error) const;  // without a place

 private:
  void read_delimited(std::string_view whole, const TableSpec& spec, BadRecords& bad);
  void read_jsonl(std::string_view whole, const TableSpec& spec, BadRecords& bad);
  std::vector<std::string> fields_of(const nlohmann::json& row, int64_t line, const TableSpec& spec);
  void name_listed(const std::string& key, std::size_t count);
  void add_row(std::span<const std::string> fields, int64_t line, const TableSpec& spec);
  void append_row(std::span<const std::string> fields, int64_t line);

  std::string path_;
  std::vector<std::string> columns_;
  std::string text_;               // all fields, one behind the other
  std::vector<std::size_t> ends_;  // of each in text_, row by row
  std::vector<int64_t> lines_;
  std::vector<int64_t> skipped_lines_, passed_over_lines_;  // the latter damaged
};

}  // namespace recollect
