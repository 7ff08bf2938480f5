#include "launch/generate/text_codec.h"

#include <algorithm>
#include <filesystem>

#include "engine/data/tokenizer/decoder.h"
#include "engine/data/tokenizer/tokenizer.h"

namespace recollect {

namespace {

constexpr int64_t kByteValues = 256;

class TokenizerCodec final : public TextCodec {
 public:
  explicit TokenizerCodec(const std::string& path) : tokenizer_(load_tokenizer(path)) {}

  std::vector<int32_t> encode(std::string_view text) override {
    tokens_.clear();
    tokenizer_->encode(text, memory_, tokens_);
    std::vector<int32_t> ids;
    const std::vector<std::vector<Token>> windows = tokenizer_->assemble(tokens_, std::nullopt, {});
    for (const Token& token : windows.front()) ids.push_back(static_cast<int32_t>(token.id));
    return ids;
  }
  std::string decode(const std::vector<int32_t>& ids) const override {
    return tokenizer_->decode(std::vector<uint32_t>(ids.begin(), ids.end()), true);
  }
  int64_t vocabulary() const override { return static_cast<int64_t>(tokenizer_->vocabulary_size()); }
  std::optional<int32_t> end_of_text() const override {
    const std::optional<uint32_t> id = tokenizer_->special().eos;
    return id ? std::optional(static_cast<int32_t>(*id)) : std::nullopt;
  }

 private:
  std::unique_ptr<Tokenizer> tokenizer_;
  EncodingMemory memory_;
  std::vector<Token> tokens_;
};

class ByteCodec final : public TextCodec {
 public:
  std::vector<int32_t> encode(std::string_view text) override {
    std::vector<int32_t> ids;
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  std::string decode(const std::vector<int32_t>& ids) const override {
    std::string bytes;
    for (const int32_t id : ids)
      if (id < kByteValues) bytes.push_back(static_cast<char>(id));
    return repair_utf8(bytes);
  }
  int64_t vocabulary() const override { return kByteValues; }
  std::optional<int32_t> end_of_text() const override { return std::nullopt; }
};

}  // namespace

std::unique_ptr<TextCodec> make_text_codec(const std::string& path) {
  if (path == "bytes") return std::make_unique<ByteCodec>();
  return std::make_unique<TokenizerCodec>(path);
}

bool holds_tokenizer(const std::string& folder) {
  constexpr const char* kNames[] = {"tokenizer.json",          "tokenizer.model", "spiece.model",
                                    "sentencepiece.bpe.model", "vocab.json",      "vocab.txt"};
  return std::any_of(std::begin(kNames), std::end(kNames), [&](const char* name) {
    std::error_code error;
    return std::filesystem::exists(std::filesystem::path(folder) / name, error);
  });
}

}  // namespace recollect
