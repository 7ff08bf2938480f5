#include "engine/io/scalars.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

#include "engine/core/printable.h"
#include "engine/io/spelling.h"

namespace recollect {
namespace {

// Texts are names and paths, which messages print as they are.
bool is_one_line(const std::string& text) {
  return text.find('\n') == std::string::npos && printable_lines(text) == text;
}

std::string cannot_be_shown(const std::string& text) {
  return fmt::format("'{}' has characters that cannot be shown", printable(text));
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Returns the number of digits at the start of `text`.
std::size_t digits(std::string_view text) {
  return static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), is_digit) - text.begin());
}

// The grammar of a decimal number. The integer part may have no extra leading zero, because YAML 1.1 reads
// 010 as eight.
enum class Number { kNone, kLeadingZero, kInteger, kReal };

Number classify(std::string_view text) {
  if (!text.empty() && (text.front() == '-' || text.front() == '+')) text.remove_prefix(1);
  const std::size_t whole = digits(text);
  const bool leading_zero = whole > 1 && text.front() == '0';
  text.remove_prefix(whole);
  if (text.empty())
    return whole == 0 ? Number::kNone : leading_zero ? Number::kLeadingZero : Number::kInteger;
  std::size_t fraction = 0;
  if (text.front() == '.') {
    fraction = digits(text.substr(1));
    text.remove_prefix(1 + fraction);
  }
  if (whole + fraction == 0) return Number::kNone;
  if (!text.empty() && (text.front() == 'e' || text.front() == 'E')) {
    text.remove_prefix(1);
    if (!text.empty() && (text.front() == '-' || text.front() == '+')) text.remove_prefix(1);
    const std::size_t exponent = digits(text);
    if (exponent == 0) return Number::kNone;
    text.remove_prefix(exponent);
  }
  if (!text.empty()) return Number::kNone;
  return leading_zero ? Number::kLeadingZero : Number::kReal;
}

template <typename T>
bool convert(std::string_view text, T& out) {
  if (text.front() == '+') text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size();
}

std::string expected(std::string_view what, const YamlNode& node) {
  return fmt::format("expected {}, found {}", what, describe(node));
}

std::string check_range(const ValueRange& range, double value, const YamlNode& node) {
  const bool low = range.low_open ? value > range.low : value >= range.low;
  const bool high = range.high_open ? value < range.high : value <= range.high;
  return low && high ? "" : fmt::format("{} is out of range; must be {}", node.text, range.describe());
}

struct ByteUnit {
  std::string_view name;
  int64_t bytes;
};
constexpr std::array<ByteUnit, 4> kUnits = {{{"TiB", int64_t{1} << 40},
                                             {"GiB", int64_t{1} << 30},
                                             {"MiB", int64_t{1} << 20},
                                             {"KiB", int64_t{1} << 10}}};

// Returns `number` times 1024 to the power `power` as a whole number of a unit, such as "1536MiB"; "" if it
// exceeds 64 bits.
std::string whole_units(double number, int power) {
  for (; power > 0 && number != std::floor(number); --power) number *= 1024;
  constexpr std::array<std::string_view, 5> kNames = {"", "KiB", "MiB", "GiB", "TiB"};
  const double bytes = std::floor(number) * std::pow(1024.0, power);
  return bytes < 0x1p62 ? fmt::format("{:.0f}{}", std::floor(number), kNames[static_cast<std::size_t>(power)])
                        : "";
}

// Returns what to write instead of "8GB", "8g" or "1.5 GiB"; "" if the text is no number of bytes.
std::string how_to_write_bytes(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || !(number > 0)) return "";
  std::string unit;
  for (const char c : text.substr(static_cast<std::size_t>(end - text.data())))
    if (c != ' ' || !unit.empty()) unit += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const std::size_t power = unit.empty() ? std::string_view::npos : std::string_view("kmgt").find(unit[0]);
  const std::string_view rest = unit.empty() ? "" : std::string_view(unit).substr(1);
  if (power == std::string_view::npos || !(rest.empty() || rest == "b" || rest == "ib")) return "";
  const std::string ours = whole_units(number, static_cast<int>(power) + 1);
  if (ours.empty() || rest != "b") return ours;
  return fmt::format("{}, or {:.0f} for {} {}B", ours,
                     number * std::pow(1000.0, static_cast<double>(power) + 1), number,
                     static_cast<char>(std::toupper(static_cast<unsigned char>(unit[0]))));
}

// Reads "4GiB", "5.2GiB", "512 MiB", "1048576" or "1.5e9".
std::string read_bytes(const YamlNode& node, const ValueRange& range, int64_t& out) {
  constexpr std::string_view kExpected = "bytes such as 4GiB, 512MiB or a plain integer";
  std::string_view number = node.text;
  int64_t unit = 1;
  for (const ByteUnit& candidate : kUnits) {
    if (!number.ends_with(candidate.name)) continue;
    number.remove_suffix(candidate.name.size());
    unit = candidate.bytes;
    break;
  }
  if (unit > 1 && number.ends_with(' ')) number.remove_suffix(1);
  int64_t count = 0;
  int64_t bytes = 0;
  const Number grammar = classify(number);
  if (grammar == Number::kReal) {
    double real = 0;
    const bool fits = convert(number, real) && std::abs(real *= static_cast<double>(unit)) < 0x1p63;
    if (fits && unit == 1 && real != std::floor(real))
      return fmt::format("{} is no whole number of bytes", node.text);
    if (!fits) return fmt::format("{} is more than 64 bits hold", node.text);
    bytes = static_cast<int64_t>(real);  // 5.2GiB: rounded down to whole bytes
  } else if (grammar != Number::kInteger) {
    const std::string ours = how_to_write_bytes(node.text);
    return expected(kExpected, node) + (ours.empty() ? "" : "; write " + ours);
  } else if (!convert(number, count) || __builtin_mul_overflow(count, unit, &bytes)) {
    return fmt::format("{} is more than 64 bits hold", node.text);
  }
  if (std::string wrong = check_range(range, static_cast<double>(bytes), node); !wrong.empty()) return wrong;
  out = bytes;
  return "";
}

std::string unknown_word(const std::string& word, std::span<const std::string_view> words) {
  const std::string message = fmt::format("'{}' is none of {}", word, fmt::join(words, ", "));
  const std::string near = nearest(word, words);
  return near.empty() ? message : fmt::format("{}; did you mean '{}'?", message, near);
}

}  // namespace

std::string ValueRange::describe() const {
  const bool has_low = std::isfinite(low);
  const bool has_high = std::isfinite(high);
  if (has_low && has_high) {
    return fmt::format("in {}{:.15g}, {:.15g}{}", low_open ? '(' : '[', low, high, high_open ? ')' : ']');
  }
  if (has_low) return fmt::format("{} {:.15g}", low_open ? "greater than" : "at least", low);
  if (has_high) return fmt::format("{} {:.15g}", high_open ? "less than" : "at most", high);
  return required ? "not empty" : "";
}

std::string read_value(const YamlNode& node, const ValueRange&, bool& out) {
  if (node.kind != YamlNode::Kind::kScalar || !node.plain || (node.text != "true" && node.text != "false")) {
    return expected("true or false", node);
  }
  out = node.text == "true";
  return "";
}

std::string read_value(const YamlNode& node, const ValueRange& range, int64_t& out) {
  if (range.byte_size && node.kind == YamlNode::Kind::kScalar) return read_bytes(node, range, out);
  const bool plain = node.kind == YamlNode::Kind::kScalar && node.plain;
  const Number number = plain ? classify(node.text) : Number::kNone;
  if (number == Number::kLeadingZero) return expected("a decimal integer without leading zeros", node);
  if (number != Number::kInteger) return expected("an integer", node);
  int64_t value = 0;
  if (!convert(node.text, value)) return fmt::format("{} is more than 64 bits hold", node.text);
  if (std::string wrong = check_range(range, static_cast<double>(value), node); !wrong.empty()) return wrong;
  out = value;
  return "";
}

std::string read_value(const YamlNode& node, const ValueRange& range, double& out) {
  const bool plain = node.kind == YamlNode::Kind::kScalar && node.plain;
  const Number number = plain ? classify(node.text) : Number::kNone;
  if (number == Number::kLeadingZero) return expected("a decimal number without leading zeros", node);
  if (number == Number::kNone) return expected("a finite decimal number", node);
  double value = 0;
  if (!convert(node.text, value) || !std::isfinite(value)) {
    return fmt::format("{} is not a number that double precision can hold", node.text);
  }
  if (std::string wrong = check_range(range, value, node); !wrong.empty()) return wrong;
  out = value;
  return "";
}

std::string read_value(const YamlNode& node, const ValueRange& range, std::string& out) {
  if (node.kind != YamlNode::Kind::kScalar) return expected("text", node);
  if (range.required && node.text.empty()) return "must not be empty";
  if (!is_one_line(node.text)) return cannot_be_shown(node.text);
  out = node.text;
  return "";
}

std::string read_value(const YamlNode& node, const ValueRange& range, std::vector<std::string>& out) {
  std::vector<std::string> values;
  if (node.kind == YamlNode::Kind::kScalar) {
    values.push_back(node.text);
  } else if (node.kind == YamlNode::Kind::kSequence) {
    for (const YamlNode& item : node.items) {
      if (item.kind != YamlNode::Kind::kScalar)
        return "expected a list of texts, and entry " + std::to_string(values.size() + 1) + " is " +
               describe(item);
      values.push_back(item.text);
    }
  } else {
    return expected("text or a list of texts", node);
  }
  if (std::find(values.begin(), values.end(), "") != values.end()) return "an entry is empty";
  if (range.required && values.empty()) return "must not be empty";
  for (const std::string& value : values)
    if (!is_one_line(value)) return cannot_be_shown(value);
  for (const std::string& value : values)
    if (!range.words.empty() && std::find(range.words.begin(), range.words.end(), value) == range.words.end())
      return unknown_word(value, range.words);
  out = std::move(values);
  return "";
}

std::string read_choice(const YamlNode& node, std::span<const std::string_view> choices, std::size_t& out) {
  if (node.kind == YamlNode::Kind::kScalar) {
    const auto found = std::find(choices.begin(), choices.end(), node.text);
    if (found != choices.end()) {
      out = static_cast<std::size_t>(found - choices.begin());
      return "";
    }
  }
  std::string message = expected(choices.size() == 1 ? fmt::format("{}", choices[0])
                                                     : fmt::format("one of {}", fmt::join(choices, ", ")),
                                 node);
  if (node.kind != YamlNode::Kind::kScalar) return message;
  const std::string near = nearest(node.text, choices);
  return near.empty() ? message : fmt::format("{}; did you mean '{}'?", message, near);
}

std::string print_value(bool value, const ValueRange&) { return value ? "true" : "false"; }

std::string print_value(int64_t value, const ValueRange& range) {
  if (range.byte_size && value != 0) {
    for (const ByteUnit& unit : kUnits) {
      if (value % unit.bytes == 0) return fmt::format("{}{}", value / unit.bytes, unit.name);
    }
  }
  return fmt::format("{}", value);
}

std::string print_value(double value, const ValueRange&) { return fmt::format("{}", value); }

std::string print_value(const std::string& value, const ValueRange&) { return print_text(value); }

std::string print_value(const std::vector<std::string>& value, const ValueRange&) {
  std::vector<std::string> texts;
  for (const std::string& text : value) texts.push_back(print_text(text));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

std::string print_text(std::string_view text) {
  // Words that some YAML readers take for a boolean or null. Texts that start like a number are quoted too.
  static constexpr std::array<std::string_view, 9> kReserved = {"null", "true", "false", "yes", "no",
                                                                "on",   "off",  "y",     "n"};
  std::string lower;
  for (const char c : text) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const auto is_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '/';
  };
  const bool starts_plain = !text.empty() && is_word(text.front()) && !is_digit(text.front());
  const bool all_plain =
      std::all_of(text.begin(), text.end(), [&](char c) { return is_word(c) || c == '.' || c == '-'; });
  if (starts_plain && all_plain && std::find(kReserved.begin(), kReserved.end(), lower) == kReserved.end()) {
    return std::string(text);
  }
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += std::string("\\") + c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      quoted += fmt::format("\\x{:02x}", static_cast<int>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

}  // namespace recollect
