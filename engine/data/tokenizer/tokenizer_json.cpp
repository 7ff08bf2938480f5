// Every key of tokenizer.json is either carried out, or known to change no id, or an error: none is passed
// over. A decoder or a post-processor that is not known here is an error of who asks for what they do.
#include <fmt/format.h>

#include <initializer_list>
#include <set>

#include "engine/core/error.h"
#include "engine/data/tokenizer/json_fields.h"
#include "engine/data/tokenizer/load.h"
#include "engine/io/strict_json.h"

namespace recollect {
namespace {

using Json = nlohmann::json;

void require_type(const Json& json, const std::string& name, const char* wanted, const std::string& source) {
  if (json.is_object() && json.contains("type") && json["type"] == wanted) return;
  const std::string found = json.is_object() && json.contains("type") ? json["type"].dump()
                            : json.is_null()                          ? "null"
                                                                      : "(without a type)";
  not_carried_out(source, fmt::format("{} {} with this model, which needs {},", name, found, wanted));
}

BertOptions read_bert_normalizer(const Json& json, const std::string& source) {
  require_type(json, "normalizer", "BertNormalizer", source);
  JsonFields fields(json, "normalizer", source);
  fields.take("type");
  fields.only("clean_text", {true});
  BertOptions options;
  options.space_cjk = fields.flag("handle_chinese_chars", true);
  options.lowercase = fields.flag("lowercase", true);
  options.strip_accents = fields.flag("strip_accents", options.lowercase);
  fields.finish();
  return options;
}

// Whether a blank is put before a text.
bool read_byte_level(const Json& json, const std::string& source) {
  require_type(json, "pre_tokenizer", "ByteLevel", source);
  JsonFields fields(json, "pre_tokenizer", source);
  fields.take("type");
  fields.take("trim_offsets");
  fields.only("use_regex", {true});
  const bool prefix_space = fields.flag("add_prefix_space", true);
  fields.finish();
  return prefix_space;
}

void check_bert_pre_tokenizer(const Json& json, const std::string& source) {
  require_type(json, "pre_tokenizer", "BertPreTokenizer", source);
  JsonFields fields(json, "pre_tokenizer", source);
  fields.take("type");
  fields.finish();
}

// A list of "left right", or, as newer files have it, of ["left", "right"].
Merges read_merges(const Json& json, const std::string& source) {
  if (!json.is_array()) throw Error(ExitCode::kInput, source + ": model.merges is not a list");
  Merges merges;
  for (const Json& merge : json) {
    const std::string where = fmt::format("{}: merge {}", source, merges.size() + 1);
    if (merge.is_string())
      merges.push_back(read_merge(merge.get<std::string>(), where));
    else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
      merges.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
    else
      throw Error(ExitCode::kInput, where + " is not two tokens");
  }
  return merges;
}

std::unique_ptr<WordEncoder> read_bpe(JsonFields& model, const Vocabulary& vocabulary,
                                      const std::string& source) {
  const Merges merges = read_merges(model.take("merges"), source);
  model.only("dropout", {0.0});
  model.only("continuing_subword_prefix", {""});
  model.only("end_of_word_suffix", {""});
  model.only("byte_fallback", {false});
  model.only("ignore_merges", {false});
  model.take("unk_token");  // every byte has a token, so that nothing is unknown
  model.take("fuse_unk");
  return make_bpe(vocabulary, merges, source);
}

std::unique_ptr<WordEncoder> read_word_piece(JsonFields& model, const Vocabulary& vocabulary) {
  WordPieceOptions options;
  options.unknown = model.text("unk_token");
  options.prefix = model.text("continuing_subword_prefix");
  options.max_characters = model.number("max_input_chars_per_word", options.max_characters);
  return make_word_piece(vocabulary, options);
}

// Appends to `tokens` those that the model's vocabulary lacks.
std::vector<Tokenizer::Added> read_added(const Json& json, const Vocabulary& vocabulary,
                                         std::vector<std::string>& tokens, const std::string& source) {
  std::vector<Tokenizer::Added> added;
  if (json.is_null()) return added;
  if (!json.is_array()) throw Error(ExitCode::kInput, source + ": added_tokens is not a list");
  std::set<std::string> seen;
  for (const Json& one : json) {
    JsonFields fields(one, fmt::format("added_tokens[{}]", added.size()), source);
    const std::string content = fields.text("content");
    const uint64_t id = fields.number("id", UINT64_MAX);
    const bool special = fields.flag("special", false);
    const bool normalized = fields.flag("normalized", !special);
    for (const char* switched : {"single_word", "lstrip", "rstrip"}) fields.only(switched, {false});
    fields.finish();
    if (!seen.insert(content).second)
      throw Error(ExitCode::kInput,
                  fmt::format("{}: the added token {} appears twice", source, escaped_name(content)));
    const uint64_t expected = vocabulary.find(content).value_or(static_cast<uint32_t>(tokens.size()));
    if (id != expected)
      throw Error(
          ExitCode::kInput,
          fmt::format("{}: the added token {} has {}, not {}", source, escaped_name(content),
                      id == UINT64_MAX ? "no id" : fmt::format("the id {}", id), expected),
          "a token of the model's vocabulary keeps its id, the others follow behind it without a hole");
    if (expected == tokens.size()) tokens.push_back(content);
    added.push_back({content, static_cast<uint32_t>(id), normalized, special});
  }
  return added;
}

}  // namespace

Tokenizer::Parts read_tokenizer_json(const Json& json, const std::string& path) {
  Tokenizer::Parts parts{.source = path};
  JsonFields root(json, "", path);
  JsonFields model(root.take("model"), "model", path);
  const Vocabulary vocabulary(read_vocabulary(model.take("vocab"), path), path);
  // Files of old do not say the type.
  const std::string type = model.take("type").is_null()
                               ? json["model"].contains("merges") ? "BPE" : "WordPiece"
                               : model.text("type");
  if (type == "BPE") {
    root.only("normalizer", {});
    parts.prefix_space = read_byte_level(root.take("pre_tokenizer"), path);
    parts.encoder = read_bpe(model, vocabulary, path);
  } else if (type == "WordPiece") {
    parts.bert = read_bert_normalizer(root.take("normalizer"), path);
    check_bert_pre_tokenizer(root.take("pre_tokenizer"), path);
    parts.encoder = read_word_piece(model, vocabulary);
  } else {
    not_carried_out(path, fmt::format("model.type {}", escaped_name(type)));
  }
  model.finish();
  root.take("version");
  // Who encodes says how, as in Transformers, which leaves in files how it was last done.
  root.take("truncation");
  root.take("padding");
  parts.tokens = vocabulary.tokens();
  parts.added = read_added(root.take("added_tokens"), vocabulary, parts.tokens, path);
  parts.post_processor = read_post_processor(root.take("post_processor"), parts.tokens.size(), path);
  parts.decoder = read_decoder(root.take("decoder"), path);
  root.finish();
  return parts;
}

}  // namespace recollect
