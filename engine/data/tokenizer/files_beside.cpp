#include "engine/data/tokenizer/files_beside.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iterator>

#include "engine/core/error.h"
#include "engine/io/input_file.h"
#include "engine/io/strict_json.h"

namespace recollect {
namespace {

namespace fs = std::filesystem;
using BesideJson = nlohmann::json;

constexpr const char *kTokenizerConfig = "tokenizer_config.json", *kTokensMap = "special_tokens_map.json",
                     *kAddedTokens = "added_tokens.json", *kModelConfig = "config.json";

bool is_named(const std::string& key) {
  return std::find(std::begin(kNamedTokens), std::end(kNamedTokens), key) != std::end(kNamedTokens);
}

std::string class_name(const BesideJson& json) {
  const auto at = json.find("tokenizer_class");
  std::string name = at != json.end() && at->is_string() ? at->get<std::string>() : "";
  if (name.ends_with("Fast") && name != "PreTrainedTokenizerFast") name.resize(name.size() - 4);
  return name;
}

class BesideReader {
 public:
  BesideReader(const std::string& vocabulary, const BesideJson* tokenizer_json)
      : tokenizer_json_(tokenizer_json) {
    const fs::path folder = fs::path(vocabulary).parent_path();
    result_.folder = folder.empty() ? "" : folder.string() + "/";
  }

  FilesBeside read() {
    result_.config = object_of(kTokenizerConfig);
    read_class();
    refuse_what_is_not_followed();
    if (tokenizer_json_) result_.config.erase("add_bos_token"), result_.config.erase("add_eos_token");
    read_lists_of_config();
    for (const std::string& key : keys_in_order()) read_token_of_config(key, result_.config[key]);
    if (const auto decoder = result_.config.find("added_tokens_decoder"); decoder != result_.config.end()) {
      read_decoder(*decoder);
    } else {
      read_map();
      read_added_tokens();
      read_tokens_of_json();
    }
    for (auto& [key, token] : result_.named)
      for (const auto& [id, added] : result_.added)
        if (token && token->content == added.content) token = added;
    result_.others = std::move(typed_);
    for (auto* more : {&plain_, &of_object_, &extra_})
      result_.others.insert(result_.others.end(), more->begin(), more->end());
    return std::move(result_);
  }

 private:
  BesideJson object_of(const char* name) const {
    const std::string path = result_.where(name);
    std::error_code error;
    if (!fs::exists(path, error)) return BesideJson::object();
    BesideJson json = parse_strict_json(InputFile(path).text(), path);
    if (!json.is_object()) throw Error(ExitCode::kInput, path + ": not an object");
    return json;
  }

  [[noreturn]] void refuse(const char* file, const std::string& what, const std::string& hint = "") const {
    throw Error(ExitCode::kInput, fmt::format("{}: {}", result_.where(file), what), hint);
  }

  // As the file has them: tokens of names of their own get their ids so.
  std::vector<std::string> keys_in_order() const {
    std::vector<std::string> keys;
    if (result_.config.empty()) return keys;
    const std::string text = InputFile(result_.where(kTokenizerConfig)).text();
    const auto ordered = nlohmann::ordered_json::parse(text);
    for (const auto& [key, value] : ordered.items())
      if (result_.config.contains(key)) keys.push_back(key);
    return keys;
  }

  // What is damaged in config.json is an error of those who read the model.
  void read_class() {
    std::error_code error;
    if (const std::string path = result_.where(kModelConfig); fs::is_regular_file(path, error)) {
      const BesideJson model = BesideJson::parse(InputFile(path).text(), nullptr, false);
      if (model.is_object() && model.contains("model_type") && model["model_type"].is_string())
        result_.model_type = model["model_type"].get<std::string>();
      if (model.is_object()) result_.tokenizer_class = class_name(model);
      result_.class_is_of_model = !result_.tokenizer_class.empty();
    }
    if (const std::string name = class_name(result_.config); !name.empty()) {
      result_.tokenizer_class = name;
      result_.class_is_of_model = false;
    }
  }

  void refuse_what_is_not_followed() const {
    const BesideJson& config = result_.config;
    if (result_.flag("split_special_tokens", false))
      refuse(kTokenizerConfig, "split_special_tokens true is not followed here",
             "remove it: then special tokens in a text are tokens");
    if (const auto inputs = config.find("init_inputs"); inputs != config.end() && !inputs->empty())
      refuse(kTokenizerConfig, "init_inputs is not followed here", "remove it, or name what it says by keys");
    if (const auto files = config.find("fast_tokenizer_files"); files != config.end())
      for (const BesideJson& file : *files)
        if (file != "tokenizer.json")
          refuse(kTokenizerConfig, "fast_tokenizer_files names another file than tokenizer.json",
                 "remove the key, and keep the file that is meant as tokenizer.json");
  }

  // "<pad>", or an object with "content", whose switches Transformers' AddedToken has.
  std::optional<TokenBeside> token_of(const BesideJson& json, const char* file, const std::string& key,
                                      bool always_special) const {
    if (json.is_null()) return std::nullopt;
    TokenBeside token;
    if (json.is_string()) {
      token.content = json.get<std::string>();
    } else {
      if (!json.is_object() || !json.contains("content") || !json["content"].is_string())
        refuse(file, fmt::format("{} is no token", key), "write a text, or an object with \"content\"");
      const auto switched = [&](const char* name, bool otherwise) {
        const auto at = json.find(name);
        return at != json.end() && at->is_boolean() ? at->get<bool>() : otherwise;
      };
      token.content = json["content"].get<std::string>();
      token.special = always_special || switched("special", false);
      token.single_word = switched("single_word", false);
      token.lstrip = switched("lstrip", false);
      token.rstrip = switched("rstrip", false);
      token.normalized = switched("normalized", !token.special);
    }
    if (token.content.empty()) refuse(file, fmt::format("{} is empty", key), "name a token, or write null");
    return token;
  }

  void read_list(const BesideJson& list, const char* file, const char* key, bool always_special) {
    if (list.is_null()) return;
    if (list.is_object()) {  // {"image_token": "<image>"}
      for (const auto& [name, value] : list.items())
        if (const auto token = token_of(value, file, fmt::format("{}.{}", key, name), true))
          of_object_.push_back(*token);
      return;
    }
    if (!list.is_array()) refuse(file, fmt::format("{} is neither a list nor an object of tokens", key));
    for (std::size_t i = 0; i < list.size(); ++i) {
      const auto token = token_of(list[i], file, fmt::format("{}[{}]", key, i), always_special);
      if (token && std::none_of(extra_.begin(), extra_.end(),
                                [&](const TokenBeside& one) { return one.content == token->content; }))
        extra_.push_back(*token);
    }
  }

  // The older name counts where the newer one says nothing, or an object of names.
  void read_lists_of_config() {
    const BesideJson& config = result_.config;
    const auto says = [&](const char* key) { return config.contains(key) && !config[key].empty(); };
    const bool named = says("extra_special_tokens") && config["extra_special_tokens"].is_object();
    has_list_ =
        !named && (config.contains("extra_special_tokens") || config.contains("additional_special_tokens"));
    for (const char* key : {"extra_special_tokens", "additional_special_tokens"}) {
      if (!says(key)) continue;
      read_list(config[key], kTokenizerConfig, key, false);
      if (!named) return;
    }
  }

  // {"image_token": "<image>"} of that list goes before a key of the same name.
  bool config_names(const std::string& key) const {
    const auto list = result_.config.find("extra_special_tokens");
    return list != result_.config.end() && list->is_object() && list->contains(key);
  }

  void read_token_of_config(const std::string& key, const BesideJson& value) {
    if (is_named(key)) {
      result_.named[key] = token_of(value, kTokenizerConfig, key, false);
    } else if (key.ends_with("_token") && (value.is_string() || value.is_object()) && !config_names(key)) {
      (value.is_string() ? plain_ : typed_).push_back(*token_of(value, kTokenizerConfig, key, false));
    }
  }

  uint64_t id_of(const std::string& key) const {
    uint64_t id = 0;
    const auto read = std::from_chars(key.data(), key.data() + key.size(), id);
    if (read.ec != std::errc() || read.ptr != key.data() + key.size())
      refuse(kTokenizerConfig, fmt::format("added_tokens_decoder: {} is no id", escaped_name(key)));
    return id;
  }

  void read_decoder(const BesideJson& decoder) {
    if (!decoder.is_object()) refuse(kTokenizerConfig, "added_tokens_decoder is no object of ids and tokens");
    for (const auto& [key, value] : decoder.items()) {
      const std::string name = fmt::format("added_tokens_decoder.{}", key);
      if (!value.is_object()) refuse(kTokenizerConfig, name + " is no object with \"content\"");
      result_.added[id_of(key)] = *token_of(value, kTokenizerConfig, name, false);
    }
  }

  void read_map() {
    const BesideJson map = object_of(kTokensMap);
    for (const auto& [key, value] : map.items()) {
      if (is_named(key)) {
        result_.named[key] = token_of(value, kTokensMap, key, true);
      } else if (key == "extra_special_tokens" || (key == "additional_special_tokens" && !has_list_)) {
        if (key == "additional_special_tokens") extra_.clear();  // it takes the place of the other's
        read_list(value, kTokensMap, key.c_str(), true);
        of_map_only_ |= key == "additional_special_tokens";
      } else if (key.ends_with("_token") && (value.is_string() || value.is_object())) {
        typed_.push_back(*token_of(value, kTokensMap, key, true));
      }
    }
  }

  bool names(const std::string& content) const {
    for (const auto& [key, token] : result_.named)
      if (token && token->content == content) return true;
    return !of_map_only_ && std::any_of(extra_.begin(), extra_.end(),
                                        [&](const TokenBeside& token) { return token.content == content; });
  }

  void read_added_tokens() {
    const BesideJson added = object_of(kAddedTokens);
    for (const auto& [content, id] : added.items()) {
      if (!id.is_number_unsigned())
        refuse(kAddedTokens,
               fmt::format("the id of {} is {}", escaped_name(content), escaped_name(id.dump())));
      const bool special = names(content);
      if (content.empty()) refuse(kAddedTokens, "an added token is empty");
      result_.added[id.get<uint64_t>()] = {.content = content, .normalized = !special, .special = special};
    }
  }

  void read_tokens_of_json() {
    if (!tokenizer_json_ || !tokenizer_json_->contains("added_tokens")) return;
    const BesideJson& list = (*tokenizer_json_)["added_tokens"];
    if (!list.is_array()) return;  // what is wrong there is said where the file is read
    for (const BesideJson& one : list)
      if (one.is_object() && one.contains("id") && one["id"].is_number_unsigned() &&
          one.contains("content") && one["content"].is_string() &&
          !one["content"].get_ref<const std::string&>().empty())
        result_.added[one["id"].get<uint64_t>()] = *token_of(one, "tokenizer.json", "an added token", false);
  }

  const BesideJson* tokenizer_json_;
  FilesBeside result_;
  std::vector<TokenBeside> typed_, plain_, of_object_, extra_;
  bool has_list_ = false, of_map_only_ = false;
};

}  // namespace

std::optional<bool> FilesBeside::said_flag(const char* key) const {
  const auto at = config.find(key);
  if (at == config.end() || at->is_null()) return std::nullopt;
  if (!at->is_boolean())
    throw Error(ExitCode::kInput, fmt::format("{}: {} is not true or false", where(kTokenizerConfig), key));
  return at->get<bool>();
}

bool FilesBeside::flag(const char* key, bool otherwise) const { return said_flag(key).value_or(otherwise); }

std::string FilesBeside::text(const char* key, const char* otherwise) const {
  const auto at = config.find(key);
  if (at == config.end() || at->is_null()) return otherwise;
  if (!at->is_string())
    throw Error(ExitCode::kInput, fmt::format("{}: {} is no text", where(kTokenizerConfig), key));
  return at->get<std::string>();
}

FilesBeside read_files_beside(const std::string& vocabulary, const nlohmann::json* tokenizer_json) {
  return BesideReader(vocabulary, tokenizer_json).read();
}

}  // namespace recollect
