// Tokens by their bytes, to be walked once for all that a text begins with.
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/data/tokenizer/pair_map.h"

namespace recollect {

class TokenTrie {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  // A root is a number below `roots`.
  explicit TokenTrie(uint32_t roots = 1) : nodes_(roots) {}

  void add(std::string_view token, uint32_t id, uint32_t root = 0) {
    uint32_t node = root;
    PairMap::Entry* edge = nullptr;
    for (const char c : token) {
      const auto [entry, fresh] = edges_.insert({node, static_cast<unsigned char>(c), nodes_, kNone});
      if (fresh) ++nodes_;
      edge = entry;
      node = edge->a;
    }
    if (edge) edge->b = id;
  }

  // Calls found(id, bytes) for every token that the text begins with, the shortest first.
  template <typename F>
  void for_each_prefix(std::string_view text, F found, uint32_t root = 0) const {
    uint32_t node = root;
    for (std::size_t at = 0; at < text.size();) {
      const PairMap::Entry* edge = edges_.find(node, static_cast<unsigned char>(text[at++]));
      if (!edge) return;
      node = edge->a;
      if (edge->b != kNone) found(edge->b, at);
    }
  }

  struct Found {
    uint32_t id = kNone;
    std::size_t bytes = 0;
  };
  Found longest(std::string_view text, uint32_t root = 0) const {
    Found last;
    for_each_prefix(
        text,
        [&](uint32_t id, std::size_t bytes) {
          last = {id, bytes};
        },
        root);
    return last;
  }
  // The token that the text is, or kNone.
  uint32_t whole(std::string_view text) const {
    const Found found = longest(text);
    return found.bytes == text.size() ? found.id : kNone;
  }

 private:
  uint32_t nodes_;
  PairMap edges_;  // (node, byte) -> (node, token that ends there)
};

}  // namespace recollect
