// Named lists of 32-bit words: what a sample consists of, and what a batch hands to a model. A field without
// values counts as absent. Clearing keeps every name and its memory, so filling the same fields again
// allocates nothing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/dtype.h"
#include "engine/core/error.h"

namespace recollect {

struct Field {
  std::string name;
  DType dtype = DType::kI32;  // or kF32: the words are then the bits of floats
  std::vector<int32_t> values = {};
  std::vector<std::size_t> ends = {};  // of a list of lists: where in `values` each of them ends

  // The lists that it consists of: one, unless it is a list of lists.
  std::size_t rows() const { return ends.empty() ? 1 : ends.size(); }
  std::span<const int32_t> row(std::size_t i) const {
    if (ends.empty()) return values;
    const std::size_t begin = i == 0 ? 0 : ends[i - 1];
    return std::span(values).subspan(begin, ends[i] - begin);
  }
  bool operator==(const Field&) const = default;
};

// Named lists, in the order in which they were first asked for.
class Fields {
 public:
  // The field of this name, made empty where there is none. Its address holds.
  Field& field(std::string_view name) {
    for (Field& field : fields_)
      if (field.name == name) return field;
    return fields_.emplace_back(Field{.name = std::string(name)});
  }
  const Field& at(std::string_view name) const {  // Error kInternal where there is none
    const auto found =
        std::find_if(fields_.begin(), fields_.end(), [&](const Field& field) { return field.name == name; });
    require(found != fields_.end(), "a batch lacks a field");
    return *found;
  }
  std::vector<int32_t>& operator[](std::string_view name) { return field(name).values; }
  void clear() {
    for (Field& field : fields_) {
      field.values.clear();
      field.ends.clear();
    }
  }
  // The length of the longest list of "ids".
  int64_t longest() const {
    std::size_t longest = 0;
    for (const Field& field : fields_)
      for (std::size_t i = 0; field.name == "ids" && i < field.rows(); ++i)
        longest = std::max(longest, field.row(i).size());
    return static_cast<int64_t>(longest);
  }
  auto begin() const { return fields_.begin(); }
  auto end() const { return fields_.end(); }
  bool operator==(const Fields&) const = default;

 private:
  std::deque<Field> fields_;  // a handful
};

}  // namespace recollect
