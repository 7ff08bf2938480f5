// Texts with places for values: Python's "%s" % value, "{}".format(value), and dates.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>

#include <fmt/format.h>

#include "engine/data/jinja/builtins.h"
#include "engine/data/jinja/python_text.h"
#include "engine/data/tokenizer/unicode.h"

namespace recollect::jinja {
namespace {

constexpr int64_t kWidest = 1'000'000;

int64_t read_width(std::string_view text, std::size_t& at) {
  int64_t number = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at)
    if ((number = number * 10 + (text[at] - '0')) > kWidest)
      throw TemplateFault("a field of more than a million characters");
  return number;
}

struct Shape {
  char align = 0, sign = '-', kind = 0;  // of align: < > ^ =
  std::string fill = " ";
  bool alternate = false, commas = false;
  int64_t width = 0, precision = -1;
};

std::string aligned(std::string text, const Shape& shape, char usual) {
  const int64_t more = shape.width - points_of(text);
  if (more <= 0) return text;
  const char align = shape.align ? shape.align : usual;
  const int64_t left = align == '<' ? 0 : align == '^' ? more / 2 : more;
  std::string before, after;
  for (int64_t i = 0; i < more; ++i) (i < left ? before : after) += shape.fill;
  const std::size_t sign =
      align == '=' && !text.empty() && (text[0] == '-' || text[0] == '+' || text[0] == ' ');
  return text.substr(0, sign) + before + text.substr(sign) + after;
}

std::string with_sign(std::string digits, bool negative, const Shape& shape) {
  if (negative) return "-" + digits;
  return shape.sign == '+' || shape.sign == ' ' ? shape.sign + digits : digits;
}

std::string with_commas(const std::string& digits, bool commas) {
  if (!commas) return digits;
  const std::size_t whole = std::min(digits.find_first_not_of("0123456789"), digits.size());
  std::string result;
  for (std::size_t i = 0; i < whole; ++i) {
    if (i > 0 && (whole - i) % 3 == 0) result += ',';
    result += digits[i];
  }
  return result + digits.substr(whole);
}

std::string whole_text(int64_t number, const Shape& shape) {
  const uint64_t size = number < 0 ? 0 - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
  std::string digits = shape.kind == 'x'   ? fmt::format("{}{:x}", shape.alternate ? "0x" : "", size)
                       : shape.kind == 'X' ? fmt::format("{}{:X}", shape.alternate ? "0X" : "", size)
                       : shape.kind == 'o' ? fmt::format("{}{:o}", shape.alternate ? "0o" : "", size)
                       : shape.kind == 'b' ? fmt::format("{}{:b}", shape.alternate ? "0b" : "", size)
                                           : fmt::to_string(size);
  return with_sign(with_commas(digits, shape.commas), number < 0, shape);
}

std::string real_field(double number, const Shape& shape) {
  const bool negative = std::signbit(number) && !std::isnan(number);
  const char kind = shape.kind == 0 ? 'r' : shape.kind;
  std::string digits;
  if (kind == 'r' && shape.precision < 0)
    digits = real_text(std::abs(number));
  else if (kind == '%')
    digits = formatted_real(std::abs(number) * 100, 'f', shape.precision < 0 ? 6 : shape.precision) + "%";
  else
    digits = formatted_real(std::abs(number), kind == 'r' ? 'g' : kind,
                            shape.precision < 0 ? 6 : shape.precision, shape.alternate);
  return with_sign(with_commas(digits, shape.commas), negative, shape);
}

// One conversion of %: its flags, width and kind.
class PercentFormat {
 public:
  PercentFormat(std::string_view format, const Value& values) : format_(format), values_(values) {
    if (const Sequence* list = values.sequence(); list && list->form == Sequence::Form::kTuple)
      items_ = list->items;
    else
      items_ = {values};
  }

  std::string run() {
    std::string text;
    while (at_ < format_.size()) {
      if (format_[at_] != '%') {
        text += format_[at_++];
        continue;
      }
      ++at_;
      text += conversion();
      check_bytes(text.size());
    }
    const bool by_name = values_.dict() != nullptr;
    if (next_ < items_.size() && !by_name && !used_names_)
      fail_type("not all arguments converted during string formatting");
    return text;
  }

 private:
  Value take() {
    if (next_ >= items_.size()) fail_type("not enough arguments for format string");
    return items_[next_++];
  }

  std::string conversion() {
    std::optional<Value> named;
    if (at_ < format_.size() && format_[at_] == '(') {
      const std::size_t end = format_.find(')', at_);
      if (end == std::string_view::npos) throw TemplateFault("incomplete format key");
      if (!values_.dict()) fail_type("format requires a mapping");
      const Value* found = values_.dict()->named(format_.substr(at_ + 1, end - at_ - 1));
      if (!found)
        throw TemplateFault(
            fmt::format("no value called {} to format", format_.substr(at_ + 1, end - at_ - 1)));
      named = *found;
      used_names_ = true;
      at_ = end + 1;
    }
    Shape shape;
    bool zeros = false;
    for (; at_ < format_.size() && std::string_view("-+ #0").find(format_[at_]) != std::string_view::npos;
         ++at_) {
      const char flag = format_[at_];
      if (flag == '-') shape.align = '<';
      if (flag == '+' || (flag == ' ' && shape.sign != '+')) shape.sign = flag;
      if (flag == '#') shape.alternate = true;
      if (flag == '0') zeros = true;
    }
    shape.width = star(shape);
    if (at_ < format_.size() && format_[at_] == '.') {
      ++at_;
      shape.precision = star(shape);
    }
    while (at_ < format_.size() && std::string_view("hlL").find(format_[at_]) != std::string_view::npos)
      ++at_;
    if (at_ >= format_.size()) throw TemplateFault("incomplete format");
    shape.kind = format_[at_++];
    if (shape.kind == '%') return "%";
    if (zeros && shape.align == 0 && shape.kind != 's' && shape.kind != 'r' && shape.kind != 'c') {
      shape.fill = "0";
      shape.align = '=';
    }
    return aligned(value_text(named ? *named : take(), shape), shape, '>');
  }

  int64_t star(const Shape&) {
    if (at_ < format_.size() && format_[at_] == '*') {
      ++at_;
      return std::clamp<int64_t>(index_of(take()), 0, kWidest);
    }
    return read_width(format_, at_);
  }

  static std::string value_text(const Value& value, Shape& shape) {
    std::string text;
    switch (shape.kind) {
      case 's':
      case 'r':
      case 'a':
        text = shape.kind == 's' ? to_text(value) : repr(value);
        return shape.precision < 0 ? text : text.substr(0, byte_of_point(text, shape.precision));
      case 'd':
      case 'i':
      case 'u':
        if (!value.is_number())
          fail_type(fmt::format("%d format: a real number is required, not {}", type_name(value)));
        if (value.is<double>() && !(std::abs(value.real()) < 9.2e18))
          throw TemplateFault("a whole number beyond 64 bits");
        return whole_text(value.is<double>() ? static_cast<int64_t>(value.real()) : value.integer(), shape);
      case 'x':
      case 'X':
      case 'o':
        return whole_text(index_of(value), shape);
      case 'c':
        if (value.is_text() && points_of(value.text()) == 1) return value.text();
        append_utf8(static_cast<uint32_t>(std::clamp<int64_t>(index_of(value), 1, 0xd7ff)), text);
        return text;
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        if (!value.is_number()) fail_type(fmt::format("must be real number, not {}", type_name(value)));
        return real_field(value.real(), shape);
      default:
        throw TemplateFault(
            fmt::format("unsupported format character '{}'", is_ascii(shape.kind) ? shape.kind : '?'));
    }
  }

  std::string_view format_;
  const Value& values_;
  std::vector<Value> items_;
  std::size_t at_ = 0, next_ = 0;
  bool used_names_ = false;
};

Shape read_shape(std::string_view text) {
  Shape shape;
  std::size_t at = 0;
  const auto is_align = [](std::string_view rest) {
    return !rest.empty() && std::string_view("<>^=").find(rest[0]) != std::string_view::npos;
  };
  if (!text.empty()) {
    const std::size_t first = recollect::utf8_length(text[0]);
    if (is_align(text.substr(std::min(first, text.size())))) {
      shape.fill = text.substr(0, first);
      shape.align = text[first];
      at = first + 1;
    } else if (is_align(text)) {
      shape.align = text[0];
      at = 1;
    }
  }
  const auto accept = [&](char c) { return at < text.size() && text[at] == c ? ++at, true : false; };
  if (accept('+'))
    shape.sign = '+';
  else if (accept(' '))
    shape.sign = ' ';
  else
    accept('-');
  shape.alternate = accept('#');
  if (accept('0') && shape.align == 0) {
    shape.fill = "0";
    shape.align = '=';
  }
  shape.width = read_width(text, at);
  shape.commas = accept(',');
  if (accept('.')) shape.precision = read_width(text, at);
  if (at < text.size()) shape.kind = text[at++];
  if (at < text.size()) throw TemplateFault("Invalid format specifier");
  return shape;
}

std::string shaped(const Value& value, std::string_view spec) {
  if (spec.empty()) return to_text(value);
  Shape shape = read_shape(spec);
  if (value.is_text() || value.is<bool>() || value.is_none()) {
    std::string text = to_text(value);
    if (value.is_text() && shape.precision >= 0) text = text.substr(0, byte_of_point(text, shape.precision));
    return aligned(std::move(text), shape, '<');
  }
  if (value.is<int64_t>() &&
      std::string_view("eEfFgG%").find(shape.kind ? shape.kind : 'd') == std::string_view::npos)
    return aligned(whole_text(value.integer(), shape), shape, '>');
  if (!value.is_number()) fail_type(fmt::format("unsupported format string passed to {}", type_name(value)));
  return aligned(real_field(value.real(), shape), shape, '>');
}

// "name", "0", "", with .attribute and [item] after it.
Value field_of(std::string_view path, const Arguments& arguments, std::size_t& next) {
  const std::size_t end = std::min(path.find_first_of(".["), path.size());
  const std::string_view first = path.substr(0, end);
  Value value;
  if (first.empty() || first.find_first_not_of("0123456789") == std::string_view::npos) {
    std::size_t unused = 0;
    const std::size_t place = first.empty() ? next++ : static_cast<std::size_t>(read_width(first, unused));
    if (place >= arguments.values.size())
      throw TemplateFault("Replacement index out of range for positional args tuple");
    value = arguments.values[place];
  } else {
    const Value* found = arguments.find(SIZE_MAX, first);
    if (!found) throw TemplateFault(fmt::format("no value called {} to format", first));
    value = *found;
  }
  for (path.remove_prefix(end); !path.empty();) {
    if (path[0] == '.') {
      const std::size_t stop = std::min(path.find_first_of(".[", 1), path.size());
      value = attribute_of(value, path.substr(1, stop - 1));
      path.remove_prefix(stop);
      continue;
    }
    const std::size_t stop = path.find(']');
    if (path[0] != '[' || stop == std::string_view::npos)
      throw TemplateFault("a field of format without its ']'");
    const std::string_view key = path.substr(1, stop - 1);
    std::size_t unused = 0;
    const bool number = !key.empty() && key.find_first_not_of("0123456789") == std::string_view::npos;
    value = item_of(value, number ? Value(read_width(key, unused)) : Value(key));
    path.remove_prefix(stop + 1);
  }
  return value;
}

}  // namespace

std::string percent_format(std::string_view format, const Value& values) {
  return PercentFormat(format, values).run();
}

std::string brace_format(std::string_view format, const Arguments& arguments) {
  std::string text;
  std::size_t next = 0;
  for (std::size_t at = 0; at < format.size(); ++at) {
    const char c = format[at];
    const bool doubled = at + 1 < format.size() && format[at + 1] == c;
    if (c == '}' && !doubled) throw TemplateFault("Single '}' encountered in format string");
    if (c == '{' && !doubled) {
      const std::size_t end = format.find('}', at);
      if (end == std::string_view::npos) throw TemplateFault("expected '}' before end of string");
      std::string_view field = format.substr(at + 1, end - at - 1), spec;
      if (field.find('{') != std::string_view::npos)
        throw TemplateFault("a field of format within a field is not supported");
      if (const std::size_t colon = field.find(':'); colon != std::string_view::npos) {
        spec = field.substr(colon + 1);
        field = field.substr(0, colon);
      }
      char conversion = 0;
      if (field.size() > 1 && field[field.size() - 2] == '!') {
        conversion = field.back();
        field.remove_suffix(2);
      }
      const Value value = field_of(field, arguments, next);
      text += conversion == 'r'   ? shaped(Value(repr(value)), spec)
              : conversion == 's' ? shaped(Value(to_text(value)), spec)
                                  : shaped(value, spec);
      check_bytes(text.size());
      at = end;
      continue;
    }
    text += c;
    at += c == '{' || c == '}';
  }
  return text;
}

std::string formatted_real(double number, char kind, int64_t precision, bool alternate) {
  const auto digits = static_cast<int>(std::min<int64_t>(precision, 1000));
  switch (kind) {
    case 'e':
      return alternate ? fmt::format("{:#.{}e}", number, digits) : fmt::format("{:.{}e}", number, digits);
    case 'E':
      return fmt::format("{:.{}E}", number, digits);
    case 'g':
      return alternate ? fmt::format("{:#.{}g}", number, digits) : fmt::format("{:.{}g}", number, digits);
    case 'G':
      return fmt::format("{:.{}G}", number, digits);
    case 'f':
    case 'F':
      return fmt::format("{:.{}f}", number, digits);
    default:
      throw TemplateFault("Unknown format code for a number");
  }
}

std::string date_text(std::string_view format, int64_t now) {
  std::string plain;  // what Python's strftime has of a time without a zone
  for (std::size_t at = 0; at < format.size(); ++at) {
    const char next = format[at] == '%' && at + 1 < format.size() ? format[at + 1] : ' ';
    if (next == 'f') plain += "000000";
    if (next == 'f' || next == 'z' || next == 'Z') {
      ++at;
      continue;
    }
    plain += format[at];
    if (next == '%') plain += format[++at];
  }
  if (plain.find('\0') != std::string::npos || plain.size() > 4096)
    throw TemplateFault("a date is asked for in a format that is none");
  const auto seconds = static_cast<std::time_t>(now);
  std::tm parts = {};
  localtime_r(&seconds, &parts);
  plain += '.';  // so that no result is empty
  std::string text(plain.size() * 64 + 64, '\0');
  text.resize(std::strftime(text.data(), text.size(), plain.c_str(), &parts));
  if (!text.empty()) text.pop_back();
  return text;
}

}  // namespace recollect::jinja
