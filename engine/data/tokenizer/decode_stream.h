// A text that comes token by token: each part is given once no later token can change it. The parts are those of
// DecodeStream of Hugging Face `tokenizers`, and adding a token takes as long after a million others as after ten.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace recollect {

class DecodeStream {
 public:
  using Decode = std::function<std::string(const std::vector<int32_t>& ids)>;

  explicit DecodeStream(Decode decode) : decode_(std::move(decode)) {}

  // The text that ends with this token: "" where a character waits for its last bytes. Where a token changes text before it
  // (WordPiece's cleaning makes "don't" of "do not"), what was given stays; `tokenizers` ends with an error there.
  std::string add(int32_t id);
  // The text that add() still holds back: bytes of a character that was never finished.
  std::string rest() const;

 private:
  std::string after_prefix(const std::string& text) const;

  Decode decode_;
  std::vector<int32_t> ids_;   // from the last ones that made a part
  std::size_t in_prefix_ = 0;  // of these, the ones whose text is `prefix_`
  std::string prefix_;         // was given
};

}  // namespace recollect
