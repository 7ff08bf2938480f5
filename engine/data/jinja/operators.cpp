// What Python's operators make of values.
#include <cmath>

#include <fmt/format.h>

#include "engine/data/jinja/builtins.h"
#include "engine/data/jinja/python_text.h"

namespace recollect::jinja {
namespace {

[[noreturn]] void fail_operands(std::string_view sign, const Value& a, const Value& b) {
  fail_type(
      fmt::format("unsupported operand type(s) for {}: '{}' and '{}'", sign, type_name(a), type_name(b)));
}

[[noreturn]] void fail_overflow() { throw TemplateFault("a whole number beyond 64 bits"); }

int64_t floor_quotient(int64_t a, int64_t b) {
  if (a == INT64_MIN && b == -1) fail_overflow();
  const int64_t quotient = a / b;
  return quotient - (a % b != 0 && (a < 0) != (b < 0));
}

Value whole_power(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) throw TemplateFault("0 to a negative power");
    return std::pow(static_cast<double>(base), static_cast<double>(exponent));
  }
  int64_t result = 1;
  for (int64_t i = 0; i < exponent && !(base == 0 || base == 1); ++i) {
    if (base == -1) return exponent % 2 == 0 ? 1 : -1;
    if (__builtin_mul_overflow(result, base, &result)) fail_overflow();
  }
  return exponent > 0 && base == 0 ? 0 : result;
}

Value whole_result(std::string_view sign, int64_t a, int64_t b) {
  int64_t result = 0;
  if (sign == "+"   ? __builtin_add_overflow(a, b, &result)
      : sign == "-" ? __builtin_sub_overflow(a, b, &result)
      : sign == "*" ? __builtin_mul_overflow(a, b, &result)
                    : false)
    fail_overflow();
  if (sign == "+" || sign == "-" || sign == "*") return result;
  if (sign == "**") return whole_power(a, b);
  if (b == 0) throw TemplateFault("a division by zero");
  if (sign == "/") return static_cast<double>(a) / static_cast<double>(b);
  return sign == "//" ? floor_quotient(a, b) : (b == -1 ? 0 : a - floor_quotient(a, b) * b);
}

Value real_result(std::string_view sign, double a, double b) {
  if (sign == "+") return a + b;
  if (sign == "-") return a - b;
  if (sign == "*") return a * b;
  if (sign == "**") return std::pow(a, b);
  if (b == 0) throw TemplateFault("a division by zero");
  if (sign == "/") return a / b;
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  if (sign == "%") return rest == 0 ? std::copysign(0.0, b) : rest;
  return std::floor((a - rest) / b + 0.5);
}

Value repeated(const Value& value, int64_t count) {
  const std::size_t times = count > 0 ? static_cast<std::size_t>(count) : 0;
  if (value.is_text()) {
    if (times > 0 && value.text().size() > kMostBytes / times) check_bytes(kMostBytes + 1);
    std::string text;
    for (std::size_t i = 0; i < times && !value.text().empty(); ++i) text += value.text();
    return Value(std::move(text));
  }
  const Sequence& list = *value.sequence();
  if (times > 0 && list.weight > kMostWeight / times) throw TemplateFault("a list that is too large");
  std::vector<Value> items;
  for (std::size_t i = 0; i < times && !list.items.empty(); ++i)
    items.insert(items.end(), list.items.begin(), list.items.end());
  return Value::of({.form = list.form, .items = std::move(items)});
}

// Of texts one of which the filter `safe` has marked: the other's signs are written as HTML has them, as Jinja does.
std::string escaped_unless_safe(const Value& value) {
  const Text& text = std::get<Text>(value.data());
  if (text.safe) return *text.bytes;
  std::string result;
  for (const char c : *text.bytes)
    result += c == '&'    ? "&amp;"
              : c == '<'  ? "&lt;"
              : c == '>'  ? "&gt;"
              : c == '"'  ? "&#34;"
              : c == '\'' ? "&#39;"
                          : std::string(1, c);
  return result;
}

Value joined_texts(const Value& a, const Value& b) {
  check_bytes(a.text().size() + b.text().size());
  if (std::get<Text>(a.data()).safe || std::get<Text>(b.data()).safe)
    return Value(
        Text{std::make_shared<const std::string>(escaped_unless_safe(a) + escaped_unless_safe(b)), true});
  return Value(a.text() + b.text());
}

bool is_repeatable(const Value& value) {
  return value.is_text() || (value.sequence() && value.sequence()->form <= Sequence::Form::kTuple);
}

}  // namespace

Value binary_result(std::string_view sign, const Value& a, const Value& b) {
  if (a.is_undefined()) fail_undefined(a);
  if (sign == "%" && a.is_text()) return Value(percent_format(a.text(), b));
  if (b.is_undefined()) fail_undefined(b);
  if (a.is_integer() && b.is_integer()) return whole_result(sign, a.integer(), b.integer());
  if (a.is_number() && b.is_number()) return real_result(sign, a.real(), b.real());
  if (sign == "+" && a.is_text() && b.is_text()) return joined_texts(a, b);
  const Sequence *left = a.sequence(), *right = b.sequence();
  if (sign == "+" && left && right && left->form == right->form && left->form <= Sequence::Form::kTuple) {
    std::vector<Value> items = left->items;
    items.insert(items.end(), right->items.begin(), right->items.end());
    return Value::of({.form = left->form, .items = std::move(items)});
  }
  if (sign == "*" && is_repeatable(a) && b.is_integer()) return repeated(a, b.integer());
  if (sign == "*" && is_repeatable(b) && a.is_integer()) return repeated(b, a.integer());
  if (sign == "+" && a.is_text())
    fail_type(fmt::format("can only concatenate str (not \"{}\") to str", type_name(b)));
  fail_operands(sign, a, b);
}

Value negated_number(const Value& value, bool negative) {
  if (value.is_undefined()) fail_undefined(value);
  if (!value.is_number())
    fail_type(fmt::format("bad operand type for unary {}: '{}'", negative ? '-' : '+', type_name(value)));
  if (value.is<double>()) return negative ? -value.real() : value.real();
  if (negative && value.integer() == INT64_MIN) fail_overflow();
  return negative ? -value.integer() : value.integer();
}

bool compare_result(std::string_view sign, const Value& a, const Value& b) {
  if (sign == "==") return equal(a, b);
  if (sign == "!=") return !equal(a, b);
  if (sign == "in") return contains(b, a);
  if (sign == "not in") return !contains(b, a);
  if (sign == "<") return less(a, b, "<");
  if (sign == ">") return less(b, a, ">");
  // Of what is no number at all nothing holds.
  const bool unordered = a.is_number() && b.is_number() && (std::isnan(a.real()) || std::isnan(b.real()));
  if (sign == "<=") return !less(b, a, "<=") && !unordered;
  return !less(a, b, ">=") && !unordered;
}

}  // namespace recollect::jinja
