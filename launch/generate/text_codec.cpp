#include "launch/generate/text_codec.h"

#include <algorithm>
#include <filesystem>

#include "engine/core/error.h"
#include "engine/data/chat/encoder.h"
#include "engine/data/jinja/json_text.h"
#include "engine/data/tokenizer/decoder.h"
#include "engine/data/tokenizer/tokenizer.h"

namespace recollect {

namespace {

constexpr int64_t kByteValues = 256;

// What begins as a list or an object of turns is one.
jinja::Value conversation_of(std::string_view text, jinja::Value& tools) {
  const std::size_t begin = std::min(text.find_first_not_of(" \t"), text.size());
  const std::string_view first = text.substr(begin, 2);
  jinja::Value messages;
  if (first == "[{" || first == "{\"") {
    messages = jinja::from_json(text);
    if (const jinja::Dict* record = messages.dict()) {
      if (const jinja::Value* found = record->named("tools")) tools = *found;
      const jinja::Value* found = record->named("messages");
      if (!found) throw Error(ExitCode::kInput, "the conversation has no \"messages\"");
      messages = jinja::Value(*found);
    }
    return checked_turns(messages, "the conversation");
  }
  auto turn = std::make_shared<jinja::Dict>();
  turn->set("role", "user");
  turn->set("content", text);
  return jinja::Value::list({jinja::Value(std::move(turn))});
}

class TokenizerCodec final : public TextCodec {
 public:
  explicit TokenizerCodec(const std::string& path) : path_(path), tokenizer_(load_tokenizer(path)) {}

  std::vector<int32_t> encode(std::string_view text) override {
    tokens_.clear();
    tokenizer_->encode(text, memory_, tokens_);
    std::vector<int32_t> ids;
    const std::vector<std::vector<Token>> windows = tokenizer_->assemble(tokens_, std::nullopt, {});
    for (const Token& token : windows.front()) ids.push_back(static_cast<int32_t>(token.id));
    return ids;
  }
  std::vector<int32_t> encode_chat(std::string_view text, const std::string& chat_template) override {
    if (!templates_) templates_ = std::make_unique<ChatTemplates>(*tokenizer_, path_, chat_template);
    jinja::Value tools = jinja::None{};
    const jinja::Value messages = conversation_of(text, tools);
    return ChatEncoder(*tokenizer_, *templates_, Learn::kAll).prompt_ids(messages, tools, memory_);
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
  std::string path_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<ChatTemplates> templates_;
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
  std::vector<int32_t> encode_chat(std::string_view, const std::string&) override {
    throw Error(ExitCode::kConfiguration, "--chat needs a tokenizer with a chat template, and ids are bytes",
                "name the model's tokenizer: --tokenizer FOLDER");
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
