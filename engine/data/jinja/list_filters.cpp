// Filters of lists, and finding a filter by its name.
#include <algorithm>

#include <fmt/format.h>

#include "engine/data/jinja/builtins.h"
#include "engine/data/jinja/filter_tables.h"
#include "engine/data/jinja/interpreter.h"
#include "engine/data/jinja/python_text.h"

namespace recollect::jinja {
namespace {

Value filter_length(Interpreter&, const Value& of, Arguments&) { return length(of); }
Value filter_list(Interpreter&, const Value& of, Arguments&) { return Value::list(iterate(of)); }

Value filter_first(Interpreter&, const Value& of, Arguments&) {
  if (Sequence* list = of.sequence();
      list && list->form == Sequence::Form::kIterator && list->next < list->items.size())
    return list->items[list->next++];
  const std::vector<Value> items = iterate(of);
  return items.empty() ? Value::undefined("No first item, sequence was empty.") : items.front();
}

Value filter_last(Interpreter&, const Value& of, Arguments&) {
  if (const Sequence* list = of.sequence(); list && list->form == Sequence::Form::kIterator)
    fail_type("the last one of what map, select and their like give: pass it through the filter list first");
  if (of.is_undefined()) fail_undefined(of);
  const std::vector<Value> items = iterate(of);
  return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.back();
}

Value filter_reverse(Interpreter&, const Value& of, Arguments&) {
  if (of.is_text()) {
    std::string text;
    const std::vector<std::string_view> points = split_points(of.text());
    for (auto point = points.rbegin(); point != points.rend(); ++point) text += *point;
    return Value(std::move(text));
  }
  std::vector<Value> items = iterate(of);
  std::reverse(items.begin(), items.end());
  return Value::iterator(std::move(items));
}

Value filter_join(Interpreter&, const Value& of, Arguments& arguments) {
  arguments.check("join", {"d", "attribute"});
  const std::string between = to_text(arguments.get(0, "d", ""));
  const Value attribute = arguments.get(1, "attribute", None{});
  std::string text;
  bool first = true;
  for (const Value& item : iterate(of)) {
    if (!first) text += between;
    first = false;
    text += to_text(attribute.is_none() ? item : path_of(item, attribute));
    check_bytes(text.size());
  }
  return Value(std::move(text));
}

Value filter_items(Interpreter&, const Value& of, Arguments&) {
  if (of.is_undefined()) return Value::iterator({});
  if (!of.dict()) fail_type("Can only get item pairs from a mapping.");
  std::vector<Value> items;
  for (const auto& [key, value] : of.dict()->items) items.push_back(Value::tuple({key, value}));
  return Value::iterator(std::move(items));
}

Value without_case(const Value& value) { return value.is_text() ? Value(lower_case(value.text())) : value; }

// Stable, as sorted() is, whatever the order; a fault leaves nothing behind.
template <class Key>
std::vector<Value> sorted_by(std::vector<Value> items, bool reverse, Key key) {
  std::vector<std::pair<Value, std::size_t>> keys;
  for (std::size_t i = 0; i < items.size(); ++i) keys.emplace_back(key(items[i]), i);
  if (!keys.empty()) static_cast<void>(less(keys.front().first, keys.back().first));
  std::stable_sort(keys.begin(), keys.end(), [reverse](const auto& a, const auto& b) {
    return reverse ? less(b.first, a.first) : less(a.first, b.first);
  });
  std::vector<Value> result;
  for (const auto& [unused, at] : keys) result.push_back(items[at]);
  return result;
}

Value filter_sort(Interpreter& interpreter, const Value& of, Arguments& arguments) {
  arguments.check("sort", {"reverse", "case_sensitive", "attribute"});
  const bool sensitive = truth(arguments.get(1, "case_sensitive", false));
  const Value attribute = arguments.get(2, "attribute", None{});
  const std::vector<std::string> paths =
      attribute.is_text() ? split(attribute.text(), ",", -1, false) : std::vector<std::string>();
  interpreter.spend(20 * weight_of(of));
  return Value::list(
      sorted_by(iterate(of), truth(arguments.get(0, "reverse", false)), [&](const Value& item) {
        std::vector<Value> keys;
        for (const std::string& path : paths) keys.push_back(path_of(item, Value(path)));
        if (paths.empty()) keys.push_back(path_of(item, attribute));
        if (!sensitive)
          for (Value& key : keys) key = without_case(key);
        return Value::list(std::move(keys));
      }));
}

Value filter_dictsort(Interpreter& interpreter, const Value& of, Arguments& arguments) {
  arguments.check("dictsort", {"case_sensitive", "by", "reverse"});
  const std::string by = to_text(arguments.get(1, "by", "key"));
  if (by != "key" && by != "value") throw TemplateFault("You can only sort by either \"key\" or \"value\"");
  if (of.is_undefined()) fail_undefined(of);
  if (!of.dict()) fail_type(fmt::format("dictsort is given a {}", type_name(of)));
  const bool sensitive = truth(arguments.get(0, "case_sensitive", false));
  interpreter.spend(20 * weight_of(of));
  std::vector<Value> items;
  for (const auto& [key, value] : of.dict()->items) items.push_back(Value::tuple({key, value}));
  return Value::list(
      sorted_by(std::move(items), truth(arguments.get(2, "reverse", false)), [&](const Value& item) {
        const Value& key = item.sequence()->items[by == "value"];
        return sensitive ? key : without_case(key);
      }));
}

Value filter_unique(Interpreter& interpreter, const Value& of, Arguments& arguments) {
  arguments.check("unique", {"case_sensitive", "attribute"});
  const bool sensitive = truth(arguments.get(0, "case_sensitive", false));
  const Value attribute = arguments.get(1, "attribute", None{});
  std::vector<Value> seen, items;
  for (const Value& item : iterate(of)) {
    interpreter.spend(seen.size() / 4);
    Value key = path_of(item, attribute);
    if (!sensitive) key = without_case(key);
    if (std::any_of(seen.begin(), seen.end(), [&](const Value& one) { return equal(one, key); })) continue;
    seen.push_back(std::move(key));
    items.push_back(item);
  }
  return Value::iterator(std::move(items));
}

Value extreme(const Value& of, Arguments& arguments, bool largest) {
  arguments.check(largest ? "max" : "min", {"case_sensitive", "attribute"});
  const bool sensitive = truth(arguments.get(0, "case_sensitive", false));
  const Value attribute = arguments.get(1, "attribute", None{});
  Value best = Value::undefined("No aggregated item, sequence was empty."), best_key;
  bool first = true;
  for (const Value& item : iterate(of)) {
    Value key = path_of(item, attribute);
    if (!sensitive) key = without_case(key);
    if (first || (largest ? less(best_key, key, ">") : less(key, best_key))) {
      best = item;
      best_key = std::move(key);
    }
    first = false;
  }
  return best;
}
Value filter_max(Interpreter&, const Value& of, Arguments& arguments) { return extreme(of, arguments, true); }
Value filter_min(Interpreter&, const Value& of, Arguments& arguments) {
  return extreme(of, arguments, false);
}

Value filter_sum(Interpreter&, const Value& of, Arguments& arguments) {
  arguments.check("sum", {"attribute", "start"});
  const Value attribute = arguments.get(0, "attribute", None{});
  Value sum = arguments.get(1, "start", 0);
  if (sum.is_text()) fail_type("sum() can't sum strings");
  for (const Value& item : iterate(of)) sum = binary_result("+", sum, path_of(item, attribute));
  return sum;
}

Value filter_map(Interpreter& interpreter, const Value& of, Arguments& arguments) {
  std::vector<Value> items;
  if (!truth(of)) return Value::iterator({});
  if (arguments.values.empty()) {
    arguments.check("map", {"attribute", "default"}, 1);
    const Value* otherwise = arguments.find(1, "default");
    if (otherwise && otherwise->is_none()) otherwise = nullptr;
    for (const Value& item : iterate(of))
      items.push_back(path_of(item, *arguments.find(0, "attribute"), otherwise));
    return Value::iterator(std::move(items));
  }
  const std::string name = to_text(arguments.values[0]);
  const Builtin filter = find_filter(name);
  if (!filter) throw TemplateFault(fmt::format("No filter named '{}'.", name));
  Arguments rest = arguments;
  rest.values.erase(rest.values.begin());
  for (const Value& item : iterate(of)) {
    interpreter.spend(1 + weight_of(item));
    Arguments own = rest;
    items.push_back(filter(interpreter, item, own));
  }
  return Value::iterator(std::move(items));
}

Value selected(Interpreter& interpreter, const Value& of, Arguments& arguments, bool wanted,
               bool by_attribute) {
  std::vector<Value> items;
  if (!truth(of)) return Value::iterator({});
  if (by_attribute && arguments.values.empty()) throw TemplateFault("Missing parameter for attribute name");
  Arguments rest = arguments;
  Value attribute = None{};
  if (by_attribute) {
    attribute = rest.values.front();
    rest.values.erase(rest.values.begin());
  }
  Builtin test = nullptr;
  if (!rest.values.empty()) {
    const std::string name = to_text(rest.values.front());
    rest.values.erase(rest.values.begin());
    test = find_test(name);
    if (!test) throw TemplateFault(fmt::format("No test named '{}'.", name));
  }
  for (const Value& item : iterate(of)) {
    interpreter.spend(2);
    const Value value = by_attribute ? path_of(item, attribute) : item;
    Arguments own = rest;
    if (truth(test ? test(interpreter, value, own) : value) == wanted) items.push_back(item);
  }
  return Value::iterator(std::move(items));
}
Value filter_select(Interpreter& i, const Value& of, Arguments& a) { return selected(i, of, a, true, false); }
Value filter_reject(Interpreter& i, const Value& of, Arguments& a) {
  return selected(i, of, a, false, false);
}
Value filter_selectattr(Interpreter& i, const Value& of, Arguments& a) {
  return selected(i, of, a, true, true);
}
Value filter_rejectattr(Interpreter& i, const Value& of, Arguments& a) {
  return selected(i, of, a, false, true);
}

Value filter_batch(Interpreter&, const Value& of, Arguments& arguments) {
  arguments.check("batch", {"linecount", "fill_with"}, 1);
  const int64_t size = index_of(*arguments.find(0, "linecount"));
  const Value fill = arguments.get(1, "fill_with", None{});
  std::vector<Value> batches, batch;
  for (Value& item : iterate(of)) {
    if (static_cast<int64_t>(batch.size()) == size) batches.push_back(Value::list(std::exchange(batch, {})));
    batch.push_back(std::move(item));
  }
  if (!batch.empty()) {
    if (size > 100000) throw TemplateFault("a batch of more than 100000 items");
    while (!fill.is_none() && static_cast<int64_t>(batch.size()) < size) batch.push_back(fill);
    batches.push_back(Value::list(std::move(batch)));
  }
  return Value::iterator(std::move(batches));
}

Value filter_groupby(Interpreter& interpreter, const Value& of, Arguments& arguments) {
  arguments.check("groupby", {"attribute", "default", "case_sensitive"}, 1);
  const Value path = *arguments.find(0, "attribute");
  const Value* otherwise = arguments.find(1, "default");
  const bool sensitive = truth(arguments.get(2, "case_sensitive", false));
  const auto key = [&](const Value& item) {
    const Value found = path_of(item, path, otherwise);
    return sensitive ? found : without_case(found);
  };
  interpreter.spend(20 * weight_of(of));
  std::vector<Value> groups, group;
  const std::vector<Value> items = sorted_by(iterate(of), false, key);
  for (std::size_t i = 0; i < items.size(); ++i) {
    group.push_back(items[i]);
    if (i + 1 < items.size() && equal(key(items[i]), key(items[i + 1]))) continue;
    const Value name = path_of(group.front(), path, otherwise);
    groups.push_back(Value::tuple({name, Value::list(std::exchange(group, {}))}));
  }
  return Value::list(std::move(groups));
}

constexpr NamedBuiltin kListFilters[] = {
    {"batch", filter_batch},     {"count", filter_length},    {"dictsort", filter_dictsort},
    {"first", filter_first},     {"groupby", filter_groupby}, {"items", filter_items},
    {"join", filter_join},       {"last", filter_last},       {"length", filter_length},
    {"list", filter_list},       {"map", filter_map},         {"max", filter_max},
    {"min", filter_min},         {"reject", filter_reject},   {"rejectattr", filter_rejectattr},
    {"reverse", filter_reverse}, {"select", filter_select},   {"selectattr", filter_selectattr},
    {"sort", filter_sort},       {"sum", filter_sum},         {"unique", filter_unique},
};

}  // namespace

std::span<const NamedBuiltin> filters_of_lists() { return kListFilters; }

Builtin find_filter(std::string_view name) {
  for (const std::span<const NamedBuiltin> table : {filters_of_values(), filters_of_lists()})
    for (const NamedBuiltin& one : table)
      if (one.name == name) return one.function;
  return nullptr;
}

std::vector<std::string> names_of_filters() {
  std::vector<std::string> names;
  for (const std::span<const NamedBuiltin> table : {filters_of_values(), filters_of_lists()})
    for (const NamedBuiltin& one : table) names.emplace_back(one.name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace recollect::jinja
