#include "engine/data/tokenizer/unicode.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "engine/data/tokenizer/unicode_tables.h"

namespace recollect {
namespace {

constexpr uint32_t kPoints = 0x110000;

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

template <typename Row>
const Row* find(std::span<const Row> rows, uint32_t point) {
  const auto row =
      std::lower_bound(rows.begin(), rows.end(), point, [](const Row& r, uint32_t p) { return r.from < p; });
  return row != rows.end() && row->from == point ? &*row : nullptr;
}

template <typename Row>
const Row* find_range(std::span<const Row> rows, uint32_t point) {
  const auto row =
      std::lower_bound(rows.begin(), rows.end(), point, [](const Row& r, uint32_t p) { return r.last < p; });
  return row != rows.end() && row->first <= point ? &*row : nullptr;
}

// Hangul syllables are numbered so that their parts are arithmetic.
constexpr uint32_t kSyllables = 0xac00, kSyllablesEnd = 0xd7a4, kLeading = 0x1100, kVowels = 0x1161;
constexpr uint32_t kTrailing = 0x11a7, kVowelCount = 21, kTrailingCount = 28;

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

Characters::Characters() : properties_(kPoints) {
  for (std::size_t i = 0; i < unicode::kProperties.size(); ++i) {
    const uint32_t end = i + 1 < unicode::kProperties.size() ? unicode::kProperties[i + 1].first : kPoints;
    std::fill(properties_.begin() + unicode::kProperties[i].first, properties_.begin() + end,
              unicode::kProperties[i].properties);
  }
  const auto mark = [&](uint32_t first, uint32_t last, uint32_t stride, Property property) {
    for (uint32_t point = first; point <= last; point += stride) properties_[point] |= property;
  };
  for (const auto& run : unicode::kLower) mark(run.first, run.last, run.stride, kCase);
  for (const auto& range : unicode::kAccentGone) mark(range.first, range.last, 1, kAccent);
  for (const auto& row : unicode::kAccentOne) mark(row.from, row.from, 1, kAccent);
  for (const auto& row : unicode::kAccentSeveral) mark(row.from, row.from, 1, kAccent);
  for (const auto& row : unicode::kCombiningClasses) mark(row.from, row.from, 1, kAccent);
  mark(kSyllables, kSyllablesEnd - 1, 1, kAccent);
}

void Characters::append_lower(uint32_t point, std::string& text) const {
  constexpr uint32_t kDotAbove = 0x307;
  if (point == kDottedI) return text += 'i', append_utf8(kDotAbove, text);
  if (properties_[point] & kCase)
    point += static_cast<uint32_t>(find_range(unicode::kLower, point)->difference);
  append_utf8(point, text);
}

void Characters::AccentStripper::append(uint32_t point, uint32_t origin) {
  if (!(characters_.properties_[point] & kAccent)) {
    append_starter(point, origin);
  } else if (point >= kSyllables && point < kSyllablesEnd) {
    const uint32_t number = point - kSyllables, trailing = number % kTrailingCount;
    append_starter(kLeading + number / (kVowelCount * kTrailingCount), origin);
    append_starter(kVowels + number / kTrailingCount % kVowelCount, origin);
    if (trailing != 0) append_starter(kTrailing + trailing, origin);
  } else if (const auto* one = find(unicode::kAccentOne, point)) {
    append_kept(one->to, origin, false);
  } else if (const auto* several = find(unicode::kAccentSeveral, point)) {
    for (const uint32_t& part : several->to)
      if (part != 0) append_kept(part, origin, &part != several->to);
  } else if (const auto* gone = find_range(unicode::kAccentGone, point)) {
    if (gone->combining_class != 0)
      append_mark({0, gone->combining_class, origin, false, false});
    else
      finish(), origin_ = origin;
  } else {
    append_kept(point, origin, false);
  }
}

void Characters::AccentStripper::append_starter(uint32_t point, uint32_t origin) {
  if (!marks_.empty()) finish();
  origin_ = origin;
  out_.push_back({point, origin});
}

void Characters::AccentStripper::append_kept(uint32_t point, uint32_t origin, bool inserted) {
  if (const auto* mark = find(unicode::kCombiningClasses, point))
    append_mark({point, mark->to, origin, true, inserted});
  else
    append_starter(point, origin);
}

void Characters::AccentStripper::append_mark(const Mark& mark) {
  keeps_some_ |= mark.stays;
  marks_.push_back(mark);
}

void Characters::AccentStripper::finish() {
  if (keeps_some_) {
    std::vector<uint32_t> origins;  // of the marks that the text has, in its order
    for (const Mark& mark : marks_)
      if (!mark.inserted) origins.push_back(mark.origin);
    std::stable_sort(marks_.begin(), marks_.end(),
                     [](const Mark& a, const Mark& b) { return a.combining_class < b.combining_class; });
    auto next = origins.begin();
    for (const Mark& mark : marks_) {
      if (!mark.inserted) origin_ = *next++;
      if (mark.stays) out_.push_back({mark.point, origin_});
    }
  }
  marks_.clear();
  keeps_some_ = false;
}

}  // namespace recollect
