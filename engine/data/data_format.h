// What the files of a dataset hold: samples as they are (the first four), or texts that a tokenizer makes samples of
// (prepare.h; jsonl is either).
#pragma once

#include "engine/core/spelled.h"

namespace recollect {

enum class DataFormat {
  kRandom,
  kJsonl,
  kTokens,
  kText,
  kCsv,
  kTsv,
  kCola,
  kSst2,
  kMrpc,
  kQqp,
  kStsb,
  kMnli,
  kQnli,
  kRte,
  kSwag,
  kSquad,
  kConll
};
template <>
inline constexpr std::array<std::string_view, 17> kSpellings<DataFormat> = {
    "random", "jsonl", "tokens", "text", "csv", "tsv",  "cola",  "sst2", "mrpc",
    "qqp",    "stsb",  "mnli",   "qnli", "rte", "swag", "squad", "conll"};

// Whether its files hold nothing but texts.
constexpr bool holds_texts(DataFormat format) { return format >= DataFormat::kCsv; }

enum class TokenDtype { kAuto, kU16, kU32 };
template <>
inline constexpr std::array<std::string_view, 3> kSpellings<TokenDtype> = {"auto", "uint16", "uint32"};

}  // namespace recollect
