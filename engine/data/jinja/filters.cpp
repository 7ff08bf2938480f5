// Filters of one value; those of lists are in list_filters.cpp.
#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "engine/data/jinja/builtins.h"
#include "engine/data/jinja/filter_tables.h"
#include "engine/data/jinja/interpreter.h"
#include "engine/data/jinja/json_text.h"
#include "engine/data/jinja/python_text.h"
#include "engine/data/tokenizer/unicode.h"

namespace recollect::jinja {
namespace {

Value filter_trim(Interpreter&, const Value& of, Arguments& arguments) {
  arguments.check("trim", {"chars"});
  const Value chars = arguments.get(0, "chars", None{});
  if (!chars.is_none() && !chars.is_text()) fail_type("strip arg must be None or str");
  const std::string text = to_text(of);
  const auto points = chars.is_none() ? std::nullopt : std::optional<std::string_view>(chars.text());
  return Value(strip_right(strip_left(text, points), points));
}

Value filter_upper(Interpreter&, const Value& of, Arguments&) { return Value(upper_case(to_text(of))); }
Value filter_lower(Interpreter&, const Value& of, Arguments&) { return Value(lower_case(to_text(of))); }
Value filter_capitalize(Interpreter&, const Value& of, Arguments&) { return Value(capitalized(to_text(of))); }
Value filter_string(Interpreter&, const Value& of, Arguments&) {
  return of.is_text() ? of : Value(to_text(of));
}

// Words begin after blanks and after -({[<, and nowhere else.
Value filter_title(Interpreter&, const Value& of, Arguments&) {
  const std::string text = to_text(of);
  std::string result, word;
  const auto end_word = [&] {
    result += capitalized(word);
    word.clear();
  };
  for (const std::string_view point : split_points(text)) {
    std::size_t at = 0;
    if (is_blank_point(decode_utf8(point, at)) ||
        std::string_view("-({[<").find(point) != std::string_view::npos) {
      end_word();
      result += point;
    } else {
      word += point;
    }
  }
  end_word();
  return Value(std::move(result));
}

Value filter_replace(Interpreter&, const Value& of, Arguments& arguments) {
  arguments.check("replace", {"old", "new", "count"}, 2);
  const std::string text = to_text(of), by = to_text(*arguments.find(1, "new"));
  if (by.size() > 1 && text.size() + 1 > kMostBytes / by.size()) check_bytes(kMostBytes + 1);
  const Value count = arguments.get(2, "count", None{});
  return Value(
      replaced(text, to_text(*arguments.find(0, "old")), by, count.is_none() ? -1 : index_of(count)));
}

Value filter_default(Interpreter&, const Value& of, Arguments& arguments) {
  arguments.check("default", {"default_value", "boolean"});
  const bool falsy = truth(arguments.get(1, "boolean", false)) && !truth(of);
  return of.is_undefined() || falsy ? arguments.get(0, "default_value", "") : of;
}

std::optional<int64_t> whole_of_text(std::string_view text, int64_t base) {
  std::string digits(strip_right(strip_left(text)));
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.erase(0, 1);
  const char* prefix = base == 16 ? "0x" : base == 8 ? "0o" : base == 2 ? "0b" : "";
  if (*prefix != 0 && lower_case(digits).starts_with(prefix)) digits.erase(0, 2);
  if (digits.empty() || digits[0] == '_' || digits.back() == '_') return std::nullopt;
  std::erase(digits, '_');
  int64_t number = 0;
  const auto read =
      std::from_chars(digits.data(), digits.data() + digits.size(), number, static_cast<int>(base));
  if (read.ec == std::errc::result_out_of_range) throw TemplateFault("a whole number beyond 64 bits");
  if (read.ec != std::errc() || read.ptr != digits.data() + digits.size()) return std::nullopt;
  return negative ? -number : number;
}

std::optional<double> real_of(const Value& value) {
  if (value.is_undefined()) fail_undefined(value);
  if (value.is_number()) return value.real();
  if (!value.is_text()) return std::nullopt;
  std::string text(strip_right(strip_left(value.text())));
  if (text.starts_with('+')) text.erase(0, 1);
  if (text.starts_with("+") || text.starts_with("-+")) return std::nullopt;
  std::erase(text, '_');
  double number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size() || text.find('(') != std::string::npos)
    return std::nullopt;
  return number;
}

Value filter_int(Interpreter&, const Value& of, Arguments& arguments) {
  arguments.check("int", {"default", "base"});
  const int64_t base = index_of(arguments.get(1, "base", 10));
  if (base < 2 || base > 36) throw TemplateFault("int() base must be >= 2 and <= 36");
  if (of.is_integer()) return of.integer();
  if (of.is_text())
    if (const auto whole = whole_of_text(of.text(), base)) return *whole;
  const std::optional<double> real = real_of(of);
  if (!real || std::isnan(*real) || std::isinf(*real)) return arguments.get(0, "default", 0);
  if (std::abs(*real) >= 9.2e18) throw TemplateFault("a whole number beyond 64 bits");
  return static_cast<int64_t>(*real);
}

Value filter_float(Interpreter&, const Value& of, Arguments& arguments) {
  arguments.check("float", {"default"});
  const std::optional<double> real = real_of(of);
  return real ? Value(*real) : arguments.get(0, "default", 0.0);
}

Value filter_abs(Interpreter&, const Value& of, Arguments&) {
  if (of.is_undefined()) fail_undefined(of);
  if (!of.is_number()) fail_type(fmt::format("bad operand type for abs(): '{}'", type_name(of)));
  return of.is<double>()    ? Value(std::abs(of.real()))
         : of.integer() < 0 ? negated_number(of, true)
                            : Value(of.integer());
}

// Half goes to the even neighbour of the number as it is written, as Python has it.
double rounded(double number, int64_t digits) {
  if (digits <= 0) {
    const double scale = std::pow(10.0, static_cast<double>(-digits));
    return std::nearbyint(number / scale) * scale;
  }
  const std::string text = fmt::format("{:.{}f}", number, static_cast<int>(std::min<int64_t>(digits, 300)));
  return std::strtod(text.c_str(), nullptr);
}

Value filter_round(Interpreter&, const Value& of, Arguments& arguments) {
  arguments.check("round", {"precision", "method"});
  const int64_t digits = index_of(arguments.get(0, "precision", 0));
  const std::string method = to_text(arguments.get(1, "method", "common"));
  if (of.is_undefined()) fail_undefined(of);
  if (!of.is_number()) fail_type(fmt::format("type {} doesn't define __round__ method", type_name(of)));
  if (method == "common")
    return of.is_integer()
               ? (digits >= 0 ? Value(of.integer()) : Value(static_cast<int64_t>(rounded(of.real(), digits))))
               : Value(rounded(of.real(), digits));
  if (method != "ceil" && method != "floor") throw TemplateFault("method must be common, ceil or floor");
  const double scale = std::pow(10.0, static_cast<double>(digits));
  return (method == "ceil" ? std::ceil(of.real() * scale) : std::floor(of.real() * scale)) / scale;
}

Value filter_tojson(Interpreter&, const Value& of, Arguments& arguments) {
  arguments.check("tojson", {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style{.only_ascii = truth(arguments.get(0, "ensure_ascii", false)),
                  .sort_keys = truth(arguments.get(3, "sort_keys", false))};
  const Value indent = arguments.get(1, "indent", None{});
  if (indent.is_text())
    style.indent = indent.text();
  else if (!indent.is_none())
    style.indent = std::string(static_cast<std::size_t>(std::clamp<int64_t>(index_of(indent), 0, 1000)), ' ');
  if (const Value separators = arguments.get(2, "separators", None{}); !separators.is_none()) {
    const std::vector<Value> two = iterate(separators);
    if (two.size() != 2 || !two[0].is_text() || !two[1].is_text()) fail_type("separators must be two texts");
    style.between = two[0].text();
    style.after_key = two[1].text();
  }
  return Value(to_json(of, style));
}

Value filter_indent(Interpreter&, const Value& of, Arguments& arguments) {
  arguments.check("indent", {"width", "first", "blank"});
  if (!of.is_text()) fail_type(fmt::format("indent is given a {}", type_name(of)));
  const Value width = arguments.get(0, "width", 4);
  if (!width.is_text() && index_of(width) > 1000) throw TemplateFault("an indent of more than 1000 blanks");
  const std::string indent =
      width.is_text() ? width.text()
                      : std::string(static_cast<std::size_t>(std::max<int64_t>(index_of(width), 0)), ' ');
  const bool blank = truth(arguments.get(2, "blank", false));
  const std::vector<std::string> lines = split_lines(of.text() + "\n", false);
  std::string text;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) text += '\n';
    if (i > 0 && (blank || !lines[i].empty())) text += indent;
    text += lines[i];
    check_bytes(text.size());
  }
  return Value(truth(arguments.get(1, "first", false)) ? indent + text : text);
}

Value filter_safe(Interpreter&, const Value& of, Arguments&) {
  return Value(Text{std::make_shared<const std::string>(to_text(of)), true});
}

Value filter_escape(Interpreter&, const Value& of, Arguments&) {
  if (of.is_text() && std::get<Text>(of.data()).safe) return of;
  return binary_result("+", Value(Text{std::make_shared<const std::string>(), true}), Value(to_text(of)));
}

Value filter_format(Interpreter&, const Value& of, Arguments& arguments) {
  if (arguments.named.empty()) return Value(percent_format(to_text(of), Value::tuple(arguments.values)));
  if (!arguments.values.empty())
    throw TemplateFault("can't handle positional and keyword arguments at the same time");
  auto dict = std::make_shared<Dict>();
  for (auto& [name, value] : arguments.named) dict->set(Value(name), value);
  return Value(percent_format(to_text(of), Value(std::move(dict))));
}

Value filter_truncate(Interpreter&, const Value& of, Arguments& arguments) {
  arguments.check("truncate", {"length", "killwords", "end", "leeway"});
  if (!of.is_text()) fail_type(fmt::format("truncate is given a {}", type_name(of)));
  const int64_t most = index_of(arguments.get(0, "length", 255));
  const std::string end = to_text(arguments.get(2, "end", "..."));
  const Value leeway = arguments.get(3, "leeway", None{});
  const int64_t more = leeway.is_none() ? 5 : index_of(leeway), tail = points_of(end);
  if (most < tail || more < 0) throw TemplateFault("truncate is given a length below that of its end");
  if (points_of(of.text()) - more <= most) return of;
  std::string text = of.text().substr(0, byte_of_point(of.text(), most - tail));
  if (!truth(arguments.get(1, "killwords", false)))
    if (const std::size_t blank = text.rfind(' '); blank != std::string::npos) text.resize(blank);
  return Value(text + end);
}

Value filter_wordcount(Interpreter&, const Value& of, Arguments&) {
  const std::string text = to_text(of);
  int64_t count = 0;
  bool inside = false;
  for (std::size_t at = 0; at < text.size();) {
    const uint32_t point = decode_utf8(text, at);
    const bool word = is_letter(point) || is_number_point(point) || point == '_';
    count += word && !inside;
    inside = word;
  }
  return count;
}

Value filter_center(Interpreter& interpreter, const Value& of, Arguments& arguments) {
  arguments.check("center", {"width"});
  Arguments width{.values = {arguments.get(0, "width", 80)}};
  return interpreter.call(method_of_text(Value(to_text(of)), "center"), width);
}

Value filter_attr(Interpreter&, const Value& of, Arguments& arguments) {
  arguments.check("attr", {"name"}, 1);
  if (of.dict()) return method_of_dict(of, to_text(*arguments.find(0, "name")));
  return attribute_of(of, to_text(*arguments.find(0, "name")));
}

}  // namespace

std::span<const NamedBuiltin> filters_of_values() {
  static constexpr NamedBuiltin kFilters[] = {
      {"abs", filter_abs},       {"attr", filter_attr},           {"capitalize", filter_capitalize},
      {"center", filter_center}, {"d", filter_default},           {"default", filter_default},
      {"e", filter_escape},      {"escape", filter_escape},       {"float", filter_float},
      {"format", filter_format}, {"indent", filter_indent},       {"int", filter_int},
      {"lower", filter_lower},   {"replace", filter_replace},     {"round", filter_round},
      {"safe", filter_safe},     {"string", filter_string},       {"title", filter_title},
      {"tojson", filter_tojson}, {"trim", filter_trim},           {"truncate", filter_truncate},
      {"upper", filter_upper},   {"wordcount", filter_wordcount},
  };
  return kFilters;
}

}  // namespace recollect::jinja
