#include "engine/data/tokenizer/rebuilt_tokenizer.h"

#include <fmt/format.h>

#include <filesystem>
#include <string_view>
#include <utility>

#include "engine/core/error.h"
#include "engine/data/tokenizer/load.h"
#include "engine/data/tokenizer/unicode.h"
#include "engine/data/tokenizer/vocabulary.h"
#include "engine/io/input_file.h"
#include "engine/io/strict_json.h"

namespace recollect {
namespace {

using ModelJson = nlohmann::json;

// Calls line(text, number from 1) without the line's end. Error kInput for what is no UTF-8.
template <typename F>
void for_each_line(const std::string& path, F line) {
  const std::string whole = InputFile(path).text();
  if (const std::size_t bad = first_invalid_utf8(whole); bad != std::string_view::npos)
    throw Error(ExitCode::kInput, fmt::format("{}: byte {} is not UTF-8", path, bad));
  std::size_t number = 0;
  for (std::string_view rest = whole; !rest.empty();) {
    const std::size_t newline = rest.find('\n');
    std::string_view text = rest.substr(0, newline);
    if (text.ends_with('\r')) text.remove_suffix(1);
    line(text, ++number);
    rest.remove_prefix(newline == std::string_view::npos ? rest.size() : newline + 1);
  }
}

ModelJson read_word_pieces(const std::string& path) {
  std::vector<std::pair<std::string, uint64_t>> tokens;
  for_each_line(path, [&](std::string_view line, std::size_t number) {
    if (line.empty())
      throw Error(ExitCode::kInput, fmt::format("{}:{}: an empty line is no token", path, number));
    tokens.emplace_back(line, number - 1);
  });
  ModelJson vocabulary = ModelJson::object();
  for (const auto& [token, id] : tokens) vocabulary[token] = id;
  const Vocabulary checked(std::move(tokens), path);  // a token that is there twice is an error
  return {{"type", "WordPiece"}, {"vocab", std::move(vocabulary)}};
}

ModelJson read_byte_pairs(const std::string& path) {
  ModelJson vocabulary = parse_strict_json(InputFile(path).text(), path);
  const bool named = path.ends_with(kVocabularyJson);
  const std::string merges_path = named ? merges_beside(path) : "";
  std::error_code error;
  if (!named || !std::filesystem::exists(merges_path, error))
    throw Error(ExitCode::kInput,
                fmt::format("{} has no \"model\"{}", path, named ? ", and there is no " + merges_path : ""),
                "name a tokenizer.json, or a vocab.json with its merges.txt beside it");
  ModelJson merges = ModelJson::array();
  for_each_line(merges_path, [&](std::string_view line, std::size_t number) {
    if (number == 1 && line.starts_with("#version")) return;
    read_merge(std::string(line), fmt::format("{}:{}", merges_path, number));  // whether it is one
    merges.push_back(line);
  });
  return {{"type", "BPE"}, {"vocab", std::move(vocabulary)}, {"merges", std::move(merges)}};
}

ModelJson byte_level(bool prefix_space, bool use_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", prefix_space},
          {"trim_offsets", true},
          {"use_regex", use_regex}};
}

// `pieces`: SentencePiece's, with byte fallback.
ModelJson byte_pairs(ModelJson model, bool pieces) {
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", pieces ? ModelJson() : ModelJson("")},
          {"end_of_word_suffix", pieces ? ModelJson() : ModelJson("")},
          {"fuse_unk", pieces},
          {"byte_fallback", pieces},
          {"ignore_merges", false},
          {"vocab", std::move(model["vocab"])},
          {"merges", std::move(model["merges"])}};
}

void make_gpt2(ModelJson& whole, const FilesBeside& beside) {
  whole["pre_tokenizer"] = byte_level(beside.flag("add_prefix_space", false), true);
  whole["decoder"] = byte_level(true, true);
}

void make_qwen2(ModelJson& whole, const FilesBeside& beside) {
  constexpr const char* kWords =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  whole["normalizer"] = {{"type", "NFC"}};
  const ModelJson split = {
      {"type", "Split"}, {"pattern", {{"Regex", kWords}}}, {"behavior", "Isolated"}, {"invert", false}};
  whole["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       ModelJson::array({split, byte_level(beside.flag("add_prefix_space", false), false)})}};
  whole["decoder"] = byte_level(true, true);
}

constexpr const char* kBlankOfPieces = "\u2581";

ModelJson blanks_to_bytes() {
  return ModelJson::array({{{"type", "Replace"}, {"pattern", {{"String", kBlankOfPieces}}}, {"content", " "}},
                           {{"type", "ByteFallback"}},
                           {{"type", "Fuse"}}});
}

void make_gemma(ModelJson& whole, const std::string& unknown) {
  whole["model"]["unk_token"] = unknown;
  whole["normalizer"] = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kBlankOfPieces}};
  whole["pre_tokenizer"] = {{"type", "Split"},
                            {"pattern", {{"String", " "}}},
                            {"behavior", "MergedWithPrevious"},
                            {"invert", false}};
  whole["decoder"] = {{"type", "Sequence"}, {"decoders", blanks_to_bytes()}};
}

// T5 and XLM-RoBERTa: pieces with scores.
void make_scored(ModelJson& whole, ModelJson model, unsigned unknown, bool prefix) {
  if (model.contains("charsmap"))
    whole["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", std::move(model["charsmap"])}};
  whole["model"] = {{"type", "Unigram"},
                    {"unk_id", unknown},
                    {"vocab", std::move(model["vocab"])},
                    {"byte_fallback", false}};
  const ModelJson words = {{"type", "Metaspace"},
                           {"replacement", kBlankOfPieces},
                           {"prepend_scheme", prefix ? "always" : "never"},
                           {"split", true}};
  whole["pre_tokenizer"] = {{"type", "Sequence"},
                            {"pretokenizers", ModelJson::array({{{"type", "WhitespaceSplit"}}, words})}};
  whole["decoder"] = words;
}

void make_llama(ModelJson& whole, const FilesBeside& beside) {
  const bool prefix = beside.flag("add_prefix_space", true);
  const char* const scheme = !prefix ? "never" : beside.flag("legacy", false) ? "always" : "first";
  whole["pre_tokenizer"] = {
      {"type", "Metaspace"}, {"replacement", kBlankOfPieces}, {"prepend_scheme", scheme}, {"split", false}};
  ModelJson decoders = blanks_to_bytes();
  if (prefix) decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1u}, {"stop", 0u}});
  whole["decoder"] = {{"type", "Sequence"}, {"decoders", std::move(decoders)}};
}

void make_bert(ModelJson& whole, ModelJson model, const FilesBeside& beside, const std::string& unknown) {
  whole["model"] = {{"type", "WordPiece"},
                    {"unk_token", unknown},
                    {"continuing_subword_prefix", "##"},
                    {"max_input_chars_per_word", 100u},
                    {"vocab", std::move(model["vocab"])}};
  const auto accents = beside.said_flag("strip_accents");
  whole["normalizer"] = {{"type", "BertNormalizer"},
                         {"clean_text", true},
                         {"handle_chinese_chars", beside.flag("tokenize_chinese_chars", true)},
                         {"strip_accents", accents ? ModelJson(*accents) : ModelJson()},
                         {"lowercase", beside.flag("do_lower_case", true)}};
  whole["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
  whole["decoder"] = {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}};
}

// With what the settings beside the file say taken out.
ModelJson comparable(ModelJson part) {
  if (!part.is_object()) return part;
  for (const char* setting :
       {"add_prefix_space", "trim_offsets", "lowercase", "strip_accents", "handle_chinese_chars"})
    part.erase(setting);
  if (part.contains("type") && part["type"] == "Metaspace") {  // older files spell defaults out
    part.erase("str_rep");
    if (part.contains("prepend_scheme") && part["prepend_scheme"] == "always") part.erase("prepend_scheme");
    if (part.contains("split") && part["split"] == true) part.erase("split");
  }
  if (part.contains("use_regex") && part["use_regex"] == true) part.erase("use_regex");
  if (part.contains("clean_text") && part["clean_text"] == true) part.erase("clean_text");
  if (const auto inner = part.find("pretokenizers"); inner != part.end() && inner->is_array())
    for (ModelJson& one : *inner) one = comparable(std::move(one));
  return part;
}

bool means_nothing(const ModelJson& value) {
  return value.is_null() || value == false || value == "" || value == 0.0;
}

}  // namespace

std::string merges_beside(const std::string& path) {
  return path.substr(0, path.size() - kVocabularyJson.size()).append(kMergesTxt);
}

nlohmann::json read_vocabulary_model(const std::string& file) {
  return file.ends_with(".json") ? read_byte_pairs(file) : read_word_pieces(file);
}

nlohmann::json rebuilt_tokenizer(TokenizerClass choice, nlohmann::json model, const FilesBeside& beside,
                                 const std::string& unknown) {
  ModelJson whole = {{"version", "1.0"},          {"truncation", nullptr},
                     {"padding", nullptr},        {"normalizer", nullptr},
                     {"post_processor", nullptr}, {"added_tokens", ModelJson::array()}};
  constexpr unsigned kUnknownOfT5 = 2, kUnknownOfXlm = 3;
  switch (choice) {
    case TokenizerClass::kBert:
      make_bert(whole, std::move(model), beside, unknown);
      return whole;
    case TokenizerClass::kT5:
      make_scored(whole, std::move(model), kUnknownOfT5, true);
      return whole;
    case TokenizerClass::kXlmRoberta:
      make_scored(whole, std::move(model), kUnknownOfXlm, beside.flag("add_prefix_space", true));
      return whole;
    default:
      break;
  }
  whole["model"] =
      byte_pairs(std::move(model), choice == TokenizerClass::kLlama || choice == TokenizerClass::kGemma);
  if (choice == TokenizerClass::kQwen2) {
    make_qwen2(whole, beside);
  } else if (choice == TokenizerClass::kLlama) {
    make_llama(whole, beside);
  } else if (choice == TokenizerClass::kGemma) {
    make_gemma(whole, unknown);
  } else {
    make_gpt2(whole, beside);
    if (choice == TokenizerClass::kGptNeoX) whole["normalizer"] = {{"type", "NFC"}};
  }
  return whole;
}

std::string lost_by_rebuilding(const nlohmann::json& whole, const nlohmann::json& rebuilt) {
  const auto part_of = [](const ModelJson& json, const char* key) {
    return json.is_object() && json.contains(key) ? comparable(json[key]) : ModelJson();
  };
  std::string lost;
  const auto add = [&](const std::string& name) { lost += (lost.empty() ? "" : ", ") + name; };
  for (const char* key : {"normalizer", "pre_tokenizer"})
    if (part_of(whole, key) != part_of(rebuilt, key)) add(key);
  const ModelJson &before = whole["model"], &after = rebuilt["model"];
  for (const char* key : {"unk_token", "continuing_subword_prefix", "max_input_chars_per_word",
                          "end_of_word_suffix", "byte_fallback", "ignore_merges", "dropout", "unk_id"}) {
    const ModelJson was = part_of(before, key), is = part_of(after, key);
    if (was != is && !(means_nothing(was) && means_nothing(is)) &&
        !(was.is_null() && after["type"] == "WordPiece"))
      add(fmt::format("model.{}", key));
  }
  return lost;
}

}  // namespace recollect
