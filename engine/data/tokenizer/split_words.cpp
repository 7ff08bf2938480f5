#include "engine/data/tokenizer/split_words.h"

#include <algorithm>

namespace recollect {
namespace {

// Of a contraction, its apostrophe included, or 0.
std::size_t contraction_length(std::string_view text) {
  if (text.size() < 2) return 0;
  const char second = text[1];
  if (second == 's' || second == 't' || second == 'm' || second == 'd') return 2;
  const std::string_view two = text.substr(1, 2);
  return two == "re" || two == "ve" || two == "ll" ? 3 : 0;
}

bool is_ascii(char c) { return (c & 0x80) == 0; }

}  // namespace

std::size_t gpt2_word_end(const Characters& characters, std::string_view text, std::size_t at) {
  if (text[at] == '\'')
    if (const std::size_t length = contraction_length(text.substr(at))) return at + length;
  const auto class_behind = [&](std::size_t& i) { return characters.class_of(decode_utf8(text, i)); };

  std::size_t first = text[at] == ' ' && at + 1 < text.size() ? at + 1 : at;
  std::size_t end = first;
  CharacterClass kind = class_behind(end);
  if (kind == CharacterClass::kSpace && first != at) {
    end = first;
    first = at;
  }
  std::size_t last = first;  // where the last character of the run begins
  for (std::size_t next = end; next < text.size(); end = next) {
    const std::size_t here = next;
    if (class_behind(next) != kind) break;
    last = here;
  }
  // Of several blanks before a word the last one is left to it.
  const bool leaves_one = kind == CharacterClass::kSpace && end < text.size() && last > at;
  return leaves_one ? last : end;
}

BertNormalizer::BertNormalizer(const Characters& characters, const BertOptions& options)
    : characters_(characters), options_(options) {
  for (uint32_t c = 0; c < ascii_.size(); ++c) {
    const bool upper = options.lowercase && c >= 'A' && c <= 'Z';
    ascii_[c] = static_cast<char>(upper ? c + 'a' - 'A' : c);
    if (characters.is_blank(c)) ascii_[c] = ' ';
    if (characters.is_dropped(c)) ascii_[c] = 0;
  }
}

void BertNormalizer::apply(std::string_view text, Memory& memory, bool trace) const {
  memory.text.clear();
  memory.origins.clear();
  trace ? apply<true>(text, memory) : apply<false>(text, memory);
}

template <bool kTrace>
void BertNormalizer::apply(std::string_view text, Memory& memory) const {
  uint32_t number = 0;  // of the character at `at`
  for (std::size_t at = 0; at < text.size();) {
    if (!is_ascii(text[at])) {
      at = apply_foreign(text, at, number, memory);
      if (kTrace)
        for (const TracedPoint& point : memory.points)
          memory.origins.insert(memory.origins.end(),
                                options_.lowercase && point.point == Characters::kDottedI ? 2 : 1,
                                point.origin);
      continue;
    }
    const std::size_t run_end = static_cast<std::size_t>(
        std::find_if_not(text.begin() + static_cast<std::ptrdiff_t>(at), text.end(), is_ascii) -
        text.begin());
    const std::size_t before = memory.text.size();
    memory.text.resize(before + run_end - at);
    char* to = memory.text.data() + before;
    for (; at < run_end; ++at, ++number) {
      const char c = ascii_[static_cast<unsigned char>(text[at])];
      *to = c;
      to += c != 0;
      if (kTrace && c != 0) memory.origins.push_back(number);
    }
    memory.text.resize(static_cast<std::size_t>(to - memory.text.data()));
  }
}

// Characters beyond ASCII up to the next one within it, across which no mark moves, or the end of the text.
// What is dropped is gone before marks are put in order, so ASCII that is dropped belongs to the run.
std::size_t BertNormalizer::apply_foreign(std::string_view text, std::size_t at, uint32_t& number,
                                          Memory& memory) const {
  memory.points.clear();
  Characters::AccentStripper stripper(characters_, memory.points);
  const auto put = [&](uint32_t point) {
    if (options_.strip_accents)
      stripper.append(point, number);
    else
      memory.points.push_back({point, number});
  };
  for (; at < text.size(); ++number) {
    if (is_ascii(text[at]) && ascii_[static_cast<unsigned char>(text[at])] != 0) break;
    const uint32_t point = decode_utf8(text, at);
    if (characters_.is_dropped(point)) continue;
    const bool spaced = options_.space_cjk && characters_.is_cjk(point);
    if (spaced) put(' ');
    put(characters_.is_blank(point) ? ' ' : point);
    if (spaced) put(' ');
  }
  stripper.finish();
  for (const TracedPoint& point : memory.points) {
    if (options_.lowercase)
      characters_.append_lower(point.point, memory.text);
    else
      append_utf8(point.point, memory.text);
  }
  return at;
}

}  // namespace recollect
