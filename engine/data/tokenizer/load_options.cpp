// What goes around a text, and back to one: post_processor and decoder of tokenizer.json.
#include "engine/data/tokenizer/json_fields.h"
#include "engine/data/tokenizer/load.h"

namespace recollect {
namespace {

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
        read_trimming(fields), fields.flag("use_regex", true);
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

}  // namespace recollect
