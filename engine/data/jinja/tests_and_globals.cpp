// What `is` asks, and the functions that every template has.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "engine/data/jinja/builtins.h"
#include "engine/data/jinja/filter_tables.h"
#include "engine/data/jinja/interpreter.h"
#include "engine/data/jinja/python_text.h"

namespace recollect::jinja {
namespace {

#define RECOLLECT_TEST(...)                                             \
  +[]([[maybe_unused]] Interpreter& i, [[maybe_unused]] const Value& v, \
      [[maybe_unused]] Arguments& a) -> Value { return Value(__VA_ARGS__); }

const Value& other(const Arguments& arguments) {
  if (arguments.values.size() != 1 || !arguments.named.empty())
    fail_type("the test takes one value to compare with");
  return arguments.values[0];
}

bool has_rest(const Value& value, const Value& divisor, int64_t rest) {
  return equal(binary_result("%", value, divisor), Value(rest));
}

bool is_sequence(const Value& value) {
  const Sequence* list = value.sequence();
  return value.is_text() || value.dict() || (list && list->can_be_indexed());
}

// `is sameas`: the same object, of which small values have one.
bool is_same(const Value& a, const Value& b) {
  if (a.data().index() != b.data().index()) return false;
  if (a.sequence()) return a.sequence() == b.sequence();
  if (a.dict()) return a.dict() == b.dict();
  return equal(a, b);
}

bool has_case_of(const Value& value, std::string_view method, Interpreter& interpreter) {
  Arguments none;
  return truth(interpreter.call(method_of_text(Value(to_text(value)), method), none));
}

constexpr NamedBuiltin kTests[] = {
    {"defined", RECOLLECT_TEST(!v.is_undefined())},
    {"undefined", RECOLLECT_TEST(v.is_undefined())},
    {"none", RECOLLECT_TEST(v.is_none())},
    {"boolean", RECOLLECT_TEST(v.is<bool>())},
    {"true", RECOLLECT_TEST(v.is<bool>() && truth(v))},
    {"false", RECOLLECT_TEST(v.is<bool>() && !truth(v))},
    {"integer", RECOLLECT_TEST(v.is<int64_t>())},
    {"float", RECOLLECT_TEST(v.is<double>())},
    {"number", RECOLLECT_TEST(v.is_number())},
    {"string", RECOLLECT_TEST(v.is_text())},
    {"mapping", RECOLLECT_TEST(v.dict() != nullptr)},
    {"sequence", RECOLLECT_TEST(is_sequence(v) || v.is_undefined())},
    {"iterable", RECOLLECT_TEST(can_iterate(v))},
    {"callable", RECOLLECT_TEST(v.callable() || v.loop() || v.is_undefined())},
    {"sameas", RECOLLECT_TEST(is_same(v, other(a)))},
    {"escaped", RECOLLECT_TEST(v.is_text() && std::get<Text>(v.data()).safe)},
    {"lower", RECOLLECT_TEST(has_case_of(v, "islower", i))},
    {"upper", RECOLLECT_TEST(has_case_of(v, "isupper", i))},
    {"odd", RECOLLECT_TEST(has_rest(v, Value(2), 1))},
    {"even", RECOLLECT_TEST(has_rest(v, Value(2), 0))},
    {"divisibleby", RECOLLECT_TEST(has_rest(v, other(a), 0))},
    {"in", RECOLLECT_TEST(contains(other(a), v))},
    {"filter", RECOLLECT_TEST(v.is_text() && find_filter(v.text()) != nullptr)},
    {"test", RECOLLECT_TEST(v.is_text() && find_test(v.text()) != nullptr)},
    {"==", RECOLLECT_TEST(equal(v, other(a)))},
    {"eq", RECOLLECT_TEST(equal(v, other(a)))},
    {"equalto", RECOLLECT_TEST(equal(v, other(a)))},
    {"!=", RECOLLECT_TEST(!equal(v, other(a)))},
    {"ne", RECOLLECT_TEST(!equal(v, other(a)))},
    {">", RECOLLECT_TEST(compare_result(">", v, other(a)))},
    {"gt", RECOLLECT_TEST(compare_result(">", v, other(a)))},
    {"greaterthan", RECOLLECT_TEST(compare_result(">", v, other(a)))},
    {">=", RECOLLECT_TEST(compare_result(">=", v, other(a)))},
    {"ge", RECOLLECT_TEST(compare_result(">=", v, other(a)))},
    {"<", RECOLLECT_TEST(compare_result("<", v, other(a)))},
    {"lt", RECOLLECT_TEST(compare_result("<", v, other(a)))},
    {"lessthan", RECOLLECT_TEST(compare_result("<", v, other(a)))},
    {"<=", RECOLLECT_TEST(compare_result("<=", v, other(a)))},
    {"le", RECOLLECT_TEST(compare_result("<=", v, other(a)))},
};
#undef RECOLLECT_TEST

Value global_range(Interpreter& interpreter, Arguments& arguments) {
  if (arguments.values.empty() || arguments.values.size() > 3 || !arguments.named.empty())
    fail_type("range takes one to three whole numbers");
  std::vector<int64_t> numbers;
  for (const Value& value : arguments.values) numbers.push_back(index_of(value));
  Sequence range{.form = Sequence::Form::kRange};
  range.start = numbers.size() > 1 ? numbers[0] : 0;
  range.stop = numbers.size() > 1 ? numbers[1] : numbers[0];
  range.step = numbers.size() > 2 ? numbers[2] : 1;
  if (range.step == 0) throw TemplateFault("range() arg 3 must not be zero");
  constexpr std::size_t kMostOfRange = 100000;  // as Jinja's sandbox has it
  for (int64_t at = range.start; range.step > 0 ? at < range.stop : at > range.stop;) {
    if (range.items.size() == kMostOfRange)
      throw TemplateFault("Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000).");
    range.items.emplace_back(at);
    if (__builtin_add_overflow(at, range.step, &at)) break;
  }
  interpreter.spend(range.items.size());
  return Value::of(std::move(range));
}

void add_pairs(const Arguments& arguments, Dict& dict) {
  if (arguments.values.size() > 1) fail_type("dict and namespace take one dict at most");
  if (!arguments.values.empty()) {
    const Value& first = arguments.values[0];
    if (first.dict()) {
      for (const auto& [key, value] : first.dict()->items) dict.set(key, value);
    } else {
      for (const Value& pair : iterate(first)) {
        const std::vector<Value> two = iterate(pair);
        if (two.size() != 2) fail_type("dict takes pairs of a key and a value");
        dict.set(two[0], two[1]);
      }
    }
  }
  for (const auto& [name, value] : arguments.named) dict.set(Value(name), value);
}

Value global_dict(Interpreter&, Arguments& arguments) {
  auto dict = std::make_shared<Dict>();
  add_pairs(arguments, *dict);
  return Value(std::move(dict));
}

Value global_namespace(Interpreter& interpreter, Arguments& arguments) {
  Dict dict;
  add_pairs(arguments, dict);
  Namespace* space = interpreter.make_namespace();
  for (const auto& [name, value] : dict.items) {
    if (name.is_text() && name.text().starts_with('_'))
      throw TemplateFault("fields of a namespace that begin with an underscore cannot be set");
    space->items.emplace_back(to_text(name), value);
  }
  return Value(space);
}

Value global_raise(Interpreter&, Arguments& arguments) {
  arguments.check("raise_exception", {"message"}, 1);
  throw TemplateFault("the template refuses this: " + to_text(*arguments.find(0, "message")));
}

Value global_date(Interpreter& interpreter, Arguments& arguments) {
  arguments.check("strftime_now", {"format"}, 1);
  interpreter.asked_for_date = true;
  return Value(date_text(to_text(*arguments.find(0, "format")), interpreter.now()));
}

Value global_joiner(Interpreter&, Arguments& arguments) {
  arguments.check("joiner", {"sep"});
  const Value between = arguments.get(0, "sep", ", ");
  auto used = std::make_shared<bool>(false);
  return Value(std::make_shared<Callable>(Callable{"joiner", [between, used](Interpreter&, Arguments&) {
                                                     return std::exchange(*used, true) ? between : Value("");
                                                   }}));
}

}  // namespace

Builtin find_test(std::string_view name) {
  for (const NamedBuiltin& one : kTests)
    if (one.name == name) return one.function;
  return nullptr;
}

std::vector<std::string> names_of_tests() {
  std::vector<std::string> names;
  for (const NamedBuiltin& one : kTests) names.emplace_back(one.name);
  return names;
}

Value find_global(std::string_view name) {
  constexpr std::pair<std::string_view, Value (*)(Interpreter&, Arguments&)> kGlobals[] = {
      {"range", global_range},           {"dict", global_dict},         {"namespace", global_namespace},
      {"raise_exception", global_raise}, {"strftime_now", global_date}, {"joiner", global_joiner}};
  for (const auto& [one, function] : kGlobals)
    if (one == name) return Value(std::make_shared<Callable>(Callable{std::string(name), function}));
  return {};
}

}  // namespace recollect::jinja
