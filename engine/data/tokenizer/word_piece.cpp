// Two tries over bytes, one of all tokens and one of those within a word, walked once for every piece: the
// last node with a token on the way is the longest piece.
#include <algorithm>

#include "engine/data/tokenizer/token_trie.h"
#include "engine/data/tokenizer/unicode.h"
#include "engine/data/tokenizer/word_encoder.h"

namespace recollect {
namespace {

class WordPiece final : public WordEncoder {
 public:
  WordPiece(const Vocabulary& vocabulary, const WordPieceOptions& options)
      : unknown_(vocabulary.at(options.unknown, "unk_token")), max_characters_(options.max_characters) {
    vocabulary.for_each([&](const std::string& token, uint32_t id) {
      tokens_.add(token, id, kFirst);
      if (token.starts_with(options.prefix))
        tokens_.add(std::string_view(token).substr(options.prefix.size()), id, kWithin);
    });
  }

  void encode(std::string_view word, std::vector<uint32_t>& ids,
              std::vector<ByteRange>* ranges) const override {
    const std::size_t before = ids.size(), ranges_before = ranges ? ranges->size() : 0;
    bool fits = count_points(word) <= max_characters_;
    for (std::size_t at = 0; at < word.size() && fits;) {
      const TokenTrie::Found found = tokens_.longest(word.substr(at), at == 0 ? kFirst : kWithin);
      fits = found.id != TokenTrie::kNone;
      if (!fits) break;
      ids.push_back(found.id);
      if (ranges) ranges->push_back({static_cast<uint32_t>(at), static_cast<uint32_t>(at + found.bytes)});
      at += found.bytes;
    }
    if (fits) return;
    ids.resize(before);
    ids.push_back(unknown_);
    if (!ranges) return;
    ranges->resize(ranges_before);
    ranges->push_back({0, static_cast<uint32_t>(word.size())});
  }

 private:
  static constexpr uint32_t kFirst = 0, kWithin = 1;  // the roots

  uint32_t unknown_;
  uint64_t max_characters_;
  TokenTrie tokens_{2};
};

class WordLevel final : public WordEncoder {
 public:
  WordLevel(const Vocabulary& vocabulary, const std::string& unknown)
      : unknown_(vocabulary.at(unknown, "unk_token")) {
    vocabulary.for_each([&](const std::string& token, uint32_t id) { tokens_.add(token, id); });
  }

  void encode(std::string_view word, std::vector<uint32_t>& ids,
              std::vector<ByteRange>* ranges) const override {
    const uint32_t id = tokens_.whole(word);
    ids.push_back(id == TokenTrie::kNone ? unknown_ : id);
    if (ranges) ranges->push_back({0, static_cast<uint32_t>(word.size())});
  }

 private:
  uint32_t unknown_;
  TokenTrie tokens_;
};

}  // namespace

std::unique_ptr<WordEncoder> make_word_piece(const Vocabulary& vocabulary, const WordPieceOptions& options) {
  return std::make_unique<WordPiece>(vocabulary, options);
}

std::unique_ptr<WordEncoder> make_word_level(const Vocabulary& vocabulary, const std::string& unknown) {
  return std::make_unique<WordLevel>(vocabulary, unknown);
}

}  // namespace recollect
