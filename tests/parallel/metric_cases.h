// The cases of tests/golden/metrics.safetensors, drawn from the same random words as in make_metric_goldens.py, call by call
// in the same order.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/data/tokenizer/unicode.h"

namespace recollect::test {

class CaseRandom {  // splitmix64
 public:
  CaseRandom(int64_t kind, int64_t number) : state_(static_cast<uint64_t>(kind * 1'000'003 + number)) {}

  uint64_t next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  int64_t below(int64_t n) { return static_cast<int64_t>(next() % static_cast<uint64_t>(n)); }
  double real() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  template <typename T>
  const T& choose(const std::vector<T>& list) {
    return list[static_cast<std::size_t>(below(std::ssize(list)))];
  }

 private:
  uint64_t state_;
};

// 24 bits, which a float holds.
inline double fnv(const std::string& text) {
  uint32_t value = 0x811C9DC5u;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x01000193u;
  return value & 0xFFFFFFu;
}

inline const std::vector<std::vector<std::string>> kTagSets = {
    {"O", "I-PER", "I-LOC", "I-ORG"},
    {"O", "B-PER", "I-PER", "B-LOC", "I-LOC"},
    {"O", "B-PER", "I-PER", "E-PER", "S-PER", "B-LOC", "I-LOC", "E-LOC", "S-LOC"},
    {"O", "B", "I", "E", "S", "B-X-Y", "I-X-Y", "I-Y", "B-"},
    {"LABEL_0", "LABEL_1", "LABEL_2"},
    {"O", "B-Größe", "I-Größe", "ÖPER", "ÜPER", "O-LOC", "I-LOC", "."}};

inline const std::vector<std::string> kCaseWords = {
    "the",       "The",       "THE",      "a",       "An",       "and",    "other", "cat", "Cat",
    "don't",     "U.S.",      "_a_",      "a-b",     "42",       "3.5",    "½",     "Ⅷ",   "e\u0301",
    "the\u0301", "\u0301the", "Straße",   "ẞ",       "İstanbul", "ΑΘΗΝΑΣ", "ΣΑΣ",   "Σ",   "Σ'Σ",
    "ΑΣ\u0301",  "ΑΣ·",       "ΟΔΥΣΣΕΥΣ", "ǅ",       "Ⓐ",        "Ａ",     "ａ",    "—",   "“a”",
    "東京",      "٣",         "x\u200dy", "\u00ada", "Москва",   "ᲐᲑ", "𐐀𐐨",    "!?"};
inline const std::vector<std::string> kCaseSeparators = {" ",      " ",      "  ",   "\t", "-", "\u00a0",
                                                         "\u3000", "\u2009", "\x1f", "\n", "",  "—"};
inline const std::vector<std::pair<int64_t, int64_t>> kCaseBlocks = {
    {0x20, 0x7E},   {0xA0, 0x24F},  {0x300, 0x36F},  {0x370, 0x377},
    {0x388, 0x3FF}, {0x400, 0x45F}, {0x2000, 0x206F}};

inline std::string phrase(CaseRandom& random) {
  std::string text;
  for (int64_t part = random.below(6); part > 0; --part) {
    if (random.below(4) == 0) {
      for (int64_t left = 1 + random.below(4); left > 0; --left) {
        const auto [first, last] = random.choose(kCaseBlocks);
        append_utf8(static_cast<uint32_t>(first + random.below(last - first + 1)), text);
      }
    } else {
      text += random.choose(kCaseWords);
    }
    text += random.choose(kCaseSeparators);
  }
  return text;
}

}  // namespace recollect::test
