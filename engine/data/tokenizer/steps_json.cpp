// "normalizer" and "pre_tokenizer" of tokenizer.json. Every key is carried out, or known to change nothing, or an error.
#include "engine/data/tokenizer/json_fields.h"
#include "engine/data/tokenizer/load.h"

namespace recollect {
namespace {

using StepsJson = nlohmann::json;

constexpr int kDeepestSequence = 8;

// The bytes that base64 spells. Error kInput naming `where`.
std::string from_base64(std::string_view text, const std::string& where) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0, count = 0;
  const std::size_t end = text.find_last_not_of('=') + 1;
  const bool whole = text.size() % 4 == 0 && text.size() - end <= 2;
  for (const char c : text.substr(0, end)) {
    const std::size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos || !whole) throw Error(ExitCode::kInput, where + " is not base64");
    bits = bits << 6 | static_cast<uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count);
  }
  return bytes;
}

class NormalizerReader {
 public:
  NormalizerReader(const Characters& characters, const std::string& source)
      : characters_(characters), source_(source) {}

  Normalizers read(const StepsJson& json) {
    read_one(json, "normalizer", 0);
    return std::move(steps_);
  }

 private:
  void read_one(const StepsJson& json, const std::string& name, int depth) {
    JsonFields fields(json, name, source_);
    const std::string type = fields.text("type");
    if (type == "Sequence") {
      const StepsJson& parts = fields.take("normalizers");
      if (!parts.is_array() || depth > kDeepestSequence)
        not_carried_out(source_, name + " without a list of normalizers");
      for (std::size_t i = 0; i < parts.size(); ++i)
        read_one(parts[i], fmt::format("{}.normalizers[{}]", name, i), depth + 1);
    } else if (auto step = read_step(type, fields, name)) {
      steps_.push_back(std::move(step));
    }
    fields.finish();
  }

  std::unique_ptr<Normalizer> read_step(const std::string& type, JsonFields& fields,
                                        const std::string& name) {
    if (type == "NFC") return make_form_normalizer(characters_, NormalForm::kNfc);
    if (type == "NFD") return make_form_normalizer(characters_, NormalForm::kNfd);
    if (type == "NFKC") return make_form_normalizer(characters_, NormalForm::kNfkc);
    if (type == "NFKD") return make_form_normalizer(characters_, NormalForm::kNfkd);
    if (type == "Lowercase") return make_lowercase(characters_);
    if (type == "StripAccents") return make_strip_accents(characters_);
    if (type == "Nmt") return make_nmt();
    if (type == "ByteLevel") return make_byte_spelling();
    if (type == "Prepend") {
      const std::string text = fields.text("prepend");
      return text.empty() ? nullptr : make_prepend(text);
    }
    if (type == "Strip") {
      const bool left = fields.flag("strip_left", true), right = fields.flag("strip_right", true);
      return make_strip(characters_, left, right);
    }
    if (type == "Replace") {
      const std::string content = fields.text("content");
      return make_replace(read_pattern(fields.take("pattern"), name + ".pattern", characters_, source_),
                          content);
    }
    if (type == "BertNormalizer") return make_bert_normalizer(characters_, read_bert(fields));
    if (type == "Precompiled") {
      const StepsJson& map = fields.take("precompiled_charsmap");
      const std::string where = fmt::format("{}: {}.precompiled_charsmap", source_, name);
      if (map.is_null()) return nullptr;
      if (!map.is_string()) throw Error(ExitCode::kInput, where + " is no text");
      return make_charsmap(characters_, from_base64(map.get_ref<const std::string&>(), where), where);
    }
    not_carried_out(source_, fmt::format("{} of type {}", name, escaped_name(type)));
  }

  static BertOptions read_bert(JsonFields& fields) {
    BertOptions options;
    options.clean = fields.flag("clean_text", true);
    options.space_cjk = fields.flag("handle_chinese_chars", true);
    options.lowercase = fields.flag("lowercase", true);
    options.strip_accents = fields.flag("strip_accents", options.lowercase);
    return options;
  }

  const Characters& characters_;
  const std::string& source_;
  Normalizers steps_;
};

class PreTokenizerReader {
 public:
  PreTokenizerReader(const Characters& characters, const std::string& source)
      : characters_(characters), source_(source) {}

  PreTokenizers read(const StepsJson& json, bool& gives_bytes) {
    may_give_bytes_ = gives_bytes;
    gives_bytes = false;
    read_one(json, "pre_tokenizer", 0, true);
    gives_bytes = gives_bytes_;
    return std::move(steps_);
  }

 private:
  void read_one(const StepsJson& json, const std::string& name, int depth, bool last) {
    JsonFields fields(json, name, source_);
    const std::string type = fields.text("type");
    if (type == "Sequence") {
      const StepsJson& parts = fields.take("pretokenizers");
      if (!parts.is_array() || depth > kDeepestSequence)
        not_carried_out(source_, name + " without a list of pretokenizers");
      for (std::size_t i = 0; i < parts.size(); ++i)
        read_one(parts[i], fmt::format("{}.pretokenizers[{}]", name, i), depth + 1,
                 last && i + 1 == parts.size());
    } else {
      steps_.push_back(read_step(type, fields, name, last));
    }
    fields.finish();
  }

  std::unique_ptr<PreTokenizer> read_step(const std::string& type, JsonFields& fields,
                                          const std::string& name, bool last) {
    if (type == "ByteLevel") {
      fields.flag("trim_offsets", true);
      ByteLevelOptions options;
      options.prefix_space = fields.flag("add_prefix_space", true);
      options.uses_regex = fields.flag("use_regex", true);
      gives_bytes_ = may_give_bytes_ && last;
      options.spells_bytes = !gives_bytes_;
      return make_byte_level(characters_, options);
    }
    if (type == "Metaspace") {
      const MetaspaceFields metaspace = read_metaspace(fields);
      return make_metaspace(metaspace.replacement, metaspace.scheme, metaspace.splits);
    }
    if (type == "Split") {
      const Delimiter behavior = fields.one_of("behavior", Delimiter::kRemoved);
      const bool invert = fields.flag("invert", false);
      return make_split(read_pattern(fields.take("pattern"), name + ".pattern", characters_, source_),
                        behavior, invert);
    }
    if (type == "CharDelimiterSplit") return make_char_delimiter(fields.character("delimiter"));
    if (type == "BertPreTokenizer") return make_bert_words(characters_);
    if (type == "Whitespace") return make_whitespace(characters_);
    if (type == "WhitespaceSplit") return make_whitespace_split(characters_);
    if (type == "Digits") return make_digits(characters_, fields.flag("individual_digits", false));
    if (type == "Punctuation")
      return make_punctuation(characters_, fields.one_of("behavior", Delimiter::kIsolated));
    if (type == "FixedLength") {
      constexpr uint64_t kUsual = 5;
      const uint64_t length = fields.number("length", kUsual);
      if (length == 0) not_carried_out(source_, name + ".length 0");
      return make_fixed_length(length);
    }
    not_carried_out(source_, fmt::format("{} of type {}", name, escaped_name(type)));
  }

  const Characters& characters_;
  const std::string& source_;
  PreTokenizers steps_;
  bool may_give_bytes_ = false, gives_bytes_ = false;
};

}  // namespace

Normalizers read_normalizers(const nlohmann::json& json, const Characters& characters,
                             const std::string& source) {
  return json.is_null() ? Normalizers() : NormalizerReader(characters, source).read(json);
}

PreTokenizers read_pre_tokenizers(const nlohmann::json& json, const Characters& characters,
                                  const std::string& source, bool& gives_bytes) {
  if (!json.is_null()) return PreTokenizerReader(characters, source).read(json, gives_bytes);
  gives_bytes = false;
  return {};
}

Pattern read_pattern(const nlohmann::json& json, const std::string& name, const Characters& characters,
                     const std::string& source) {
  JsonFields fields(json, name, source);
  const bool literal = !fields.take("String").is_null();
  const std::string text = fields.text(literal ? "String" : "Regex");
  fields.finish();
  if (text.empty()) not_carried_out(source, name + " \"\"");
  return literal ? Pattern::literal(text)
                 : Pattern::regex(text, characters, fmt::format("{}: {}", source, name));
}

// Files of old say whether a blank is put before a text, newer ones before which texts.
MetaspaceFields read_metaspace(JsonFields& fields) {
  MetaspaceFields metaspace;
  metaspace.replacement = fields.character("replacement");
  fields.take("str_rep");
  const bool prefix = fields.flag("add_prefix_space", true),
             has_scheme = !fields.take("prepend_scheme").is_null();
  metaspace.scheme = fields.one_of("prepend_scheme", prefix ? PrependScheme::kAlways : PrependScheme::kNever);
  if (!prefix && has_scheme && metaspace.scheme != PrependScheme::kNever)
    fields.contradicts("add_prefix_space", "prepend_scheme");
  metaspace.splits = fields.flag("split", true);
  return metaspace;
}

}  // namespace recollect
