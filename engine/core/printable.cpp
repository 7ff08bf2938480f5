#include "engine/core/printable.h"

#include <algorithm>

#include <fmt/format.h>

namespace recollect {

namespace {

unsigned char byte_of(std::string_view text, std::size_t i) { return static_cast<unsigned char>(text[i]); }

// The code point of a valid character.
uint32_t decode(std::string_view character) {
  uint32_t point = byte_of(character, 0);
  if (character.size() > 1) point &= 0xffu >> (character.size() + 1);
  for (std::size_t i = 1; i < character.size(); ++i) point = point << 6 | (byte_of(character, i) & 0x3fu);
  return point;
}

bool is_control(uint32_t point) { return point < 0x20 || (point >= 0x7f && point < 0xa0); }

bool is_plain(char c) { return c >= 0x20 && c < 0x7f; }

// Ends of lines and paragraphs, and characters that change the text direction.
bool is_layout(uint32_t point) {
  return point == 0x061c || (point >= 0x200e && point <= 0x200f) || (point >= 0x2028 && point <= 0x202e) ||
         (point >= 0x2066 && point <= 0x2069);
}

// Escapes control characters that are not in `stays`, direction marks, and bytes that are not UTF-8.
std::string escape(std::string_view text, std::string_view stays) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const auto plain = std::find_if_not(text.begin(), text.end(), is_plain);
    result.append(text.begin(), plain);
    text.remove_prefix(static_cast<std::size_t>(plain - text.begin()));
    if (text.empty()) break;
    const std::size_t length = utf8_length(text);
    const std::string_view character = text.substr(0, std::max<std::size_t>(1, length));
    const uint32_t point = length > 0 ? decode(character) : byte_of(text, 0);
    if (length == 0 || (is_control(point) && stays.find(text.front()) == std::string_view::npos))
      result += fmt::format("\\x{:02x}", point);
    else if (is_layout(point))
      result += fmt::format("\\u{:04x}", point);
    else
      result += character;
    text.remove_prefix(character.size());
  }
  return result;
}

}  // namespace

std::size_t utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  const unsigned char lead = byte_of(text, 0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte_of(text, i) & 0xc0) != 0x80) return 0;
  const unsigned char second = byte_of(text, 1);
  const bool overlong = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
  const bool outside = (lead == 0xed && second >= 0xa0) || (lead == 0xf4 && second >= 0x90);
  return overlong || outside ? 0 : length;
}

std::string printable(std::string_view text) { return escape(text, ""); }
std::string printable_lines(std::string_view text) { return escape(text, "\n\t"); }

std::string list_some(const std::vector<std::string>& names, std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < std::min(most, names.size()); ++i)
    text += (i > 0 ? ", " : "") + printable(names[i]);
  if (names.size() > most) text += fmt::format(" and {} more", names.size() - most);
  return text;
}

}  // namespace recollect
