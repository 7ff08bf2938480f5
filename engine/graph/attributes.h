// The constants of one op, by name. They are ordered by name, so that printing, hashing and comparing give
// the same result everywhere.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <variant>

#include "engine/core/error.h"

namespace recollect {

using Attribute = std::variant<int64_t, double, std::string>;

class Attributes {
 public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<const std::string, Attribute>> items) : items_(items) {}

  int64_t integer(std::string_view name) const { return get<int64_t>(name); }
  double real(std::string_view name) const { return get<double>(name); }
  const std::string& text(std::string_view name) const { return get<std::string>(name); }
  bool has(std::string_view name) const { return items_.find(name) != items_.end(); }
  void set(const std::string& name, Attribute value) { items_[name] = std::move(value); }
  const auto& items() const { return items_; }
  bool operator==(const Attributes&) const = default;
  std::string to_string() const;  // "axis=tensor p=0.1"

 private:
  template <typename T>
  const T& get(std::string_view name) const {
    const auto it = items_.find(name);
    if (it == items_.end() || !std::holds_alternative<T>(it->second))
      throw Error(ExitCode::kInternal,
                  "op attribute '" + std::string(name) + "' is missing or of another type");
    return std::get<T>(it->second);
  }

  std::map<std::string, Attribute, std::less<>> items_;
};

}  // namespace recollect
