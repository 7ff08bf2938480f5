// How attributes, items and slices are found, and the methods of lists and dicts.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "engine/data/jinja/builtins.h"
#include "engine/data/jinja/interpreter.h"
#include "engine/data/jinja/python_text.h"

namespace recollect::jinja {
namespace {

template <class Function>
Value method(std::string_view name, Function function) {
  return Value(std::make_shared<Callable>(Callable{std::string(name), std::move(function)}));
}

Value missing(const Value& value, std::string_view name) {
  return Value::undefined(fmt::format("'{} object' has no attribute '{}'", type_name(value), name));
}

Value unsafe(const Value& value, std::string_view name) {
  return Value::undefined(
      fmt::format("access to attribute '{}' of '{}' object is unsafe", name, type_name(value)));
}

Value view_of(const Dict& dict, Sequence::Form form) {
  std::vector<Value> items;
  for (const auto& [key, value] : dict.items)
    items.push_back(form == Sequence::Form::kKeys     ? key
                    : form == Sequence::Form::kValues ? value
                                                      : Value::tuple({key, value}));
  return Value::of({.form = form, .items = std::move(items)});
}

// Methods that change what they belong to, which templates may not.
bool changes(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Null where there is no such attribute.
std::optional<Value> own_attribute(const Value& value, std::string_view name) {
  Value found;
  if (Namespace* space = value.space()) {
    for (const auto& [one, field] : space->items)
      if (one == name) return field;
    return std::nullopt;
  }
  if (Loop* loop = value.loop()) return loop->attribute(name, value);
  if (value.is_text()) found = method_of_text(value, name);
  if (value.dict()) found = method_of_dict(value, name);
  if (value.sequence()) found = method_of_list(value, name);
  if (const Callable* callable = value.callable(); callable && name == "name") found = Value(callable->name);
  if (found.is_undefined() && !std::get<Undefined>(found.data()).why) return std::nullopt;
  return found;
}

std::optional<Value> own_item(const Value& value, const Value& key) {
  if (const Dict* dict = value.dict()) {
    if (const Sequence* list = key.sequence(); key.dict() || (list && list->form == Sequence::Form::kList))
      return std::nullopt;
    const Value* found = dict->find(key);
    return found ? std::optional(*found) : std::nullopt;
  }
  if (!key.is_integer()) return std::nullopt;
  const int64_t at = key.integer();
  if (value.is_text()) {
    const int64_t points = points_of(value.text()), from_begin = at < 0 ? at + points : at;
    if (from_begin < 0 || from_begin >= points) return std::nullopt;
    const std::size_t begin = byte_of_point(value.text(), from_begin);
    return Value(split_points(std::string_view(value.text()).substr(begin, 4)).front());
  }
  const Sequence* list = value.sequence();
  if (!list || !list->can_be_indexed()) return std::nullopt;
  const auto size = static_cast<int64_t>(list->items.size());
  const int64_t from_begin = at < 0 ? at + size : at;
  if (from_begin < 0 || from_begin >= size) return std::nullopt;
  return list->items[static_cast<std::size_t>(from_begin)];
}

std::optional<int64_t> bound_of(const Value& value) {
  if (value.is_none()) return std::nullopt;
  if (!value.is_integer()) fail_type("slice indices must be integers or None");
  return value.integer();
}

}  // namespace

Value attribute_of(const Value& value, std::string_view name) {
  if (value.is_undefined()) fail_undefined(value);
  if (auto found = own_attribute(value, name)) return name.starts_with('_') ? unsafe(value, name) : *found;
  if (name.starts_with("__")) return unsafe(value, name);
  if (auto found = own_item(value, Value(name))) return *found;
  return missing(value, name);
}

Value item_of(const Value& value, const Value& key) {
  if (value.is_undefined()) fail_undefined(value);
  if (auto found = own_item(value, key)) return *found;
  if (key.is_text()) {
    if (auto found = own_attribute(value, key.text()))
      return key.text().starts_with('_') ? unsafe(value, key.text()) : *found;
    return missing(value, key.text());
  }
  return Value::undefined(
      fmt::format("{} has no element {}", type_name(value), key.is_number() ? to_text(key) : type_name(key)));
}

Value slice_of(const Value& value, const Value& start, const Value& stop, const Value& step) {
  if (value.is_undefined()) fail_undefined(value);
  const Sequence* list = value.sequence();
  if (!value.is_text() && !(list && list->can_be_indexed()))
    return Value::undefined(fmt::format("a {} is cut, which is no list", type_name(value)));
  const int64_t by = bound_of(step).value_or(1);
  if (by == 0) throw TemplateFault("slice step cannot be zero");
  const std::vector<std::string_view> points =
      value.is_text() ? split_points(value.text()) : std::vector<std::string_view>();
  const auto size = static_cast<int64_t>(value.is_text() ? points.size() : list->items.size());
  const SliceRange range = slice_range(bound_of(start), bound_of(stop), by, size);
  std::string text;
  std::vector<Value> items;
  for (int64_t at = range.start; by > 0 ? at < range.stop : at > range.stop;) {
    if (value.is_text())
      text += points[static_cast<std::size_t>(at)];
    else
      items.push_back(list->items[static_cast<std::size_t>(at)]);
    if (__builtin_add_overflow(at, by, &at)) break;
  }
  if (value.is_text()) return Value(std::move(text));
  return Value::of({.form = list->form == Sequence::Form::kTuple ? list->form : Sequence::Form::kList,
                    .items = std::move(items)});
}

Value path_of(const Value& value, const Value& path, const Value* otherwise) {
  Value at = value;
  const auto step = [&](const Value& key) {
    at = item_of(at, key);
    if (otherwise && at.is_undefined()) at = *otherwise;
  };
  if (path.is_none()) return at;
  if (!path.is_text()) {
    step(path);
    return at;
  }
  for (const std::string& part : split(path.text(), ".", -1, false)) {
    int64_t number = 0;
    const auto read = std::from_chars(part.data(), part.data() + part.size(), number);
    const bool digits =
        !part.empty() && part[0] != '-' && read.ec == std::errc() && read.ptr == part.data() + part.size();
    step(digits ? Value(number) : Value(part));
  }
  return at;
}

Value method_of_dict(const Value& self, std::string_view name) {
  using Form = Sequence::Form;
  if (changes(name, {"clear", "pop", "popitem", "setdefault", "update"})) return unsafe(self, name);
  if (name == "get")
    return method(name, [self](Interpreter&, Arguments& arguments) {
      arguments.check("get", {"key", "default"}, 1);
      const Value* found = self.dict()->find(*arguments.find(0, "key"));
      return found ? *found : arguments.get(1, "default", None{});
    });
  for (const auto& [view, form] :
       {std::pair{"items", Form::kItems}, {"keys", Form::kKeys}, {"values", Form::kValues}})
    if (name == view)
      return method(name, [self, view = view, form = form](Interpreter&, Arguments& arguments) {
        arguments.check(view, {});
        return view_of(*self.dict(), form);
      });
  if (name == "copy") return method(name, [self](Interpreter&, Arguments&) { return self; });
  return {};
}

Value method_of_list(const Value& self, std::string_view name) {
  if (self.sequence()->form > Sequence::Form::kTuple) return {};
  if (self.sequence()->form == Sequence::Form::kList &&
      changes(name, {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"}))
    return unsafe(self, name);
  if (name == "count")
    return method(name, [self](Interpreter&, Arguments& arguments) {
      arguments.check("count", {"value"}, 1);
      const std::vector<Value>& items = self.sequence()->items;
      return Value(static_cast<int64_t>(std::count_if(items.begin(), items.end(), [&](const Value& item) {
        return equal(item, *arguments.find(0, "value"));
      })));
    });
  if (name == "index")
    return method(name, [self](Interpreter&, Arguments& arguments) {
      arguments.check("index", {"value"}, 1);
      const std::vector<Value>& items = self.sequence()->items;
      for (std::size_t i = 0; i < items.size(); ++i)
        if (equal(items[i], *arguments.find(0, "value"))) return Value(static_cast<int64_t>(i));
      throw TemplateFault(fmt::format("{} is not in list", repr(*arguments.find(0, "value"))));
    });
  if (name == "copy" && self.sequence()->form == Sequence::Form::kList)
    return method(name, [self](Interpreter&, Arguments&) { return self; });
  return {};
}

}  // namespace recollect::jinja
