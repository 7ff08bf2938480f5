// Every key of tokenizer.json is either carried out, or known to change no id, or an error: none is passed
// over. The decoder and the post-processor change none: the latter puts special tokens around a text, which a
// corpus has no use for, and offsets right.
#include <fmt/format.h>

#include <initializer_list>
#include <set>

#include "engine/core/error.h"
#include "engine/data/tokenizer/load.h"
#include "engine/io/strict_json.h"

namespace recollect {
namespace {

using Json = nlohmann::json;

[[noreturn]] void not_carried_out(const std::string& source, const std::string& what) {
  throw Error(ExitCode::kInput, fmt::format("{}: {} is not carried out here", source, what),
              "GPT-2's kind (BPE, ByteLevel) and BERT's (WordPiece, BertNormalizer, BertPreTokenizer) are");
}

// One object of the file: what is asked for is checked, and what nobody asked for is an error of finish().
class JsonFields {
 public:
  JsonFields(const Json& json, std::string name, const std::string& source)
      : json_(json), name_(std::move(name)), source_(source) {
    if (!json.is_object()) fail("is not an object");
  }

  // Null where there is none.
  const Json& take(const char* key) {
    static const Json kNull;
    seen_.insert(key);
    const auto at = json_.find(key);
    return at == json_.end() ? kNull : *at;
  }
  std::string text(const char* key) {
    const Json& value = take(key);
    if (!value.is_string()) fail("is no text", key);
    return value.get<std::string>();
  }
  bool flag(const char* key, bool otherwise) {
    const Json& value = take(key);
    if (value.is_null()) return otherwise;
    if (!value.is_boolean()) fail("is neither true nor false", key);
    return value.get<bool>();
  }
  uint64_t number(const char* key, uint64_t otherwise) {
    const Json& value = take(key);
    if (value.is_null()) return otherwise;
    if (!value.is_number_unsigned()) fail("is no whole number", key);
    return value.get<uint64_t>();
  }
  // A value other than these, or null, would change ids in a way that we do not know.
  void only(const char* key, std::initializer_list<Json> values) {
    const Json& value = take(key);
    bool known = value.is_null();
    for (const Json& one : values) known |= value == one;
    if (!known) not_carried_out(source_, fmt::format("{} {}", path(key), shown(value)));
  }
  void finish() const {
    for (const auto& [key, value] : json_.items())
      if (!seen_.contains(key)) not_carried_out(source_, fmt::format("{} {}", path(key), shown(value)));
  }

 private:
  std::string path(const std::string& key) const { return name_.empty() ? key : name_ + "." + key; }
  static std::string shown(const Json& value) {
    if (value.is_object() && value.contains("type")) return "of type " + shown(value["type"]);
    return value.is_structured() ? "(a list or an object)"
           : value.is_string()   ? escaped_name(value.get<std::string>())
                                 : value.dump();
  }
  [[noreturn]] void fail(const std::string& what, const std::string& key = {}) const {
    const std::string where = key.empty() ? name_ : path(key);
    throw Error(ExitCode::kInput,
                fmt::format("{}: {} {}", source_, where.empty() ? "the file" : where, what));
  }

  const Json& json_;
  std::string name_;
  const std::string& source_;
  std::set<std::string> seen_;
};

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

void check_byte_level(const Json& json, const std::string& source) {
  require_type(json, "pre_tokenizer", "ByteLevel", source);
  JsonFields fields(json, "pre_tokenizer", source);
  fields.take("type");
  fields.take("trim_offsets");
  fields.only("add_prefix_space", {false});
  fields.only("use_regex", {true});
  fields.finish();
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
    const bool normalized = fields.flag("normalized", !fields.flag("special", false));
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
    added.push_back({content, static_cast<uint32_t>(id), normalized});
  }
  return added;
}

}  // namespace

std::unique_ptr<Tokenizer> read_tokenizer_json(const Json& json, const std::string& path) {
  JsonFields root(json, "", path);
  JsonFields model(root.take("model"), "model", path);
  const Vocabulary vocabulary(read_vocabulary(model.take("vocab"), path), path);
  // Files of old do not say the type.
  const std::string type = model.take("type").is_null()
                               ? json["model"].contains("merges") ? "BPE" : "WordPiece"
                               : model.text("type");
  std::unique_ptr<WordEncoder> encoder;
  std::optional<BertOptions> bert;
  if (type == "BPE") {
    root.only("normalizer", {});
    check_byte_level(root.take("pre_tokenizer"), path);
    encoder = read_bpe(model, vocabulary, path);
  } else if (type == "WordPiece") {
    bert = read_bert_normalizer(root.take("normalizer"), path);
    check_bert_pre_tokenizer(root.take("pre_tokenizer"), path);
    encoder = read_word_piece(model, vocabulary);
  } else {
    not_carried_out(path, fmt::format("model.type {}", escaped_name(type)));
  }
  model.finish();
  for (const char* no_part : {"version", "post_processor", "decoder"}) root.take(no_part);
  root.only("truncation", {});
  root.only("padding", {});
  std::vector<std::string> tokens = vocabulary.tokens();
  const auto added = read_added(root.take("added_tokens"), vocabulary, tokens, path);
  root.finish();
  return std::make_unique<Tokenizer>(std::move(tokens), std::move(encoder), bert, added, path);
}

}  // namespace recollect
