#include "parallel/module_pattern.h"

#include <cctype>
#include <cstdlib>

#include <fmt/format.h>

#include "engine/core/error.h"
#include "engine/core/printable.h"

namespace recollect {

namespace {

constexpr std::size_t kLongest = 1000;  // characters: std::regex reads nested groups recursively

// Of libstdc++: no backtracking, whatever the pattern. Back references are refused.
constexpr auto kFlags = std::regex_constants::ECMAScript | std::regex_constants::__polynomial;

[[noreturn]] void refuse_pattern(const std::string& key, const std::string& pattern, const std::string& why) {
  throw Error(ExitCode::kConfiguration, fmt::format("{}: the pattern '{}' {}", key, printable(pattern), why),
              R"(a pattern is a regular expression of whole names, such as '.*\.h\.[0-3]\.attn\.c_attn')");
}

// What Python reads and C++ does not, or otherwise.
std::string in_our_words(const std::string& key, const std::string& pattern) {
  if (pattern.size() > kLongest)
    refuse_pattern(key, "...", fmt::format("has more than {} characters", kLongest));
  for (const char* other : {"(?<", "(?i", "(?s", "(?m", "(?x", "(?#", "(?P=", "(?(", "[[:", "[[.",
                            "[[=", "[]", "[^]", "{,", "\\A", "\\Z"})
    if (pattern.find(other) != std::string::npos)
      refuse_pattern(key, pattern, fmt::format("has '{}', which is not supported", other));
  std::string ours = pattern;
  for (std::size_t at = 0; (at = ours.find("(?P<", at)) != std::string::npos;) {
    const std::size_t end = ours.find('>', at);
    if (end == std::string::npos) refuse_pattern(key, pattern, "names a group without an end");
    ours.replace(at, end + 1 - at, "(");
  }
  return ours;
}

std::regex compile(const std::string& key, const std::string& pattern, const std::string& ours) {
  try {
    return std::regex(ours, kFlags);
  } catch (const std::regex_error&) {
    refuse_pattern(key, pattern, "is no regular expression that can be read here");
  }
}

bool reads_as(std::string_view name, const std::regex& whole) {
  return std::regex_match(name.begin(), name.end(), whole);
}

}  // namespace

bool is_pattern(std::string_view text) {
  for (const char c : text)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '.' && c != '-') return true;
  return false;
}

ModulePattern::ModulePattern(const std::string& key, const std::string& pattern) {
  const std::string ours = in_our_words(key, pattern);
  whole_ = compile(key, pattern, ours);  // by itself: what follows could mend an open bracket
  end_ = compile(key, pattern, "(?:.*\\.)?(?:" + ours + ")");
  layer_ = compile(key, pattern, "(?:^|.*?\\.)(?:" + ours + ")\\.([0-9]+)\\..*");
}

bool ModulePattern::matches_whole(std::string_view name) const { return reads_as(name, whole_); }

bool ModulePattern::matches_end(std::string_view name) const { return reads_as(name, end_); }

std::optional<long> ModulePattern::layer_of(std::string_view name) const {
  std::match_results<std::string_view::const_iterator> found;
  if (!std::regex_match(name.begin(), name.end(), found, layer_)) return std::nullopt;
  return std::atol(found[found.size() - 1].str().c_str());  // the last group; those before are the pattern's
}

}  // namespace recollect
