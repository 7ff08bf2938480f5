// Named lists of 32-bit integers: what a sample consists of, and what a batch hands to a model. A list without
// values counts as absent. Clearing keeps every name and its memory, so filling the same fields again
// allocates nothing.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace recollect {

struct Field {
  std::string name;
  std::vector<int32_t> values;
  bool operator==(const Field&) const = default;
};

class Fields {
 public:
  // The field of this name, made empty where there is none. Its address holds.
  std::vector<int32_t>& operator[](std::string_view name) {
    for (Field& field : fields_)
      if (field.name == name) return field.values;
    return fields_.emplace_back(Field{std::string(name), {}}).values;
  }
  void clear() {
    for (Field& field : fields_) field.values.clear();
  }
  auto begin() const { return fields_.begin(); }
  auto end() const { return fields_.end(); }
  bool operator==(const Fields&) const = default;

 private:
  std::deque<Field> fields_;  // a handful
};

}  // namespace recollect
