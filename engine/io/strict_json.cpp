#include "engine/io/strict_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "engine/core/error.h"
#include "engine/io/file_kind.h"

namespace recollect {
namespace {

// Receives every event of the parser; an exception from here ends the parsing.
class StrictRules {
 public:
  StrictRules(const std::string& source, int max_depth) : source_(source), max_depth_(max_depth) {}

  bool operator()(int depth, nlohmann::json::parse_event_t event, const nlohmann::json& parsed) {
    using Event = nlohmann::json::parse_event_t;
    if ((event == Event::object_start || event == Event::array_start) && depth >= max_depth_)
      throw Error(ExitCode::kInput, fmt::format("{}: nested deeper than {} levels", source_, max_depth_));
    if (event == Event::object_start) keys_.emplace_back();
    if (event == Event::object_end) keys_.pop_back();
    if (event == Event::key && !keys_.back().insert(parsed.get<std::string>()).second)
      throw Error(ExitCode::kInput, fmt::format("{}: the key {} appears twice", source_,
                                                escaped_name(parsed.get_ref<const std::string&>())));
    return true;
  }

 private:
  const std::string& source_;
  int max_depth_;
  std::vector<std::set<std::string>> keys_;  // of the open objects
};

}  // namespace

nlohmann::json parse_strict_json(std::string_view text, const std::string& source, int max_depth) {
  // The parser takes a zero byte for the end of its input and would ignore everything after it.
  if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos)
    throw Error(ExitCode::kInput, fmt::format("{}: a zero byte at offset {} is not JSON", source, zero));
  try {
    StrictRules rules(source, max_depth);
    return nlohmann::json::parse(text.begin(), text.end(),
                                 [&rules](int depth, nlohmann::json::parse_event_t event,
                                          nlohmann::json& parsed) { return rules(depth, event, parsed); });
  } catch (const nlohmann::json::parse_error& error) {
    if (const std::optional<FileKind> kind = kind_of_file(text))
      throw Error(ExitCode::kInput, fmt::format("{} {}, and no JSON", source, kind->what),
                  std::string(kind->hint));
    const std::string_view before = text.substr(0, error.byte > 0 ? error.byte - 1 : 0);
    throw Error(ExitCode::kInput, fmt::format("{}: {} at line {}, column {}", source, json_problem(error),
                                              1 + std::count(before.begin(), before.end(), '\n'),
                                              before.size() - (before.rfind('\n') + 1) + 1));
  } catch (const nlohmann::json::exception&) {  // a number that fits no double
    throw Error(ExitCode::kInput, fmt::format("{}: a number is out of range", source));
  }
}

std::string json_problem(const nlohmann::json::exception& error) {
  constexpr int kOutOfRange = 406;  // nlohmann-json's number of this error
  if (error.id == kOutOfRange) return "a number is out of range";
  if (std::string_view(error.what()).find("surrogate") != std::string_view::npos)
    return R"(an escape \ud800 to \udfff stands alone, which is half of a character (a surrogate),)";
  return "not valid JSON";
}

std::string escaped_name(std::string_view name) {
  constexpr std::size_t kMaxShown = 200;
  const std::string shown(name.substr(0, kMaxShown));
  const std::string text =
      nlohmann::json(shown).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return name.size() > kMaxShown ? text + "..." : text;
}

}  // namespace recollect
