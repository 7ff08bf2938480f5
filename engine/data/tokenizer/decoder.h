// Tokens back to text, as Hugging Face `tokenizers` and then Transformers decode them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace recollect {

struct DecoderOptions {
  enum class Kind { kJoined, kByteLevel, kWordPiece };  // joined: with a blank between them
  Kind kind = Kind::kJoined;
  std::string prefix = "##";  // of a piece within a word
  bool cleanup = true;        // WordPiece's: token by token
  bool clean_text = false;    // Transformers': once more, the whole text
  std::string refused = {};   // not empty: what of the file is not carried out here
};

class Decoder {
 public:
  explicit Decoder(DecoderOptions options);
  const DecoderOptions& options() const { return options_; }
  // Error kInput where options().refused.
  std::string decode(std::span<const std::string_view> tokens) const;

 private:
  std::string from_bytes(std::span<const std::string_view> tokens) const;
  std::string from_pieces(std::span<const std::string_view> tokens) const;

  DecoderOptions options_;
  std::unordered_map<uint32_t, char> bytes_;  // of the characters that spell them
};

// Bytes as text: what is no UTF-8 becomes U+FFFD, one for as much as could have begun a character.
std::string repair_utf8(std::string_view bytes);

}  // namespace recollect
