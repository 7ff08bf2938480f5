#include "engine/data/tokenizer/load.h"

#include <fmt/format.h>

#include <filesystem>

#include "engine/core/error.h"
#include "engine/io/input_file.h"
#include "engine/io/strict_json.h"

namespace recollect {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

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

// As transformers makes it from these two files.
Tokenizer::Parts load_gpt2(const nlohmann::json& json, const std::string& path,
                           const std::string& merges_path, const ConfigBeside& config) {
  const Vocabulary vocabulary(read_vocabulary(json, path), path);
  Merges merges;
  for_each_line(merges_path, [&](std::string_view line, std::size_t number) {
    if (number == 1 && line.starts_with("#version")) return;
    merges.push_back(read_merge(std::string(line), fmt::format("{}:{}", merges_path, number)));
  });
  Tokenizer::Parts parts{.source = path, .tokens = vocabulary.tokens()};
  parts.encoder = make_bpe(vocabulary, merges, merges_path);
  parts.prefix_space = config.flag("add_prefix_space", false);
  parts.decoder.kind = DecoderOptions::Kind::kByteLevel;
  constexpr const char* kEnd = "<|endoftext|>";
  if (const auto id = vocabulary.find(kEnd)) parts.added.push_back({kEnd, *id, true, true});
  return parts;
}

// As transformers makes it from this file, and the switches beside it.
Tokenizer::Parts load_bert(const std::string& path, const ConfigBeside& config) {
  std::vector<std::pair<std::string, uint64_t>> tokens;
  for_each_line(path, [&](std::string_view line, std::size_t number) {
    if (line.empty())
      throw Error(ExitCode::kInput, fmt::format("{}:{}: an empty line is no token", path, number));
    tokens.emplace_back(line, number - 1);
  });
  const Vocabulary vocabulary(std::move(tokens), path);
  Tokenizer::Parts parts{.source = path, .tokens = vocabulary.tokens()};
  parts.encoder = make_word_piece(vocabulary, {});
  BertOptions& options = parts.bert.emplace();
  options.lowercase = config.flag("do_lower_case", options.lowercase);
  options.strip_accents = config.flag("strip_accents", options.lowercase);
  options.space_cjk = config.flag("tokenize_chinese_chars", options.space_cjk);
  parts.decoder.kind = DecoderOptions::Kind::kWordPiece;
  for (const char* special : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"})
    if (const auto id = vocabulary.find(special)) parts.added.push_back({special, *id, false, true});
  const auto cls = vocabulary.find("[CLS]"), sep = vocabulary.find("[SEP]");
  if (cls && sep) {
    parts.post_processor.single = {{.id = *cls}, {.sequence = 0}, {.id = *sep}};
    parts.post_processor.pair = parts.post_processor.single;
    parts.post_processor.pair.push_back({.sequence = 1, .type = 1});
    parts.post_processor.pair.push_back({.id = *sep, .type = 1});
  } else {
    parts.post_processor.refused = path + ": there is no [CLS] or no [SEP], which BERT puts around a text";
  }
  return parts;
}

constexpr std::string_view kVocabulary = "vocab.json", kMerges = "merges.txt";

// What lies beside a vocab.json, or a prefix-vocab.json.
std::string merges_beside(const std::string& path) {
  return path.substr(0, path.size() - kVocabulary.size()).append(kMerges);
}

// Of a folder the first of these that is there; "" where none is.
std::string main_file(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return path;
  for (const char* name : {"tokenizer.json", "vocab.json", "vocab.txt"})
    if (is_there(fs::path(path) / name)) return (fs::path(path) / name).string();
  return "";
}

Tokenizer::Parts load_json(const std::string& path, const ConfigBeside& config) {
  const nlohmann::json json = parse_strict_json(InputFile(path).text(), path);
  if (json.is_object() && json.contains("model") && json["model"].is_object())
    return read_tokenizer_json(json, path);
  const bool named = path.ends_with(kVocabulary);
  const std::string merges = named ? merges_beside(path) : "";
  if (!named || !is_there(merges))
    throw Error(ExitCode::kInput,
                fmt::format("{} has no \"model\"{}", path, named ? ", and there is no " + merges : ""),
                "name a tokenizer.json, or a vocab.json with its merges.txt beside it");
  return load_gpt2(json, path, merges, config);
}

}  // namespace

std::vector<std::pair<std::string, uint64_t>> read_vocabulary(const nlohmann::json& json,
                                                              const std::string& source) {
  if (!json.is_object())
    throw Error(ExitCode::kInput, source + ": the vocabulary is not an object of tokens and their ids");
  std::vector<std::pair<std::string, uint64_t>> tokens;
  for (const auto& [token, id] : json.items()) {
    if (!id.is_number_unsigned())
      throw Error(ExitCode::kInput, fmt::format("{}: the id of {} is {}", source, escaped_name(token),
                                                escaped_name(id.dump())));
    tokens.emplace_back(token, id.get<uint64_t>());
  }
  return tokens;
}

std::pair<std::string, std::string> read_merge(const std::string& line, const std::string& where) {
  const std::size_t space = line.find(' ');
  if (space == 0 || space == std::string::npos || space + 1 == line.size() ||
      line.find(' ', space + 1) != std::string::npos)
    throw Error(ExitCode::kInput,
                fmt::format("{}: {} is not two tokens and a blank", where, escaped_name(line)));
  return {line.substr(0, space), line.substr(space + 1)};
}

std::vector<std::string> files_of_tokenizer(const std::string& path) {
  std::error_code error;
  const fs::path folder = fs::is_directory(path, error) ? fs::path(path) : fs::path(path).parent_path();
  std::vector<std::string> files{path};
  if (path.ends_with(kVocabulary)) files.push_back(merges_beside(path));
  for (const char* name : {"tokenizer.json", "vocab.json", "merges.txt", "vocab.txt", "tokenizer_config.json",
                           "special_tokens_map.json"})
    if (is_there(folder / name)) files.push_back((folder / name).string());
  return files;
}

std::vector<TokenizerFile> parts_of_tokenizer(const std::string& path) {
  const std::string file = main_file(path);
  if (file.empty()) return {};
  std::vector<TokenizerFile> parts;
  if (file.ends_with(kVocabulary)) {
    parts = {{file, "vocab.json"}, {merges_beside(file), "merges.txt"}};
  } else {
    parts = {{file, file.ends_with(".json") ? "tokenizer.json" : "vocab.txt"}};
  }
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"})
    parts.push_back({(fs::path(file).parent_path() / name).string(), name});
  std::erase_if(parts, [](const TokenizerFile& part) { return !is_there(part.path); });
  return parts;
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& path) {
  const std::string file = main_file(path);
  if (file.empty())
    throw Error(ExitCode::kInput,
                fmt::format("the folder {} holds no tokenizer.json, vocab.json or vocab.txt", path));
  const ConfigBeside config(file);
  Tokenizer::Parts parts = file.ends_with(".json") ? load_json(file, config) : load_bert(file, config);
  config.name_special_tokens(parts);
  parts.decoder.clean_text = parts.bert && config.flag("clean_up_tokenization_spaces", false);
  return std::make_unique<Tokenizer>(std::move(parts));
}

}  // namespace recollect
