// A place in a JSON document that may be damaged, edited or made by another program. Access to a value that
// it does not hold throws kInput with the file and the path of the place.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "engine/io/json.h"

namespace recollect {

class JsonPlace {
 public:
  static constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

  // `value` must outlive the place. `source` names the file.
  JsonPlace(const nlohmann::json& value, const std::string& source) : JsonPlace(value, source, "") {}

  JsonPlace at(const std::string& key) const;
  std::optional<JsonPlace> find(const std::string& key) const;
  JsonPlace at(std::size_t index) const;
  std::size_t size() const;  // the size of an array

  bool is_null() const { return value_->is_null(); }
  int64_t integer(int64_t low = 0, int64_t high = kMost) const;
  uint64_t bytes() const { return static_cast<uint64_t>(integer()); }
  double amount() const;     // finite and not negative
  std::string text() const;  // printable
  // `count`: how many there must be, if known.
  std::vector<int64_t> integers(std::optional<std::size_t> count = {}, int64_t low = 0,
                                int64_t high = kMost) const;

  [[noreturn]] void refuse(const std::string& expected) const;

 private:
  JsonPlace(const nlohmann::json& value, const std::string& source, std::string path)
      : value_(&value), source_(&source), path_(std::move(path)) {}

  const nlohmann::json* value_;
  const std::string* source_;
  std::string path_;
};

}  // namespace recollect
