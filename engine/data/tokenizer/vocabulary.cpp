#include "engine/data/tokenizer/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "engine/core/error.h"
#include "engine/io/strict_json.h"

namespace recollect {

Vocabulary::Vocabulary(std::vector<std::pair<std::string, uint64_t>> tokens, const std::string& source)
    : source_(source) {
  std::sort(tokens.begin(), tokens.end(), [](const auto& a, const auto& b) {
    return std::tie(a.second, a.first) < std::tie(b.second, b.first);
  });
  const auto same = std::adjacent_find(tokens.begin(), tokens.end(),
                                       [](const auto& a, const auto& b) { return a.second == b.second; });
  if (same != tokens.end())
    throw Error(ExitCode::kInput, fmt::format("{}: the id {} belongs to both {} and {}", source, same->second,
                                              escaped_name(same->first), escaped_name((same + 1)->first)));
  if (tokens.empty()) throw Error(ExitCode::kInput, source + ": the vocabulary is empty");
  constexpr uint64_t kMostHoles = uint64_t{1} << 20;
  if (tokens.back().second >= tokens.size() + kMostHoles)
    throw Error(ExitCode::kInput,
                fmt::format("{}: {} tokens, and the greatest id is {}, of {}", source, tokens.size(),
                            tokens.back().second, escaped_name(tokens.back().first)),
                "ids are 0, 1, 2 and so on, with few left out");
  tokens_.resize(tokens.back().second + 1);
  ids_.reserve(tokens.size());
  for (auto& [token, id] : tokens) {
    tokens_[id] = std::move(token);
    if (const auto [had, fresh] = ids_.emplace(tokens_[id], static_cast<uint32_t>(id)); !fresh)
      throw Error(ExitCode::kInput, fmt::format("{}: the token {} appears twice, as {} and as {}", source,
                                                escaped_name(tokens_[id]), had->second, id));
  }
}

std::optional<uint32_t> Vocabulary::find(std::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

uint32_t Vocabulary::at(std::string_view token, std::string_view needed_for) const {
  const std::optional<uint32_t> id = find(token);
  if (!id)
    throw Error(ExitCode::kInput, fmt::format("{}: {} names {}, which is no token of the vocabulary", source_,
                                              needed_for, escaped_name(token)));
  return *id;
}

}  // namespace recollect
