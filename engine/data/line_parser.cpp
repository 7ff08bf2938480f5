#include "engine/data/line_parser.h"

#include <algorithm>
#include <bit>
#include <charconv>

#include <fmt/format.h>

#include "engine/core/error.h"
#include "engine/core/ignored_label.h"
#include "engine/data/bad_records.h"
#include "engine/io/strict_json.h"

namespace recollect {

namespace {

using SpecShape = FieldSpec::Shape;

constexpr std::size_t kMostSpecs = 64;  // bits of what has been seen

const char* const kMaskHint =
    "a mask is ones and then zeros: the first tokens of a sequence are attended, and padding comes after "
    "them";

std::string quoted_list(const std::vector<std::string>& keys) {
  std::string text;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (i > 0) text += i + 1 < keys.size() ? ", " : " and ";
    text += '"' + keys[i] + '"';
  }
  return text;
}

// What a line has, and what it may have.
std::string known_keys(std::span<const FieldSpec> specs) {
  std::vector<std::string> required, others;
  for (const FieldSpec& spec : specs) (spec.required ? required : others).push_back(spec.key);
  return "a line has " + quoted_list(required) +
         (others.empty() ? "" : ", and may have " + quoted_list(others));
}

// How a line is trained on that has texts in place of ids.
std::string what_holds_texts(std::string_view key) {
  for (const char* text : {"text", "sentence", "prompt", "tokens", "content"})
    if (key == text) return "; give data.tokenizer where lines hold texts";
  for (const char* chat : {"messages", "conversations", "instruction", "completion"})
    if (key == chat) return "; give data.tokenizer, with its chat template, where lines hold conversations";
  return "";
}

}  // namespace

void LineParser::fail_at(std::size_t at, const std::string& what, const std::string& hint) const {
  throw Error(ExitCode::kInput, fmt::format("{}:{}:{}: {}", path_, line_number_, at + 1, what), hint);
}

// A record without tokens is blank. Labels may come before the tokens, so the error of an empty list of labels waits.
void LineParser::take_empty(std::size_t at, const FieldSpec& spec) {
  const std::string what = fmt::format("\"{}\" is empty", spec.key);
  if (spec.shape != SpecShape::kTokens) fail_at(at, what);
  if (&spec == specs_.data())
    throw BlankRecord(fmt::format("{}:{}:{}: {}", path_, line_number_, at + 1, what));
  if (!empty_at_) empty_at_ = at, empty_what_ = what;
}

void LineParser::fail_outside(std::size_t at, const FieldSpec& spec, const std::string& value) const {
  fail_at(at, fmt::format("{} {} is outside {}", spec.noun, value, spec.range));
}

void LineParser::parse(Fields& sample) {
  require(!specs_.empty() && specs_.size() <= kMostSpecs, "a line has no fields, or too many");
  for (const FieldSpec& spec : specs_) reserve(spec, sample.field(spec.name));
  uint64_t seen = 0;
  if (line_number_ == 1 && text_.starts_with("\ufeff")) at_ = 3;
  skip_space();
  if (at_ == text_.size())
    throw BlankRecord(fmt::format("{}:{}: an empty line", path_, line_number_),
                      "every line is a record: remove it");
  expect('{', "an object {\"input_ids\": [...]}");
  do {
    const std::size_t index = parse_key();
    expect(':', "':'");
    const FieldSpec& spec = specs_[index];
    if (seen >> index & 1) fail(fmt::format("the key \"{}\" appears twice", spec.key));
    seen |= uint64_t{1} << index;
    if (!spec.required && accept_null()) continue;
    parse_field(spec, sample.field(spec.name));
  } while (accept(','));
  expect('}', "',' or '}'");
  skip_space();
  if (at_ != text_.size()) fail("something follows the object");
  if (empty_at_) fail_at(*empty_at_, empty_what_);
  check_presence(seen);
  check_lengths(sample);
}

void LineParser::skip_space() {
  while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r')) ++at_;
}

bool LineParser::accept(char c) {
  skip_space();
  if (at_ == text_.size() || text_[at_] != c) return false;
  ++at_;
  return true;
}

// What a table that lacks the value in some rows becomes as JSONL.
bool LineParser::accept_null() {
  skip_space();
  if (!text_.substr(at_).starts_with("null")) return false;
  at_ += 4;
  return true;
}

void LineParser::expect(char c, const char* what) {
  if (!accept(c)) fail(fmt::format("expected {}", what));
}

std::size_t LineParser::parse_key() {
  expect('"', "a key");
  const std::size_t end = text_.find('"', at_);
  if (end == std::string_view::npos) fail("a key without its closing quote");
  const std::string_view key = text_.substr(at_, end - at_);
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    if (specs_[i].key != key) continue;
    at_ = end + 1;
    return i;
  }
  fail(fmt::format("unknown key {}", escaped_name(key)), known_keys(specs_) + what_holds_texts(key));
}

void LineParser::reserve(const FieldSpec& spec, Field& field) const {
  const int64_t numbers = spec.shape == SpecShape::kNumbers ? 1 : length_;
  field.values.reserve(static_cast<std::size_t>(spec.size * numbers));
  if (spec.shape == SpecShape::kTokenLists) field.ends.reserve(static_cast<std::size_t>(spec.size));
}

void LineParser::parse_field(const FieldSpec& spec, Field& field) {
  field.dtype = spec.dtype;
  switch (spec.shape) {
    case SpecShape::kNumbers:
      return parse_numbers(spec, field);
    case SpecShape::kTokens:
      return parse_tokens(spec, field);
    case SpecShape::kTokenLists:
      return parse_lists(spec, field);
  }
}

void LineParser::parse_numbers(const FieldSpec& spec, Field& field) {
  skip_space();
  const std::size_t start = at_;
  const auto size = static_cast<std::size_t>(spec.size);
  if (!accept('[')) {
    if (size > 1) fail(fmt::format("expected a list of {} numbers", size));
    field.values.push_back(parse_number(spec));
    return;
  }
  std::size_t count = 0;
  if (!accept(']')) {
    do {
      const int32_t number = parse_number(spec);
      if (++count <= size) field.values.push_back(number);
    } while (accept(','));
    expect(']', "',' or ']'");
  }
  if (count != size)
    fail_at(start, fmt::format("\"{}\" is {} numbers, and must be {}", spec.key, count, size));
}

void LineParser::parse_lists(const FieldSpec& spec, Field& field) {
  skip_space();
  const std::size_t start = at_;
  const auto size = static_cast<std::size_t>(spec.size);
  expect('[', "'[': a list of lists");
  do {
    if (field.ends.size() == size)
      fail_at(start, fmt::format("\"{}\" has more than {} lists", spec.key, size));
    parse_tokens(spec, field);
    field.ends.push_back(field.values.size());
  } while (accept(','));
  expect(']', "',' or ']'");
  if (field.ends.size() != size)
    fail_at(start, fmt::format("\"{}\" is {} lists, and must be {}", spec.key, field.ends.size(), size));
}

void LineParser::parse_tokens(const FieldSpec& spec, Field& field) {
  skip_space();
  const std::size_t start = at_, first = field.values.size();
  expect('[', "'['");
  if (accept(']')) return take_empty(start, spec);
  do {
    skip_space();
    const std::size_t here = at_;
    const int32_t number = parse_number(spec);
    if (static_cast<int64_t>(field.values.size() - first) == length_)
      fail_at(here, fmt::format("more than {} tokens", length_),
              "raise data.sequence_length or cut the line: nothing is truncated silently");
    if (spec.is_mask && number == 1 && field.values.size() > first && field.values.back() == 0)
      fail_at(here, fmt::format("\"{}\" has a 1 after a 0", spec.key), kMaskHint);
    field.values.push_back(number);
  } while (accept(','));
  expect(']', "',' or ']'");
  if (spec.is_mask && field.values[first] == 0)
    fail_at(start, fmt::format("\"{}\" is all zeros", spec.key), kMaskHint);
}

int32_t LineParser::parse_number(const FieldSpec& spec) {
  skip_space();
  const std::size_t start = at_;
  if (spec.dtype == DType::kF32) {
    const std::optional<bool> flag = parse_flag();
    const double value = flag ? *flag : parse_real();
    if (!(value >= spec.low && value <= spec.high)) fail_outside(start, spec, fmt::to_string(value));
    return std::bit_cast<int32_t>(static_cast<float>(value));
  }
  const std::optional<bool> flag = spec.is_class || spec.is_mask ? parse_flag() : std::nullopt;
  const int64_t value = flag ? *flag : parse_integer(spec.is_class);
  const bool inside = value >= static_cast<int64_t>(spec.low) && value <= static_cast<int64_t>(spec.high);
  if (!inside && !(spec.may_be_ignored && value == kIgnoredLabel))
    fail_outside(start, spec, fmt::to_string(value));
  return static_cast<int32_t>(value);
}

std::optional<bool> LineParser::parse_flag() {
  for (const bool value : {false, true}) {
    const std::string_view word = value ? "true" : "false";
    if (!text_.substr(at_).starts_with(word)) continue;
    at_ += word.size();
    return value;
  }
  return std::nullopt;
}

// JSON's grammar: no leading zeros, no plus sign, nothing after the digits.
int64_t LineParser::parse_integer(bool may_have_zeros) {
  const auto is_digit = [this] { return at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; };
  const bool negative = at_ < text_.size() && text_[at_] == '-';
  if (negative) ++at_;
  if (!is_digit()) fail("expected an integer");
  const std::size_t first = at_;
  int64_t value = 0;
  bool overflow = false;
  for (; is_digit(); ++at_)
    overflow |=
        __builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, text_[at_] - '0', &value);
  if (at_ - first > 1 && text_[first] == '0') fail("an integer with a leading zero");
  if (overflow) fail("an integer that fits no 64 bits");
  const std::size_t point = at_;
  if (may_have_zeros && point < text_.size() && text_[point] == '.') {
    for (++at_; at_ < text_.size() && text_[at_] == '0';) ++at_;
    if (at_ == point + 1) at_ = point;
  }
  if (at_ < text_.size() && (is_digit() || text_[at_] == '.' || text_[at_] == 'e' || text_[at_] == 'E'))
    fail("a number that is not written as an integer");
  return negative ? -value : value;
}

double LineParser::parse_real() {
  const std::size_t start = at_;
  const auto digits = [this] {
    const std::size_t first = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    if (at_ == first) fail("expected a digit of a number");
    return first;
  };
  const auto is_one_of = [this](char a, char b) {
    return at_ < text_.size() && (text_[at_] == a || text_[at_] == b);
  };
  if (is_one_of('-', '-')) ++at_;
  const std::size_t whole = digits();
  if (at_ - whole > 1 && text_[whole] == '0') fail("a number with a leading zero");
  if (is_one_of('.', '.')) {
    ++at_;
    digits();
  }
  if (is_one_of('e', 'E')) {
    ++at_;
    if (is_one_of('+', '-')) ++at_;
    digits();
  }
  double value = 0;
  const auto read = std::from_chars(text_.data() + start, text_.data() + at_, value);
  if (read.ec == std::errc::result_out_of_range) fail_at(start, "a number that fits no 64 bits");
  return value;
}

void LineParser::check_presence(uint64_t seen) const {
  for (std::size_t i = 0; i < specs_.size(); ++i)
    if (specs_[i].required && !(seen >> i & 1))
      fail(fmt::format("there is no \"{}\"", specs_[i].key), known_keys(specs_));
}

void LineParser::check_lengths(Fields& sample) const {
  const FieldSpec& first = specs_.front();
  const Field& ids = sample.field(first.name);
  for (const FieldSpec& spec : specs_.subspan(1)) {
    const Field& field = sample.field(spec.name);
    if (spec.shape == SpecShape::kNumbers || field.values.empty()) continue;
    for (std::size_t row = 0; row < ids.rows(); ++row)
      if (field.row(row).size() != ids.row(row).size())
        fail(fmt::format("{} {} for {} {}{}", field.row(row).size(), spec.key, ids.row(row).size(), first.key,
                         ids.ends.empty() ? "" : fmt::format(" in list {}", row + 1)));
  }
  for (const FieldSpec& spec : specs_)
    if (spec.ignored_behind_padding) check_padding(spec, sample);
}

// What padding would predict depends on what it attends to, which only its mask could say.
void LineParser::check_padding(const FieldSpec& spec, Fields& sample) const {
  const auto mask =
      std::find_if(specs_.begin(), specs_.end(), [](const FieldSpec& one) { return one.is_mask; });
  if (mask == specs_.end()) return;
  const std::vector<int32_t>&ones = sample.field(mask->name).values, &labels = sample.field(spec.name).values;
  if (ones.empty()) return;
  const auto padding = static_cast<std::size_t>(std::find(ones.begin(), ones.end(), 0) - ones.begin());
  for (std::size_t i = padding + 1; i < labels.size(); ++i)
    if (labels[i] != kIgnoredLabel)
      fail(fmt::format("\"{}\" has the label {} where \"{}\" is 0", spec.key, labels[i], mask->key),
           "write -100 there: nothing is learnt of padding");
}

}  // namespace recollect
