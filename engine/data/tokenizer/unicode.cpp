#include "engine/data/tokenizer/unicode.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "engine/data/tokenizer/unicode_tables.h"

namespace recollect {
namespace {

// The length of the valid sequence that begins at `p`, or 0.
std::size_t sequence_length(const unsigned char* p, std::size_t left) {
  const auto continues = [&](std::size_t i) { return i < left && (p[i] & 0xc0) == 0x80; };
  if (p[0] < 0x80) return 1;
  if (p[0] < 0xc2) return 0;
  if (p[0] < 0xe0) return continues(1) ? 2 : 0;
  if (p[0] < 0xf0) {
    const bool overlong = left > 1 && p[0] == 0xe0 && p[1] < 0xa0;
    const bool surrogate = left > 1 && p[0] == 0xed && p[1] > 0x9f;
    return continues(1) && continues(2) && !overlong && !surrogate ? 3 : 0;
  }
  const bool overlong = left > 1 && p[0] == 0xf0 && p[1] < 0x90;
  const bool beyond = p[0] > 0xf4 || (left > 1 && p[0] == 0xf4 && p[1] > 0x8f);
  return continues(1) && continues(2) && continues(3) && !overlong && !beyond ? 4 : 0;
}

const unicode::MappingRun* find_run(std::span<const unicode::MappingRun> runs, uint32_t point) {
  const auto run =
      std::lower_bound(runs.begin(), runs.end(), point, [](const auto& r, uint32_t p) { return r.last < p; });
  const bool found = run != runs.end() && run->first <= point && (point - run->first) % run->stride == 0;
  return found ? &*run : nullptr;
}

template <typename F>
void for_each_point(std::span<const unicode::MappingRun> runs, F one) {
  for (const auto& run : runs)
    for (uint32_t point = run.first; point <= run.last; point += run.stride)
      one(point, point + static_cast<uint32_t>(run.difference));
}

template <typename T>
void fill(std::span<const unicode::Run> runs, std::vector<T>& values) {
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const uint32_t end = i + 1 < runs.size() ? runs[i + 1].first : Characters::kEnd;
    std::fill(values.begin() + runs[i].first, values.begin() + end, static_cast<T>(runs[i].value));
  }
}

// Hangul syllables are numbered so that their parts are arithmetic.
constexpr uint32_t kSyllables = 0xac00, kSyllablesEnd = 0xd7a4, kLeading = 0x1100, kVowels = 0x1161;
constexpr uint32_t kTrailing = 0x11a7, kLeadingCount = 19, kVowelCount = 21, kTrailingCount = 28;

}  // namespace

std::size_t first_invalid_utf8(std::string_view text) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  for (std::size_t at = 0; at < text.size();) {
    uint64_t eight = 0;
    if (text.size() - at >= sizeof(eight)) {
      std::memcpy(&eight, bytes + at, sizeof(eight));
      if ((eight & 0x8080808080808080u) == 0) {
        at += sizeof(eight);
        continue;
      }
    }
    const std::size_t length = sequence_length(bytes + at, text.size() - at);
    if (length == 0) return at;
    at += length;
  }
  return std::string_view::npos;
}

void append_utf8(uint32_t point, std::string& text) {
  const auto put = [&](uint32_t byte) { text += static_cast<char>(byte); };
  const auto tail = [&](int shift) { put(0x80 | (point >> shift & 0x3f)); };
  if (point < 0x80) return put(point);
  if (point < 0x800) return put(0xc0 | point >> 6), tail(0);
  if (point < 0x10000) return put(0xe0 | point >> 12), tail(6), tail(0);
  put(0xf0 | point >> 18), tail(12), tail(6), tail(0);
}

std::size_t first_foreign(std::string_view text, std::size_t at) {
  for (; at + sizeof(uint64_t) <= text.size(); at += sizeof(uint64_t)) {
    uint64_t eight = 0;
    std::memcpy(&eight, text.data() + at, sizeof(eight));
    if ((eight & 0x8080808080808080u) != 0) break;
  }
  while (at < text.size() && is_ascii(text[at])) ++at;
  return at;
}

Characters::Characters() : properties_(kEnd), categories_(kEnd) {
  fill(unicode::kProperties, properties_);
  fill(unicode::kCategories, categories_);
  for (uint32_t point = 0; point < kEnd; ++point) {
    const char kind = kCategoryNames[categories_[point]][0];
    if (kind == 'L') properties_[point] |= static_cast<uint32_t>(CharacterClass::kLetter);
    if (kind == 'N') properties_[point] |= static_cast<uint32_t>(CharacterClass::kNumber);
  }
  for_each_point(unicode::kLower, [&](uint32_t point, uint32_t) { properties_[point] |= kCase; });
  for (const auto& range : unicode::kCombiningClasses)
    for (uint32_t point = range.first; point <= range.last; ++point)
      properties_[point] |= range.combining_class << kCombiningShift;
  read_decompositions();
  mark_unstable();
}

// The parts of what is composed may be composed themselves.
void Characters::read_decompositions() {
  std::unordered_map<uint32_t, const unicode::Composition*> composed;
  for (const auto& one : unicode::kCompositions) {
    composed.emplace(one.composed, &one);
    compositions_.insert({one.first, one.second, one.composed, 0});
  }
  for (const auto& one : unicode::kCompositions) {
    std::vector<uint32_t> parts;
    uint32_t point = one.composed;
    for (auto at = composed.find(point); at != composed.end(); at = composed.find(point)) {
      parts.insert(parts.begin(), at->second->second);
      point = at->second->first;
    }
    parts.insert(parts.begin(), point);
    canonical_.emplace(one.composed, std::move(parts));
  }
  for_each_point(unicode::kCanonicalOne,
                 [&](uint32_t point, uint32_t to) { canonical_.emplace(point, std::vector<uint32_t>{to}); });
  for (const auto& row : unicode::kCanonicalSeveral)
    canonical_.emplace(row.from, std::vector<uint32_t>(row.to, std::find(row.to, row.to + 4, 0u)));
  for_each_point(unicode::kCompatibleOne,
                 [&](uint32_t point, uint32_t to) { compatible_.emplace(point, std::vector<uint32_t>{to}); });
  const std::span<const uint32_t> rows = unicode::kCompatibleSeveral;
  for (std::size_t at = 0; at < rows.size(); at += 2 + rows[at + 1]) {
    const auto parts = rows.subspan(at + 2, rows[at + 1]);
    compatible_.emplace(rows[at], std::vector<uint32_t>(parts.begin(), parts.end()));
  }
}

void Characters::mark_unstable() {
  const auto mark_all = [&](uint32_t point, std::initializer_list<NormalForm> forms) {
    for (const NormalForm form : forms) mark(point, form);
  };
  using enum NormalForm;
  for (uint32_t point = 0; point < kEnd; ++point)
    if (combining_class(point) != 0) mark_all(point, {kNfc, kNfd, kNfkc, kNfkd});
  for (const auto& [point, parts] : canonical_) mark_all(point, {kNfd, kNfkd});
  for (const auto& [point, parts] : compatible_) mark_all(point, {kNfkc, kNfkd});
  for (uint32_t point = kSyllables; point < kSyllablesEnd; ++point) mark_all(point, {kNfd, kNfkd});
  for_each_point(unicode::kCanonicalOne, [&](uint32_t point, uint32_t) { mark_all(point, {kNfc, kNfkc}); });
  for (const auto& row : unicode::kCanonicalSeveral) mark_all(row.from, {kNfc, kNfkc});
  for (const auto& one : unicode::kCompositions) mark_all(one.second, {kNfc, kNfkc});
  for (uint32_t i = 0; i < kVowelCount; ++i) mark_all(kVowels + i, {kNfc, kNfkc});
  for (uint32_t i = 1; i < kTrailingCount; ++i) mark_all(kTrailing + i, {kNfc, kNfkc});
}

void Characters::append_lower(uint32_t point, std::string& text) const {
  constexpr uint32_t kDotAbove = 0x307;
  if (point == kDottedI) return text += 'i', append_utf8(kDotAbove, text);
  if (properties_[point] & kCase)
    point += static_cast<uint32_t>(find_run(unicode::kLower, point)->difference);
  append_utf8(point, text);
}

void Characters::decompose(uint32_t point, bool compatible, std::vector<uint32_t>& to) const {
  if (point >= kSyllables && point < kSyllablesEnd) {
    const uint32_t number = point - kSyllables, trailing = number % kTrailingCount;
    to.push_back(kLeading + number / (kVowelCount * kTrailingCount));
    to.push_back(kVowels + number / kTrailingCount % kVowelCount);
    if (trailing != 0) to.push_back(kTrailing + trailing);
    return;
  }
  const NormalForm form = compatible ? NormalForm::kNfkd : NormalForm::kNfd;
  if (is_stable(point, form)) return to.push_back(point);
  for (const Decompositions* from : {compatible ? &compatible_ : nullptr, &canonical_}) {
    if (!from) continue;
    if (const auto at = from->find(point); at != from->end()) {
      to.insert(to.end(), at->second.begin(), at->second.end());
      return;
    }
  }
  to.push_back(point);
}

uint32_t Characters::compose(uint32_t first, uint32_t second) const {
  if (first >= kLeading && first < kLeading + kLeadingCount && second >= kVowels &&
      second < kVowels + kVowelCount)
    return kSyllables + ((first - kLeading) * kVowelCount + second - kVowels) * kTrailingCount;
  if (first >= kSyllables && first < kSyllablesEnd && (first - kSyllables) % kTrailingCount == 0 &&
      second > kTrailing && second < kTrailing + kTrailingCount)
    return first + second - kTrailing;
  const PairMap::Entry* composed = compositions_.find(first, second);
  return composed ? composed->a : 0;
}

}  // namespace recollect
