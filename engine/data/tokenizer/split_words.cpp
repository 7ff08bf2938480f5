#include "engine/data/tokenizer/split_words.h"

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

}  // namespace recollect
