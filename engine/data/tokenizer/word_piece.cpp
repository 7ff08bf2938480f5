// Two tries over bytes, one of all tokens and one of those within a word, walked once for every piece: the
// last node with a token on the way is the longest piece.
#include <algorithm>

#include "engine/data/tokenizer/pair_map.h"
#include "engine/data/tokenizer/word_encoder.h"

namespace recollect {
namespace {

constexpr uint32_t kNoToken = UINT32_MAX;

class WordPiece : public WordEncoder {
 public:
  WordPiece(const Vocabulary& vocabulary, const WordPieceOptions& options)
      : unknown_(vocabulary.at(options.unknown, "unk_token")),
        prefix_(options.prefix.size()),
        max_characters_(options.max_characters) {
    for (uint32_t id = 0; id < vocabulary.size(); ++id) {
      const std::string_view token = vocabulary.tokens()[id];
      lengths_.push_back(static_cast<uint32_t>(token.size()));
      add(kFirst, token, id);
      if (token.starts_with(options.prefix)) add(kWithin, token.substr(options.prefix.size()), id);
    }
  }

  void encode(std::string_view word, std::vector<uint32_t>& ids) const override {
    const auto characters =
        std::count_if(word.begin(), word.end(), [](char c) { return (c & 0xc0) != 0x80; });
    const std::size_t before = ids.size();
    for (std::size_t at = 0; at < word.size();) {
      const auto [id, bytes] = longest(at == 0 ? kFirst : kWithin, word.substr(at));
      if (id == kNoToken || static_cast<uint64_t>(characters) > max_characters_) {
        ids.resize(before);
        ids.push_back(unknown_);
        return;
      }
      ids.push_back(id);
      at += bytes;
    }
  }
  std::size_t bytes_of(uint32_t id, bool is_first) const override {
    return lengths_[id] - (is_first ? 0 : prefix_);
  }

 private:
  static constexpr uint32_t kFirst = 0, kWithin = 1;  // the roots

  void add(uint32_t node, std::string_view token, uint32_t id) {
    PairMap::Entry* edge = nullptr;
    for (const char c : token) {
      const auto [entry, fresh] = edges_.insert({node, static_cast<unsigned char>(c), nodes_, kNoToken});
      if (fresh) ++nodes_;
      edge = entry;
      node = edge->a;
    }
    if (edge) edge->b = id;
  }

  std::pair<uint32_t, std::size_t> longest(uint32_t node, std::string_view text) const {
    std::pair<uint32_t, std::size_t> found{kNoToken, 0};
    for (std::size_t at = 0; at < text.size();) {
      const PairMap::Entry* edge = edges_.find(node, static_cast<unsigned char>(text[at++]));
      if (!edge) break;
      node = edge->a;
      if (edge->b != kNoToken) found = {edge->b, at};
    }
    return found;
  }

  uint32_t unknown_;
  std::size_t prefix_;
  std::vector<uint32_t> lengths_;  // of every token's spelling, its prefix included
  uint64_t max_characters_;
  uint32_t nodes_ = 2;
  PairMap edges_;  // (node, byte) -> (node, token that ends there)
};

}  // namespace

std::unique_ptr<WordEncoder> make_word_piece(const Vocabulary& vocabulary, const WordPieceOptions& options) {
  return std::make_unique<WordPiece>(vocabulary, options);
}

}  // namespace recollect
