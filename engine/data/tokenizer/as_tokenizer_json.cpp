#include "engine/data/tokenizer/as_tokenizer_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "engine/core/error.h"
#include "engine/data/tokenizer/files_beside.h"
#include "engine/data/tokenizer/load.h"
#include "engine/data/tokenizer/other_classes.h"
#include "engine/data/tokenizer/rebuilt_tokenizer.h"
#include "engine/data/tokenizer/serde_number.h"
#include "engine/data/tokenizer/tokenizer_class.h"
#include "engine/io/input_file.h"
#include "engine/io/strict_json.h"

namespace recollect {
namespace {

using WholeJson = nlohmann::json;

constexpr const char
    *kConfigName = "tokenizer_config.json",
    *kAsFileHint =
        "write \"tokenizer_class\": \"PreTrainedTokenizerFast\" there, and tokenizer.json counts as it is";

// What Transformers calls special tokens where no file names them.
struct UsualToken {
  const char* key;
  const char* name;
};
std::vector<UsualToken> usual_tokens(TokenizerClass choice) {
  constexpr const char* kEnd = "<|endoftext|>";
  switch (choice) {
    case TokenizerClass::kGpt2:
      return {{"bos_token", kEnd}, {"eos_token", kEnd}, {"unk_token", kEnd}};
    case TokenizerClass::kQwen2:
      return {{"eos_token", kEnd}, {"unk_token", kEnd}, {"pad_token", kEnd}};
    case TokenizerClass::kLlama:
      return {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}};
    case TokenizerClass::kBert:
      return {{"unk_token", "[UNK]"},
              {"sep_token", "[SEP]"},
              {"pad_token", "[PAD]"},
              {"cls_token", "[CLS]"},
              {"mask_token", "[MASK]"}};
    default:
      return {};
  }
}

// Of Unigram: two ways to part a word whose sums of scores differ in the last place only are chosen between as there.
void read_scores_as_serde(WholeJson& whole) {
  if (!whole.is_object() || !whole.contains("model") || !whole["model"].is_object()) return;
  const auto vocabulary = whole["model"].find("vocab");
  if (vocabulary == whole["model"].end() || !vocabulary->is_array()) return;
  for (WholeJson& one : *vocabulary)
    if (one.is_array() && one.size() == 2 && one[1].is_number_float())
      one[1] = as_serde_reads(one[1].get<double>());
}

bool is_word_piece(const WholeJson& model) {
  const auto type = model.find("type");
  return type == model.end() || type->is_null() ? !model.contains("merges") : *type == "WordPiece";
}

// Ids as Hugging Face `tokenizers` gives them to tokens that are added one after the other.
class AddedList {
 public:
  explicit AddedList(WholeJson& whole) : list_(whole["added_tokens"]), vocabulary_(whole["model"]["vocab"]) {
    if (list_.is_null()) list_ = WholeJson::array();
    next_ = vocabulary_.size();
    for (const WholeJson& one : list_)
      if (is_token(one)) next_ = std::max(next_, one["id"].get<uint64_t>() + 1);
  }

  std::optional<uint64_t> find(const std::string& content) const {
    for (const WholeJson& one : list_)
      if (is_token(one) && one["content"] == content) return one["id"].get<uint64_t>();
    if (vocabulary_.is_object()) {
      const auto at = vocabulary_.find(content);
      return at != vocabulary_.end() && at->is_number_unsigned() ? std::optional(at->get<uint64_t>())
                                                                 : std::nullopt;
    }
    for (std::size_t i = 0; vocabulary_.is_array() && i < vocabulary_.size(); ++i)  // pieces and their scores
      if (vocabulary_[i].is_array() && !vocabulary_[i].empty() && vocabulary_[i][0] == content) return i;
    return std::nullopt;
  }

  uint64_t add(const TokenBeside& token) {
    const std::optional<uint64_t> known = find(token.content);
    const uint64_t id = known ? *known : next_++;
    if (!list_.is_array()) return id;  // an error of who reads the whole
    WholeJson one = {{"id", id},
                     {"content", token.content},
                     {"single_word", token.single_word},
                     {"lstrip", token.lstrip},
                     {"rstrip", token.rstrip},
                     {"normalized", token.normalized},
                     {"special", token.special}};
    for (WholeJson& other : list_)
      if (is_token(other) && other["content"] == token.content) {
        if (has_flags(other)) other = std::move(one);  // else it is an error of who reads the whole
        return id;
      }
    list_.push_back(std::move(one));
    return id;
  }

 private:
  static bool is_token(const WholeJson& one) {
    return one.is_object() && one.contains("id") && one["id"].is_number_unsigned() &&
           one.contains("content") && one["content"].is_string();
  }
  static bool has_flags(const WholeJson& one) {
    for (const char* key : {"single_word", "lstrip", "rstrip", "normalized", "special"})
      if (one.contains(key) && !one[key].is_boolean()) return false;
    return true;
  }

  WholeJson& list_;
  const WholeJson& vocabulary_;
  uint64_t next_ = 0;
};

class FolderReader {
 public:
  explicit FolderReader(const std::string& file) : file_(file), is_sentencepiece_(file.ends_with(".model")) {
    WholeJson json;
    const std::string text = file.ends_with(".json") ? InputFile(file).text() : "";
    if (file.ends_with(".json")) read_scores_as_serde(json = parse_strict_json(text, file));
    if (is_sentencepiece_) json = tokenizer_json_of_sentencepiece(InputFile(file).text(), file);
    from_json_ = json.is_object() && json.contains("model") && json["model"].is_object();
    beside_ = read_files_beside(file, from_json_ ? &json : nullptr);
    if (!from_json_) json = WholeJson{{"model", read_vocabulary_model(file)}};
    result_.byte_level = from_json_ && text.find("\"ByteLevel\"") != std::string::npos;
    choose_class(json);
    name_special_tokens(json);
    read_habits(json);
    make_whole(std::move(json));
  }

  TokenizerAsRead read() {
    AddedList added(result_.json);
    add_tokens(added);
    make_template(added);
    result_.cleans_text =
        is_word_piece(result_.json["model"]) && beside_.flag("clean_up_tokenization_spaces", false);
    for (const auto& [key, token] : named_)
      if (const auto id = added.find(token.content))
        result_.special[key] = {token.content, static_cast<uint32_t>(*id)};
    const TokenizerClass kind =
        is_word_piece(result_.json["model"]) ? TokenizerClass::kBert : TokenizerClass::kGpt2;
    result_.made_as = makes_anew_.value_or(TokenizerClass::kAsFile);
    for (const UsualToken& token : usual_tokens(choice_ == TokenizerClass::kUnsaid ? kind : choice_))
      result_.all_usual &= result_.special.contains(token.key);
    result_.all_usual &= result_.made_as != TokenizerClass::kAsFile;
    result_.choice = choice_;
    result_.beside = std::move(beside_);
    return std::move(result_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what, const std::string& hint) const {
    throw Error(ExitCode::kInput, what, hint);
  }
  std::string class_text() const {
    const bool of_model = beside_.tokenizer_class.empty();
    return fmt::format("{}: {} {}",
                       beside_.where(beside_.class_is_of_model || of_model ? "config.json" : kConfigName),
                       of_model ? "model_type" : "tokenizer_class",
                       escaped_name(of_model ? beside_.model_type : beside_.tokenizer_class));
  }

  void choose_class(const WholeJson& json) {
    if (is_sentencepiece_) {  // the file says all of it, whatever the class
      choice_ = TokenizerClass::kAsFile;
      return;
    }
    const bool word_piece = is_word_piece(json["model"]);
    choice_ = choose_tokenizer_class(beside_, result_.byte_level);
    const TokenizerClass by_kind = word_piece ? TokenizerClass::kBert : TokenizerClass::kGpt2;
    const std::string& said = beside_.tokenizer_class;
    const std::string usual = word_piece ? "BertTokenizer" : "GPT2Tokenizer";
    if (!from_json_) {
      // Transformers reads these with a class of theirs only; the same class is meant where nothing says one.
      if (choice_ == TokenizerClass::kAsFile && !said.empty()) choice_ = tokenizer_class_of(said);
      if (choice_ == TokenizerClass::kOther || choice_ == TokenizerClass::kLlama ||
          (choice_ == TokenizerClass::kAsFile && !said.empty()))
        refuse(
            fmt::format("{}: how Transformers reads {} with it is not known here", class_text(), file_),
            fmt::format("say \"tokenizer_class\": \"{}\" in tokenizer_config.json, or name a tokenizer.json",
                        usual));
      const bool fits = choice_ == by_kind || (choice_ == TokenizerClass::kQwen2 && !word_piece);
      if (said.empty() && !fits) choice_ = TokenizerClass::kUnsaid;
      makes_anew_ = choice_ == TokenizerClass::kUnsaid ? by_kind : choice_;
    } else if (choice_ != TokenizerClass::kUnsaid && choice_ != TokenizerClass::kAsFile &&
               choice_ != TokenizerClass::kOther) {
      makes_anew_ = choice_;
    } else if (choice_ == TokenizerClass::kOther) {
      refuse_other_class();
    }
    if (makes_anew_ && (*makes_anew_ == TokenizerClass::kBert) != word_piece)
      refuse(fmt::format("{} does not go with {}, which holds {}", class_text(), file_,
                         word_piece ? "word pieces" : "byte pairs"),
             from_json_ ? kAsFileHint : fmt::format("write {}", usual));
  }

  // Nor is known what a model of another family takes where no file names a class.
  void refuse_other_class() const {
    const std::string& said = beside_.tokenizer_class;
    if (said.empty() || makes_what_is_not_followed(said))
      refuse(fmt::format(
                 "{}: with it Transformers 5 takes the vocabulary of {}, and makes all else anew, which is "
                 "not followed here",
                 class_text(), file_),
             kAsFileHint);
  }

  void name_special_tokens(const WholeJson& json) {
    const bool unsaid = choice_ == TokenizerClass::kUnsaid;
    const TokenizerClass usual = !unsaid                        ? choice_
                                 : is_word_piece(json["model"]) ? TokenizerClass::kBert
                                                                : TokenizerClass::kGpt2;
    for (const UsualToken& token : usual_tokens(usual))
      if (!beside_.named.contains(token.key)) named_[token.key] = {.content = token.name};
    for (const auto& [key, token] : beside_.named)
      if (token) named_[key] = *token;
    const auto padding = json.find("padding");
    const bool pads = choice_ == TokenizerClass::kAsFile || choice_ == TokenizerClass::kLlama;
    if (pads && padding != json.end() && padding->is_object() && !beside_.named.contains("pad_token") &&
        padding->contains("pad_token") && (*padding)["pad_token"].is_string())
      named_["pad_token"] = {.content = (*padding)["pad_token"].get<std::string>()};
  }

  bool is_left(const char* key, const WholeJson& json, const char* part, bool otherwise) const {
    const auto at = json.find(part);
    if (from_json_ && at != json.end() && at->is_object() && at->contains("direction"))
      otherwise = (*at)["direction"] == "Left";
    const std::string side = beside_.text(key, otherwise ? "left" : "right");
    if (side != "left" && side != "right")
      refuse(fmt::format("{}: {} is {}", beside_.where(kConfigName), key, escaped_name(side)),
             "write left or right");
    return side == "left";
  }

  void read_habits(const WholeJson& json) {
    result_.habits.cuts_left = is_left("truncation_side", json, "truncation", false);
    result_.habits.pads_left = is_left("padding_side", json, "padding", choice_ == TokenizerClass::kLlama);
    result_.habits.longest = longest_of(beside_);
    result_.habits.gives_types = gives_types();
  }

  // BERT's classes give them; DistilBERT has none, and where no file says a class, the model decides.
  bool gives_types() const {
    const auto names = beside_.config.find("model_input_names");
    if (names == beside_.config.end() || !names->is_array())
      return choice_ == TokenizerClass::kUnsaid ||
             (choice_ == TokenizerClass::kOther && !result_.byte_level) ||
             (choice_ == TokenizerClass::kBert && beside_.tokenizer_class != "DistilBertTokenizer");
    return std::find(names->begin(), names->end(), "token_type_ids") != names->end();
  }

  void make_whole(WholeJson json) {
    if (!makes_anew_) {
      check_settings(json);
      result_.json = std::move(json);
      return;
    }
    const auto unknown = named_.find("unk_token");
    WholeJson& of_file = json["model"];
    WholeJson model = {{"vocab", std::move(of_file["vocab"])}, {"merges", std::move(of_file["merges"])}};
    result_.json = rebuilt_tokenizer(*makes_anew_, std::move(model), beside_,
                                     unknown == named_.end() ? "None" : unknown->second.content);
    if (!from_json_) return;
    if (json.contains("post_processor")) result_.json["post_processor"] = json["post_processor"];
    std::string lost = lost_by_rebuilding(json, result_.json);
    if (const std::string tokens = lost_tokens(json); !tokens.empty())
      lost += (lost.empty() ? "" : ", ") + fmt::format("the added tokens {}", tokens);
    if (!lost.empty())
      result_.remarks.push_back(fmt::format(
          "{} makes Transformers 5, and this program, read {} without {}; with PreTrainedTokenizerFast the "
          "file counts as it is",
          class_text(), file_, lost));
  }

  // An added_tokens_decoder stands for all added tokens of the file.
  std::string lost_tokens(const WholeJson& json) const {
    std::string lost;
    if (!beside_.config.contains("added_tokens_decoder") || !json.contains("added_tokens")) return lost;
    for (const WholeJson& one : json["added_tokens"]) {
      if (!one.is_object() || !one.contains("content") || !one["content"].is_string()) continue;
      const auto& content = one["content"].get_ref<const std::string&>();
      const auto is_it = [&](const auto& token) { return token.content == content; };
      const bool stays =
          std::any_of(beside_.added.begin(), beside_.added.end(),
                      [&](const auto& at) { return is_it(at.second); }) ||
          std::any_of(named_.begin(), named_.end(), [&](const auto& at) { return is_it(at.second); }) ||
          std::any_of(beside_.others.begin(), beside_.others.end(), is_it);
      if (!stays) lost += (lost.empty() ? "" : " ") + escaped_name(content);
    }
    return lost;
  }

  // Of a class that is not known: settings that say what the file says.
  void check_settings(const WholeJson& json) const {
    if (choice_ != TokenizerClass::kOther) return;
    struct Setting {
      const char *key, *part, *type, *name;
    };
    constexpr Setting kSettings[] = {
        {"do_lower_case", "normalizer", "BertNormalizer", "lowercase"},
        {"strip_accents", "normalizer", "BertNormalizer", "strip_accents"},
        {"tokenize_chinese_chars", "normalizer", "BertNormalizer", "handle_chinese_chars"},
        {"add_prefix_space", "pre_tokenizer", "ByteLevel", "add_prefix_space"}};
    for (const Setting& one : kSettings) {
      const auto said = beside_.said_flag(one.key);
      if (!said || !json.contains(one.part) || !json[one.part].is_object()) continue;
      const WholeJson& part = json[one.part];
      if (!part.contains("type") || part["type"] != one.type || !part.contains(one.name)) continue;
      if (part[one.name] != *said)
        refuse(fmt::format("{}: {} is {}, and {} says {}.{} {}; which of them counts with tokenizer_class {} "
                           "is not known "
                           "here",
                           beside_.where(kConfigName), one.key, *said, file_, one.part, one.name,
                           part[one.name].dump(), escaped_name(beside_.tokenizer_class)),
               kAsFileHint);
    }
  }

  bool is_named_token(const std::string& content) const {
    return std::any_of(named_.begin(), named_.end(),
                       [&](const auto& at) { return at.second.content == content; });
  }

  void add_tokens(AddedList& added) {
    const bool unsaid = choice_ == TokenizerClass::kUnsaid;
    const auto add = [&](TokenBeside token) {
      token.special |= is_named_token(token.content);
      return added.add(token);
    };
    const auto is_added = [&](const std::string& content) {
      return std::any_of(beside_.added.begin(), beside_.added.end(),
                         [&](const auto& one) { return one.second.content == content; });
    };
    // Of what several names add, the switches of the last one count.
    const WholeJson list = result_.json["added_tokens"];
    const auto in_file = [&](const std::string& content) {
      return std::any_of(list.begin(), list.end(), [&](const WholeJson& one) {
        return one.is_object() && one.contains("content") && one["content"] == content;
      });
    };
    const bool keeps = !makes_anew_;  // added tokens of the file stay as it has them
    for (const auto& [id, token] : beside_.added)
      if (const uint64_t given = add(token); given != id && !(keeps && in_file(token.content)))
        refuse(fmt::format("{}: the added token {} is said to have the id {}, and Transformers gives it {}",
                           file_, escaped_name(token.content), id, given),
               from_json_ && makes_anew_
                   ? kAsFileHint
                   : "ids of added tokens follow those of the vocabulary without a hole");
    for (const char* key : kNamedTokens) {
      const auto at = named_.find(key);
      if (at == named_.end() || is_added(at->second.content) || (keeps && in_file(at->second.content)))
        continue;
      if (unsaid && !beside_.named.contains(key) && !added.find(at->second.content)) continue;
      if (unsaid && from_json_ && !beside_.named.contains(key)) continue;
      add(at->second);
    }
    for (const TokenBeside& token : beside_.others)
      if (!is_added(token.content) && !(keeps && in_file(token.content))) add(token);
    if (choice_ == TokenizerClass::kQwen2)
      for (const char* key : kNamedTokens)
        if (const auto at = named_.find(key); at != named_.end()) added.add({.content = at->second.content});
  }

  static WholeJson special_piece(const std::string& content, unsigned type) {
    return {{"SpecialToken", {{"id", content}, {"type_id", type}}}};
  }
  static WholeJson text_piece(const char* which, unsigned type) {
    return {{"Sequence", {{"id", which}, {"type_id", type}}}};
  }

  void make_template(const AddedList& added) {
    WholeJson& processor = result_.json["post_processor"];
    const bool bert = makes_anew_ == TokenizerClass::kBert;
    const WholeJson& config = beside_.config;
    const bool is_asked =
        !from_json_ && (config.contains("add_bos_token") || config.contains("add_eos_token"));
    if (!bert && !is_asked && !processor.is_null()) return;
    if (!bert && choice_ == TokenizerClass::kUnsaid && from_json_) return;
    WholeJson special = WholeJson::object(), single = WholeJson::array(), pair = WholeJson::array();
    const auto put = [&](const char* key, WholeJson& list, unsigned type, uint64_t otherwise) {
      const auto at = named_.find(key);
      const std::string content = at == named_.end() ? "None" : at->second.content;
      const uint64_t id = at == named_.end() ? otherwise : added.find(content).value_or(otherwise);
      special[content] = {{"id", content}, {"ids", {id}}, {"tokens", {content}}};
      list.push_back(special_piece(content, type));
    };
    if (bert) {
      for (const char* key : {"cls_token", "sep_token"})
        if (choice_ == TokenizerClass::kUnsaid &&
            (!named_.contains(key) || !added.find(named_[key].content))) {
          result_.no_template = file_ + ": there is no [CLS] or no [SEP], which BERT puts around a text";
          return;
        }
      put("cls_token", single, 0, 2);
      single.push_back(text_piece("A", 0));
      put("sep_token", single, 0, 3);
      pair = single;
      pair.push_back(text_piece("B", 1));
      put("sep_token", pair, 1, 3);
    } else {
      const auto asks = [&](const char* key, const char* token) {
        return is_asked && beside_.flag(key, false) && named_.contains(token);
      };
      const bool begins = asks("add_bos_token", "bos_token"), ends = asks("add_eos_token", "eos_token");
      if (begins) put("bos_token", single, 0, 0);
      single.push_back(text_piece("A", 0));
      if (ends) put("eos_token", single, 0, 0);
      pair = single;
      if (begins) put("bos_token", pair, 1, 0);
      pair.push_back(text_piece("B", 1));
      if (ends) put("eos_token", pair, 1, 0);
    }
    processor = {{"type", "TemplateProcessing"},
                 {"single", std::move(single)},
                 {"pair", std::move(pair)},
                 {"special_tokens", std::move(special)}};
  }

  const std::string& file_;
  bool is_sentencepiece_;
  bool from_json_ = false;
  FilesBeside beside_;
  TokenizerClass choice_ = TokenizerClass::kUnsaid;
  std::optional<TokenizerClass> makes_anew_;  // as which class
  std::map<std::string, TokenBeside> named_;
  TokenizerAsRead result_;
};

}  // namespace

TokenizerAsRead read_as_tokenizer_json(const std::string& file) { return FolderReader(file).read(); }

int64_t longest_of(const FilesBeside& beside) {
  constexpr double kWithoutEnd = 1e9;
  for (const char* key : {"model_max_length", "max_len"}) {
    const auto at = beside.config.find(key);
    if (at == beside.config.end()) continue;
    if (at->is_null()) return 0;
    if (!at->is_number() || at->get<double>() < 1)
      throw Error(ExitCode::kInput,
                  fmt::format("{}: {} is {}", beside.where(kConfigName), key, escaped_name(at->dump())),
                  "write a number of tokens");
    const auto longest = at->get<double>();
    return longest < kWithoutEnd ? static_cast<int64_t>(longest) : 0;
  }
  return 0;
}

SpecialIds special_ids_of(const TokenizerAsRead& read) {
  SpecialIds ids;
  const std::pair<const char*, std::optional<uint32_t>*> known[] = {
      {"cls_token", &ids.cls}, {"sep_token", &ids.sep}, {"pad_token", &ids.pad}, {"mask_token", &ids.mask},
      {"unk_token", &ids.unk}, {"bos_token", &ids.bos}, {"eos_token", &ids.eos}};
  for (const auto& [key, id] : known)
    if (const auto at = read.special.find(key); at != read.special.end()) *id = at->second.id;
  return ids;
}

}  // namespace recollect
