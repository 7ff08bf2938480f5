// What goes around a text, and back to one: post_processor and decoder of tokenizer.json, and the names that
// transformers' files give to special tokens.
#include <filesystem>
#include <optional>

#include "engine/data/tokenizer/json_fields.h"
#include "engine/data/tokenizer/load.h"
#include "engine/io/input_file.h"

namespace recollect {
namespace {

namespace fs = std::filesystem;
using OptionsJson = nlohmann::json;
using Piece = PostProcessor::Piece;

class PostProcessorReader {
 public:
  PostProcessorReader(std::size_t vocabulary_size, const std::string& source)
      : vocabulary_size_(vocabulary_size), source_(source) {}

  PostProcessor read(const OptionsJson& json) {
    read_one(json, "post_processor");
    return std::move(result_);
  }

 private:
  void read_one(const OptionsJson& json, const std::string& name) {
    JsonFields fields(json, name, source_);
    const std::string type = fields.text("type");
    if (type == "Sequence") {
      const OptionsJson& parts = fields.take("processors");
      if (!parts.is_array()) not_carried_out(source_, name + " without a list of processors");
      for (std::size_t i = 0; i < parts.size(); ++i)
        read_one(parts[i], fmt::format("{}.processors[{}]", name, i));
    } else {
      // Only what comes first has one text in hand, or two, and no special tokens.
      if (has_template_) not_carried_out(source_, fmt::format("{} {} behind another one", name, type));
      if (type == "TemplateProcessing")
        read_template(fields);
      else if (type == "BertProcessing" || type == "RobertaProcessing")
        read_bert(fields, type == "RobertaProcessing");
      else if (type == "ByteLevel")
        read_trimming(fields), fields.take("use_regex");
      else
        not_carried_out(source_, fmt::format("{} of type {}", name, escaped_name(type)));
    }
    fields.finish();
  }

  void read_trimming(JsonFields& fields) {
    const bool trims = fields.flag("trim_offsets", true), prefix = fields.flag("add_prefix_space", true);
    if (trims && result_.trims_offsets)
      not_carried_out(source_, "post_processor, which trims offsets twice,");
    if (trims) result_.trims_offsets = true, result_.put_prefix_space = prefix;
  }

  uint32_t known(uint64_t id) const {
    if (id >= vocabulary_size_)
      throw Error(ExitCode::kInput, fmt::format("{}: post_processor has the id {}, and the vocabulary {}",
                                                source_, id, vocabulary_size_));
    return static_cast<uint32_t>(id);
  }

  // ["[SEP]", 102]
  Piece read_special(JsonFields& fields, const char* key) const {
    const OptionsJson& pair = fields.take(key);
    if (!pair.is_array() || pair.size() != 2 || !pair[1].is_number_unsigned())
      throw Error(ExitCode::kInput,
                  fmt::format("{}: post_processor.{} is not a token and its id", source_, key));
    return {.id = known(pair[1].get<uint64_t>())};
  }

  void read_bert(JsonFields& fields, bool roberta) {
    const Piece cls = read_special(fields, "cls");
    Piece sep = read_special(fields, "sep");
    if (roberta) read_trimming(fields);
    result_.single = {cls, {.sequence = 0}, sep};
    result_.pair = result_.single;
    if (roberta) result_.pair.push_back(sep);
    sep.type = roberta ? 0 : 1;
    result_.pair.push_back({.sequence = 1, .type = sep.type});
    result_.pair.push_back(sep);
    has_template_ = true;
  }

  void read_template(JsonFields& fields) {
    const OptionsJson& special = fields.take("special_tokens");
    result_.single = read_pieces(fields.take("single"), special, "single", 1);
    result_.pair = read_pieces(fields.take("pair"), special, "pair", 2);
    result_.types_first_windows_only = true;
    has_template_ = true;
  }

  std::vector<Piece> read_pieces(const OptionsJson& list, const OptionsJson& special, const char* name,
                                 int texts) const {
    const std::string path = fmt::format("post_processor.{}", name);
    if (!list.is_array()) throw Error(ExitCode::kInput, fmt::format("{}: {} is not a list", source_, path));
    std::vector<Piece> pieces;
    int seen[2] = {};
    for (const OptionsJson& one : list) {
      JsonFields kinds(one, path, source_);
      const bool is_text = !kinds.take("Sequence").is_null();
      JsonFields fields(kinds.take(is_text ? "Sequence" : "SpecialToken"), path, source_);
      const std::string id = fields.text("id");
      const uint64_t type = fields.number("type_id", 0);
      if (type > UINT8_MAX) not_carried_out(source_, fmt::format("{}.type_id {}", path, type));
      Piece piece{.type = static_cast<uint8_t>(type)};
      if (is_text) {
        if (id != "A" && id != "B") not_carried_out(source_, fmt::format("{} {}", path, escaped_name(id)));
        piece.sequence = id == "A" ? 0 : 1;
        ++seen[piece.sequence];
        pieces.push_back(piece);
      } else {
        for (const uint64_t number : ids_of(special, id)) {
          piece.id = known(number);
          pieces.push_back(piece);
        }
      }
      fields.finish();
      kinds.finish();
    }
    if (seen[0] != 1 || seen[1] != texts - 1)
      not_carried_out(source_, fmt::format("{}, in which each text does not stand once,", path));
    return pieces;
  }

  std::vector<uint64_t> ids_of(const OptionsJson& special, const std::string& name) const {
    const auto at = special.is_object() ? special.find(name) : special.end();
    if (!special.is_object() || at == special.end() || !at->is_object() || !at->contains("ids"))
      throw Error(ExitCode::kInput, fmt::format("{}: post_processor.special_tokens has no ids of {}", source_,
                                                escaped_name(name)));
    std::vector<uint64_t> ids;
    for (const OptionsJson& id : at->at("ids")) {
      if (!id.is_number_unsigned())
        throw Error(ExitCode::kInput, fmt::format("{}: post_processor.special_tokens: an id of {} is {}",
                                                  source_, escaped_name(name), escaped_name(id.dump())));
      ids.push_back(id.get<uint64_t>());
    }
    return ids;
  }

  std::size_t vocabulary_size_;
  const std::string& source_;
  PostProcessor result_;
  bool has_template_ = false;
};

// What transformers calls the tokens where no file does, by the kind of tokenizer.
struct NamedToken {
  const char* key;
  std::optional<uint32_t> SpecialIds::*id;
  const char *bert, *gpt2;
};
constexpr const char* kGpt2End = "<|endoftext|>";
constexpr NamedToken kNamedTokens[] = {
    {"cls_token", &SpecialIds::cls, "[CLS]", nullptr},  {"sep_token", &SpecialIds::sep, "[SEP]", nullptr},
    {"pad_token", &SpecialIds::pad, "[PAD]", nullptr},  {"mask_token", &SpecialIds::mask, "[MASK]", nullptr},
    {"unk_token", &SpecialIds::unk, "[UNK]", kGpt2End}, {"bos_token", &SpecialIds::bos, nullptr, kGpt2End},
    {"eos_token", &SpecialIds::eos, nullptr, kGpt2End}};

OptionsJson read_object(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return OptionsJson::object();
  OptionsJson json = parse_strict_json(InputFile(path.string()).text(), path.string());
  if (!json.is_object()) throw Error(ExitCode::kInput, path.string() + ": not an object");
  return json;
}

}  // namespace

PostProcessor read_post_processor(const nlohmann::json& json, std::size_t vocabulary_size,
                                  const std::string& source) {
  if (json.is_null()) return {};
  try {
    return PostProcessorReader(vocabulary_size, source).read(json);
  } catch (const Error& error) {
    return {.refused = error.what()};
  }
}

DecoderOptions read_decoder(const nlohmann::json& json, const std::string& source) {
  DecoderOptions options;
  if (json.is_null()) return options;
  try {
    JsonFields fields(json, "decoder", source);
    const std::string type = fields.text("type");
    if (type == "ByteLevel") {
      options.kind = DecoderOptions::Kind::kByteLevel;
    } else if (type == "WordPiece") {
      options.kind = DecoderOptions::Kind::kWordPiece;
      options.prefix = fields.text("prefix");
      options.cleanup = fields.flag("cleanup", true);
    } else {
      not_carried_out(source, fmt::format("decoder of type {}", escaped_name(type)));
    }
  } catch (const Error& error) {
    options.refused = error.what();
  }
  return options;
}

ConfigBeside::ConfigBeside(const std::string& tokenizer_path)
    : path_(fs::path(tokenizer_path).replace_filename("tokenizer_config.json").string()),
      map_path_(fs::path(tokenizer_path).replace_filename("special_tokens_map.json").string()),
      config_(read_object(path_)),
      map_(read_object(map_path_)) {}

bool ConfigBeside::flag(const char* key, bool otherwise) const {
  const auto at = config_.find(key);
  if (at == config_.end() || at->is_null()) return otherwise;
  if (!at->is_boolean())
    throw Error(ExitCode::kInput, fmt::format("{}: {} is not true or false", path_, key));
  return at->get<bool>();
}

// The configuration names a token, or an object with its content; the map of older tokenizers says it anew.
std::optional<std::string> ConfigBeside::token(const char* key) const {
  const bool from_map =
      !config_.contains("added_tokens_decoder") && map_.contains(key) && !map_[key].is_null();
  const OptionsJson& json = from_map ? map_ : config_;
  const auto at = json.find(key);
  if (at == json.end()) return std::nullopt;
  if (at->is_null()) return std::string();
  const OptionsJson& name = at->is_object() && at->contains("content") ? (*at)["content"] : *at;
  if (!name.is_string())
    throw Error(ExitCode::kInput, fmt::format("{}: {} is no token", from_map ? map_path_ : path_, key));
  return name.get<std::string>();
}

void ConfigBeside::name_special_tokens(Tokenizer::Parts& parts) const {
  const auto class_at = config_.find("tokenizer_class");
  const std::string of_class =
      class_at != config_.end() && class_at->is_string() ? class_at->get<std::string>() : "";
  const bool has_defaults = !of_class.starts_with("PreTrained") && of_class != "TokenizersBackend";
  for (const NamedToken& one : kNamedTokens) {
    const std::optional<std::string> said = token(one.key);
    const char* const usual = !has_defaults ? nullptr : parts.bert ? one.bert : one.gpt2;
    const std::string name = said ? *said : usual ? usual : "";
    if (name.empty()) continue;
    const auto found = std::find(parts.tokens.begin(), parts.tokens.end(), name);
    if (found != parts.tokens.end())
      parts.special.*one.id = static_cast<uint32_t>(found - parts.tokens.begin());
    else if (said)
      throw Error(ExitCode::kInput, fmt::format("{}: {} is {}, which is no token of {}", path_, one.key,
                                                escaped_name(name), parts.source));
  }
}

}  // namespace recollect
