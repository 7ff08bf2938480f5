// Tokens back to text, as Hugging Face `tokenizers` and then Transformers decode them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/data/tokenizer/regex.h"

namespace recollect {

// One step of tokenizer.json's "decoder": a list of texts becomes another one.
struct DecoderStep {
  enum class Kind {
    kByteLevel,     // characters that spell bytes become these, all in one text
    kByteFallback,  // <0x0A> becomes a byte
    kWordPiece,     // a blank before all but the first and what begins with `text`; cleanup where `flag`
    kMetaspace,     // `text` becomes a blank, and, where `flag`, nothing in the first one
    kReplace,       // what `pattern` finds becomes `text`
    kStrip,         // up to `left` and `right` characters `text` go from the ends
    kFuse,          // all in one text
    kSuffix,        // `text` becomes a blank, and nothing in the last one
    kCtc            // repetitions and `text` go, `delimiter` becomes a blank; cleanup where `flag`
  };
  Kind kind = Kind::kFuse;
  std::string text = {}, delimiter = {};
  bool flag = false;
  uint64_t left = 0, right = 0;
  std::optional<Pattern> pattern = {};
};

struct DecoderOptions {
  enum class Kind { kJoined, kByteLevel, kWordPiece, kSteps };  // joined: with a blank between them
  Kind kind = Kind::kJoined;
  std::string prefix = "##";            // of a piece within a word
  bool cleanup = true;                  // WordPiece's: token by token
  std::vector<DecoderStep> steps = {};  // of kSteps
  bool clean_text = false;              // Transformers': once more, the whole text
  std::string refused = {};             // not empty: what of the file is not carried out here
};

class Decoder {
 public:
  explicit Decoder(DecoderOptions options);
  const DecoderOptions& options() const { return options_; }
  // Error kInput where options().refused.
  std::string decode(std::span<const std::string_view> tokens) const;

 private:
  void apply(const DecoderStep& step, std::vector<std::string>& texts) const;
  void join_bytes(std::vector<std::string>& texts) const;

  DecoderOptions options_;
  std::vector<DecoderStep> steps_;
};

// Bytes as text: what is no UTF-8 becomes U+FFFD, one for as much as could have begun a character.
std::string repair_utf8(std::string_view bytes);

}  // namespace recollect
