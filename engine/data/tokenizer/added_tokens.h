// Tokens that are looked for in the text before it is cut into words: the leftmost first, and of those that
// begin at the same place the longest.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/data/tokenizer/token_trie.h"
#include "engine/data/tokenizer/unicode.h"

namespace recollect {

struct AddedToken {
  std::string content;  // not empty
  uint32_t id = 0;
  bool single_word = false;                      // only where no word character stands beside it
  bool takes_left = false, takes_right = false;  // blanks beside it belong to it
};

// Where one was found. It may begin before the end of the one before it, whose blanks it is made of.
struct AddedMatch {
  uint32_t id = 0;
  std::size_t begin = 0, end = 0;
  std::size_t blanks_left = 0, blanks_right = 0;  // bytes of them that belong to it
};

class AddedTokens {
 public:
  AddedTokens(const Characters& characters, std::vector<AddedToken> tokens);

  // Calls token(match) for each that is there and text(begin, end) for what lies between, where something does, in
  // order.
  template <typename Text, typename Token>
  void split(std::string_view whole, Text text, Token token) const {
    std::size_t begin = 0;
    for (std::size_t at = next(whole, 0); at < whole.size();) {
      const TokenTrie::Found found = trie_.longest(whole.substr(at));
      if (found.id == TokenTrie::kNone) {
        at = next(whole, at + 1);
        continue;
      }
      const std::size_t behind = at + found.bytes;
      if (AddedMatch match; accept(whole, at, behind, tokens_[found.id], begin, match)) {
        if (begin < match.begin) text(begin, match.begin);
        token(match);
        begin = match.end;
      }
      at = next(whole, behind);
    }
    if (begin < whole.size()) text(begin, whole.size());
  }

  // Whether one ends where this text does.
  bool ends_with_one(std::string_view text) const;

 private:
  // The first place from `at` on where one could begin, or the end.
  std::size_t next(std::string_view whole, std::size_t at) const;
  // What belongs to the token that is at [begin, end); blanks to the left only as far as `free`.
  bool accept(std::string_view whole, std::size_t begin, std::size_t end, const AddedToken& token,
              std::size_t free, AddedMatch& match) const;

  const Characters& characters_;
  std::vector<AddedToken> tokens_;
  TokenTrie trie_;           // of their places in tokens_
  std::string first_bytes_;  // each once
  std::array<bool, 256> begins_{};
};

}  // namespace recollect
