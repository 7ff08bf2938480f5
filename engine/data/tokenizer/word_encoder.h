// The tokens of one word, which is what pre-tokenization leaves.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/data/tokenizer/vocabulary.h"

namespace recollect {

class WordEncoder {
 public:
  virtual ~WordEncoder() = default;
  // Appends. Called by many threads.
  virtual void encode(std::string_view word, std::vector<uint32_t>& ids) const = 0;
  // Of a word that is more than one token: the bytes that this one, the word's first or a later one, stands for.
  virtual std::size_t bytes_of(uint32_t id, bool is_first) const = 0;
};

// How GPT-2 spells bytes: those that print as themselves, and the others, in order, from U+0100 on.
std::array<std::string, 256> gpt2_byte_alphabet();

// Byte-level BPE. Merges, the most important first, are pairs of tokens as the vocabulary spells them: bytes
// as GPT-2's printable characters. Errors: kInput for a merge of or into unknown tokens, one given twice, and
// a byte without a token, naming `source`.
using Merges = std::vector<std::pair<std::string, std::string>>;
std::unique_ptr<WordEncoder> make_bpe(const Vocabulary& vocabulary, const Merges& merges,
                                      const std::string& source);

// WordPiece: the longest token that fits, again and again; pieces within a word begin with `prefix` in the
// vocabulary. A word that cannot be put together, or of more characters than allowed, is the unknown token.
struct WordPieceOptions {
  std::string unknown = "[UNK]", prefix = "##";
  uint64_t max_characters = 100;
};
std::unique_ptr<WordEncoder> make_word_piece(const Vocabulary& vocabulary, const WordPieceOptions& options);

}  // namespace recollect
