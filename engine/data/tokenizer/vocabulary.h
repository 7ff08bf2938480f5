// Tokens and their ids: no token twice, no id twice. Ids may be left out, as far as they are few.
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

  std::size_t size() const { return tokens_.size(); }                 // one more than the greatest id
  std::size_t count() const { return ids_.size(); }                   // of tokens
  const std::vector<std::string>& tokens() const { return tokens_; }  // by id; empty where there is none
  // Calls f(token, id) in the order of ids.
  template <typename F>
  void for_each(F f) const {
    for (std::size_t id = 0; id < tokens_.size(); ++id)
      if (const auto at = ids_.find(tokens_[id]); at != ids_.end() && at->second == id)
        f(tokens_[id], static_cast<uint32_t>(id));
  }
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
