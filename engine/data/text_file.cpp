#include "engine/data/text_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/core/error.h"
#include "engine/data/tokenizer/unicode.h"
#include "engine/io/file_kind.h"
#include "engine/io/input_file.h"
#include "engine/io/strict_json.h"

namespace recollect {

void fail_at_line(const std::string& path, int64_t line, const std::string& what, std::string hint) {
  throw Error(ExitCode::kInput, fmt::format("{}:{}: {}", path, line, what), std::move(hint));
}

void fail_at_line(const std::string& path, int64_t line, const Error& error) {
  if (dynamic_cast<const BlankRecord*>(&error))
    throw BlankRecord(fmt::format("{}:{}: {}", path, line, error.what()), error.hint());
  fail_at_line(path, line, error.what(), error.hint());
}

std::string read_utf8(const std::string& path) {
  std::string whole = InputFile(path).text();
  const std::size_t bad = first_invalid_utf8(whole);
  const bool is_text = bad == std::string_view::npos;
  if (const std::optional<FileKind> kind = kind_of_file(whole, /*sure=*/is_text); kind && !kind->may_be_text)
    throw Error(ExitCode::kInput, fmt::format("{} {}, not text in UTF-8", path, kind->what),
                std::string(kind->hint));
  if (!is_text) {
    const std::string_view before = std::string_view(whole).substr(0, bad);
    const std::size_t line_begin = before.rfind('\n') + 1;  // 0 where there is none
    throw Error(ExitCode::kInput,
                fmt::format("{}:{}:{}: not UTF-8", path, std::count(before.begin(), before.end(), '\n') + 1,
                            count_points(before.substr(line_begin)) + 1),
                "convert the file, for example with iconv");
  }
  if (whole.starts_with("\ufeff")) whole.erase(0, 3);
  return whole;
}

void check_no_json(std::string_view whole, const std::string& path, const std::string& hint) {
  whole.remove_prefix(std::min(whole.find_first_not_of(" \t\r\n"), whole.size()));
  std::string_view first = whole.substr(0, whole.find('\n'));
  while (first.ends_with('\r') || first.ends_with(' ')) first.remove_suffix(1);
  const bool object = first.starts_with("{\"") || first == "{",
             list = first.starts_with("[{") || first == "[";
  if (object || list) throw Error(ExitCode::kInput, path + ": it holds JSON", hint);
}

std::string what_jsonl_is(std::string_view first_line) {
  first_line.remove_prefix(std::min(first_line.find_first_not_of(" \t"), first_line.size()));
  while (first_line.ends_with('\r') || first_line.ends_with(' ')) first_line.remove_suffix(1);
  if (first_line.starts_with('['))
    return "it begins as one list; JSONL has an object on each line: `jq -c '.[]' FILE` makes it of a list";
  if (first_line == "{")
    return "its first object goes over several lines; JSONL has one on each line: `jq -c . FILE` writes them "
           "so";
  if (!first_line.starts_with('{') && first_line.find(',') != std::string_view::npos)
    return "if it is a table, write data.format csv or tsv";
  return "";
}

void for_each_json_line(std::string_view whole, const std::string& path, BadRecords& bad,
                        const std::function<void(const nlohmann::json&, int64_t)>& object,
                        std::vector<int64_t>* left_out) {
  for (int64_t line = 1; !whole.empty(); ++line) {
    const std::size_t end = std::min(whole.find('\n'), whole.size());
    const std::string_view text = whole.substr(0, end);
    whole.remove_prefix(std::min(end + 1, whole.size()));
    const bool empty = text.find_first_not_of(" \t\r") == std::string_view::npos;
    try {
      if (empty) fail_at_line(path, line, BlankRecord("an empty line", "every line is a record: remove it"));
      try {
        const nlohmann::json row = parse_strict_json(text, fmt::format("{}:{}", path, line));
        if (!row.is_object())
          fail_at_line(path, line, "not an object", "a line is an object: {\"KEY\": VALUE, ...}");
        object(row, line);
      } catch (const Error& error) {
        const std::string kind = line == 1 && error.code() == ExitCode::kInput ? what_jsonl_is(text) : "";
        if (kind.empty()) throw;
        throw Error(error.code(), error.what(), kind);
      }
    } catch (const Error& error) {
      if (!bad.passes_over(error)) throw;
      if (left_out && !empty) left_out->push_back(line);
    }
  }
}

}  // namespace recollect
