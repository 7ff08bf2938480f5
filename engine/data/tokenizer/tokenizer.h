// Text to token ids, the same ids as Hugging Face `tokenizers` gives without special tokens around them:
// byte-level BPE as GPT-2 has it, and WordPiece as BERT has it. Reading the files it is described by is
// load_tokenizer()'s part.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/data/tokenizer/added_tokens.h"
#include "engine/data/tokenizer/split_words.h"
#include "engine/data/tokenizer/word_cache.h"
#include "engine/data/tokenizer/word_encoder.h"

namespace recollect {

// What encoding remembers and reuses; one per thread, and for one tokenizer.
struct EncodingMemory {
  WordCache words;
  std::string normalized;
  std::u32string points;
};

class Tokenizer {
 public:
  struct Added {
    std::string content;
    uint32_t id = 0;
    bool normalized = false;  // looked for in the text as normalization leaves it
  };

  // GPT-2's way of cutting words where there are no BERT options.
  Tokenizer(std::vector<std::string> tokens, std::unique_ptr<WordEncoder> encoder,
            std::optional<BertOptions> bert, const std::vector<Added>& added, const std::string& source);
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  std::size_t vocabulary_size() const { return tokens_.size(); }
  std::optional<uint32_t> find(std::string_view token) const;

  // Appends the ids of `text`, which is valid UTF-8.
  void encode(std::string_view text, EncodingMemory& memory, std::vector<uint32_t>& ids) const;

  // A place in [from, text.size()) such that what lies before it and what lies behind can be encoded by
  // themselves, or text.size() where there is none. `text` need not be valid.
  std::size_t safe_cut(std::string_view text, std::size_t from) const;

 private:
  void encode_piece(std::string_view text, EncodingMemory& memory, std::vector<uint32_t>& ids) const;
  void encode_words(std::string_view text, WordCache& cache, std::vector<uint32_t>& ids) const;

  Characters characters_;
  std::vector<std::string> tokens_;
  std::unique_ptr<WordEncoder> encoder_;
  std::optional<BertNormalizer> normalizer_;
  AddedTokens added_, added_normalized_;
  bool can_cut_ = true;
};

// `path`: tokenizer.json; vocab.json, with merges.txt beside it (or prefix-vocab.json and prefix-merges.txt);
// a WordPiece vocab.txt; or a folder that holds one of these, looked for in this order. Errors: kInput naming
// file and place for what is missing, damaged or contradicts itself, and for every setting in tokenizer.json
// that changes ids and that is not carried out here.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& path);

// Every file that load_tokenizer() might read there.
std::vector<std::string> files_of_tokenizer(const std::string& path);

}  // namespace recollect
