#include "engine/data/jinja/value.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "engine/data/jinja/loop.h"
#include "engine/data/jinja/python_text.h"

namespace recollect::jinja {
namespace {

constexpr std::size_t kMostDepth = 100;  // of lists in lists

void check_weight(std::size_t weight) {
  if (weight > kMostWeight) throw TemplateFault("a list or a dict that is too large");
}

bool equal_items(const std::vector<Value>& a, const std::vector<Value>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), equal);
}

bool equal_dicts(const Dict& a, const Dict& b) {
  return a.items.size() == b.items.size() &&
         std::all_of(a.items.begin(), a.items.end(), [&](const auto& item) {
           const Value* other = b.find(item.first);
           return other && equal(item.second, *other);
         });
}

void append_repr(const Value& value, std::string& text, std::size_t depth);

void append_reprs(const std::vector<Value>& items, const char* open, const char* close, std::string& text,
                  std::size_t depth) {
  text += open;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) text += ", ";
    append_repr(items[i], text, depth + 1);
  }
  text += close;
}

void append_sequence(const Sequence& list, std::string& text, std::size_t depth) {
  using Form = Sequence::Form;
  switch (list.form) {
    case Form::kList:
      return append_reprs(list.items, "[", "]", text, depth);
    case Form::kTuple:
      return append_reprs(list.items, "(", list.items.size() == 1 ? ",)" : ")", text, depth);
    case Form::kRange:
      text += list.step == 1 ? fmt::format("range({}, {})", list.start, list.stop)
                             : fmt::format("range({}, {}, {})", list.start, list.stop, list.step);
      return;
    case Form::kKeys:
      return append_reprs(list.items, "dict_keys([", "])", text, depth);
    case Form::kValues:
      return append_reprs(list.items, "dict_values([", "])", text, depth);
    case Form::kItems:
      return append_reprs(list.items, "dict_items([", "])", text, depth);
    case Form::kIterator:
      throw TemplateFault("an iterator is printed", "pass it through the filter list or join first");
  }
}

void append_repr(const Value& value, std::string& text, std::size_t depth) {
  check_bytes(text.size());
  if (depth > kMostDepth) throw TemplateFault("lists that lie too deep in one another");
  if (value.is_text()) {
    text += repr_of_text(value.text());
  } else if (const Sequence* list = value.sequence()) {
    append_sequence(*list, text, depth);
  } else if (const Dict* dict = value.dict()) {
    text += '{';
    for (std::size_t i = 0; i < dict->items.size(); ++i) {
      if (i > 0) text += ", ";
      append_repr(dict->items[i].first, text, depth + 1);
      text += ": ";
      append_repr(dict->items[i].second, text, depth + 1);
    }
    text += '}';
  } else {
    text += value.is_undefined() ? "Undefined" : to_text(value);
  }
}

}  // namespace

Value Value::of(Sequence sequence) {
  for (const Value& item : sequence.items) check_weight(sequence.weight += weight_of(item));
  return Value(std::make_shared<Sequence>(std::move(sequence)));
}
Value Value::list(std::vector<Value> items) {
  return of({.form = Sequence::Form::kList, .items = std::move(items)});
}
Value Value::tuple(std::vector<Value> items) {
  return of({.form = Sequence::Form::kTuple, .items = std::move(items)});
}
Value Value::iterator(std::vector<Value> items) {
  return of({.form = Sequence::Form::kIterator, .items = std::move(items)});
}

std::size_t weight_of(const Value& value) {
  if (value.is_text()) return 1 + value.text().size() / 32;
  if (const Sequence* list = value.sequence()) return list->weight;
  if (const Dict* dict = value.dict()) return dict->weight;
  return 1;
}

void check_bytes(std::size_t bytes) {
  if (bytes > kMostBytes) throw TemplateFault("a text of more than 64 MiB");
}

const Value* Dict::find(const Value& key) const {
  for (const auto& [one, value] : items)
    if (equal(one, key)) return &value;
  return nullptr;
}

const Value* Dict::named(std::string_view key) const {
  for (const auto& [one, value] : items)
    if (one.is_text() && one.text() == key) return &value;
  return nullptr;
}

void Dict::set(Value key, Value value) {
  const Sequence* list = key.sequence();
  if (key.dict() || (list && list->form == Sequence::Form::kList))
    fail_type(fmt::format("unhashable type: '{}'", type_name(key)));
  check_weight(weight += weight_of(key) + weight_of(value));
  for (auto& [one, old] : items)
    if (equal(one, key)) {
      old = std::move(value);
      return;
    }
  items.emplace_back(std::move(key), std::move(value));
}

const Value* Arguments::find(std::size_t place, std::string_view name) const {
  if (place < values.size()) return &values[place];
  for (const auto& [one, value] : named)
    if (one == name) return &value;
  return nullptr;
}

Value Arguments::get(std::size_t place, std::string_view name, Value otherwise) const {
  const Value* found = find(place, name);
  return found ? *found : otherwise;
}

void Arguments::check(std::string_view function, std::initializer_list<std::string_view> names,
                      std::size_t least) const {
  if (values.size() > names.size())
    fail_type(fmt::format("{} takes {} arguments, and has {}", function, names.size(), values.size()));
  for (const auto& [name, value] : named) {
    const auto at = std::find(names.begin(), names.end(), name);
    if (at == names.end()) fail_type(fmt::format("{} has no argument called {}", function, name));
    if (static_cast<std::size_t>(at - names.begin()) < values.size())
      fail_type(fmt::format("{} has its argument {} twice", function, name));
  }
  for (std::size_t i = 0; i < least; ++i)
    if (!find(i, names.begin()[i]))
      fail_type(fmt::format("{} lacks its argument {}", function, names.begin()[i]));
}

void fail_type(std::string what) { throw TemplateFault(what); }

void fail_undefined(const Value& value) {
  const Undefined& undefined = std::get<Undefined>(value.data());
  throw TemplateFault(undefined.why ? *undefined.why : "a value that is undefined");
}

std::string_view type_name(const Value& value) {
  constexpr std::string_view kNames[] = {"Undefined", "NoneType",    "bool",    "int",
                                         "float",     "str",         "list",    "dict",
                                         "Namespace", "LoopContext", "function"};
  if (const Sequence* list = value.sequence()) {
    constexpr std::string_view kForms[] = {"list",        "tuple",      "range",    "dict_keys",
                                           "dict_values", "dict_items", "generator"};
    return kForms[static_cast<std::size_t>(list->form)];
  }
  return kNames[value.data().index()];
}

bool truth(const Value& value) {
  if (value.is<bool>()) return std::get<bool>(value.data());
  if (value.is_undefined() || value.is_none()) return false;
  if (value.is_text()) return !value.text().empty();
  if (value.is_number()) return value.real() != 0;
  if (const Sequence* list = value.sequence())
    return list->form == Sequence::Form::kIterator || !list->items.empty();
  if (const Dict* dict = value.dict()) return !dict->items.empty();
  return true;
}

bool equal(const Value& a, const Value& b) {
  if (a.is_integer() && b.is_integer()) return a.integer() == b.integer();
  if (a.is_number() && b.is_number()) return a.real() == b.real();
  if (a.data().index() != b.data().index()) return false;
  if (a.is_text()) return a.text() == b.text();
  if (const Sequence* list = a.sequence()) {
    const Sequence* other = b.sequence();
    if (list == other) return true;
    const bool by_items = list->form <= Sequence::Form::kRange;
    return list->form == other->form && by_items && equal_items(list->items, other->items);
  }
  if (const Dict* dict = a.dict()) return dict == b.dict() || equal_dicts(*dict, *b.dict());
  if (a.space() || a.loop()) return a.space() == b.space() && a.loop() == b.loop();
  if (a.callable()) return a.callable() == b.callable();
  return true;
}

bool less(const Value& a, const Value& b, const char* sign) {
  for (const Value* value : {&a, &b})
    if (value->is_undefined()) fail_undefined(*value);
  if (a.is_integer() && b.is_integer()) return a.integer() < b.integer();
  if (a.is_number() && b.is_number()) return a.real() < b.real();
  if (a.is_text() && b.is_text()) return a.text() < b.text();
  const Sequence *left = a.sequence(), *right = b.sequence();
  if (left && right && left->form == right->form && left->form <= Sequence::Form::kTuple) {
    for (std::size_t i = 0; i < std::min(left->items.size(), right->items.size()); ++i)
      if (!equal(left->items[i], right->items[i])) return less(left->items[i], right->items[i], sign);
    return left->items.size() < right->items.size();
  }
  fail_type(
      fmt::format("'{}' not supported between instances of '{}' and '{}'", sign, type_name(a), type_name(b)));
}

int64_t length(const Value& value) {
  if (value.is_undefined()) return 0;
  if (value.is_text()) return points_of(value.text());
  if (const Sequence* list = value.sequence(); list && list->form != Sequence::Form::kIterator)
    return static_cast<int64_t>(list->items.size());
  if (const Dict* dict = value.dict()) return static_cast<int64_t>(dict->items.size());
  if (Loop* loop = value.loop()) return loop->length();
  fail_type(fmt::format("object of type '{}' has no len()", type_name(value)));
}

bool can_iterate(const Value& value) {
  return value.is_undefined() || value.is_text() || value.sequence() || value.dict() || value.loop();
}

std::vector<Value> iterate(const Value& value) {
  if (value.is_undefined()) return {};
  std::vector<Value> items;
  if (value.is_text()) {
    for (const std::string_view point : split_points(value.text())) items.emplace_back(point);
  } else if (Sequence* list = value.sequence()) {
    if (list->form != Sequence::Form::kIterator) return list->items;
    items.assign(list->items.begin() + static_cast<std::ptrdiff_t>(list->next), list->items.end());
    list->next = list->items.size();
  } else if (const Dict* dict = value.dict()) {
    for (const auto& item : dict->items) items.push_back(item.first);
  } else {
    fail_type(fmt::format("'{}' object is not iterable", type_name(value)));
  }
  return items;
}

bool contains(const Value& container, const Value& item) {
  if (container.is_text()) {
    if (!item.is_text())
      fail_type(fmt::format("'in <string>' requires string as left operand, not {}", type_name(item)));
    return container.text().find(item.text()) != std::string::npos;
  }
  if (const Dict* dict = container.dict()) return dict->find(item) != nullptr;
  if (!can_iterate(container))
    fail_type(fmt::format("argument of type '{}' is not iterable", type_name(container)));
  const std::vector<Value> items = iterate(container);
  return std::any_of(items.begin(), items.end(), [&](const Value& one) { return equal(one, item); });
}

int64_t index_of(const Value& value) {
  if (value.is_undefined()) fail_undefined(value);
  if (!value.is_integer())
    fail_type(fmt::format("'{}' object cannot be interpreted as an integer", type_name(value)));
  return value.integer();
}

std::string real_text(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  char shortest[32];
  const auto end = std::to_chars(shortest, shortest + sizeof shortest, number, std::chars_format::scientific);
  const std::string_view text(shortest, static_cast<std::size_t>(end.ptr - shortest));
  const std::size_t e = text.find('e');
  int exponent = 0;
  const char* digits = text.data() + e + (text[e + 1] == '+' ? 2 : 1);
  std::from_chars(digits, text.data() + text.size(), exponent);
  if (exponent < -4 || exponent >= 16) return std::string(text);
  char plain[64];
  const auto fixed = std::to_chars(plain, plain + sizeof plain, number, std::chars_format::fixed);
  std::string result(plain, fixed.ptr);
  if (result.find('.') == std::string::npos) result += ".0";
  return result;
}

std::string to_text(const Value& value) {
  if (value.is_text()) return value.text();
  if (value.is_undefined()) return "";
  if (value.is_none()) return "None";
  if (value.is<bool>()) return std::get<bool>(value.data()) ? "True" : "False";
  if (value.is<int64_t>()) return fmt::to_string(value.integer());
  if (value.is<double>()) return real_text(value.real());
  if (value.space() || value.loop() || value.callable())
    throw TemplateFault(fmt::format("a {} is printed, which is no text", type_name(value)));
  return repr(value);
}

std::string repr(const Value& value) {
  std::string text;
  append_repr(value, text, 0);
  return text;
}

}  // namespace recollect::jinja
