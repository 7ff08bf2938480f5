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
std::unique_ptr<Tokenizer> load_gpt2(const nlohmann::json& json, const std::string& path,
                                     const std::string& merges_path) {
  const Vocabulary vocabulary(read_vocabulary(json, path), path);
  Merges merges;
  for_each_line(merges_path, [&](std::string_view line, std::size_t number) {
    if (number == 1 && line.starts_with("#version")) return;
    merges.push_back(read_merge(std::string(line), fmt::format("{}:{}", merges_path, number)));
  });
  std::vector<Tokenizer::Added> added;
  constexpr const char* kEnd = "<|endoftext|>";
  if (const auto id = vocabulary.find(kEnd)) added.push_back({kEnd, *id, true});
  return std::make_unique<Tokenizer>(vocabulary.tokens(), make_bpe(vocabulary, merges, merges_path),
                                     std::nullopt, added, path);
}

// transformers' switches for vocab.txt, where its tokenizer_config.json lies beside it.
BertOptions read_bert_options(const fs::path& config) {
  BertOptions options;
  if (!is_there(config)) return options;
  const nlohmann::json json = parse_strict_json(InputFile(config.string()).text(), config.string());
  const auto read = [&](const char* key, bool& value) {
    const auto at = json.is_object() ? json.find(key) : json.end();
    if (at == json.end() || at->is_null()) return;
    if (!at->is_boolean())
      throw Error(ExitCode::kInput, fmt::format("{}: {} is not true or false", config.string(), key));
    value = at->get<bool>();
  };
  read("do_lower_case", options.lowercase);
  options.strip_accents = options.lowercase;
  read("strip_accents", options.strip_accents);
  read("tokenize_chinese_chars", options.space_cjk);
  return options;
}

std::unique_ptr<Tokenizer> load_bert(const std::string& path) {
  std::vector<std::pair<std::string, uint64_t>> tokens;
  for_each_line(path, [&](std::string_view line, std::size_t number) {
    if (line.empty())
      throw Error(ExitCode::kInput, fmt::format("{}:{}: an empty line is no token", path, number));
    tokens.emplace_back(line, number - 1);
  });
  const Vocabulary vocabulary(std::move(tokens), path);
  std::vector<Tokenizer::Added> added;
  for (const char* special : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"})
    if (const auto id = vocabulary.find(special)) added.push_back({special, *id, false});
  const BertOptions options = read_bert_options(fs::path(path).replace_filename("tokenizer_config.json"));
  return std::make_unique<Tokenizer>(vocabulary.tokens(), make_word_piece(vocabulary, {}), options, added,
                                     path);
}

constexpr std::string_view kVocabulary = "vocab.json", kMerges = "merges.txt";

// What lies beside a vocab.json, or a prefix-vocab.json.
std::string merges_beside(const std::string& path) {
  return path.substr(0, path.size() - kVocabulary.size()).append(kMerges);
}

std::unique_ptr<Tokenizer> load_json(const std::string& path) {
  const nlohmann::json json = parse_strict_json(InputFile(path).text(), path);
  if (json.is_object() && json.contains("model") && json["model"].is_object())
    return read_tokenizer_json(json, path);
  const bool named = path.ends_with(kVocabulary);
  const std::string merges = named ? merges_beside(path) : "";
  if (!named || !is_there(merges))
    throw Error(ExitCode::kInput,
                fmt::format("{} has no \"model\"{}", path, named ? ", and there is no " + merges : ""),
                "name a tokenizer.json, or a vocab.json with its merges.txt beside it");
  return load_gpt2(json, path, merges);
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
  for (const char* name :
       {"tokenizer.json", "vocab.json", "merges.txt", "vocab.txt", "tokenizer_config.json"})
    if (is_there(folder / name)) files.push_back((folder / name).string());
  return files;
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& path) {
  std::error_code error;
  std::string file = path;
  if (fs::is_directory(path, error)) {
    file.clear();
    for (const char* name : {"tokenizer.json", "vocab.json", "vocab.txt"})
      if (file.empty() && is_there(fs::path(path) / name)) file = (fs::path(path) / name).string();
    if (file.empty())
      throw Error(ExitCode::kInput,
                  fmt::format("the folder {} holds no tokenizer.json, vocab.json or vocab.txt", path));
  }
  return file.ends_with(".json") ? load_json(file) : load_bert(file);
}

}  // namespace recollect
