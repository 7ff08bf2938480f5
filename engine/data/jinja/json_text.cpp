#include "engine/data/jinja/json_text.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "engine/data/tokenizer/unicode.h"
#include "engine/io/json.h"
#include "engine/io/strict_json.h"

namespace recollect::jinja {
namespace {

constexpr std::size_t kMostLevels = 100;

void append_escape(uint32_t unit, std::string& text) { text += fmt::format("\\u{:04x}", unit); }

void append_string(std::string_view text, bool only_ascii, std::string& to) {
  to += '"';
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const uint32_t point = decode_utf8(text, at);
    switch (point) {
      case '"':
        to += "\\\"";
        continue;
      case '\\':
        to += "\\\\";
        continue;
      case '\n':
        to += "\\n";
        continue;
      case '\r':
        to += "\\r";
        continue;
      case '\t':
        to += "\\t";
        continue;
      case '\f':
        to += "\\f";
        continue;
      case '\b':
        to += "\\b";
        continue;
      default:
        break;
    }
    if (point < 0x20 || (only_ascii && point >= 0x7f && point < 0x10000 && point != 0x7f)) {
      append_escape(point, to);
    } else if (only_ascii && point >= 0x10000) {
      append_escape(0xd800 + ((point - 0x10000) >> 10), to);
      append_escape(0xdc00 + ((point - 0x10000) & 0x3ff), to);
    } else {
      to += text.substr(begin, at - begin);
    }
  }
  to += '"';
}

std::string number_text(double number) {
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number < 0 ? "-Infinity" : "Infinity";
  return real_text(number);
}

class JsonWriter {
 public:
  JsonWriter(const JsonStyle& style, std::string& text) : style_(style), text_(text) {}

  void write(const Value& value, std::size_t level) {
    check_bytes(text_.size());
    if (level > kMostLevels) throw TemplateFault("tojson is given lists that lie too deep in one another");
    const Sequence* list = value.sequence();
    if (value.is_text()) {
      append_string(value.text(), style_.only_ascii, text_);
    } else if (value.is_none()) {
      text_ += "null";
    } else if (value.is<bool>()) {
      text_ += truth(value) ? "true" : "false";
    } else if (value.is<int64_t>()) {
      text_ += fmt::to_string(value.integer());
    } else if (value.is<double>()) {
      text_ += number_text(value.real());
    } else if (list && list->form <= Sequence::Form::kTuple) {
      write_list(*list, level);
    } else if (const Dict* dict = value.dict()) {
      write_dict(*dict, level);
    } else {
      fail_type(fmt::format("Object of type {} is not JSON serializable", type_name(value)));
    }
  }

 private:
  void end_line(std::size_t level) {
    if (!style_.indent) return;
    text_ += '\n';
    for (std::size_t i = 0; i < level; ++i) text_ += *style_.indent;
  }
  void separate() { text_ += style_.between ? *style_.between : style_.indent ? "," : ", "; }

  void write_list(const Sequence& list, std::size_t level) {
    if (list.items.empty()) {
      text_ += "[]";
      return;
    }
    text_ += '[';
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) separate();
      end_line(level + 1);
      write(list.items[i], level + 1);
    }
    end_line(level);
    text_ += ']';
  }

  void write_dict(const Dict& dict, std::size_t level) {
    if (dict.items.empty()) {
      text_ += "{}";
      return;
    }
    std::vector<const std::pair<Value, Value>*> items;
    for (const auto& item : dict.items) items.push_back(&item);
    if (style_.sort_keys)
      std::stable_sort(items.begin(), items.end(),
                       [](const auto* a, const auto* b) { return less(a->first, b->first); });
    text_ += '{';
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) separate();
      end_line(level + 1);
      append_string(key_text(items[i]->first), style_.only_ascii, text_);
      text_ += style_.after_key ? *style_.after_key : ": ";
      write(items[i]->second, level + 1);
    }
    end_line(level);
    text_ += '}';
  }

  static std::string key_text(const Value& key) {
    if (key.is_text()) return key.text();
    if (key.is_none()) return "null";
    if (key.is<bool>()) return truth(key) ? "true" : "false";
    if (key.is<int64_t>()) return fmt::to_string(key.integer());
    if (key.is<double>()) return number_text(key.real());
    fail_type(fmt::format("keys must be str, int, float, bool or None, not {}", type_name(key)));
  }

  const JsonStyle& style_;
  std::string& text_;
};

// What nlohmann's parser tells, made into values.
class ValueMaker {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  bool null() { return add(None{}); }
  bool boolean(bool flag) { return add(flag); }
  bool number_integer(number_integer_t number) { return add(number); }
  bool number_unsigned(number_unsigned_t number) {
    if (number > static_cast<number_unsigned_t>(INT64_MAX)) return fail("a number that fits no 64 bits");
    return add(static_cast<int64_t>(number));
  }
  bool number_float(number_float_t number, const string_t& spelling) {
    if (spelling.find_first_of(".eE") == string_t::npos) return fail("a number that fits no 64 bits");
    return add(number);
  }
  bool string(string_t& text) { return add(std::move(text)); }
  bool binary(binary_t&) { return fail("not valid JSON"); }
  bool key(string_t& name) {
    open_.back().key = std::move(name);
    return true;
  }
  bool start_object(std::size_t) { return open(std::make_shared<Dict>()); }
  bool start_array(std::size_t) { return open(nullptr); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& error) {
    return fail(json_problem(error));
  }

  Value result = {};
  std::string problem = {};

 private:
  struct Open {
    std::shared_ptr<Dict> dict;  // null: a list
    std::vector<Value> items = {};
    std::string key = {};
  };
  bool fail(std::string what) {
    problem = std::move(what);
    return false;
  }
  bool open(std::shared_ptr<Dict> dict) {
    if (open_.size() >= kMostLevels) return fail("lists and objects that lie too deep in one another");
    open_.push_back({std::move(dict)});
    return true;
  }
  bool close() {
    Open closed = std::move(open_.back());
    open_.pop_back();
    return add(closed.dict ? Value(std::move(closed.dict)) : Value::list(std::move(closed.items)));
  }
  bool add(Value value) {
    if (open_.empty()) {
      result = std::move(value);
    } else if (Open& outer = open_.back(); outer.dict) {
      outer.dict->set(Value(std::move(outer.key)), std::move(value));
    } else {
      outer.items.push_back(std::move(value));
    }
    return true;
  }

  std::vector<Open> open_;
};

}  // namespace

std::string to_json(const Value& value, const JsonStyle& style) {
  std::string text;
  JsonWriter(style, text).write(value, 0);
  return text;
}

Value from_json(std::string_view text) {
  if (first_invalid_utf8(text) != std::string_view::npos)
    throw Error(ExitCode::kInput, "text that is no UTF-8");
  ValueMaker maker;
  const bool whole = nlohmann::json::sax_parse(text.data(), text.data() + text.size(), &maker);
  if (!whole) throw Error(ExitCode::kInput, maker.problem.empty() ? "not valid JSON" : maker.problem);
  return maker.result;
}

}  // namespace recollect::jinja
