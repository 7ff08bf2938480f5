#include "engine/data/text_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/core/error.h"
#include "engine/data/tokenizer/unicode.h"
#include "engine/io/input_file.h"
#include "engine/io/strict_json.h"

namespace recollect {

void fail_at_line(const std::string& path, int64_t line, const std::string& what, std::string hint) {
  throw Error(ExitCode::kInput, fmt::format("{}:{}: {}", path, line, what), std::move(hint));
}

std::string read_utf8(const std::string& path) {
  std::string whole = InputFile(path).text();
  if (const std::size_t bad = first_invalid_utf8(whole); bad != std::string_view::npos) {
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

void for_each_json_line(std::string_view whole, const std::string& path,
                        const std::function<void(const nlohmann::json&, int64_t)>& object) {
  for (int64_t line = 1; !whole.empty(); ++line) {
    const std::size_t end = std::min(whole.find('\n'), whole.size());
    const std::string_view text = whole.substr(0, end);
    whole.remove_prefix(std::min(end + 1, whole.size()));
    if (text.empty() || text == "\r")
      fail_at_line(path, line, "an empty line", "every line is a row; remove it");
    const nlohmann::json row = parse_strict_json(text, fmt::format("{}:{}", path, line));
    if (!row.is_object()) fail_at_line(path, line, "not an object");
    object(row, line);
  }
}

}  // namespace recollect
