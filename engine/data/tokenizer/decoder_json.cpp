// "decoder" of tokenizer.json. One that is not known here is an error of who asks for decoded text.
#include "engine/data/tokenizer/json_fields.h"
#include "engine/data/tokenizer/load.h"

namespace recollect {
namespace {

using DecoderJson = nlohmann::json;

class DecoderReader {
 public:
  explicit DecoderReader(const std::string& source) : source_(source) {}

  std::vector<DecoderStep> read(const DecoderJson& json) {
    read_one(json, "decoder", 0);
    return std::move(steps_);
  }

 private:
  using Kind = DecoderStep::Kind;

  void read_one(const DecoderJson& json, const std::string& name, int depth) {
    JsonFields fields(json, name, source_);
    const std::string type = fields.text("type");
    if (type == "Sequence") {
      const DecoderJson& parts = fields.take("decoders");
      if (!parts.is_array() || depth > 8) not_carried_out(source_, name + " without a list of decoders");
      for (std::size_t i = 0; i < parts.size(); ++i)
        read_one(parts[i], fmt::format("{}.decoders[{}]", name, i), depth + 1);
    } else {
      steps_.push_back(read_step(type, fields, name));
    }
    fields.finish();
  }

  DecoderStep read_step(const std::string& type, JsonFields& fields, const std::string& name) {
    if (type == "ByteLevel") {
      for (const char* unused : {"add_prefix_space", "trim_offsets", "use_regex"}) fields.flag(unused, true);
      return {.kind = Kind::kByteLevel};
    }
    if (type == "ByteFallback") return {.kind = Kind::kByteFallback};
    if (type == "Fuse") return {.kind = Kind::kFuse};
    if (type == "WordPiece")
      return {.kind = Kind::kWordPiece, .text = fields.text("prefix"), .flag = fields.flag("cleanup", true)};
    if (type == "BPEDecoder") return {.kind = Kind::kSuffix, .text = fields.some_text("suffix")};
    if (type == "CTC")
      return {.kind = Kind::kCtc,
              .text = fields.some_text("pad_token"),
              .delimiter = fields.some_text("word_delimiter_token"),
              .flag = fields.flag("cleanup", true)};
    if (type == "Strip")
      return {.kind = Kind::kStrip,
              .text = fields.character("content"),
              .left = fields.number("start", 0),
              .right = fields.number("stop", 0)};
    if (type == "Metaspace") {
      const MetaspaceFields metaspace = read_metaspace(fields);
      return {.kind = Kind::kMetaspace,
              .text = metaspace.replacement,
              .flag = metaspace.scheme != PrependScheme::kNever};
    }
    if (type == "Replace") {
      std::string content = fields.text("content");
      return {.kind = Kind::kReplace,
              .text = std::move(content),
              .pattern = read_pattern(fields.take("pattern"), name + ".pattern", characters_, source_)};
    }
    not_carried_out(source_, fmt::format("{} of type {}", name, escaped_name(type)));
  }

  const std::string& source_;
  Characters characters_;
  std::vector<DecoderStep> steps_;
};

}  // namespace

DecoderOptions read_decoder(const nlohmann::json& json, const std::string& source) {
  DecoderOptions options;
  if (json.is_null()) return options;
  options.kind = DecoderOptions::Kind::kSteps;
  try {
    options.steps = DecoderReader(source).read(json);
  } catch (const Error& error) {
    options.refused = error.what();
  }
  return options;
}

}  // namespace recollect
