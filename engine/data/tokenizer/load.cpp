#include "engine/data/tokenizer/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "engine/core/error.h"
#include "engine/data/tokenizer/as_tokenizer_json.h"
#include "engine/data/tokenizer/rebuilt_tokenizer.h"
#include "engine/io/hub_folder.h"
#include "engine/io/strict_json.h"

namespace recollect {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// Of a folder the first of these that is there; "" where none is.
std::string main_file(const std::string& given) {
  const std::string path = hub_snapshot(given);
  std::error_code error;
  if (!fs::is_directory(path, error)) return path;
  for (const char* name : {"tokenizer.json", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model",
                           "vocab.json", "vocab.txt"})
    if (is_there(fs::path(path) / name)) return (fs::path(path) / name).string();
  return "";
}

constexpr const char* kBeside[] = {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
                                   "chat_template.jinja"};

// More of them, which Transformers keeps in a folder of their own.
std::vector<std::string> chat_templates_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder / "additional_chat_templates", error), end; !error && entry != end;
       entry.increment(error))
    if (entry->path().extension() == ".jinja")
      names.push_back((fs::path("additional_chat_templates") / entry->path().filename()).string());
  std::sort(names.begin(), names.end());
  return names;
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
  if (path.ends_with(kVocabularyJson)) files.push_back(merges_beside(path));
  for (const char* name : {"tokenizer.json", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model",
                           "vocab.json", "merges.txt", "vocab.txt", "config.json"})
    if (is_there(folder / name)) files.push_back((folder / name).string());
  for (const char* name : kBeside)
    if (is_there(folder / name)) files.push_back((folder / name).string());
  return files;
}

std::vector<TokenizerFile> parts_of_tokenizer(const std::string& path) {
  const std::string file = main_file(path);
  if (file.empty()) return {};
  std::vector<TokenizerFile> parts;
  if (file.ends_with(kVocabularyJson)) {
    parts = {{file, "vocab.json"}, {merges_beside(file), "merges.txt"}};
  } else {
    const std::string name = fs::path(file).filename().string();
    parts = {{file, file.ends_with(".json")                                       ? "tokenizer.json"
                    : name == "spiece.model" || name == "sentencepiece.bpe.model" ? name
                    : file.ends_with(".model")                                    ? "tokenizer.model"
                                                                                  : "vocab.txt"}};
  }
  const fs::path folder = fs::path(file).parent_path();
  for (const char* name : kBeside) parts.push_back({(folder / name).string(), name});
  for (const std::string& name : chat_templates_in(folder)) parts.push_back({(folder / name).string(), name});
  std::erase_if(parts, [](const TokenizerFile& part) { return !is_there(part.path); });
  return parts;
}

int64_t longest_of_tokenizer(const std::string& path) {
  try {
    return longest_of(read_files_beside(main_file(path), nullptr));
  } catch (const Error&) {
    return 0;  // it is told where the tokenizer is read
  }
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& path) {
  const std::string file = main_file(path);
  if (file.empty())
    throw Error(
        ExitCode::kInput,
        fmt::format("the folder {} holds no tokenizer.json, tokenizer.model, vocab.json or vocab.txt", path));
  TokenizerAsRead read = read_as_tokenizer_json(file);
  Tokenizer::Parts parts = read_tokenizer_json(read.json, file);
  parts.special = special_ids_of(read);
  if (!read.no_template.empty()) parts.post_processor.refused = std::move(read.no_template);
  parts.decoder.clean_text = read.cleans_text;
  parts.habits = read.habits;
  parts.remarks = std::move(read.remarks);
  return std::make_unique<Tokenizer>(std::move(parts));
}

}  // namespace recollect
