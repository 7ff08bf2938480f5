#include "engine/data/tokenizer/class_template.h"

#include <fmt/format.h>

#include <utility>

#include "engine/core/error.h"

namespace recollect {
namespace {

using PartJson = nlohmann::json;

PartJson text_piece(const char* which, unsigned type) {
  return {{"Sequence", {{"id", which}, {"type_id", type}}}};
}

// Builds a TemplateProcessing.
class TemplateMaker {
 public:
  explicit TemplateMaker(const TemplateSource& source) : source_(source) {}

  // `otherwise`: the id if no token has that name.
  void put(const char* key, PartJson& list, unsigned type, uint64_t otherwise) {
    const auto at = source_.named.find(key);
    const bool none = at == source_.named.end();
    const std::string content = none ? "None" : at->second.content;
    const uint64_t id = none ? otherwise : source_.added.find(content).value_or(otherwise);
    special_[content] = {{"id", content}, {"ids", {id}}, {"tokens", {content}}};
    list.push_back({{"SpecialToken", {{"id", content}, {"type_id", type}}}});
  }
  PartJson whole() {
    return {{"type", "TemplateProcessing"},
            {"single", std::move(single)},
            {"pair", std::move(pair)},
            {"special_tokens", std::move(special_)}};
  }

  PartJson single = PartJson::array(), pair = PartJson::array();

 private:
  const TemplateSource& source_;
  PartJson special_ = PartJson::object();
};

PartJson template_of_roberta(const TemplateSource& source) {
  const auto token_and_id = [&](const char* key) {
    const auto at = source.named.find(key);
    const auto id = at == source.named.end() ? std::nullopt : source.added.find(at->second.content);
    if (!id)
      throw Error(ExitCode::kInput,
                  fmt::format("{}: {} is null, and RobertaTokenizer puts it around a text",
                              source.beside.where("tokenizer_config.json"), key),
                  "name a token");
    return PartJson::array({at->second.content, *id});
  };
  return {{"type", "RobertaProcessing"},
          {"sep", token_and_id("sep_token")},
          {"cls", token_and_id("cls_token")},
          {"trim_offsets", source.beside.flag("trim_offsets", true)},
          {"add_prefix_space", source.beside.flag("add_prefix_space", false)}};
}

PartJson template_of_bert(const TemplateSource& source) {
  TemplateMaker made(source);
  made.put("cls_token", made.single, 0, 2);
  made.single.push_back(text_piece("A", 0));
  made.put("sep_token", made.single, 0, 3);
  made.pair = made.single;
  made.pair.push_back(text_piece("B", 1));
  made.put("sep_token", made.pair, 1, 3);
  return made.whole();
}

// BOS and EOS, if a class or a file asks for them.
PartJson template_of_ends(const TemplateSource& source, bool is_asked) {
  const bool xlm = source.made == TokenizerClass::kXlmRoberta, t5 = source.made == TokenizerClass::kT5;
  const auto asks = [&](const char* key, const char* token) {
    return is_asked && source.beside.flag(key, false) && source.named.contains(token);
  };
  const bool begins = xlm || asks("add_bos_token", "bos_token"),
             ends = xlm || t5 || asks("add_eos_token", "eos_token");
  const unsigned second = xlm || t5 ? 0 : 1;
  TemplateMaker made(source);
  if (begins) made.put("bos_token", made.single, 0, 0);
  made.single.push_back(text_piece("A", 0));
  if (ends) made.put("eos_token", made.single, 0, 0);
  made.pair = made.single;
  if (begins) made.put(xlm ? "eos_token" : "bos_token", made.pair, second, 0);
  made.pair.push_back(text_piece("B", second));
  if (ends) made.put("eos_token", made.pair, second, 0);
  return made.whole();
}

}  // namespace

void make_template(const TemplateSource& source, TokenizerAsRead& result) {
  PartJson& processor = result.json["post_processor"];
  const auto names = [&](const char* key) {
    const auto at = source.named.find(key);
    return at != source.named.end() && source.added.find(at->second.content).has_value();
  };
  const PartJson& config = source.beside.config;
  const bool is_asked =
      !source.from_json && (config.contains("add_bos_token") || config.contains("add_eos_token"));
  switch (source.made) {
    case TokenizerClass::kRoberta:
      processor = template_of_roberta(source);
      return;
    case TokenizerClass::kBert:
      if (source.unsaid && !(names("cls_token") && names("sep_token")))
        result.no_template = source.file + ": there is no [CLS] or no [SEP], which BERT puts around a text";
      else
        processor = template_of_bert(source);
      return;
    case TokenizerClass::kGptNeoX:
    case TokenizerClass::kXlmRoberta:
    case TokenizerClass::kT5:
      break;
    default:
      if (!is_asked && (!processor.is_null() || (source.unsaid && source.from_json))) return;
  }
  processor = template_of_ends(source, is_asked);
}

}  // namespace recollect
