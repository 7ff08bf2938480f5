// What a template computes with: Python's values as far as templates see them. Texts are valid UTF-8 and are counted in code
// points; lists, tuples and dicts never change once a template can see them, so that no value refers to itself.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "engine/core/error.h"

namespace recollect::jinja {

class Value;
class Interpreter;
struct Sequence;
struct Dict;
struct Callable;
struct Namespace;
class Loop;

// What a template does wrong while it runs; the interpreter adds the line.
class TemplateFault : public Error {
 public:
  explicit TemplateFault(const std::string& what, std::string hint = {})
      : Error(ExitCode::kInput, what, std::move(hint)) {}
};

struct Undefined {
  std::shared_ptr<const std::string> why = {};  // null: nothing more is known
};
struct None {};
struct Text {
  std::shared_ptr<const std::string> bytes;
  bool safe = false;  // what the filter `safe` has marked
};

class Value {
 public:
  using Data = std::variant<Undefined, None, bool, int64_t, double, Text, std::shared_ptr<Sequence>,
                            std::shared_ptr<Dict>, Namespace*, Loop*, std::shared_ptr<Callable>>;

  Value() = default;
  Value(None none) : data_(none) {}
  Value(bool flag) : data_(flag) {}
  Value(int number) : data_(int64_t{number}) {}
  Value(int64_t number) : data_(number) {}
  Value(double number) : data_(number) {}
  Value(std::string text) : data_(Text{std::make_shared<const std::string>(std::move(text))}) {}
  Value(std::string_view text) : Value(std::string(text)) {}
  Value(const char* text) : Value(std::string(text)) {}
  Value(Text text) : data_(std::move(text)) {}
  Value(std::shared_ptr<Sequence> list) : data_(std::move(list)) {}
  Value(std::shared_ptr<Dict> dict) : data_(std::move(dict)) {}
  Value(Namespace* space) : data_(space) {}
  Value(Loop* loop) : data_(loop) {}
  Value(std::shared_ptr<Callable> callable) : data_(std::move(callable)) {}

  static Value undefined(std::string why) {
    Value value;
    value.data_ = Undefined{std::make_shared<const std::string>(std::move(why))};
    return value;
  }
  static Value list(std::vector<Value> items);
  static Value tuple(std::vector<Value> items);
  static Value of(Sequence sequence);
  static Value iterator(std::vector<Value> items);  // is gone through once, as what `map` and `select` give

  template <class T>
  bool is() const {
    return std::holds_alternative<T>(data_);
  }
  bool is_undefined() const { return is<Undefined>(); }
  bool is_none() const { return is<None>(); }
  bool is_text() const { return is<Text>(); }
  bool is_integer() const { return is<int64_t>() || is<bool>(); }  // as Python has it
  bool is_number() const { return is_integer() || is<double>(); }

  const std::string& text() const { return *std::get<Text>(data_).bytes; }
  int64_t integer() const { return is<bool>() ? std::get<bool>(data_) : std::get<int64_t>(data_); }
  double real() const { return is<double>() ? std::get<double>(data_) : static_cast<double>(integer()); }
  Sequence* sequence() const {
    const auto* found = std::get_if<std::shared_ptr<Sequence>>(&data_);
    return found ? found->get() : nullptr;
  }
  Dict* dict() const {
    const auto* found = std::get_if<std::shared_ptr<Dict>>(&data_);
    return found ? found->get() : nullptr;
  }
  Namespace* space() const {
    const auto* found = std::get_if<Namespace*>(&data_);
    return found ? *found : nullptr;
  }
  Loop* loop() const {
    const auto* found = std::get_if<Loop*>(&data_);
    return found ? *found : nullptr;
  }
  Callable* callable() const {
    const auto* found = std::get_if<std::shared_ptr<Callable>>(&data_);
    return found ? found->get() : nullptr;
  }
  const Data& data() const { return data_; }

 private:
  Data data_ = Undefined{};
};

struct Sequence {
  enum class Form { kList, kTuple, kRange, kKeys, kValues, kItems, kIterator };
  Form form = Form::kList;
  std::vector<Value> items = {};
  std::size_t next = 0;                   // of an iterator
  int64_t start = 0, stop = 0, step = 1;  // of a range
  std::size_t weight = 1;                 // of all that lies in it, shared parts counted each time

  bool can_be_indexed() const { return form <= Form::kRange; }
};

struct Dict {
  std::vector<std::pair<Value, Value>> items = {};
  std::size_t weight = 1;

  const Value* find(const Value& key) const;
  const Value* named(std::string_view key) const;
  void set(Value key, Value value);  // error TemplateFault for a key that Python cannot hash
};

struct Namespace {
  std::vector<std::pair<std::string, Value>> items = {};
};

struct Arguments {
  std::vector<Value> values = {};
  std::vector<std::pair<std::string, Value>> named = {};

  // The argument at this place or of this name; null where there is none.
  const Value* find(std::size_t place, std::string_view name) const;
  Value get(std::size_t place, std::string_view name, Value otherwise) const;
  // Faults for more arguments than these, and for fewer than `least`.
  void check(std::string_view function, std::initializer_list<std::string_view> names,
             std::size_t least = 0) const;
};

struct Callable {
  std::string name;
  std::function<Value(Interpreter&, Arguments&)> call;
};

[[noreturn]] void fail_type(std::string what);
// Undefined values cannot take part in most operations.
[[noreturn]] void fail_undefined(const Value& value);

// How long it takes to look at all of a value. None is larger than kMostWeight.
std::size_t weight_of(const Value& value);
constexpr std::size_t kMostWeight = 16u << 20, kMostBytes = 64u << 20;
void check_bytes(std::size_t bytes);  // of a text that is about to be made

std::string_view type_name(const Value& value);
bool truth(const Value& value);
bool equal(const Value& a, const Value& b);
bool less(const Value& a, const Value& b, const char* sign = "<");
int64_t length(const Value& value);              // fault where Python has none
std::vector<Value> iterate(const Value& value);  // fault for what cannot be gone through; empties an iterator
bool can_iterate(const Value& value);
bool contains(const Value& container, const Value& item);
int64_t index_of(const Value& value);  // fault for what is no whole number

std::string to_text(const Value& value);  // Python's str()
std::string repr(const Value& value);
std::string real_text(double number);  // Python's repr of a float

}  // namespace recollect::jinja
