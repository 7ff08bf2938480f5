#include "engine/data/labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "engine/core/printable.h"
#include "engine/data/text_file.h"
#include "engine/io/strict_json.h"

namespace recollect {

namespace {

// Of each label, in order; none where one has no number.
std::vector<int64_t> numbers_of(std::span<const std::string> labels, std::string_view prefix) {
  std::vector<int64_t> numbers;
  for (const std::string& label : labels) {
    if (!label.starts_with(prefix)) return {};
    const auto number = label_number(std::string_view(label).substr(prefix.size()));
    if (!number) return {};
    numbers.push_back(*number);
  }
  return numbers;
}

}  // namespace

std::optional<int64_t> label_number(std::string_view label) {
  constexpr std::size_t kMostDigits = 18;
  const std::string_view digits = label.substr(label.starts_with('-') ? 1 : 0);
  const bool usual = digits == "0" ? digits == label : !digits.starts_with('0');
  if (digits.empty() || digits.size() > kMostDigits || !usual) return std::nullopt;
  int64_t number = 0;
  const auto read = std::from_chars(label.data(), label.data() + label.size(), number);
  if (read.ec != std::errc() || read.ptr != label.data() + label.size()) return std::nullopt;
  return number;
}

void sort_labels(std::vector<std::string>& labels) {
  constexpr std::string_view kPrefixes[] = {"", "LABEL_"};
  std::sort(labels.begin(), labels.end());
  for (const std::string_view prefix : kPrefixes)
    if (!numbers_of(labels, prefix).empty())
      std::sort(labels.begin(), labels.end(), [&](std::string_view a, std::string_view b) {
        return *label_number(a.substr(prefix.size())) < *label_number(b.substr(prefix.size()));
      });
}

bool same_letters(std::string_view a, std::string_view b) {
  const auto small = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return small(x) == small(y); });
}

std::optional<int32_t> find_class(std::string_view label, std::span<const std::string> names) {
  if (const auto found = std::find(names.begin(), names.end(), label); found != names.end())
    return static_cast<int32_t>(found - names.begin());
  if (label.ends_with(".0"))
    return find_class(label.substr(0, label.size() - 2), names);  // where a column has gaps
  const bool yes = label == "True" || label == "true";
  if (yes || label == "False" || label == "false") {  // of JSON, or Python's
    for (const std::string_view other : {yes ? "true" : "false", yes ? "True" : "False"})
      if (const auto found = std::find(names.begin(), names.end(), other); found != names.end())
        return static_cast<int32_t>(found - names.begin());
    return names.size() == 2 ? std::optional<int32_t>(yes) : std::nullopt;
  }
  if (!numbers_of(names, "").empty()) return std::nullopt;
  std::size_t number = 0;
  const auto read = std::from_chars(label.data(), label.data() + label.size(), number);
  if (read.ec != std::errc() || read.ptr != label.data() + label.size() || number >= names.size())
    return std::nullopt;
  return static_cast<int32_t>(number);
}

void fail_at_label(const std::string& path, int64_t line, std::string_view label,
                   std::span<const std::string> names) {
  const std::string known = list_some({names.begin(), names.end()});
  fail_at_line(path, line, fmt::format("the label {} is none of {}", escaped_name(label), names.size()),
               numbers_of(names, "").empty()
                   ? fmt::format("labels are {}, or 0 to {}", known, static_cast<int64_t>(names.size()) - 1)
                   : fmt::format("labels are {}", known));
}

}  // namespace recollect
