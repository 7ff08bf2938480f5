// Oniguruma's syntax, as `tokenizers` uses it, written as PCRE2's. What is known to mean the same in both is taken over,
// what is written differently is translated, and everything else is refused: nothing is passed on unread.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "engine/core/error.h"
#include "engine/data/tokenizer/regex.h"
#include "engine/io/strict_json.h"

namespace recollect {
namespace {

// \w of Oniguruma: alphabetic characters, marks, decimal digits, connectors, and the other numbers of Latin-1.
constexpr std::string_view kWordItems =
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}\\x{24B6}-\\x{24E9}"
    "\\x{1F130}-\\x{1F149}\\x{1F150}-\\x{1F169}\\x{1F170}-\\x{1F189}";

struct LongName {
  std::string_view name, category;
};
constexpr std::array<LongName, 16> kLongNames{{{"letter", "L"},
                                               {"uppercaseletter", "Lu"},
                                               {"lowercaseletter", "Ll"},
                                               {"titlecaseletter", "Lt"},
                                               {"modifierletter", "Lm"},
                                               {"otherletter", "Lo"},
                                               {"mark", "M"},
                                               {"nonspacingmark", "Mn"},
                                               {"number", "N"},
                                               {"decimalnumber", "Nd"},
                                               {"punctuation", "P"},
                                               {"symbol", "S"},
                                               {"separator", "Z"},
                                               {"other", "C"},
                                               {"control", "Cc"},
                                               {"han", "sc:Han"}}};

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 'a' - 'A') : c; }
bool is_letter(char c) { return lower(c) >= 'a' && lower(c) <= 'z'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Translator {
 public:
  Translator(std::string_view pattern, const std::string& where, std::vector<uint32_t>& ranges)
      : in_(pattern), where_(where), ranges_(ranges) {}

  std::string translate() {
    std::string_view start = "(?i)";
    if (in_.starts_with(start)) {
      take(start);
      out_ += start;
      caseless_ = true;
    }
    alternatives(0);
    if (at_ < in_.size()) refuse("a \")\" that closes nothing");
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ExitCode::kInput,
                fmt::format("{}: the regular expression {} has {}, which is not carried out here", where_,
                            escaped_name(in_), what));
  }

  bool ahead(std::string_view text) const { return in_.substr(at_).starts_with(text); }
  bool take(std::string_view text) {
    if (!ahead(text)) return false;
    at_ += text.size();
    return true;
  }

  void alternatives(int depth) {
    constexpr int kDeepest = 64;
    if (depth > kDeepest) refuse("groups in groups, too many of them");
    while (at_ < in_.size() && in_[at_] != ')') {
      if (take("|"))
        out_ += '|', last_folded_ = 0;
      else
        quantified(depth);
    }
  }

  // One part and how often it is there.
  void quantified(int depth) {
    const std::size_t begin = out_.size();
    const bool repeatable = part(depth);
    if (at_ == in_.size()) return;
    const char how = in_[at_];
    if (how != '*' && how != '+' && how != '?' && how != '{') return;
    if (!repeatable) refuse("a quantifier of what has no length");
    if (how == '{')
      interval(begin);
    else
      ++at_, out_ += how, out_ += lazy_or_possessive("?+");
    if (at_ < in_.size() && (in_[at_] == '*' || in_[at_] == '+' || in_[at_] == '?' || in_[at_] == '{'))
      refuse("two quantifiers of the same part");
  }

  std::string lazy_or_possessive(std::string_view allowed) {
    if (at_ < in_.size() && allowed.find(in_[at_]) != std::string_view::npos)
      return std::string(1, in_[at_++]);
    return "";
  }

  // {n}, {n,}, {,n} and {n,m}; a + behind them repeats the whole.
  void interval(std::size_t begin) {
    const std::size_t from = at_++;
    const std::string least = digits();
    const bool range = take(",");
    const std::string most = range ? digits() : least;
    if (!take("}") || (least.empty() && most.empty())) refuse("a \"{\" that begins no interval");
    constexpr int kMost = 1000;
    if (!least.empty() && !most.empty() && std::stoi(least) > std::stoi(most))
      refuse(fmt::format("the interval {}", escaped_name(in_.substr(from, at_ - from))));
    if (std::max(least.empty() ? 0 : std::stoi(least), most.empty() ? 0 : std::stoi(most)) > kMost)
      refuse("an interval of more than 1000");
    out_ += fmt::format("{{{}{}{}}}", least.empty() ? "0" : least, range ? "," : "", range ? most : "");
    if (take("+")) {
      out_.insert(begin, "(?:");
      out_ += ")+";
    } else if (ahead("?")) {
      if (!range) refuse("an interval {n}?");
      out_ += lazy_or_possessive("?");
    }
  }
  std::string digits() {
    std::string found;
    while (at_ < in_.size() && is_digit(in_[at_]) && found.size() < 5) found += in_[at_++];
    return found;
  }

  // Whether it can be repeated.
  bool part(int depth) {
    const char c = in_[at_];
    if (c == '(') return group(depth);
    if (c == '[') return character_class(), true;
    if (c == '\\') return escape(false);
    if (c == '*' || c == '+' || c == '?' || c == '{') refuse("a quantifier of nothing");
    if (c == ']' || c == '}') refuse(fmt::format("a lone \"{}\"", c));
    if (c == '^' || c == '$') {
      ++at_;
      out_ += c;
      return false;
    }
    if (c == '.') {
      ++at_;
      out_ += "[^\\n]";
      return true;
    }
    const uint32_t point = next_point();
    check_folding(point);
    emit(point);
    return true;
  }

  bool group(int depth) {
    struct Opening {
      std::string_view in, out;
      bool repeatable;
    };
    constexpr std::array<Opening, 8> kOpenings{{{"(?:", "(?:", true},
                                                {"(?=", "(?=", false},
                                                {"(?!", "(?!", false},
                                                {"(?<=", "(?<=", false},
                                                {"(?<!", "(?<!", false},
                                                {"(?>", "(?>", true},
                                                {"(?i:", "(?i:", true},
                                                {"(?-i:", "(?-i:", true}}};
    const bool outer = caseless_;
    bool repeatable = true, known = false;
    for (const Opening& opening : kOpenings) {
      if (!take(opening.in)) continue;
      out_ += opening.out;
      repeatable = opening.repeatable;
      if (opening.in == "(?i:") caseless_ = true;
      if (opening.in == "(?-i:") caseless_ = false;
      known = true;
      break;
    }
    if (!known) {
      if (ahead("(?") || ahead("(*"))
        refuse(fmt::format("a group that begins with {}", escaped_name(in_.substr(at_, 4))));
      ++at_;
      out_ += "(?:";
    }
    last_folded_ = 0;
    alternatives(depth + 1);
    if (!take(")")) refuse("a group that is not closed");
    out_ += ')';
    caseless_ = outer;
    last_folded_ = 0;
    return repeatable;
  }

  // Characters of two letters that Oniguruma takes for one without regard to case.
  void check_folding(uint32_t point) {
    if (!caseless_) return;
    if (point >= 0x80) refuse("a character beyond ASCII without regard to case");
    const char c = lower(static_cast<char>(point));
    const char before = last_folded_;
    last_folded_ = c;
    constexpr std::array<std::string_view, 5> kOne{"ss", "ff", "fi", "fl", "st"};
    for (const std::string_view two : kOne)
      if (before == two[0] && c == two[1]) refuse(fmt::format("\"{}\" without regard to case", two));
  }

  uint32_t next_point() { return decode_utf8(in_, at_); }

  void emit(uint32_t point) {
    if (point >= 0x80) {
      ranges_.insert(ranges_.end(), {point, point});
      append_utf8(point, out_);
    } else if (is_letter(static_cast<char>(point)) || is_digit(static_cast<char>(point))) {
      out_ += static_cast<char>(point);
    } else {
      out_ += fmt::format("\\x{{{:X}}}", point);
    }
  }

  // Behind a backslash. Whether what it stands for has a length.
  bool escape(bool in_class) {
    ++at_;
    if (at_ == in_.size()) refuse("a backslash at its end");
    if (std::optional<uint32_t> point = escaped_point()) {
      if (!in_class) check_folding(*point);
      emit(*point);
      return true;
    }
    last_folded_ = 0;
    const char c = in_[at_];
    const std::string_view spelled = in_.substr(at_ - 1, 2);
    ++at_;
    switch (c) {
      case 's':
      case 'S':
      case 'd':
      case 'D':
        out_ += spelled;
        return true;
      case 'w':
        out_ += in_class ? std::string(kWordItems) : fmt::format("[{}]", kWordItems);
        return true;
      case 'h':
        out_ += in_class ? "0-9a-fA-F" : "[0-9a-fA-F]";
        return true;
      case 'p':
      case 'P':
        property(c == 'P');
        return true;
      default:
        break;
    }
    if (!in_class) {
      switch (c) {
        case 'W':
          out_ += fmt::format("[^{}]", kWordItems);
          return true;
        case 'H':
          out_ += "[^0-9a-fA-F]";
          return true;
        case 'b':
          out_ += fmt::format("(?:(?<=[{0}])(?![{0}])|(?<![{0}])(?=[{0}]))", kWordItems);
          return false;
        case 'A':
        case 'z':
        case 'Z':
          out_ += spelled;
          return false;
        default:
          break;
      }
    }
    refuse(fmt::format("\"\\{}\"", c));
  }

  // Of a character that is written with a backslash; at_ is moved behind it.
  std::optional<uint32_t> escaped_point() {
    constexpr std::array<std::pair<char, uint32_t>, 7> kControls{
        {{'n', '\n'}, {'r', '\r'}, {'t', '\t'}, {'f', '\f'}, {'v', 0xb}, {'a', 7}, {'e', 0x1b}}};
    const char c = in_[at_];
    for (const auto& [letter, point] : kControls)
      if (c == letter) return ++at_, point;
    if (c == 'x' || c == 'u') {
      ++at_;
      const bool braces = c == 'x' && take("{");
      const std::size_t most = braces ? 6 : c == 'u' ? 4 : 2;
      uint32_t point = 0;
      std::size_t count = 0;
      for (; at_ < in_.size() && count < most; ++at_, ++count) {
        const char digit = lower(in_[at_]);
        if (is_digit(digit))
          point = point * 16 + static_cast<uint32_t>(digit - '0');
        else if (digit >= 'a' && digit <= 'f')
          point = point * 16 + static_cast<uint32_t>(digit - 'a') + 10;
        else
          break;
      }
      const bool whole = count > 0 && (c != 'u' || count == 4) && (!braces || take("}"));
      if (!whole || point >= Characters::kEnd || (point >= 0xd800 && point < 0xe000) ||
          (c == 'x' && !braces && point >= 0x80))
        refuse(fmt::format("\"\\{}\" without the number of a character", c));
      return point;
    }
    if (!is_letter(c) && !is_digit(c) && is_ascii(c)) return next_point();
    return std::nullopt;
  }

  void property(bool negated) {
    if (caseless_) refuse("a property without regard to case");
    if (!take("{")) refuse("\"\\p\" without a name in braces");
    if (take("^")) negated = !negated;
    const std::size_t end = in_.find('}', at_);
    if (end == std::string_view::npos) refuse("\"\\p{\" that is not closed");
    const std::string_view name = in_.substr(at_, end - at_);
    std::string plain;
    for (const char c : name)
      if (c != ' ' && c != '_' && c != '-') plain += lower(c);
    std::string category;
    for (const LongName& one : kLongNames)
      if (plain == one.name) category = one.category;
    for (const char* one : kCategoryNames) {
      const std::string two = one;
      if (plain.size() == 2 && plain[0] == lower(two[0]) && plain[1] == two[1]) category = two;
      if (plain.size() == 1 && plain[0] == lower(two[0])) category = two.substr(0, 1);
    }
    if (category.empty()) refuse(fmt::format("the property {}", escaped_name(name)));
    at_ = end + 1;
    out_ += fmt::format("\\{}{{{}}}", negated ? 'P' : 'p', category);
  }

  void character_class() {
    last_folded_ = 0;
    ++at_;
    out_ += '[';
    if (take("^")) out_ += '^';
    if (ahead("]")) refuse("a class that begins with \"]\"");
    bool may_range = false;  // what came before is one character
    uint32_t before = 0;
    while (!take("]")) {
      if (at_ == in_.size()) refuse("a class that is not closed");
      if (ahead("[")) refuse("a \"[\" in a class, without a backslash,");
      if (ahead("&&")) refuse("\"&&\" in a class");
      const bool dash = ahead("-"), last = in_.substr(at_ + 1).starts_with(']');
      if (dash && !last && may_range) {
        ++at_;
        range_from(before);
        may_range = false;
        continue;
      }
      if (dash && !last && out_.back() != '[' && out_.back() != '^')
        refuse("a \"-\" in a class that is no range");
      may_range = class_item(before);
    }
    out_ += ']';
  }

  // Whether it is one character, which then is `point`.
  bool class_item(uint32_t& point) {
    if (!ahead("\\")) {
      point = next_point();
      check_class_folding(point);
      emit(point);
      return true;
    }
    const std::size_t before = at_++;
    if (at_ == in_.size()) refuse("a backslash at its end");
    if (const std::optional<uint32_t> escaped = escaped_point()) {
      point = *escaped;
      check_class_folding(point);
      emit(point);
      return true;
    }
    at_ = before;
    escape(true);
    return false;
  }
  void check_class_folding(uint32_t point) const {
    if (caseless_ && point >= 0x80) refuse("a character beyond ASCII without regard to case");
  }

  void range_from(uint32_t first) {
    uint32_t last = 0;
    const std::size_t dash = out_.size();
    out_ += '-';
    if (!class_item(last) || last < first) refuse("a \"-\" in a class that is no range");
    if (out_.size() == dash + 1) refuse("a \"-\" in a class that is no range");
    if (last >= 0x80) ranges_.insert(ranges_.end(), {std::max(first, 0x80u), last});
  }

  std::string_view in_;
  const std::string& where_;
  std::vector<uint32_t>& ranges_;
  std::size_t at_ = 0;
  std::string out_;
  bool caseless_ = false;
  char last_folded_ = 0;  // the letter before, where case is passed over
};

}  // namespace

std::string translate_regex(const std::string& pattern, const std::string& where,
                            std::vector<uint32_t>& explicit_points) {
  return Translator(pattern, where, explicit_points).translate();
}

}  // namespace recollect
