// The tokens of one word, which is what pre-tokenization leaves.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/data/tokenizer/vocabulary.h"

namespace recollect {

struct ByteRange {
  uint32_t begin = 0, end = 0;
};

class WordEncoder {
 public:
  virtual ~WordEncoder() = default;
  // Appends, and, where `ranges` is not null, the bytes of the word that each token stands for. Called by many threads.
  // Error kInput for a word of which a part is no token, where the tokenizer's file names no token for that.
  virtual void encode(std::string_view word, std::vector<uint32_t>& ids,
                      std::vector<ByteRange>* ranges) const = 0;
  // Whether the tokens of a text are those of its parts, where it is cut before every `blank` that follows something
  // else.
  virtual bool ends_words_before(std::string_view) const { return false; }
};

// How GPT-2 spells bytes: those that print as themselves, and the others, in order, from U+0100 on.
std::array<std::string, 256> gpt2_byte_alphabet();
// The bytes that a token of that spelling stands for; none where it has other characters.
std::optional<std::string> bytes_of_gpt2_spelling(std::string_view token);

// How SentencePiece spells a byte: <0x0A>.
std::string spelled_byte(uint8_t byte);

// Byte-pair encoding. Merges, the most important first, are pairs of tokens as the vocabulary spells them. Errors:
// kInput for a merge of or into unknown tokens, and one given twice, naming `source`.
using Merges = std::vector<std::pair<std::string, std::string>>;
struct BpeOptions {
  bool takes_bytes = false;      // words are bytes that the vocabulary spells as GPT-2 does, not characters
  bool needs_all_bytes = false;  // a byte without a token is an error
  std::optional<std::string> unknown = {};
  bool fuse_unknown = false, byte_fallback = false;
  bool whole_words_first = false;        // a word that is a token needs no merges
  std::string prefix = {}, suffix = {};  // of what does not begin a word, and of what ends it
};
std::unique_ptr<WordEncoder> make_bpe(const Vocabulary& vocabulary, const Merges& merges,
                                      const std::string& source,
                                      const BpeOptions& options = {.takes_bytes = true,
                                                                   .needs_all_bytes = true});

// The most probable tokens together: scores are logarithms, one of each token.
struct UnigramOptions {
  std::optional<uint32_t> unknown = {};
  bool byte_fallback = false;
};
std::unique_ptr<WordEncoder> make_unigram(const Vocabulary& vocabulary, const std::vector<double>& scores,
                                          const std::string& source, const UnigramOptions& options);

// WordPiece: the longest token that fits, again and again; pieces within a word begin with `prefix` in the
// vocabulary. A word that cannot be put together, or of more characters than allowed, is the unknown token.
struct WordPieceOptions {
  std::string unknown = "[UNK]", prefix = "##";
  uint64_t max_characters = 100;
};
std::unique_ptr<WordEncoder> make_word_piece(const Vocabulary& vocabulary, const WordPieceOptions& options);

// A word is a token, or the unknown one.
std::unique_ptr<WordEncoder> make_word_level(const Vocabulary& vocabulary, const std::string& unknown);

}  // namespace recollect
