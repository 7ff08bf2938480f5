// Every key of tokenizer.json is either carried out, or known to change no id, or an error: none is passed
// over. A decoder or a post-processor that is not known here is an error of who asks for what they do.
#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <set>

#include "engine/core/error.h"
#include "engine/data/tokenizer/json_fields.h"
#include "engine/data/tokenizer/load.h"
#include "engine/io/strict_json.h"

namespace recollect {
namespace {

using Json = nlohmann::json;

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

// An empty text is none.
std::string optional_text(JsonFields& fields, const char* key) {
  return fields.take(key).is_null() ? std::string() : fields.text(key);
}

std::unique_ptr<WordEncoder> read_bpe(JsonFields& model, const Vocabulary& vocabulary, bool gives_bytes,
                                      const std::string& source) {
  const Merges merges = read_merges(model.take("merges"), source);
  BpeOptions options{.takes_bytes = gives_bytes};
  model.only("dropout", {0.0});
  options.prefix = optional_text(model, "continuing_subword_prefix");
  options.suffix = optional_text(model, "end_of_word_suffix");
  options.byte_fallback = model.flag("byte_fallback", false);
  options.whole_words_first = model.flag("ignore_merges", false);
  options.fuse_unknown = model.flag("fuse_unk", false);
  if (!model.take("unk_token").is_null()) options.unknown = model.text("unk_token");
  if (options.byte_fallback && !(options.prefix.empty() && options.suffix.empty()))
    not_carried_out(source, "model.byte_fallback with a prefix or a suffix of parts of words");
  return make_bpe(vocabulary, merges, source, options);
}

std::unique_ptr<WordEncoder> read_word_piece(JsonFields& model, const Vocabulary& vocabulary) {
  WordPieceOptions options;
  options.unknown = model.text("unk_token");
  options.prefix = model.text("continuing_subword_prefix");
  options.max_characters = model.number("max_input_chars_per_word", options.max_characters);
  return make_word_piece(vocabulary, options);
}

// A list of a token and its score each, in the order of their ids.
std::pair<Vocabulary, std::vector<double>> read_scored(const Json& json, const std::string& source) {
  if (!json.is_array())
    throw Error(ExitCode::kInput, source + ": model.vocab is not a list of tokens and their scores");
  std::vector<std::pair<std::string, uint64_t>> tokens;
  std::vector<double> scores;
  for (const Json& one : json) {
    if (!one.is_array() || one.size() != 2 || !one[0].is_string() || !one[1].is_number())
      throw Error(ExitCode::kInput,
                  fmt::format("{}: model.vocab[{}] is not a token and its score", source, tokens.size()));
    tokens.emplace_back(one[0].get<std::string>(), tokens.size());
    scores.push_back(one[1].get<double>());
  }
  return {Vocabulary(std::move(tokens), source), std::move(scores)};
}

std::unique_ptr<WordEncoder> read_unigram(JsonFields& model, const Vocabulary& vocabulary,
                                          const std::vector<double>& scores, const std::string& source) {
  UnigramOptions options;
  options.byte_fallback = model.flag("byte_fallback", false);
  if (!model.take("unk_id").is_null()) {
    const uint64_t id = model.number("unk_id", 0);
    if (id >= vocabulary.size())
      throw Error(ExitCode::kInput, fmt::format("{}: model.unk_id is {}, and there are {} tokens", source, id,
                                                vocabulary.size()));
    options.unknown = static_cast<uint32_t>(id);
  }
  model.only("alpha", {0.0});
  return make_unigram(vocabulary, scores, source, options);
}

// Appends to `tokens` those that the model's vocabulary lacks. As `tokenizers` numbers them: behind the vocabulary's
// count, and behind each other.
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
    Tokenizer::Added token{.content = content};
    token.special = fields.flag("special", false);
    token.normalized = fields.flag("normalized", !token.special);
    token.single_word = fields.flag("single_word", false);
    token.takes_left = fields.flag("lstrip", false);
    token.takes_right = fields.flag("rstrip", false);
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
    token.id = static_cast<uint32_t>(id);
    added.push_back(std::move(token));
  }
  return added;
}

// Where none is lost, places in what they spell are places in bytes.
bool has_all_bytes(const Vocabulary& vocabulary) {
  const auto alphabet = gpt2_byte_alphabet();
  return std::all_of(alphabet.begin(), alphabet.end(),
                     [&](const std::string& one) { return vocabulary.find(one).has_value(); });
}

// Files of old do not say the type.
std::string type_of_model(JsonFields& model, const Json& json) {
  if (!model.take("type").is_null()) return model.text("type");
  if (json.contains("merges")) return "BPE";
  if (model.take("vocab").is_array()) return "Unigram";
  return json.contains("unk_token") && !json.contains("continuing_subword_prefix") ? "WordLevel"
                                                                                   : "WordPiece";
}

}  // namespace

Tokenizer::Parts read_tokenizer_json(const Json& json, const std::string& path) {
  Tokenizer::Parts parts{.source = path};
  JsonFields root(json, "", path);
  root.only("version", {"1.0"});
  const Json& model_json = root.take("model");
  JsonFields model(model_json, "model", path);
  const Json& vocab = model.take("vocab");
  const std::string type = type_of_model(model, model_json);
  auto characters = std::make_shared<const Characters>();
  std::vector<double> scores;
  std::optional<Vocabulary> vocabulary;
  if (type == "Unigram") {
    auto scored = read_scored(vocab, path);
    vocabulary.emplace(std::move(scored.first));
    scores = std::move(scored.second);
  } else {
    vocabulary.emplace(read_vocabulary(vocab, path), path);
  }
  const auto is_set = [&](const char* key) {
    return model_json.contains(key) && !model_json[key].is_null() && model_json[key] != "" &&
           model_json[key] != false;
  };
  bool gives_bytes = type == "BPE" && !is_set("byte_fallback") && !is_set("continuing_subword_prefix") &&
                     !is_set("end_of_word_suffix") && (is_set("unk_token") || has_all_bytes(*vocabulary));
  const Json& normalizer = root.take("normalizer");
  parts.normalizers = read_normalizers(normalizer, *characters, path);
  parts.pre_tokenizers = read_pre_tokenizers(root.take("pre_tokenizer"), *characters, path, gives_bytes);
  parts.characters = characters;
  if (type == "BPE")
    parts.encoder = read_bpe(model, *vocabulary, gives_bytes, path);
  else if (type == "WordPiece")
    parts.encoder = read_word_piece(model, *vocabulary), parts.bert.emplace();
  else if (type == "WordLevel")
    parts.encoder = make_word_level(*vocabulary, model.text("unk_token"));
  else if (type == "Unigram")
    parts.encoder = read_unigram(model, *vocabulary, scores, path);
  else
    not_carried_out(path, fmt::format("model.type {}", escaped_name(type)));
  model.finish();
  // Who encodes says how, as in Transformers, which leaves in files how it was last done.
  for (const char* way : {"truncation", "padding"})
    if (const Json& said = root.take(way); !said.is_null()) JsonFields(said, way, path);
  parts.tokens = vocabulary->tokens();
  parts.added = read_added(root.take("added_tokens"), *vocabulary, parts.tokens, path);
  parts.post_processor = read_post_processor(root.take("post_processor"), parts.tokens.size(), path);
  parts.decoder = read_decoder(root.take("decoder"), path);
  root.finish();
  return parts;
}

}  // namespace recollect
