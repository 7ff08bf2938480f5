#include "engine/data/tokenizer/tokenizer_class.h"

#include <string_view>

namespace recollect {
namespace {

struct Named {
  std::string_view name;
  TokenizerClass value;
};

constexpr Named kClasses[] = {
    {"GPT2Tokenizer", TokenizerClass::kGpt2},         {"BertTokenizer", TokenizerClass::kBert},
    {"DistilBertTokenizer", TokenizerClass::kBert},   {"ElectraTokenizer", TokenizerClass::kBert},
    {"MobileBertTokenizer", TokenizerClass::kBert},   {"SqueezeBertTokenizer", TokenizerClass::kBert},
    {"LayoutLMTokenizer", TokenizerClass::kBert},     {"LxmertTokenizer", TokenizerClass::kBert},
    {"Qwen2Tokenizer", TokenizerClass::kQwen2},       {"LlamaTokenizer", TokenizerClass::kLlama},
    {"PreTrainedTokenizer", TokenizerClass::kAsFile}, {"PreTrainedTokenizerFast", TokenizerClass::kAsFile},
    {"TokenizersBackend", TokenizerClass::kAsFile},   {"PythonBackend", TokenizerClass::kAsFile},
    {"BloomTokenizer", TokenizerClass::kAsFile}};

// Of the kinds of models that a tokenizer's folder is likely to be of. With those of mistral tokenizer.json counts as it is,
// whatever a file says.
constexpr Named kModels[] = {{"gpt2", TokenizerClass::kGpt2},        {"gptj", TokenizerClass::kGpt2},
                             {"gpt_neo", TokenizerClass::kGpt2},     {"opt", TokenizerClass::kGpt2},
                             {"codegen", TokenizerClass::kGpt2},     {"bert", TokenizerClass::kBert},
                             {"distilbert", TokenizerClass::kBert},  {"electra", TokenizerClass::kBert},
                             {"mobilebert", TokenizerClass::kBert},  {"squeezebert", TokenizerClass::kBert},
                             {"layoutlm", TokenizerClass::kBert},    {"qwen2", TokenizerClass::kQwen2},
                             {"qwen3", TokenizerClass::kQwen2},      {"qwen2_moe", TokenizerClass::kQwen2},
                             {"mistral", TokenizerClass::kAsFile},   {"mixtral", TokenizerClass::kAsFile},
                             {"ministral", TokenizerClass::kAsFile}, {"phi3", TokenizerClass::kAsFile},
                             {"llama", TokenizerClass::kUnsaid}};

template <std::size_t kSize>
const Named* find_named(const Named (&list)[kSize], std::string_view name) {
  for (const Named& one : list)
    if (one.name == name) return &one;
  return nullptr;
}

}  // namespace

TokenizerClass tokenizer_class_of(const std::string& name) {
  const Named* const known = find_named(kClasses, name);
  return known ? known->value : TokenizerClass::kOther;
}

TokenizerClass choose_tokenizer_class(const FilesBeside& beside, bool byte_level) {
  const Named* const model = find_named(kModels, beside.model_type);
  const TokenizerClass of_model = model ? model->value : TokenizerClass::kUnsaid;
  const bool is_said = !beside.tokenizer_class.empty();
  if (!is_said && beside.model_type.empty()) return TokenizerClass::kUnsaid;
  if (!is_said && of_model == TokenizerClass::kUnsaid)
    return model ? TokenizerClass::kAsFile : TokenizerClass::kOther;
  if (!is_said) return of_model;
  const TokenizerClass said = tokenizer_class_of(beside.tokenizer_class);
  if (said == TokenizerClass::kLlama && byte_level) return TokenizerClass::kAsFile;
  return of_model == TokenizerClass::kAsFile ? of_model : said;
}

TokenizerClass class_of_transformers(const FilesBeside& beside, bool byte_level) {
  return beside.model_type == "qwen2" ? TokenizerClass::kQwen2 : choose_tokenizer_class(beside, byte_level);
}

const char* tokenizer_class_name(TokenizerClass choice) {
  switch (choice) {
    case TokenizerClass::kGpt2:
      return "GPT2Tokenizer";
    case TokenizerClass::kBert:
      return "BertTokenizer";
    case TokenizerClass::kQwen2:
      return "Qwen2Tokenizer";
    case TokenizerClass::kLlama:
      return "LlamaTokenizer";
    default:
      return "PreTrainedTokenizerFast";
  }
}

}  // namespace recollect
