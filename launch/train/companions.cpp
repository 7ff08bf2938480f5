#include "launch/train/companions.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "engine/core/error.h"
#include "engine/core/freed_memory.h"
#include "engine/data/tokenizer/as_tokenizer_json.h"
#include "engine/data/tokenizer/tokenizer_class.h"
#include "engine/io/file_text.h"
#include "engine/io/files.h"
#include "engine/io/folders.h"
#include "engine/io/json.h"
#include "engine/io/standard_output.h"
#include "engine/io/yaml_document.h"

namespace recollect {

namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

constexpr const char *kGenerationConfig = "generation_config.json",
                     *kTokenizerConfig = "tokenizer_config.json", *kWholeTokenizer = "tokenizer.json",
                     *kChatTemplate = "chat_template.jinja";
constexpr uint64_t kOfText =
    32;  // bytes of tokenizer.json per byte of vocabulary
constexpr uint64_t kAround = 16 << 10;

struct TokenKey {
  const char* key;
  std::optional<uint32_t> SpecialIds::*id;
};
constexpr TokenKey kTokenKeys[] = {{"bos_token_id", &SpecialIds::bos},
                                   {"eos_token_id", &SpecialIds::eos},
                                   {"pad_token_id", &SpecialIds::pad}};

OrderedJson object_in(const std::string& path) {
  std::string text;
  if (!read_file_text(path, kMaxDocumentBytes, text).empty()) return OrderedJson::object();
  OrderedJson json = OrderedJson::parse(text, nullptr, false);
  return json.is_object() ? json : OrderedJson::object();
}

// Adds the names that the class gives to special tokens; Transformers would choose another class beside the
// model.
OrderedJson with_token_names(const TokenizerAsRead& read, OrderedJson said) {
  for (const auto& [key, token] : read.special)
    if (!said.contains(key)) said[key] = token.content;
  if (read.habits.pads_left && !said.contains("padding_side")) said["padding_side"] = "left";
  return said;
}

// Adds what AutoTokenizer could not find if the tokenizer is beside another model: its class, and the names
// of its tokens.
OrderedJson completed_config(const Config& config, const TokenizerAsRead& read, OrderedJson said) {
  TokenizerClass choice = read.choice;
  if (choice == TokenizerClass::kUnsaid) choice = read.all_usual ? read.made_as : TokenizerClass::kAsFile;
  said["tokenizer_class"] = read.beside.tokenizer_class.empty() || choice == TokenizerClass::kAsFile
                                ? tokenizer_class_name(choice)
                                : read.beside.tokenizer_class;
  said = with_token_names(read, std::move(said));
  if (choice == TokenizerClass::kAsFile && config.model.facts().token_types > 1 &&
      !said.contains("model_input_names"))
    said["model_input_names"] = {"input_ids", "token_type_ids", "attention_mask"};
  return said;
}

// Whether `path` is the folder or a file in it.
bool is_of_folder(const std::string& path, const std::string& folder) {
  std::error_code error;
  const fs::path own = fs::is_directory(path, error) ? fs::path(path) : fs::path(path).parent_path();
  return !folder.empty() && fs::equivalent(own.empty() ? "." : own, folder, error);
}

// Whether a file has this id already, alone or in a list.
bool says_id(const OrderedJson& value, uint32_t id) {
  return value == id || (value.is_array() && std::find(value.begin(), value.end(), id) != value.end());
}

bool same_class(TokenizerClass a, TokenizerClass b) {
  const auto plain = [](TokenizerClass one) {
    return one == TokenizerClass::kUnsaid || one == TokenizerClass::kOther ? TokenizerClass::kAsFile : one;
  };
  return plain(a) == plain(b);
}

}  // namespace

Companions::Companions(const Config& config)
    : causal_(config.task == Task::kCausalLm),
      tokens_win_(!config.data.tokenizer.empty() &&
                  !is_of_folder(config.data.tokenizer, config.model.pretrained)) {
  const auto& keys = config.model.family().keys;
  learns_pad_ = std::none_of(keys.begin(), keys.end(), [](const ModelKey& key) {
    return std::string_view(key.name) == "pad_token_id";
  });
  const std::string& tokenizer =
      config.data.tokenizer.empty() ? config.model.pretrained : config.data.tokenizer;
  if (!tokenizer.empty()) add_tokenizer(config, tokenizer);
  add_chat_template(config.data.chat_template, tokenizer);
  add_generation(config);
  give_back_freed_memory();  // used by the vocabulary
}

void Companions::add_tokenizer(const Config& config, const std::string& path) {
  for (const TokenizerFile& file : parts_of_tokenizer(path)) files_.push_back({file.name, file.path, ""});
  if (files_.empty()) return;
  const std::string vocabulary = files_.front().from;
  std::optional<TokenizerAsRead> read;
  try {
    read = read_as_tokenizer_json(vocabulary);
  } catch (const Error&) {
    return;  // with token files the tokenizer's files are only copied
  }
  special_ = special_ids_of(*read);
  if (files_.front().name != kWholeTokenizer) vocabulary_ = vocabulary;
  if (!tokens_win_) return;
  const std::string config_file = read->beside.where(kTokenizerConfig);
  FilesBeside beside = read->beside;
  beside.model_type = config.model.family().type;
  const bool has_class = beside.config.contains("tokenizer_class");
  OrderedJson said = object_in(config_file);
  if (!has_class) {
    said = completed_config(config, *read, std::move(said));
    beside.tokenizer_class = said["tokenizer_class"].get<std::string>();
  }
  const TokenizerClass now = class_of_transformers(beside, read->byte_level);
  const bool loses_class = now == TokenizerClass::kAsFile && read->made_as != TokenizerClass::kAsFile;
  if (!has_class || loses_class) {
    std::erase_if(files_, [](const Companion& file) { return file.name == kTokenizerConfig; });
    files_.push_back({kTokenizerConfig, "", with_token_names(*read, std::move(said)).dump(2) + "\n"});
  }
  const TokenizerClass then =
      read->choice == TokenizerClass::kUnsaid && read->all_usual ? read->made_as : read->choice;
  // A tokenizer.json holds everything that the class makes from the files.
  if (loses_class)
    vocabulary_ = vocabulary;
  else if (!same_class(now, then))
    remarks_.push_back(
        fmt::format("AutoTokenizer of Transformers 5 reads the tokenizer beside a model of type {} as {}, "
                    "and {} was read as {}: "
                    "load it with PreTrainedTokenizerFast.from_pretrained",
                    config.model.family().type, tokenizer_class_name(now), path, tokenizer_class_name(then)));
}

// The template that conversations were written by is the one of the saved model.
void Companions::add_chat_template(const std::string& chosen, const std::string& tokenizer) {
  if (chosen.empty()) return;
  std::error_code error;
  const fs::path folder =
      fs::is_directory(tokenizer, error) ? fs::path(tokenizer) : fs::path(tokenizer).parent_path();
  const fs::path named = folder / "additional_chat_templates" / (chosen + ".jinja");
  const std::string from = fs::is_regular_file(chosen, error) ? chosen : named.string();
  if (!fs::is_regular_file(from, error)) return;
  std::erase_if(files_, [](const Companion& file) { return file.name == kChatTemplate; });
  files_.push_back({kChatTemplate, from, ""});
}

void Companions::add_generation(const Config& config) {
  if (!causal_) return;
  const std::string& start = config.model.pretrained;
  const std::string file = start + "/" + kGenerationConfig;
  std::error_code error;
  const bool is_there = !start.empty() && fs::is_regular_file(file, error);
  if (is_there && !tokens_win_) {
    files_.push_back({kGenerationConfig, file, ""});
    return;
  }
  if (config.lora.rank > 0 && !config.lora.merge) return;  // adapters are not a model
  OrderedJson json = is_there ? object_in(file) : OrderedJson{{"_from_model_config", true}};
  const OrderedJson of_model = start.empty() ? OrderedJson::object() : object_in(start + "/config.json");
  for (const TokenKey& token : kTokenKeys) {
    const std::optional<uint32_t> id = special_.*token.id;
    const bool is_said = of_model.contains(token.key) && !of_model[token.key].is_null();
    const bool is_there_too = json.contains(token.key) && says_id(json[token.key], id.value_or(0));
    if (id && (tokens_win_ || !is_said) && !is_there_too)
      json[token.key] = *id;
    else if (is_said && !json.contains(token.key))
      json[token.key] = of_model[token.key];
  }
  files_.push_back({kGenerationConfig, "", json.dump(2) + "\n"});
}

std::string Companions::with_token_ids(const std::string& description) const {
  OrderedJson json = OrderedJson::parse(description);
  bool changed = false;
  const auto set = [&](const char* key, OrderedJson value) {
    changed |= !json.contains(key) || json[key] != value;
    json[key] = std::move(value);
  };
  for (const TokenKey& token : kTokenKeys) {
    const std::string key = token.key;
    if (key == "pad_token_id" && !learns_pad_) continue;  // else a row of the embedding would be frozen
    const std::optional<uint32_t> id = special_.*token.id;
    const bool is_said = json.contains(key) && !json[key].is_null();
    if (id && (!is_said || (tokens_win_ && !says_id(json[key], *id))))
      set(token.key, *id);
    else if (!is_said && causal_ && key != "pad_token_id")
      set(token.key, nullptr);  // so that Transformers does not use its default
  }
  return changed ? json.dump(2) + "\n" : description;
}

uint64_t Companions::bytes() const {
  uint64_t bytes = vocabulary_.empty() ? 0 : kAround;
  for (const Companion& file : files_) {
    std::error_code error;
    const uint64_t size = file.from.empty() ? file.text.size() : fs::file_size(file.from, error);
    if (!error) bytes += size + (vocabulary_.empty() ? 0 : kOfText * size);
  }
  return bytes;
}

void Companions::write(const std::string& folder) const {
  const auto try_to = [&](const std::string& what, auto put) {
    try {
      put();
    } catch (const Error& error) {
      warn("{} is not beside the model: {}", what, error.what());
    }
  };
  for (const Companion& file : files_) {
    const fs::path to = fs::path(folder) / file.name;
    try_to(file.from.empty() ? file.name : file.from, [&] {
      make_folders(to.parent_path().string());
      if (file.from.empty()) return write_text_file(to.string(), file.text);
      std::error_code error;
      if (fs::equivalent(file.from, to, error)) return;
      fs::copy_file(file.from, to, fs::copy_options::overwrite_existing, error);
      if (error) throw Error(ExitCode::kStorage, error.message());
    });
  }
  if (!vocabulary_.empty())
    try_to(kWholeTokenizer, [&] {
      write_text_file(folder + "/" + kWholeTokenizer, read_as_tokenizer_json(vocabulary_).json.dump() + "\n");
    });
  for (const std::string& remark : remarks_) warn("{}", remark);
}

const std::vector<std::string>& companion_names() {
  static const std::vector<std::string> names = {
      "tokenizer.json",    kTokenizerConfig, "special_tokens_map.json",
      "added_tokens.json", "vocab.json",     "merges.txt",
      "vocab.txt",         kChatTemplate,    kGenerationConfig};
  return names;
}

}  // namespace recollect
