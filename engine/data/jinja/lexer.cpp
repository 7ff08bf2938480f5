#include "engine/data/jinja/lexer.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "engine/core/printable.h"
#include "engine/data/jinja/python_text.h"
#include "engine/data/tokenizer/unicode.h"

namespace recollect::jinja {
namespace {

using TokenKind = TemplateToken::Kind;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool begins_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || !is_ascii(c);
}

// Ends of lines as \n, and without the last one.
std::string with_plain_lines(std::string_view source) {
  std::string text;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      text += source[i];
      continue;
    }
    text += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

class TemplateLexer {
 public:
  TemplateLexer(std::string_view source, const std::string& name)
      : source_(with_plain_lines(source)), name_(name) {
    if (const std::size_t bad = first_invalid_utf8(source_); bad != std::string::npos)
      fail_in_template(name,
                       1 + static_cast<int>(std::count(
                               source_.begin(), source_.begin() + static_cast<std::ptrdiff_t>(bad), '\n')),
                       "text that is no UTF-8");
  }

  std::vector<TemplateToken> run() {
    while (at_ < source_.size()) read_data();
    add(TokenKind::kEnd, "the template's end");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { fail_in_template(name_, line_, what); }
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  bool sees(std::string_view text) const { return rest().starts_with(text); }
  void add(TokenKind kind, std::string text, Value value = {}) {
    tokens_.push_back({kind, line_, std::move(text), std::move(value)});
  }
  void take(std::size_t size) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(at_ + size), '\n'));
    at_ += size;
    line_begins_ = size > 0 && source_[at_ - 1] == '\n';
  }
  void take_blanks() { take(rest().size() - strip_left(rest()).size()); }

  // Text up to the next tag, and that tag.
  void read_data() {
    std::size_t open = at_;
    while (true) {
      open = source_.find('{', open);
      if (open == std::string::npos || open + 1 == source_.size()) {
        add(TokenKind::kData, std::string(rest()));
        return take(rest().size());
      }
      const char kind = source_[open + 1];
      if (kind == '{' || kind == '%' || kind == '#') break;
      ++open;
    }
    const char kind = source_[open + 1];
    const char sign = open + 2 < source_.size() ? source_[open + 2] : ' ';
    std::string_view text = rest().substr(0, open - at_);
    const bool begins = line_begins_;
    if (sign == '-')
      text = strip_right(text);
    else if (sign != '+' && kind != '{')
      text = without_indent(text, begins);
    if (!text.empty()) add(TokenKind::kData, std::string(text));
    take(open - at_ + (sign == '-' || sign == '+' ? 3 : 2));
    if (kind == '#') return skip_comment();
    if (kind == '%' && read_raw()) return;
    read_tag(kind == '%');
  }

  // Blanks between the last line end and the tag.
  static std::string_view without_indent(std::string_view text, bool line_begins) {
    const std::size_t line = text.rfind('\n') + 1;
    if (line == 0 && !line_begins) return text;
    return strip_left(text.substr(line)).empty() ? text.substr(0, line) : text;
  }

  // After %}, #}: the end of the line.
  void end_tag(bool strips) {
    if (strips)
      take_blanks();
    else if (at_ < source_.size() && source_[at_] == '\n')
      take(1);
  }

  void skip_comment() {
    const std::size_t end = source_.find("#}", at_);
    if (end == std::string::npos) fail("a comment {# without its end #}");
    const char sign = end > at_ ? source_[end - 1] : ' ';
    take(end + 2 - at_);
    if (sign != '+') end_tag(sign == '-');
  }

  // {% raw %}...{% endraw %}, after its {%.
  bool read_raw() {
    const std::string_view inside = strip_left(rest());
    if (!inside.starts_with("raw")) return false;
    const std::string_view behind = strip_left(inside.substr(3));
    const bool strips = behind.starts_with("-%}");
    if (!strips && !behind.starts_with("%}")) return false;
    take(rest().size() - behind.size() + (strips ? 3 : 2));
    if (strips) take_blanks();
    for (std::size_t open = source_.find("{%", at_); open != std::string::npos;
         open = source_.find("{%", open + 1)) {
      std::string_view tag = std::string_view(source_).substr(open + 2);
      const char sign = tag.empty() ? ' ' : tag[0];
      if (sign == '-' || sign == '+') tag.remove_prefix(1);
      tag = strip_left(tag);
      if (!tag.starts_with("endraw")) continue;
      tag = strip_left(tag.substr(6));
      const char end = tag.empty() ? ' ' : tag[0];
      if (end == '-' || end == '+') tag.remove_prefix(1);
      if (!tag.starts_with("%}")) continue;
      std::string_view text = rest().substr(0, open - at_);
      if (sign == '-')
        text = strip_right(text);
      else if (sign != '+')
        text = without_indent(text, line_begins_);
      if (!text.empty()) add(TokenKind::kData, std::string(text));
      take(source_.size() - at_ - tag.size() + 2);
      if (end != '+') end_tag(end == '-');
      return true;
    }
    fail("{% raw %} without its {% endraw %}");
  }

  bool ends_tag(bool block) {
    if (!open_brackets_.empty()) return false;
    const std::string_view end = block ? "%}" : "}}";
    const bool signed_end = rest().size() > 1 && rest().substr(1).starts_with(end) &&
                            (rest()[0] == '-' || (block && rest()[0] == '+'));
    if (!signed_end && !sees(end)) return false;
    const char sign = signed_end ? rest()[0] : ' ';
    add(block ? TokenKind::kTagEnd : TokenKind::kPrintEnd, "the tag's end");
    take(signed_end ? 3 : 2);
    if (block && sign != '+') end_tag(sign == '-');
    if (!block && sign == '-') take_blanks();
    return true;
  }

  void read_tag(bool block) {
    add(block ? TokenKind::kTagBegin : TokenKind::kPrintBegin, block ? "{%" : "{{");
    const int begin = line_;
    open_brackets_.clear();
    while (at_ < source_.size()) {
      if (ends_tag(block)) return;
      std::size_t point = at_;
      if (is_blank_point(decode_utf8(source_, point))) {
        take(point - at_);
      } else if (begins_name(source_[at_])) {
        read_name();
      } else if (is_digit(source_[at_])) {
        read_number();
      } else if (source_[at_] == '\'' || source_[at_] == '"') {
        read_text();
      } else {
        read_operator();
      }
    }
    fail_in_template(name_, begin, block ? "a tag {% without its end %}" : "a value {{ without its end }}");
  }

  void read_name() {
    std::size_t end = at_;
    while (end < source_.size() && (begins_name(source_[end]) || is_digit(source_[end]))) ++end;
    add(TokenKind::kName, source_.substr(at_, end - at_));
    take(end - at_);
  }

  std::size_t digits_end(std::size_t at) const {
    while (at < source_.size() && (is_digit(source_[at]) || (source_[at] == '_' && at + 1 < source_.size() &&
                                                             is_digit(source_[at + 1]))))
      ++at;
    return at;
  }

  void read_number() {
    const char next = at_ + 1 < source_.size() ? source_[at_ + 1] : ' ';
    const int base = source_[at_] != '0'          ? 10
                     : next == 'x' || next == 'X' ? 16
                     : next == 'o' || next == 'O' ? 8
                     : next == 'b' || next == 'B' ? 2
                                                  : 10;
    std::size_t end = base == 10 ? digits_end(at_) : at_ + 2;
    bool real = false;
    if (base != 10) {
      while (end < source_.size() &&
             (std::isalnum(static_cast<unsigned char>(source_[end])) || source_[end] == '_'))
        ++end;
    } else {
      const bool behind_dot = at_ > 0 && source_[at_ - 1] == '.';
      if (!behind_dot && end + 1 < source_.size() && source_[end] == '.' && is_digit(source_[end + 1])) {
        end = digits_end(end + 1);
        real = true;
      }
      if (!behind_dot && end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
        std::size_t exponent = end + 1;
        if (exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-')) ++exponent;
        if (exponent < source_.size() && is_digit(source_[exponent])) {
          end = digits_end(exponent);
          real = true;
        }
      }
    }
    std::string digits = source_.substr(at_, end - at_);
    std::erase(digits, '_');
    if (real) {
      double number = 0;
      std::from_chars(digits.data(), digits.data() + digits.size(), number);
      add(TokenKind::kNumber, digits, number);
    } else {
      const char* first = digits.data() + (base == 10 ? 0 : 2);
      int64_t number = 0;
      const auto read = std::from_chars(first, digits.data() + digits.size(), number, base);
      if (read.ec != std::errc() || read.ptr != digits.data() + digits.size())
        fail(fmt::format("{} is no number of 64 bits", printable(digits)));
      add(TokenKind::kNumber, digits, number);
    }
    take(end - at_);
  }

  void read_text() {
    const char quote = source_[at_];
    std::string text;
    std::size_t end = at_ + 1;
    for (; end < source_.size() && source_[end] != quote; ++end) {
      if (source_[end] != '\\')
        text += source_[end];
      else if (++end == source_.size())
        break;
      else
        end = read_escape(end, text);
    }
    if (end >= source_.size()) fail("a text without its closing quote");
    add(TokenKind::kText, "a text", Value(std::move(text)));
    take(end + 1 - at_);
  }

  // Python's escapes, after the backslash; the place of its last byte.
  std::size_t read_escape(std::size_t at, std::string& text) {
    constexpr std::string_view kLetters = "\n\\'\"abfnrtv";
    constexpr std::string_view kMeanings = "?\\'\"\a\b\f\n\r\t\v";
    const char c = source_[at];
    if (c == '\n') return at;
    if (const std::size_t found = kLetters.find(c); found != std::string_view::npos) {
      text += kMeanings[found];
      return at;
    }
    const bool octal = c >= '0' && c <= '7';
    const std::size_t most = octal ? 3 : c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (c == 'N') fail("\\N{...} in a text is not supported");
    if (most == 0) {
      text += '\\';
      text += c;
      return at;
    }
    const std::size_t first = octal ? at : at + 1;
    std::size_t end = first;
    const auto fits = [&](char digit) {
      return octal ? digit >= '0' && digit <= '7' : std::isxdigit(static_cast<unsigned char>(digit)) != 0;
    };
    while (end < source_.size() && end - first < most && fits(source_[end])) ++end;
    uint32_t point = 0;
    std::from_chars(source_.data() + first, source_.data() + end, point, octal ? 8 : 16);
    if ((!octal && end - first < most) || point > 0x10ffff || (point >= 0xd800 && point < 0xe000))
      fail(fmt::format("\\{} in a text is no character", source_.substr(at, end - at)));
    append_utf8(point, text);
    return end - 1;
  }

  void read_operator() {
    constexpr std::string_view kOperators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                               "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                               ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
    const auto found = std::find_if(std::begin(kOperators), std::end(kOperators),
                                    [&](std::string_view sign) { return sees(sign); });
    if (found == std::end(kOperators)) {
      std::size_t end = at_;
      decode_utf8(source_, end);
      fail(fmt::format("unexpected {} in a tag", printable(source_.substr(at_, end - at_))));
    }
    constexpr std::string_view kOpening = "([{", kClosing = ")]}";
    if (kOpening.find(*found) != std::string_view::npos) {
      open_brackets_ += (*found)[0];
    } else if (const std::size_t kind = kClosing.find(*found); kind != std::string_view::npos) {
      if (open_brackets_.empty() || open_brackets_.back() != kOpening[kind])
        fail(fmt::format("unexpected '{}'", *found));
      open_brackets_.pop_back();
    }
    add(TokenKind::kOperator, std::string(*found));
    take(found->size());
  }

  std::string source_;
  const std::string& name_;
  std::vector<TemplateToken> tokens_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_begins_ = true;
  std::string open_brackets_;
};

}  // namespace

void fail_in_template(const std::string& name, int line, const std::string& what, const std::string& hint) {
  throw Error(ExitCode::kInput, fmt::format("{}:{}: {}", name, line, what), hint);
}

std::vector<TemplateToken> tokens_of_template(std::string_view source, const std::string& name) {
  return TemplateLexer(source, name).run();
}

}  // namespace recollect::jinja
