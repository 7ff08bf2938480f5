#include "engine/data/labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "engine/core/printable.h"
#include "engine/data/text_file.h"
#include "engine/io/strict_json.h"

namespace recollect {

std::optional<int32_t> find_class(std::string_view label, std::span<const std::string> names) {
  if (const auto found = std::find(names.begin(), names.end(), label); found != names.end())
    return static_cast<int32_t>(found - names.begin());
  std::size_t number = 0;
  const auto read = std::from_chars(label.data(), label.data() + label.size(), number);
  if (read.ec != std::errc() || read.ptr != label.data() + label.size() || number >= names.size())
    return std::nullopt;
  return static_cast<int32_t>(number);
}

void fail_at_label(const std::string& path, int64_t line, std::string_view label,
                   std::span<const std::string> names) {
  fail_at_line(path, line, fmt::format("the label {} is none of {}", escaped_name(label), names.size()),
               fmt::format("labels are {}, or 0 to {}", list_some({names.begin(), names.end()}),
                           static_cast<int64_t>(names.size()) - 1));
}

}  // namespace recollect
