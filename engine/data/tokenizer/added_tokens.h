// Tokens that are looked for in the text before it is cut into words: the leftmost first, and of those that
// begin at the same place the longest.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace recollect {

struct AddedToken {
  std::string content;  // not empty
  uint32_t id;
};

class AddedTokens {
 public:
  explicit AddedTokens(std::vector<AddedToken> tokens);

  // Calls token(id, piece) for each that is there and text(piece) for what lies between, where something does, in
  // order.
  template <typename Text, typename Token>
  void split(std::string_view whole, Text text, Token token) const {
    std::size_t begin = 0;
    for (std::size_t at = next(whole, 0); at < whole.size();) {
      const AddedToken* found = find_at(whole.substr(at));
      if (!found) {
        at = next(whole, at + 1);
        continue;
      }
      if (begin < at) text(whole.substr(begin, at - begin));
      token(found->id, whole.substr(at, found->content.size()));
      begin = at + found->content.size();
      at = next(whole, begin);
    }
    if (begin < whole.size()) text(whole.substr(begin));
  }

 private:
  // The first place from `at` on where one could begin, or the end.
  std::size_t next(std::string_view whole, std::size_t at) const;
  const AddedToken* find_at(std::string_view text) const;

  std::vector<AddedToken> tokens_;  // the longest first
  std::string first_bytes_;         // each once
  std::array<bool, 256> begins_{};
};

}  // namespace recollect
