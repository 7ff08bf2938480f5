// Tokens and their ids: no token twice, no id twice, no id left out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace recollect {

class Vocabulary {
 public:
  // In any order. Errors: kInput, naming `source`, the token and the id.
  Vocabulary(std::vector<std::pair<std::string, uint64_t>> tokens, const std::string& source);

  std::size_t size() const { return tokens_.size(); }
  const std::vector<std::string>& tokens() const { return tokens_; }  // by id
  std::optional<uint32_t> find(std::string_view token) const;
  // Error kInput, saying what the token is needed for.
  uint32_t at(std::string_view token, std::string_view needed_for) const;

 private:
  std::string source_;
  std::vector<std::string> tokens_;
  std::unordered_map<std::string_view, uint32_t>
      ids_;  // of the strings in tokens_, which stay where they are
};

}  // namespace recollect
