// The objects of tokenizer.json, read so that no key is passed over.
#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <set>
#include <string>

#include "engine/core/error.h"
#include "engine/core/spelled.h"
#include "engine/data/tokenizer/unicode.h"
#include "engine/io/json.h"
#include "engine/io/strict_json.h"

namespace recollect {

[[noreturn]] inline void not_carried_out(const std::string& source, const std::string& what) {
  throw Error(ExitCode::kInput, fmt::format("{}: {} is not carried out here", source, what),
              "docs/data.md lists what is");
}

// One object of the file: what is asked for is checked, and what nobody asked for is an error of finish().
class JsonFields {
 public:
  JsonFields(const nlohmann::json& json, std::string name, const std::string& source)
      : json_(json), name_(std::move(name)), source_(source) {
    if (!json.is_object()) fail("is not an object");
  }

  // Null where there is none.
  const nlohmann::json& take(const char* key) {
    static const nlohmann::json kNull;
    seen_.insert(key);
    const auto at = json_.find(key);
    return at == json_.end() ? kNull : *at;
  }
  std::string text(const char* key) {
    const nlohmann::json& value = take(key);
    if (!value.is_string()) fail("is no text", key);
    return value.get<std::string>();
  }
  std::string some_text(const char* key) {
    std::string value = text(key);
    if (value.empty()) fail("is an empty text", key);
    return value;
  }
  // A text of one character.
  std::string character(const char* key) {
    std::string value = text(key);
    if (value.empty() || utf8_length(value.front()) != value.size()) fail("is not one character", key);
    return value;
  }
  template <Spelled E>
  E one_of(const char* key, E otherwise) {
    const nlohmann::json& value = take(key);
    if (value.is_null()) return otherwise;
    for (std::size_t i = 0; i < kSpellings<E>.size(); ++i)
      if (value == kSpellings<E>[i]) return static_cast<E>(i);
    not_carried_out(source_, fmt::format("{} {}", path(key), shown(value)));
  }
  bool flag(const char* key, bool otherwise) {
    const nlohmann::json& value = take(key);
    if (value.is_null()) return otherwise;
    if (!value.is_boolean()) fail("is neither true nor false", key);
    return value.get<bool>();
  }
  uint64_t number(const char* key, uint64_t otherwise) {
    const nlohmann::json& value = take(key);
    if (value.is_null()) return otherwise;
    if (!value.is_number_unsigned()) fail("is no whole number", key);
    return value.get<uint64_t>();
  }
  // A value other than these, or null, would change ids in a way that we do not know.
  void only(const char* key, std::initializer_list<nlohmann::json> values) {
    const nlohmann::json& value = take(key);
    bool known = value.is_null();
    for (const nlohmann::json& one : values) known |= value == one;
    if (!known) not_carried_out(source_, fmt::format("{} {}", path(key), shown(value)));
  }
  [[noreturn]] void contradicts(const std::string& key, const std::string& other) const {
    fail("contradicts " + path(other), key);
  }
  void finish() const {
    for (const auto& [key, value] : json_.items())
      if (!seen_.contains(key)) not_carried_out(source_, fmt::format("{} {}", path(key), shown(value)));
  }

 private:
  std::string path(const std::string& key) const { return name_.empty() ? key : name_ + "." + key; }
  static std::string shown(const nlohmann::json& value) {
    if (value.is_object() && value.contains("type")) return "of type " + shown(value["type"]);
    return value.is_structured() ? "(a list or an object)"
           : value.is_string()   ? escaped_name(value.get<std::string>())
                                 : value.dump();
  }
  [[noreturn]] void fail(const std::string& what, const std::string& key = {}) const {
    const std::string where = key.empty() ? name_ : path(key);
    throw Error(ExitCode::kInput,
                fmt::format("{}: {} {}", source_, where.empty() ? "the file" : where, what));
  }

  const nlohmann::json& json_;
  std::string name_;
  const std::string& source_;
  std::set<std::string> seen_;
};

}  // namespace recollect
