// Text to token ids and back, as the training of a model had them: by a tokenizer's files, or, as data.format
// text has it, every byte an id.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace recollect {

class TextCodec {
 public:
  virtual ~TextCodec() = default;
  // With the special tokens that the tokenizer puts around a text. `text` is valid UTF-8.
  virtual std::vector<int32_t> encode(std::string_view text) = 0;
  // A conversation that the model is to answer, by a chat template: a text of the user's, or JSON, a list of turns or an
  // object with messages and tools. Errors: kInput.
  virtual std::vector<int32_t> encode_chat(std::string_view text, const std::string& chat_template) = 0;
  // Valid UTF-8, without special tokens; what is no character yet is U+FFFD.
  virtual std::string decode(const std::vector<int32_t>& ids) const = 0;
  virtual int64_t vocabulary() const = 0;
  virtual std::optional<int32_t> end_of_text() const = 0;
};

// `path`: as load_tokenizer()'s, or "bytes".
std::unique_ptr<TextCodec> make_text_codec(const std::string& path);

// Whether a folder has a tokenizer's files.
bool holds_tokenizer(const std::string& folder);

}  // namespace recollect
