#include "launch/report/checked_json.h"

#include <cmath>

#include <fmt/format.h>

#include "engine/core/error.h"
#include "engine/core/printable.h"

namespace recollect {

JsonPlace JsonPlace::at(const std::string& key) const {
  const std::optional<JsonPlace> found = find(key);
  if (!found) refuse(fmt::format("the key '{}'", key));
  return *found;
}

std::optional<JsonPlace> JsonPlace::find(const std::string& key) const {
  if (!value_->is_object()) refuse("an object");
  const auto found = value_->find(key);
  if (found == value_->end()) return {};
  return JsonPlace(*found, *source_, path_.empty() ? key : path_ + "." + key);
}

JsonPlace JsonPlace::at(std::size_t index) const {
  if (index >= size()) refuse(fmt::format("at least {} entries", index + 1));
  return JsonPlace((*value_)[index], *source_, fmt::format("{}[{}]", path_, index));
}

std::size_t JsonPlace::size() const {
  if (!value_->is_array()) refuse("an array");
  return value_->size();
}

int64_t JsonPlace::integer(int64_t low, int64_t high) const {
  const bool fits = value_->is_number_unsigned()  // the parser's type for all non-negative integers
                        ? value_->get<uint64_t>() <= static_cast<uint64_t>(kMost)
                        : value_->is_number_integer();
  const int64_t number = fits ? value_->get<int64_t>() : 0;
  if (!fits || number < low || number > high)
    refuse(high == kMost ? fmt::format("an integer of at least {}", low)
                         : fmt::format("an integer from {} to {}", low, high));
  return number;
}

double JsonPlace::amount() const {
  const double number = value_->is_number() ? value_->get<double>() : -1;
  if (!std::isfinite(number) || number < 0) refuse("a number that is not negative");
  return number;
}

std::string JsonPlace::text() const {
  if (!value_->is_string()) refuse("text");
  return printable(value_->get_ref<const std::string&>());
}

std::vector<int64_t> JsonPlace::integers(std::optional<std::size_t> count, int64_t low, int64_t high) const {
  const std::size_t length = size();
  if (count && length != *count) refuse(fmt::format("{} entries", *count));
  std::vector<int64_t> numbers;
  numbers.reserve(length);
  for (std::size_t i = 0; i < length; ++i) {
    const nlohmann::json& entry = (*value_)[i];
    const bool fine =
        entry.is_number_integer() && entry.get<int64_t>() >= low && entry.get<int64_t>() <= high;
    numbers.push_back(fine ? entry.get<int64_t>() : at(i).integer(low, high));
  }
  return numbers;
}

void JsonPlace::refuse(const std::string& expected) const {
  throw Error(ExitCode::kInput,
              fmt::format("{}: {} should be {}", *source_, path_.empty() ? "the document" : path_, expected),
              "the file was changed, or another version of recollect wrote it; the run writes it again");
}

}  // namespace recollect
