#include "engine/data/tokenizer/as_tokenizer_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "engine/core/error.h"
#include "engine/data/tokenizer/added_list.h"
#include "engine/data/tokenizer/class_template.h"
#include "engine/data/tokenizer/files_beside.h"
#include "engine/data/tokenizer/other_classes.h"
#include "engine/data/tokenizer/rebuilt_tokenizer.h"
#include "engine/data/tokenizer/sentencepiece.h"
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

class FolderReader {
 public:
  explicit FolderReader(const std::string& file) : file_(file) {
    WholeJson json;
    const std::string text = file.ends_with(".json") ? InputFile(file).text() : "";
    if (file.ends_with(".json")) read_scores_as_serde(json = parse_strict_json(text, file));
    from_json_ = json.is_object() && json.contains("model") && json["model"].is_object();
    beside_ = read_files_beside(file, from_json_ ? &json : nullptr);
    if (file.ends_with(".model"))
      pieces_ = read_sentencepiece(InputFile(file).text(), file);
    else if (!from_json_)
      json = WholeJson{{"model", read_vocabulary_model(file)}};
    result_.byte_level = from_json_ && text.find("\"ByteLevel\"") != std::string::npos;
    if (pieces_)
      json = choose_class_of_pieces();
    else
      choose_class(json);
    name_special_tokens(json);
    if (choice_ == TokenizerClass::kT5) add_sentinels();
    if (pieces_) complete_pieces(json["model"]);
    read_habits(json);
    make_whole(std::move(json));
  }

  TokenizerAsRead read() {
    AddedList added(result_.json);
    add_tokens(added);
    make_template({.made = makes_anew_.value_or(TokenizerClass::kUnsaid),
                   .unsaid = choice_ == TokenizerClass::kUnsaid,
                   .from_json = from_json_,
                   .file = file_,
                   .named = named_,
                   .beside = beside_,
                   .added = added},
                  result_);
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

  // Returns a tokenizer.json without added tokens.
  WholeJson choose_class_of_pieces() {
    choice_ = choose_tokenizer_class(beside_, false);
    const std::string& said = beside_.tokenizer_class;
    const bool known =
        choice_ != TokenizerClass::kOther || (!said.empty() && !makes_what_is_not_followed(said));
    for (const TokenizerClass one :
         {TokenizerClass::kLlama, TokenizerClass::kGemma, TokenizerClass::kT5, TokenizerClass::kXlmRoberta})
      if (choice_ == one) {
        makes_anew_ = one;
        return {{"model",
                 vocabulary_of_sentencepiece(*pieces_, vocabulary_kind(one) == VocabularyKind::kBytePairs)}};
      }
    if (choice_ != TokenizerClass::kUnsaid && choice_ != TokenizerClass::kAsFile &&
        (choice_ != TokenizerClass::kOther || !known))
      refuse(fmt::format("{}: how Transformers reads {} with it is not known here", class_text(), file_),
             "write \"tokenizer_class\": \"PreTrainedTokenizerFast\" in tokenizer_config.json, and the file "
             "encodes as SentencePiece does");
    choice_ = TokenizerClass::kAsFile;
    std::map<uint64_t, std::string> names;
    for (auto& [id, token] : beside_.added) {
      names[id] = token.content;
      if (pieces_->dummy_prefix) token.normalized = false;
    }
    return tokenizer_json_of_sentencepiece(*pieces_, names, beside_.flag("legacy", true), file_);
  }

  // Whether the configuration lists more special tokens: they replace those that a class or the pieces would add.
  bool says_more_tokens() const {
    const auto says = [&](const char* key) {
      const auto at = beside_.config.find(key);
      return at != beside_.config.end() && at->is_array() && !at->empty();
    };
    return says("extra_special_tokens") || says("additional_special_tokens");
  }
  // Adds T5's <extra_id_0> and the others, in this order.
  void add_sentinels() {
    if (says_more_tokens()) return;
    for (uint64_t i = 0; i < sentinels(); ++i)
      beside_.others.push_back({.content = fmt::format("<extra_id_{}>", i)});
  }
  uint64_t sentinels() const {
    constexpr uint64_t kUsual = 100, kMost = 1 << 20;
    const auto at = beside_.config.find("extra_ids");
    if (at == beside_.config.end() || at->is_null()) return kUsual;
    if (!at->is_number_unsigned() || at->get<uint64_t>() > kMost)
      refuse(fmt::format("{}: extra_ids is {}", beside_.where(kConfigName), escaped_name(at->dump())),
             "write a number of tokens");
    return at->get<uint64_t>();
  }

  // Adds the class's own pieces; control pieces become added tokens, and with a class user-defined ones, too.
  void complete_pieces(WholeJson& model) {
    const auto name_of = [&](const char* key) {
      const auto at = named_.find(key);
      return WholeJson::array({at == named_.end() ? "None" : at->second.content, 0.0});
    };
    WholeJson& vocab = model["vocab"];
    if (choice_ == TokenizerClass::kXlmRoberta) {
      WholeJson whole = WholeJson::array(
          {name_of("bos_token"), name_of("pad_token"), name_of("eos_token"), name_of("unk_token")});
      for (std::size_t i = 3; i < vocab.size(); ++i) whole.push_back(std::move(vocab[i]));
      whole.push_back(name_of("mask_token"));
      vocab = std::move(whole);
    }
    if (choice_ == TokenizerClass::kT5)
      for (uint64_t i = sentinels(); i > 0; --i) vocab.push_back({fmt::format("<extra_id_{}>", i - 1), 0.0});
    if (says_more_tokens()) return;
    std::vector<TokenBeside> added;
    for (const auto& entry : pieces_->entries)
      if (entry.type == SentencePieceModel::kControl ||
          (entry.type == SentencePieceModel::kUserDefined && makes_anew_))
        added.push_back({.content = entry.piece, .special = entry.type == SentencePieceModel::kControl});
    beside_.others.insert(beside_.others.begin(), added.begin(), added.end());
  }

  void choose_class(const WholeJson& json) {
    const WholeJson& model = json["model"];
    const VocabularyKind kind = from_json_ && model.contains("vocab") && model["vocab"].is_array()
                                    ? VocabularyKind::kScoredPieces
                                : is_word_piece(model) ? VocabularyKind::kWordPieces
                                                       : VocabularyKind::kBytePairs;
    const bool word_piece = kind == VocabularyKind::kWordPieces;
    choice_ = choose_tokenizer_class(beside_, result_.byte_level);
    const std::string usual = word_piece ? "BertTokenizer" : "GPT2Tokenizer";
    if (!from_json_) {
      choose_class_of_words(word_piece, usual);
    } else if (choice_ == TokenizerClass::kOther) {
      refuse_other_class();
    } else if (choice_ != TokenizerClass::kUnsaid && choice_ != TokenizerClass::kAsFile) {
      makes_anew_ = choice_;
    }
    if (makes_anew_ && vocabulary_kind(*makes_anew_) != kind)
      refuse(fmt::format("{} does not go with {}, which holds {}", class_text(), file_,
                         word_piece                              ? "word pieces"
                         : kind == VocabularyKind::kScoredPieces ? "pieces with scores"
                                                                 : "byte pairs"),
             from_json_ ? kAsFileHint : fmt::format("write {}", usual));
  }

  // Transformers reads vocab.json and vocab.txt only with a class that does; where no file names one, `usual` is meant.
  void choose_class_of_words(bool word_piece, const std::string& usual) {
    const std::string& said = beside_.tokenizer_class;
    if (choice_ == TokenizerClass::kAsFile && !said.empty()) choice_ = tokenizer_class_of(said);
    const bool reads = word_piece
                           ? choice_ == TokenizerClass::kBert
                           : choice_ == TokenizerClass::kGpt2 || choice_ == TokenizerClass::kQwen2 ||
                                 choice_ == TokenizerClass::kRoberta || choice_ == TokenizerClass::kGptNeoX;
    if (said.empty() && !reads) choice_ = TokenizerClass::kUnsaid;
    const bool other =
        vocabulary_kind(choice_) == (word_piece ? VocabularyKind::kBytePairs : VocabularyKind::kWordPieces);
    const bool known = choice_ != TokenizerClass::kOther && choice_ != TokenizerClass::kAsFile;
    if (!said.empty() && !reads && !(known && other))
      refuse(fmt::format("{}: how Transformers reads {} with it is not known here", class_text(), file_),
             fmt::format("say \"tokenizer_class\": \"{}\" in tokenizer_config.json, or name a tokenizer.json",
                         usual));
    if (choice_ != TokenizerClass::kUnsaid)
      makes_anew_ = choice_;
    else
      makes_anew_ = word_piece ? TokenizerClass::kBert : TokenizerClass::kGpt2;
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
    if (pieces_ && !makes_anew_) name_pieces();
    for (const auto& [key, token] : beside_.named)
      if (token) named_[key] = *token;
    const auto padding = json.find("padding");
    const bool pads = choice_ == TokenizerClass::kAsFile || choice_ == TokenizerClass::kLlama;
    if (pads && padding != json.end() && padding->is_object() && !beside_.named.contains("pad_token") &&
        padding->contains("pad_token") && (*padding)["pad_token"].is_string())
      named_["pad_token"] = {.content = (*padding)["pad_token"].get<std::string>()};
  }

  void name_pieces() {
    const std::pair<const char*, std::pair<int64_t, const std::string*>> tokens[] = {
        {"bos_token", {pieces_->bos_id, &pieces_->bos_piece}},
        {"eos_token", {pieces_->eos_id, &pieces_->eos_piece}},
        {"unk_token", {pieces_->unk_id, &pieces_->unk_piece}}};
    for (const auto& [key, piece] : tokens)
      if (piece.first >= 0 && !beside_.named.contains(key)) named_[key] = {.content = *piece.second};
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
    result_.habits.pads_left =
        is_left("padding_side", json, "padding",
                choice_ == TokenizerClass::kLlama || choice_ == TokenizerClass::kGemma);
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
    if (from_json_)
      if (WholeJson charsmap = charsmap_of(json); !charsmap.is_null())
        of_file["charsmap"] = std::move(charsmap);
    if (of_file.contains("charsmap")) model["charsmap"] = std::move(of_file["charsmap"]);
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

  // The charsmap of the first normalizer that has one.
  static WholeJson charsmap_of(const WholeJson& json) {
    const auto at = json.find("normalizer");
    if (at == json.end() || !at->is_object()) return nullptr;
    const auto inner = at->find("normalizers");
    const WholeJson list = inner != at->end() && inner->is_array() ? *inner : WholeJson::array({*at});
    for (const WholeJson& one : list)
      if (one.is_object() && one.contains("precompiled_charsmap")) return one["precompiled_charsmap"];
    return nullptr;
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

  const std::string& file_;
  bool from_json_ = false;  // the file is a tokenizer.json
  std::optional<SentencePieceModel> pieces_;
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
