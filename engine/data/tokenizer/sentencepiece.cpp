// SentencePiece's tokenizer.model, as the tokenizer.json that Transformers makes of it. The file is a protobuf message;
// of its wire format only what this message needs is read, and whatever does not fit is an error.
#include "engine/data/tokenizer/sentencepiece.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <tuple>
#include <unordered_map>

#include "engine/core/error.h"
#include "engine/data/tokenizer/unicode.h"
#include "engine/io/strict_json.h"

namespace recollect {
namespace {

using ModelJson = nlohmann::json;
constexpr const char* kBlankPiece = "\u2581";
constexpr uint64_t kUnigramModel = 1, kBpeModel = 2;

// The fields of one message, one after another.
class WireFields {
 public:
  WireFields(std::string_view bytes, const std::string& source) : bytes_(bytes), source_(source) {}

  // False at the end. Then number() says which one it is, and one of the others takes it.
  bool next() {
    if (at_ == bytes_.size()) return false;
    const uint64_t tag = varint();
    number_ = tag >> 3;
    kind_ = tag & 7;
    return true;
  }
  uint64_t number() const { return number_; }

  uint64_t integer() {
    require_kind(kVarint);
    return varint();
  }
  std::string_view bytes() {
    require_kind(kBytes);
    const uint64_t size = varint();
    return take(size);
  }
  float real() {
    require_kind(kFixed32);
    float value = 0;
    std::memcpy(&value, take(sizeof(value)).data(), sizeof(value));
    return value;
  }
  std::string text() {
    const std::string_view found = bytes();
    if (first_invalid_utf8(found) != std::string_view::npos) damaged("a text is not UTF-8");
    return std::string(found);
  }
  void skip() {
    constexpr std::size_t kEight = 8, kFour = 4;
    if (kind_ == kVarint)
      varint();
    else if (kind_ == kFixed64)
      take(kEight);
    else if (kind_ == kBytes)
      bytes();
    else if (kind_ == kFixed32)
      take(kFour);
    else
      damaged("a field of no known kind");
  }

  [[noreturn]] void damaged(const char* what) const {
    throw Error(ExitCode::kInput,
                fmt::format("{}: no model of SentencePiece, or a damaged one: {}", source_, what));
  }

 private:
  enum Kind : uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

  void require_kind(Kind kind) const {
    if (kind_ != kind) damaged("a field of another kind than it should be");
  }
  uint64_t varint() {
    constexpr int kMostBits = 64, kBitsOfByte = 7;
    uint64_t value = 0;
    for (int shift = 0; shift < kMostBits; shift += kBitsOfByte) {
      const auto byte = static_cast<unsigned char>(take(1).front());
      value |= uint64_t{byte & 0x7fu} << shift;
      if ((byte & 0x80) == 0) return value;
    }
    damaged("a number without an end");
  }
  std::string_view take(uint64_t size) {
    if (size > bytes_.size() - at_) damaged("it ends too early");
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }

  std::string_view bytes_;
  const std::string& source_;
  std::size_t at_ = 0;
  uint64_t number_ = 0, kind_ = 0;
};

using Model = SentencePieceModel;

void read_trainer(std::string_view bytes, const std::string& source, Model& model) {
  constexpr uint64_t kModelType = 3, kByteFallback = 35, kUnkId = 40, kBosId = 41, kEosId = 42,
                     kUnkPiece = 45, kBosPiece = 46, kEosPiece = 47;
  for (WireFields fields(bytes, source); fields.next();) {
    if (fields.number() == kModelType)
      model.model_type = fields.integer();
    else if (fields.number() == kByteFallback)
      model.byte_fallback = fields.integer() != 0;
    else if (fields.number() == kUnkId)
      model.unk_id = static_cast<int32_t>(fields.integer());
    else if (fields.number() == kBosId)
      model.bos_id = static_cast<int32_t>(fields.integer());
    else if (fields.number() == kEosId)
      model.eos_id = static_cast<int32_t>(fields.integer());
    else if (fields.number() == kUnkPiece)
      model.unk_piece = fields.text();
    else if (fields.number() == kBosPiece)
      model.bos_piece = fields.text();
    else if (fields.number() == kEosPiece)
      model.eos_piece = fields.text();
    else
      fields.skip();
  }
}

void read_normalizer(std::string_view bytes, const std::string& source, Model& model) {
  constexpr uint64_t kCharsmap = 2, kDummyPrefix = 3, kRemovesBlanks = 4, kEscapesBlanks = 5;
  for (WireFields fields(bytes, source); fields.next();) {
    if (fields.number() == kCharsmap)
      model.charsmap = fields.bytes();
    else if (fields.number() == kDummyPrefix)
      model.dummy_prefix = fields.integer() != 0;
    else if (fields.number() == kRemovesBlanks)
      model.removes_blanks = fields.integer() != 0;
    else if (fields.number() == kEscapesBlanks)
      model.escapes_blanks = fields.integer() != 0;
    else
      fields.skip();
  }
}

ModelJson replace(const char* kind, const std::string& from, const std::string& to) {
  return {{"type", "Replace"}, {"pattern", {{kind, from}}}, {"content", to}};
}

// Pairs of pieces that make another one, the one with the best score first.
ModelJson merges_of(const Model& model) {
  std::unordered_map<std::string_view, uint32_t> normal;
  for (std::size_t id = 0; id < model.entries.size(); ++id)
    if (model.entries[id].type == Model::kNormal) normal[model.entries[id].piece] = static_cast<uint32_t>(id);
  std::vector<std::tuple<float, uint32_t, std::string_view, std::string_view>> ranked;
  for (const auto& [piece, id] : normal)
    for (std::size_t cut = 1; cut < piece.size(); ++cut) {
      if (continues_utf8(piece[cut])) continue;
      const std::string_view left = piece.substr(0, cut), right = piece.substr(cut);
      if (normal.contains(left) && normal.contains(right))
        ranked.emplace_back(-model.entries[id].score, id, left, right);
    }
  std::sort(ranked.begin(), ranked.end());
  ModelJson merges = ModelJson::array();
  for (const auto& [score, id, left, right] : ranked) merges.push_back({left, right});
  return merges;
}

ModelJson scored_pieces(const Model& model) {
  ModelJson vocab = ModelJson::array();
  for (const Model::Entry& entry : model.entries)
    vocab.push_back({entry.piece, static_cast<double>(entry.score)});
  return vocab;
}

ModelJson model_of(const Model& model, bool has_user_defined, const std::string& source) {
  if (model.model_type == kUnigramModel) {
    ModelJson vocab = scored_pieces(model);
    return {{"type", "Unigram"},
            {"vocab", vocab},
            {"unk_id", static_cast<uint64_t>(std::max<int64_t>(0, model.unk_id))},
            {"byte_fallback", model.byte_fallback}};
  }
  if (model.model_type != kBpeModel)
    throw Error(ExitCode::kInput,
                fmt::format("{}: a model of SentencePiece of type {} is not carried out here", source,
                            model.model_type),
                "its types unigram and bpe are");
  ModelJson vocab = ModelJson::object();
  for (std::size_t id = 0; id < model.entries.size(); ++id)
    if (!vocab.emplace(model.entries[id].piece, id).second)
      throw Error(ExitCode::kInput, fmt::format("{}: the piece {} appears twice", source,
                                                escaped_name(model.entries[id].piece)));
  return {{"type", "BPE"},
          {"vocab", vocab},
          {"merges", merges_of(model)},
          {"unk_token", model.unk_piece},
          {"fuse_unk", true},
          {"byte_fallback", model.byte_fallback},
          {"ignore_merges", has_user_defined}};
}

// Pieces that are never merged, the longest first.
std::string user_defined_pattern(const Model& model) {
  std::vector<std::string> pieces;
  for (const Model::Entry& entry : model.entries)
    if (entry.type == Model::kUserDefined && !entry.piece.empty()) pieces.push_back(entry.piece);
  std::stable_sort(pieces.begin(), pieces.end(),
                   [](const auto& a, const auto& b) { return count_points(a) > count_points(b); });
  std::string pattern;
  for (const std::string& piece : pieces) {
    if (!pattern.empty()) pattern += '|';
    for (const char c : piece) {
      const bool plain = !is_ascii(c) || std::isalnum(static_cast<unsigned char>(c)) != 0;
      pattern += plain ? std::string(1, c) : fmt::format("\\x{:02X}", static_cast<unsigned char>(c));
    }
  }
  return pattern;
}

std::string to_base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    uint32_t bits = 0;
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - at);
    for (std::size_t i = 0; i < 3; ++i)
      bits = bits << 8 | (i < count ? static_cast<unsigned char>(bytes[at + i]) : 0u);
    for (std::size_t i = 0; i < 4; ++i) text += i <= count ? kDigits[bits >> (18 - 6 * i) & 63] : '=';
  }
  return text;
}

// Gives pieces other names; two of them may swap names.
Model renamed_pieces(Model model, const std::map<uint64_t, std::string>& names) {
  if (model.model_type != kBpeModel) return model;
  const auto keeps = [&](const std::string& name) {
    for (std::size_t id = 0; id < model.entries.size(); ++id)
      if (model.entries[id].piece == name) return !names.contains(id);
    return false;
  };
  std::map<uint64_t, std::string> taken;
  for (const auto& [id, name] : names)
    if (id < model.entries.size() && !keeps(name)) taken[id] = name;
  for (auto& [id, name] : taken) model.entries[id].piece = std::move(name);
  return model;
}

// All pairs that join to another piece, in the order of that piece's id; for one piece, shorter left parts first.
ModelJson merges_by_id(const ModelJson& vocabulary) {
  struct Pair {
    uint64_t id;
    std::size_t left_points, right_points;
    std::string left, right;
  };
  std::vector<Pair> found;
  for (const auto& [piece, id] : vocabulary.items())
    for (std::size_t cut = 1; cut < piece.size(); ++cut) {
      if (continues_utf8(piece[cut])) continue;
      std::string left = piece.substr(0, cut), right = piece.substr(cut);
      if (vocabulary.contains(left) && vocabulary.contains(right))
        found.push_back({id, count_points(left), count_points(right), std::move(left), std::move(right)});
    }
  std::sort(found.begin(), found.end(), [](const Pair& a, const Pair& b) {
    return std::tie(a.id, a.left_points, a.right_points) < std::tie(b.id, b.left_points, b.right_points);
  });
  ModelJson merges = ModelJson::array();
  for (Pair& pair : found) merges.push_back({std::move(pair.left), std::move(pair.right)});
  return merges;
}

}  // namespace

SentencePieceModel read_sentencepiece(std::string_view bytes, const std::string& source) {
  constexpr uint64_t kPieces = 1, kTrainer = 2, kNormalizer = 3, kPiece = 1, kScore = 2, kType = 3;
  SentencePieceModel model;
  for (WireFields fields(bytes, source); fields.next();) {
    if (fields.number() == kTrainer) {
      read_trainer(fields.bytes(), source, model);
    } else if (fields.number() == kNormalizer) {
      read_normalizer(fields.bytes(), source, model);
    } else if (fields.number() == kPieces) {
      Model::Entry& entry = model.entries.emplace_back();
      for (WireFields of_piece(fields.bytes(), source); of_piece.next();) {
        if (of_piece.number() == kPiece)
          entry.piece = of_piece.text();
        else if (of_piece.number() == kScore)
          entry.score = of_piece.real();
        else if (of_piece.number() == kType)
          entry.type = of_piece.integer();
        else
          of_piece.skip();
      }
    } else {
      fields.skip();
    }
  }
  if (model.entries.empty()) WireFields(bytes, source).damaged("it has no pieces");
  return model;
}

nlohmann::json tokenizer_json_of_sentencepiece(const SentencePieceModel& given,
                                               const std::map<uint64_t, std::string>& names, bool legacy,
                                               const std::string& source) {
  const Model model = renamed_pieces(given, names);
  const std::string user_defined = user_defined_pattern(model);
  ModelJson normalizers = ModelJson::array(), steps = ModelJson::array(), decoders = ModelJson::array();
  if (!model.charsmap.empty())
    normalizers.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", to_base64(model.charsmap)}});
  if (model.removes_blanks) {
    normalizers.push_back(replace("Regex", R"(\A +| +\z)", ""));
    normalizers.push_back(replace("Regex", " {2,}", " "));
  }
  if (model.escapes_blanks) normalizers.push_back(replace("String", " ", kBlankPiece));
  if (model.dummy_prefix && legacy)
    normalizers.push_back(
        replace("Regex", std::string(R"(\A)") + kBlankPiece, std::string(kBlankPiece) + kBlankPiece));
  if (model.dummy_prefix)
    steps.push_back({{"type", "Metaspace"},
                     {"replacement", kBlankPiece},
                     {"prepend_scheme", legacy ? "always" : "first"},
                     {"split", false}});
  if (!user_defined.empty())
    steps.push_back({{"type", "Split"},
                     {"pattern", {{"Regex", user_defined}}},
                     {"behavior", "Isolated"},
                     {"invert", false}});
  decoders.push_back(replace("String", kBlankPiece, " "));
  if (model.byte_fallback) decoders.push_back({{"type", "ByteFallback"}});
  if (model.dummy_prefix || model.byte_fallback) decoders.push_back({{"type", "Fuse"}});
  if (model.dummy_prefix)
    decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1u}, {"stop", 0u}});
  return {{"version", "1.0"},
          {"added_tokens", ModelJson::array()},
          {"normalizer", {{"type", "Sequence"}, {"normalizers", normalizers}}},
          {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", steps}}},
          {"decoder", {{"type", "Sequence"}, {"decoders", decoders}}},
          {"model", model_of(model, !user_defined.empty(), source)}};
}

nlohmann::json vocabulary_of_sentencepiece(const SentencePieceModel& model, bool pairs) {
  ModelJson found = {{"vocab", pairs ? ModelJson::object() : scored_pieces(model)}};
  if (pairs) {
    for (std::size_t id = 0; id < model.entries.size(); ++id) found["vocab"][model.entries[id].piece] = id;
    found["merges"] = merges_by_id(found["vocab"]);
  }
  if (!model.charsmap.empty()) found["charsmap"] = to_base64(model.charsmap);
  return found;
}

}  // namespace recollect
