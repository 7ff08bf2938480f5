// Tokens that a folder's files add to a vocabulary, while the folder is read as one tokenizer.json.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/data/tokenizer/files_beside.h"
#include "engine/data/tokenizer/tokenizer_class.h"
#include "engine/io/json.h"

namespace recollect {

// The special tokens of a Transformers class where no file names them.
struct UsualToken {
  const char* key;
  const char* name;
};
inline std::vector<UsualToken> usual_tokens(TokenizerClass choice) {
  constexpr const char* kEnd = "<|endoftext|>";
  switch (choice) {
    case TokenizerClass::kGpt2:
      return {{"bos_token", kEnd}, {"eos_token", kEnd}, {"unk_token", kEnd}};
    case TokenizerClass::kQwen2:
      return {{"eos_token", kEnd}, {"unk_token", kEnd}, {"pad_token", kEnd}};
    case TokenizerClass::kLlama:
      return {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}};
    case TokenizerClass::kGptNeoX:
      return {{"bos_token", kEnd}, {"eos_token", kEnd}, {"unk_token", kEnd}, {"pad_token", "<|padding|>"}};
    case TokenizerClass::kGemma:
      return {{"bos_token", "<bos>"},
              {"eos_token", "<eos>"},
              {"unk_token", "<unk>"},
              {"pad_token", "<pad>"},
              {"mask_token", "<mask>"}};
    case TokenizerClass::kT5:
      return {{"eos_token", "</s>"}, {"unk_token", "<unk>"}, {"pad_token", "<pad>"}};
    case TokenizerClass::kRoberta:
    case TokenizerClass::kXlmRoberta:
      return {{"bos_token", "<s>"},   {"eos_token", "</s>"},  {"sep_token", "</s>"},   {"cls_token", "<s>"},
              {"unk_token", "<unk>"}, {"pad_token", "<pad>"}, {"mask_token", "<mask>"}};
    case TokenizerClass::kBert:
      return {{"unk_token", "[UNK]"},
              {"sep_token", "[SEP]"},
              {"pad_token", "[PAD]"},
              {"cls_token", "[CLS]"},
              {"mask_token", "[MASK]"}};
    default:
      return {};
  }
}

// Gives ids to added tokens as Hugging Face `tokenizers` does, one after the other.
class AddedList {
 public:
  explicit AddedList(nlohmann::json& whole)
      : list_(whole["added_tokens"]), vocabulary_(whole["model"]["vocab"]) {
    if (list_.is_null()) list_ = nlohmann::json::array();
    next_ = vocabulary_.size();
    for (const nlohmann::json& one : list_)
      if (is_token(one)) next_ = std::max(next_, one["id"].get<uint64_t>() + 1);
  }

  std::optional<uint64_t> find(const std::string& content) const {
    for (const nlohmann::json& one : list_)
      if (is_token(one) && one["content"] == content) return one["id"].get<uint64_t>();
    if (vocabulary_.is_object()) {
      const auto at = vocabulary_.find(content);
      return at != vocabulary_.end() && at->is_number_unsigned() ? std::optional(at->get<uint64_t>())
                                                                 : std::nullopt;
    }
    for (std::size_t i = 0; vocabulary_.is_array() && i < vocabulary_.size(); ++i)  // pieces with scores
      if (vocabulary_[i].is_array() && !vocabulary_[i].empty() && vocabulary_[i][0] == content) return i;
    return std::nullopt;
  }

  uint64_t add(const TokenBeside& token) {
    const std::optional<uint64_t> known = find(token.content);
    const uint64_t id = known ? *known : next_++;
    if (!list_.is_array()) return id;  // reading the whole file reports this error
    nlohmann::json one = {{"id", id},
                          {"content", token.content},
                          {"single_word", token.single_word},
                          {"lstrip", token.lstrip},
                          {"rstrip", token.rstrip},
                          {"normalized", token.normalized},
                          {"special", token.special}};
    for (nlohmann::json& other : list_)
      if (is_token(other) && other["content"] == token.content) {
        if (has_flags(other)) other = std::move(one);  // else reading the whole file reports the error
        return id;
      }
    list_.push_back(std::move(one));
    return id;
  }

 private:
  static bool is_token(const nlohmann::json& one) {
    return one.is_object() && one.contains("id") && one["id"].is_number_unsigned() &&
           one.contains("content") && one["content"].is_string();
  }
  static bool has_flags(const nlohmann::json& one) {
    for (const char* key : {"single_word", "lstrip", "rstrip", "normalized", "special"})
      if (one.contains(key) && !one[key].is_boolean()) return false;
    return true;
  }

  nlohmann::json& list_;
  const nlohmann::json& vocabulary_;
  uint64_t next_ = 0;
};

}  // namespace recollect
