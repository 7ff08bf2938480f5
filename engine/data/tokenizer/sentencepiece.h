// SentencePiece's model file (tokenizer.model, spiece.model, sentencepiece.bpe.model), converted as in Transformers.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/io/json.h"

namespace recollect {

struct SentencePieceModel {
  enum Type : uint64_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4 };
  struct Entry {
    std::string piece;
    float score = 0;
    uint64_t type = kNormal;
  };
  std::vector<Entry> entries;
  uint64_t model_type = 1;  // 1: Unigram, 2: BPE
  int64_t unk_id = 0, bos_id = 1, eos_id = 2;
  std::string unk_piece = "<unk>", bos_piece = "<s>", eos_piece = "</s>", charsmap;
  bool byte_fallback = false, dummy_prefix = true, removes_blanks = true, escapes_blanks = true;
};

// Errors: kInput naming `source`.
SentencePieceModel read_sentencepiece(std::string_view bytes, const std::string& source);

// The tokenizer.json that Transformers makes without a class: it encodes as SentencePiece does. `names`: other names of
// pieces, by id. `legacy`: each part of a text between added tokens begins with a blank, not only the first part.
nlohmann::json tokenizer_json_of_sentencepiece(const SentencePieceModel& model,
                                               const std::map<uint64_t, std::string>& names, bool legacy,
                                               const std::string& source);

// The parts that a Transformers class takes: "vocab" and "merges" (`pairs`), or "vocab" with scores; and "charsmap" in
// base64, if there is one.
nlohmann::json vocabulary_of_sentencepiece(const SentencePieceModel& model, bool pairs);

}  // namespace recollect
