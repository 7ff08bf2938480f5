#define PCRE2_CODE_UNIT_WIDTH 8
#include "engine/data/tokenizer/regex.h"

#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "engine/core/error.h"
#include "engine/io/strict_json.h"

namespace recollect {
namespace pcre2 {  // named: what RegexMemory holds has it
struct Free {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
  void operator()(pcre2_compile_context* context) const { pcre2_compile_context_free(context); }
  void operator()(pcre2_jit_stack* stack) const { pcre2_jit_stack_free(stack); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;
}  // namespace pcre2

namespace {

using Code = pcre2::Owned<pcre2_code>;

Code compile(const std::string& pattern, const std::string& where, std::string_view shown) {
  const pcre2::Owned<pcre2_compile_context> context(pcre2_compile_context_create(nullptr));
  require(context != nullptr, "PCRE2 has no memory");
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int number = 0;
  PCRE2_SIZE offset = 0;
  Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                          PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &number, &offset,
                          context.get()));
  if (!code) {
    std::array<unsigned char, 256> message{};
    pcre2_get_error_message(number, message.data(), message.size());
    throw Error(ExitCode::kInput, fmt::format("{}: the regular expression {}: {}", where, escaped_name(shown),
                                              reinterpret_cast<const char*>(message.data())));
  }
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);  // where it cannot, matching is slower
  return code;
}

// To instructions of the machine.
bool is_compiled(const pcre2_code* code) {
  std::size_t size = 0;
  return pcre2_pattern_info(code, PCRE2_INFO_JITSIZE, &size) == 0 && size > 0;
}

// How many characters from the beginning the expression matches.
std::size_t matched(const pcre2_code* code, std::string_view text, pcre2_match_data* data) {
  const int found = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0,
                                PCRE2_ANCHORED | PCRE2_NO_UTF_CHECK, data, nullptr);
  return found < 0 ? 0 : pcre2_get_ovector_pointer(data)[1];
}

// Characters that the library would take for another kind, and what is shown in their place: one of the kind that they
// are, as long in UTF-8.
class Substitutes {
 public:
  explicit Substitutes(const Characters& characters) : characters_(characters), data_(new_match()) {
    // Planes that have characters, or may get some.
    for (const auto& [first, end] : {std::pair(0u, 0xd800u), {0xe000u, 0x34000u}, {0xe0000u, 0xe0200u}})
      for (uint32_t point = first; point < end;) point = check_run(point, end);
    const Code space = compile("\\s", "", "");
    for (uint32_t point = 0x80; point < 0x3100; ++point)
      if (const bool is_space = characters.class_of(point) == CharacterClass::kSpace;
          is_space != (matched(space.get(), spelled(point), data_.get()) != 0))
        differing_.push_back(point);
    for (const uint32_t point : differing_) add(point);
  }
  const std::unordered_map<uint32_t, uint32_t>& all() const { return all_; }

 private:
  static pcre2::Owned<pcre2_match_data> new_match() {
    pcre2::Owned<pcre2_match_data> data(pcre2_match_data_create(1, nullptr));
    require(data != nullptr, "PCRE2 has no memory");
    return data;
  }
  static std::string spelled(uint32_t point) {
    std::string text;
    append_utf8(point, text);
    return text;
  }
  const pcre2_code* code_of(uint8_t category) {
    Code& code = codes_[category];
    if (!code) code = compile(fmt::format("\\p{{{}}}+", kCategoryNames[category]), "", "");
    return code.get();
  }

  // The characters of one category from `first` on. Returns where they end.
  uint32_t check_run(uint32_t first, uint32_t end) {
    const uint8_t category = characters_.category_of(first);
    std::string text;
    uint32_t last = first;
    for (; last < end && characters_.category_of(last) == category; ++last) append_utf8(last, text);
    std::string_view rest = text;
    for (uint32_t point = first; !rest.empty(); ++point) {
      const std::size_t same = matched(code_of(category), rest, data_.get());
      point += static_cast<uint32_t>(count_points(rest.substr(0, same)));
      rest.remove_prefix(same);
      if (rest.empty()) break;
      differing_.push_back(point);
      rest.remove_prefix(utf8_length(rest.front()));
    }
    return last;
  }

  // Ideographs stay what they are for \p{Han}.
  void add(uint32_t point) {
    const uint8_t category = characters_.category_of(point);
    const std::size_t length = spelled(point).size();
    constexpr uint32_t kIdeographs = 0x20000, kIdeographsEnd = 0x34000;
    const bool ideograph = point >= kIdeographs && point < kIdeographsEnd;
    const auto [at, fresh] = of_kind_.try_emplace(std::tuple(category, length, ideograph), point);
    if (fresh) at->second = ideograph ? kIdeographs : first_of(category, length, point);
    all_[point] = at->second;
  }
  // `otherwise` where there is none.
  uint32_t first_of(uint8_t category, std::size_t length, uint32_t otherwise) const {
    constexpr uint32_t kFirst[] = {0, 0, 0x80, 0x800, 0x10000, Characters::kEnd};
    for (uint32_t other = kFirst[length]; other < kFirst[length + 1]; ++other)
      if (characters_.category_of(other) == category &&
          std::find(differing_.begin(), differing_.end(), other) == differing_.end())
        return other;
    return otherwise;
  }

  const Characters& characters_;
  pcre2::Owned<pcre2_match_data> data_;
  std::array<Code, std::size(kCategoryNames)> codes_;
  std::vector<uint32_t> differing_;
  std::map<std::tuple<uint8_t, std::size_t, bool>, uint32_t> of_kind_;
  std::unordered_map<uint32_t, uint32_t> all_;
};

}  // namespace

struct RegexMemory::State {
  pcre2::Owned<pcre2_match_data> data{pcre2_match_data_create(1, nullptr)};
  pcre2::Owned<pcre2_match_context> context{pcre2_match_context_create(nullptr)};
  pcre2::Owned<pcre2_jit_stack> stack{
      pcre2_jit_stack_create(std::size_t{32} << 10, std::size_t{16} << 20, nullptr)};
  std::string substituted;

  State() {
    constexpr uint32_t kMostSteps = 20'000'000;
    require(data && context && stack, "PCRE2 has no memory");
    pcre2_set_match_limit(context.get(), kMostSteps);
    pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  }
};

RegexMemory::RegexMemory() = default;
RegexMemory::~RegexMemory() = default;
RegexMemory::RegexMemory(RegexMemory&&) noexcept = default;
RegexMemory& RegexMemory::operator=(RegexMemory&&) noexcept = default;

struct Regex::Program {
  std::string shown, where;
  Code code;
  bool compiled = false;  // to instructions of the machine
  std::unordered_map<uint32_t, uint32_t> substitutes;
  std::vector<bool> substituted;  // of every code point

  void set_substitutes(const Characters& characters) {
    substitutes = Substitutes(characters).all();
    substituted.resize(Characters::kEnd);
    for (const auto& [point, other] : substitutes) substituted[point] = true;
  }
};

Regex::Regex(const std::string& pattern, const Characters& characters, const std::string& where) {
  std::vector<uint32_t> ranges;
  const std::string translated = translate_regex(pattern, where, ranges);
  auto program = std::make_shared<Program>();
  program->shown = escaped_name(pattern);
  program->where = where;
  program->code = compile(translated, where, pattern);
  program->compiled = is_compiled(program->code.get());
  program->set_substitutes(characters);
  for (const auto& [point, other] : program->substitutes)
    for (std::size_t i = 0; i + 1 < ranges.size(); i += 2)
      if ((point >= ranges[i] && point <= ranges[i + 1]) != (other >= ranges[i] && other <= ranges[i + 1]))
        throw Error(
            ExitCode::kInput,
            fmt::format("{}: the regular expression {} names characters from U+{:04X} to U+{:04X}, and the "
                        "installed PCRE2 knows U+{:04X} otherwise than tokenizers does",
                        where, program->shown, ranges[i], ranges[i + 1], point),
            "install a newer PCRE2, whose edition of Unicode is 16.0");
  program_ = std::move(program);
}

Regex::Regex() = default;

Regex Regex::graphemes(const Characters& characters) {
  Regex regex;
  auto program = std::make_shared<Program>();
  program->where = program->shown = "graphemes";
  program->code = compile("\\X", "", "");
  program->compiled = is_compiled(program->code.get());
  program->set_substitutes(characters);
  regex.program_ = std::move(program);
  return regex;
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;

std::string_view Regex::prepare(std::string_view text, RegexMemory& memory) const {
  if (!memory.state_) memory.state_ = std::make_unique<RegexMemory::State>();
  bool copied = false;
  std::string& copy = memory.state_->substituted;
  for (std::size_t at = 0; (at = first_foreign(text, at)) < text.size();) {
    const std::size_t here = at;
    const uint32_t point = decode_utf8(text, at);
    if (!program_->substituted[point]) continue;
    if (!copied) copy.assign(text);
    copied = true;
    std::string other;
    append_utf8(program_->substitutes.at(point), other);
    copy.replace(here, other.size(), other);
  }
  return copied ? std::string_view(copy) : text;
}

std::size_t Regex::end_of_match(std::string_view text, std::size_t from, RegexMemory& memory) const {
  if (!memory.state_) memory.state_ = std::make_unique<RegexMemory::State>();
  std::size_t begin = from, end = from;
  return search(text, from, memory, begin, end) && begin == from ? end : from;
}

bool Regex::search(std::string_view text, std::size_t from, RegexMemory& memory, std::size_t& begin,
                   std::size_t& end) const {
  const RegexMemory::State& state = *memory.state_;
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const int found = program_->compiled
                        ? pcre2_jit_match(program_->code.get(), subject, text.size(), from, 0,
                                          state.data.get(), state.context.get())
                        : pcre2_match(program_->code.get(), subject, text.size(), from, PCRE2_NO_UTF_CHECK,
                                      state.data.get(), state.context.get());
  if (found == PCRE2_ERROR_NOMATCH) return false;
  if (found < 0)
    throw Error(ExitCode::kInput,
                fmt::format("{}: the regular expression {} takes too long for a text of {} bytes",
                            program_->where, program_->shown, text.size()));
  const PCRE2_SIZE* places = pcre2_get_ovector_pointer(state.data.get());
  begin = places[0];
  end = places[1];
  return true;
}

}  // namespace recollect
