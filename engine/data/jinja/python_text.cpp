#include "engine/data/jinja/python_text.h"

#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>

#include "engine/data/tokenizer/unicode.h"

namespace recollect::jinja {
namespace {

const Characters& characters() {
  static const Characters kCharacters;
  return kCharacters;
}

// The first letter of which each is the lower case.
const std::unordered_map<uint32_t, uint32_t>& uppers() {
  static const std::unordered_map<uint32_t, uint32_t> kUppers = [] {
    std::unordered_map<uint32_t, uint32_t> found;
    for (uint32_t point = 0x80; point < 0x20000; ++point) {
      if (!characters().has_lower(point)) continue;
      std::string lower;
      characters().append_lower(point, lower);
      std::size_t at = 0;
      const uint32_t small = decode_utf8(lower, at);
      if (at == lower.size()) found.emplace(small, point);
    }
    return found;
  }();
  return kUppers;
}

void append_upper(uint32_t point, std::string& text) {
  if (point < 0x80) {
    text += point >= 'a' && point <= 'z' ? static_cast<char>(point - 32) : static_cast<char>(point);
    return;
  }
  if (point == 0xdf) {
    text += "SS";
    return;
  }
  const auto found = uppers().find(point);
  append_utf8(found == uppers().end() ? point : found->second, text);
}

void append_lower_case(uint32_t point, std::string& text) {
  if (point < 0x80)
    text += point >= 'A' && point <= 'Z' ? static_cast<char>(point + 32) : static_cast<char>(point);
  else
    characters().append_lower(point, text);
}

bool has_case(uint32_t point) {
  if (point < 0x80) return (point >= 'a' && point <= 'z') || (point >= 'A' && point <= 'Z');
  return characters().has_lower(point) || uppers().contains(point);
}

bool strips(std::string_view point, std::optional<std::string_view> points) {
  if (points) return points->find(point) != std::string_view::npos;
  std::size_t at = 0;
  return is_blank_point(decode_utf8(point, at));
}

std::size_t last_point(std::string_view text) {
  std::size_t at = text.size() - 1;
  while (at > 0 && continues_utf8(text[at])) --at;
  return at;
}

std::vector<std::string> split_at_blanks(std::string_view text, int64_t most, bool from_right) {
  std::vector<std::string> parts;
  while (true) {
    text = from_right ? strip_right(text) : strip_left(text);
    if (text.empty()) break;
    if (most >= 0 && static_cast<int64_t>(parts.size()) == most) {
      parts.emplace_back(from_right ? text : text);
      break;
    }
    if (from_right) {
      std::size_t begin = text.size();
      while (begin > 0) {
        const std::size_t point = last_point(text.substr(0, begin));
        if (strips(text.substr(point, begin - point), std::nullopt)) break;
        begin = point;
      }
      parts.emplace_back(text.substr(begin));
      text = text.substr(0, begin);
    } else {
      std::size_t end = 0;
      while (end < text.size()) {
        const std::size_t size = recollect::utf8_length(text[end]);
        if (strips(text.substr(end, size), std::nullopt)) break;
        end += size;
      }
      parts.emplace_back(text.substr(0, end));
      text.remove_prefix(end);
    }
  }
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

}  // namespace

int64_t points_of(std::string_view text) { return static_cast<int64_t>(count_points(text)); }

std::vector<std::string_view> split_points(std::string_view text) {
  std::vector<std::string_view> points;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = recollect::utf8_length(text[at]);
    points.push_back(text.substr(at, size));
    at += size;
  }
  return points;
}

std::size_t byte_of_point(std::string_view text, int64_t point) {
  std::size_t at = 0;
  for (; point > 0 && at < text.size(); --point) at += recollect::utf8_length(text[at]);
  return std::min(at, text.size());
}

bool is_blank_point(uint32_t point) {
  return (point >= 9 && point <= 13) || (point >= 0x1c && point <= 0x20) || point == 0x85 || point == 0xa0 ||
         point == 0x1680 || (point >= 0x2000 && point <= 0x200a) || point == 0x2028 || point == 0x2029 ||
         point == 0x202f || point == 0x205f || point == 0x3000;
}

bool is_line_end(uint32_t point) {
  return (point >= 10 && point <= 13) || (point >= 0x1c && point <= 0x1e) || point == 0x85 ||
         point == 0x2028 || point == 0x2029;
}

std::string_view strip_left(std::string_view text, std::optional<std::string_view> points) {
  while (!text.empty()) {
    const std::size_t size = recollect::utf8_length(text[0]);
    if (!strips(text.substr(0, size), points)) break;
    text.remove_prefix(size);
  }
  return text;
}

std::string_view strip_right(std::string_view text, std::optional<std::string_view> points) {
  while (!text.empty()) {
    const std::size_t point = last_point(text);
    if (!strips(text.substr(point), points)) break;
    text = text.substr(0, point);
  }
  return text;
}

std::vector<std::string> split(std::string_view text, std::optional<std::string_view> by, int64_t most,
                               bool from_right) {
  if (!by) return split_at_blanks(text, most, from_right);
  std::vector<std::string> parts;
  while (most < 0 || static_cast<int64_t>(parts.size()) < most) {
    const std::size_t at = from_right ? text.rfind(*by) : text.find(*by);
    if (at == std::string_view::npos) break;
    if (from_right) {
      parts.emplace_back(text.substr(at + by->size()));
      text = text.substr(0, at);
    } else {
      parts.emplace_back(text.substr(0, at));
      text.remove_prefix(at + by->size());
    }
  }
  parts.emplace_back(text);
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string> lines;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    const uint32_t point = decode_utf8(text, at);
    if (!is_line_end(point)) continue;
    if (point == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.emplace_back(text.substr(begin, (keep_ends ? at : end) - begin));
    begin = at;
  }
  if (begin < text.size()) lines.emplace_back(text.substr(begin));
  return lines;
}

std::string replaced(std::string_view text, std::string_view old, std::string_view by, int64_t most) {
  std::string result;
  if (old.empty()) {
    for (const std::string_view point : split_points(text)) {
      if (most-- != 0)
        result += by;
      else
        ++most;
      result += point;
    }
    if (most != 0) result += by;
    return result;
  }
  while (most-- != 0) {
    const std::size_t at = text.find(old);
    if (at == std::string_view::npos) break;
    result += text.substr(0, at);
    result += by;
    text.remove_prefix(at + old.size());
  }
  result += text;
  return result;
}

std::string lower_case(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) append_lower_case(decode_utf8(text, at), result);
  return result;
}

std::string upper_case(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) append_upper(decode_utf8(text, at), result);
  return result;
}

std::string capitalized(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const bool first = at == 0;
    const uint32_t point = decode_utf8(text, at);
    first ? append_upper(point, result) : append_lower_case(point, result);
  }
  return result;
}

std::string title_case(std::string_view text) {
  std::string result;
  bool inside = false;
  for (std::size_t at = 0; at < text.size();) {
    const uint32_t point = decode_utf8(text, at);
    inside ? append_lower_case(point, result) : append_upper(point, result);
    inside = has_case(point);
  }
  return result;
}

std::string repr_of_text(std::string_view text) {
  const bool doubled = text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
  const char quote = doubled ? '"' : '\'';
  std::string result(1, quote);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const uint32_t point = decode_utf8(text, at);
    if (point == static_cast<unsigned char>(quote) || point == '\\') {
      result += '\\';
      result += static_cast<char>(point);
    } else if (point == '\n' || point == '\r' || point == '\t') {
      result += point == '\n' ? "\\n" : point == '\r' ? "\\r" : "\\t";
    } else if (point < 0x20 || point == 0x7f) {
      result += fmt::format("\\x{:02x}", point);
    } else if (point < 0x7f) {
      result += static_cast<char>(point);
    } else {
      // Not printable for Python: separators but the blank, controls, formats, surrogates, private and unassigned ones.
      const std::string_view category = kCategoryNames[characters().category_of(point)];
      if (category[0] == 'Z' || category[0] == 'C')
        result += point < 0x100     ? fmt::format("\\x{:02x}", point)
                  : point < 0x10000 ? fmt::format("\\u{:04x}", point)
                                    : fmt::format("\\U{:08x}", point);
      else
        result += text.substr(begin, at - begin);
    }
  }
  return result += quote;
}

SliceRange slice_range(std::optional<int64_t> start, std::optional<int64_t> stop, int64_t step,
                       int64_t length) {
  const bool back = step < 0;
  const int64_t low = back ? -1 : 0, high = back ? length - 1 : length;
  const auto bound = [&](std::optional<int64_t> at, int64_t otherwise) {
    if (!at) return otherwise;
    const int64_t from_begin = *at < 0 ? (*at < -length ? -1 - length : *at) + length : *at;
    return std::clamp(from_begin, low, high);
  };
  return {bound(start, back ? high : low), bound(stop, back ? low : high), step};
}

bool is_letter(uint32_t point) {
  if (point < 0x80) return (point >= 'a' && point <= 'z') || (point >= 'A' && point <= 'Z');
  return characters().class_of(point) == CharacterClass::kLetter;
}

bool is_number_point(uint32_t point) {
  if (point < 0x80) return point >= '0' && point <= '9';
  return characters().class_of(point) == CharacterClass::kNumber;
}

}  // namespace recollect::jinja
