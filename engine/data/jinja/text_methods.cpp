// The methods of texts, by name: Python's str.
#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "engine/data/jinja/builtins.h"
#include "engine/data/jinja/interpreter.h"
#include "engine/data/jinja/python_text.h"
#include "engine/data/tokenizer/unicode.h"

namespace recollect::jinja {
namespace {

using TextMethod = Value (*)(const std::string& self, const Arguments& arguments);

const std::string& text_argument(const Arguments& arguments, std::size_t place, std::string_view name) {
  const Value* found = arguments.find(place, name);
  if (!found) fail_type(fmt::format("the argument {} is missing", name));
  if (!found->is_text()) fail_type(fmt::format("{} must be str, not {}", name, type_name(*found)));
  return found->text();
}

std::optional<std::string_view> optional_text(const Arguments& arguments, std::size_t place,
                                              std::string_view name) {
  const Value* found = arguments.find(place, name);
  if (!found || found->is_none()) return std::nullopt;
  return text_argument(arguments, place, name);
}

int64_t number_argument(const Arguments& arguments, std::size_t place, std::string_view name,
                        int64_t otherwise) {
  const Value* found = arguments.find(place, name);
  return found ? index_of(*found) : otherwise;
}

// The part of the text that count, find, startswith, ... are given as start and end; nothing where start lies behind it.
std::optional<std::string_view> part_of(const std::string& self, const Arguments& arguments, int64_t& start) {
  const auto bound = [&](std::size_t place) -> std::optional<int64_t> {
    const Value* found = arguments.find(place, "");
    if (!found || found->is_none()) return std::nullopt;
    return index_of(*found);
  };
  const std::optional<int64_t> from = bound(1), to = bound(2);
  start = 0;
  if (!from && !to) return self;
  const int64_t points = points_of(self);
  if (from && *from > points) return std::nullopt;
  const SliceRange range = slice_range(from, to, 1, points);
  start = range.start;
  if (range.stop < range.start) return std::nullopt;
  const std::size_t begin = byte_of_point(self, range.start), end = byte_of_point(self, range.stop);
  return std::string_view(self).substr(begin, end - begin);
}

Value stripped(const std::string& self, const Arguments& arguments, bool left, bool right) {
  arguments.check("strip", {"chars"});
  const auto chars = optional_text(arguments, 0, "chars");
  std::string_view text = self;
  if (left) text = strip_left(text, chars);
  if (right) text = strip_right(text, chars);
  return Value(text);
}

Value listed(std::vector<std::string> parts) {
  std::vector<Value> items;
  items.reserve(parts.size());
  for (std::string& part : parts) items.emplace_back(std::move(part));
  return Value::list(std::move(items));
}

Value split_by(const std::string& self, const Arguments& arguments, bool from_right) {
  arguments.check("split", {"sep", "maxsplit"});
  const auto by = optional_text(arguments, 0, "sep");
  if (by && by->empty()) throw TemplateFault("empty separator");
  return listed(split(self, by, number_argument(arguments, 1, "maxsplit", -1), from_right));
}

Value begins_or_ends(const std::string& self, const Arguments& arguments, bool begins) {
  int64_t start = 0;
  const auto part = part_of(self, arguments, start);
  const Value* with = arguments.find(0, "prefix");
  if (!with) fail_type("startswith and endswith take a text");
  const auto fits = [&](const Value& one) {
    if (!one.is_text()) fail_type("startswith and endswith take a text, or a tuple of texts");
    return part && (begins ? part->starts_with(one.text()) : part->ends_with(one.text()));
  };
  if (const Sequence* list = with->sequence(); list && list->form == Sequence::Form::kTuple)
    return std::any_of(list->items.begin(), list->items.end(), fits);
  return fits(*with);
}

// In code points; -1: not there.
int64_t place_of(const std::string& self, const Arguments& arguments, bool last) {
  int64_t start = 0;
  const auto part = part_of(self, arguments, start);
  if (!part) return -1;
  const std::string& wanted = text_argument(arguments, 0, "sub");
  const std::size_t at = last ? part->rfind(wanted) : part->find(wanted);
  return at == std::string_view::npos ? -1 : start + points_of(part->substr(0, at));
}

Value count_in(const std::string& self, const Arguments& arguments) {
  int64_t start = 0;
  const auto part = part_of(self, arguments, start);
  const std::string& wanted = text_argument(arguments, 0, "sub");
  if (!part) return 0;
  if (wanted.empty()) return points_of(*part) + 1;
  int64_t count = 0;
  for (std::size_t at = part->find(wanted); at != std::string_view::npos;
       at = part->find(wanted, at + wanted.size()))
    ++count;
  return count;
}

Value parts_around(const std::string& self, const Arguments& arguments, bool last) {
  const std::string& by = text_argument(arguments, 0, "sep");
  if (by.empty()) throw TemplateFault("empty separator");
  const std::size_t at = last ? self.rfind(by) : self.find(by);
  if (at == std::string::npos)
    return last ? Value::tuple({Value(""), Value(""), Value(self)})
                : Value::tuple({Value(self), Value(""), Value("")});
  return Value::tuple({Value(self.substr(0, at)), Value(by), Value(self.substr(at + by.size()))});
}

// Whether there is a character, and all of them are so.
Value all_points(const std::string& self, bool (*fits)(uint32_t)) {
  for (std::size_t at = 0; at < self.size();)
    if (!fits(decode_utf8(self, at))) return false;
  return !self.empty();
}

Value padded(const std::string& self, const Arguments& arguments, int side) {
  const int64_t width = number_argument(arguments, 0, "width", 0), more = width - points_of(self);
  const Value* given = arguments.find(1, "fillchar");
  const std::string fill = given ? text_argument(arguments, 1, "fillchar") : " ";
  if (points_of(fill) != 1) fail_type("The fill character must be exactly one character long");
  if (more <= 0) return Value(self);
  check_bytes(self.size() + static_cast<std::size_t>(std::min<int64_t>(more, 1 << 30)) * fill.size());
  // Python's center: of an odd rest the larger part stands left where the width is odd.
  const int64_t left = side < 0 ? 0 : side > 0 ? more : more / 2 + (more & width & 1);
  std::string text;
  for (int64_t i = 0; i < left; ++i) text += fill;
  text += self;
  for (int64_t i = left; i < more; ++i) text += fill;
  return Value(std::move(text));
}

Value filled_with_zeros(const std::string& self, const Arguments& arguments) {
  const int64_t more = number_argument(arguments, 0, "width", 0) - points_of(self);
  if (more <= 0) return Value(self);
  check_bytes(self.size() + static_cast<std::size_t>(std::min<int64_t>(more, 1 << 30)));
  const bool sign = self.starts_with('-') || self.starts_with('+');
  return Value(self.substr(0, sign) + std::string(static_cast<std::size_t>(more), '0') + self.substr(sign));
}

Value joined(const std::string& self, const Arguments& arguments) {
  arguments.check("join", {"iterable"}, 1);
  std::string text;
  bool first = true;
  for (const Value& item : iterate(*arguments.find(0, "iterable"))) {
    if (!item.is_text())
      fail_type(fmt::format("sequence item: expected str instance, {} found", type_name(item)));
    if (!first) text += self;
    first = false;
    text += item.text();
    check_bytes(text.size());
  }
  return Value(std::move(text));
}

Value replaced_in(const std::string& self, const Arguments& arguments) {
  arguments.check("replace", {"old", "new", "count"}, 2);
  const std::string& by = text_argument(arguments, 1, "new");
  if (by.size() > 1 && self.size() + 1 > kMostBytes / by.size()) check_bytes(kMostBytes + 1);
  return Value(
      replaced(self, text_argument(arguments, 0, "old"), by, number_argument(arguments, 2, "count", -1)));
}

Value index_in(const std::string& self, const Arguments& arguments, bool last) {
  const int64_t at = place_of(self, arguments, last);
  if (at < 0) throw TemplateFault("substring not found");
  return at;
}

// islower and isupper: there is a letter with case, and none of the other one.
Value has_only_case(const std::string& self, bool lower) {
  const std::string as_lower = lower_case(self), as_upper = upper_case(self);
  return as_lower != as_upper && self == (lower ? as_lower : as_upper);
}

bool is_letter_or_number(uint32_t point) { return is_letter(point) || is_number_point(point); }
bool is_digit_point(uint32_t point) {
  return point < 0x80 ? point >= '0' && point <= '9' : is_number_point(point);
}

struct NamedMethod {
  std::string_view name;
  TextMethod method;
};

#define RECOLLECT_METHOD(...)                                                                \
  +[]([[maybe_unused]] const std::string& s, [[maybe_unused]] const Arguments& a) -> Value { \
    return __VA_ARGS__;                                                                      \
  }
constexpr NamedMethod kTextMethods[] = {
    {"strip", RECOLLECT_METHOD(stripped(s, a, true, true))},
    {"lstrip", RECOLLECT_METHOD(stripped(s, a, true, false))},
    {"rstrip", RECOLLECT_METHOD(stripped(s, a, false, true))},
    {"split", RECOLLECT_METHOD(split_by(s, a, false))},
    {"rsplit", RECOLLECT_METHOD(split_by(s, a, true))},
    {"splitlines", RECOLLECT_METHOD(listed(split_lines(s, truth(a.get(0, "keepends", false)))))},
    {"startswith", RECOLLECT_METHOD(begins_or_ends(s, a, true))},
    {"endswith", RECOLLECT_METHOD(begins_or_ends(s, a, false))},
    {"replace", RECOLLECT_METHOD(replaced_in(s, a))},
    {"upper", RECOLLECT_METHOD(Value(upper_case(s)))},
    {"lower", RECOLLECT_METHOD(Value(lower_case(s)))},
    {"casefold", RECOLLECT_METHOD(Value(lower_case(s)))},
    {"title", RECOLLECT_METHOD(Value(title_case(s)))},
    {"capitalize", RECOLLECT_METHOD(Value(capitalized(s)))},
    {"join", RECOLLECT_METHOD(joined(s, a))},
    {"find", RECOLLECT_METHOD(Value(place_of(s, a, false)))},
    {"rfind", RECOLLECT_METHOD(Value(place_of(s, a, true)))},
    {"index", RECOLLECT_METHOD(index_in(s, a, false))},
    {"rindex", RECOLLECT_METHOD(index_in(s, a, true))},
    {"count", RECOLLECT_METHOD(count_in(s, a))},
    {"partition", RECOLLECT_METHOD(parts_around(s, a, false))},
    {"rpartition", RECOLLECT_METHOD(parts_around(s, a, true))},
    {"removeprefix",
     RECOLLECT_METHOD(Value(
         s.starts_with(text_argument(a, 0, "prefix")) ? s.substr(text_argument(a, 0, "prefix").size()) : s))},
    {"removesuffix", RECOLLECT_METHOD(Value(s.ends_with(text_argument(a, 0, "suffix"))
                                                ? s.substr(0, s.size() - text_argument(a, 0, "suffix").size())
                                                : s))},
    {"ljust", RECOLLECT_METHOD(padded(s, a, -1))},
    {"rjust", RECOLLECT_METHOD(padded(s, a, 1))},
    {"center", RECOLLECT_METHOD(padded(s, a, 0))},
    {"zfill", RECOLLECT_METHOD(filled_with_zeros(s, a))},
    {"isspace", RECOLLECT_METHOD(all_points(s, is_blank_point))},
    {"isalpha", RECOLLECT_METHOD(all_points(s, is_letter))},
    {"isalnum", RECOLLECT_METHOD(all_points(s, is_letter_or_number))},
    {"isnumeric", RECOLLECT_METHOD(all_points(s, is_number_point))},
    {"isdigit", RECOLLECT_METHOD(all_points(s, is_digit_point))},
    {"isdecimal", RECOLLECT_METHOD(all_points(s, is_digit_point))},
    {"islower", RECOLLECT_METHOD(has_only_case(s, true))},
    {"isupper", RECOLLECT_METHOD(has_only_case(s, false))},
    {"isascii", RECOLLECT_METHOD(Value(std::all_of(s.begin(), s.end(), is_ascii)))},
    {"format", RECOLLECT_METHOD(Value(brace_format(s, a)))},
};
#undef RECOLLECT_METHOD

}  // namespace

Value method_of_text(const Value& self, std::string_view name) {
  for (const NamedMethod& one : kTextMethods)
    if (one.name == name)
      return Value(std::make_shared<Callable>(Callable{
          std::string(name), [self, method = one.method](Interpreter& interpreter, Arguments& arguments) {
            interpreter.spend(weight_of(self));
            return method(self.text(), arguments);
          }}));
  return {};
}

}  // namespace recollect::jinja
