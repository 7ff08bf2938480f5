// Agreement costs one gather of 16 bytes per rank (a digest and a size); the texts are sent only if they
// differ.
#include "comm/agree.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "comm/gather_texts.h"
#include "engine/core/error.h"
#include "engine/core/printable.h"
#include "engine/io/node.h"

namespace recollect {
namespace {

// The 64-bit FNV-1a hash.
uint64_t digest(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

// Encodes the map as "key\0value\0" for every key. YAML text contains no NUL.
std::string join(const std::map<std::string, std::string>& flat) {
  std::string text;
  for (const auto& [key, value] : flat) text.append(key).append(1, '\0').append(value).append(1, '\0');
  return text;
}

std::map<std::string, std::string> take_apart(std::string_view text) {
  std::map<std::string, std::string> flat;
  const auto next = [&] {
    const std::size_t end = std::min(text.find('\0'), text.size());
    std::string part(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    return part;
  };
  while (!text.empty()) {
    std::string key = next();
    flat[std::move(key)] = next();
  }
  return flat;
}

constexpr std::size_t kMostShown = 16;  // keys, values of a key, runs of ranks

// "0, 2-3"
std::string list_ranks(const std::vector<int>& ranks) {
  std::string text;
  std::size_t shown = 0;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += text.empty() ? "" : ", ";
    text += last == i ? fmt::format("{}", ranks[i]) : fmt::format("{}-{}", ranks[i], ranks[last]);
    i = last + 1;
    if (++shown == kMostShown && i < ranks.size())
      return text + fmt::format(" and {} more", ranks.size() - i);
  }
  return text;
}

using Hosts = std::vector<std::string>;  // by rank

// Returns " (node1)", the hosts of these ranks, or "" if all ranks are on one host.
std::string where(const std::vector<int>& ranks, const Hosts& hosts) {
  if (std::set<std::string>(hosts.begin(), hosts.end()).size() == 1) return "";
  std::set<std::string> names;
  for (const int rank : ranks) names.insert(hosts[static_cast<std::size_t>(rank)]);
  return " (" + list_some({names.begin(), names.end()}, kMostShown) + ")";
}

// Returns one line per key that differs between ranks.
std::string explain(const std::vector<std::map<std::string, std::string>>& configs, const Hosts& hosts) {
  std::map<std::string, std::map<std::string, std::vector<int>>> holders;  // key -> value -> ranks
  for (std::size_t r = 0; r < configs.size(); ++r) {
    for (const auto& [key, value] : configs[r]) holders[key][value].push_back(static_cast<int>(r));
  }
  std::string lines;
  std::size_t different = 0;
  for (const auto& [key, values] : holders) {
    if (values.size() == 1 && values.begin()->second.size() == configs.size()) continue;
    if (++different > kMostShown) continue;
    lines += fmt::format("\n{}:", printable(key));
    std::size_t shown = 0;
    for (const auto& [value, ranks] : values) {
      if (++shown > kMostShown) break;
      lines += fmt::format("{}{} on {} {}", shown == 1 ? " " : "; ", printable(value),
                           ranks.size() == 1 ? "rank" : "ranks", list_ranks(ranks) + where(ranks, hosts));
    }
    if (shown > kMostShown) lines += fmt::format(" and {} more", values.size() - kMostShown);
  }
  if (different > kMostShown) lines += fmt::format("\nand {} more", different - kMostShown);
  return lines;
}

}  // namespace

void check_texts_agree(const std::map<std::string, std::string>& texts, const std::string& what,
                       const std::string& hint, Communicator& communicator) {
  const std::string joined = join(texts), mine = host_name() + '\0' + joined;
  const auto ranks = static_cast<std::size_t>(communicator.size());
  int64_t summary[2] = {static_cast<int64_t>(digest(joined)), static_cast<int64_t>(mine.size())};
  std::vector<int64_t> summaries(2 * ranks);
  communicator.all_gather({summary, {2}, DType::kI64},
                          {summaries.data(), {static_cast<int64_t>(2 * ranks)}, DType::kI64});
  std::vector<int64_t> sizes;
  bool same = true;
  for (std::size_t r = 0; r < ranks; ++r) {
    same = same && summaries[2 * r] == summary[0];
    sizes.push_back(summaries[2 * r + 1]);
  }
  if (same) return;
  std::vector<std::map<std::string, std::string>> configs;
  Hosts hosts;
  for (const std::string& text : gather_texts(mine, sizes, communicator)) {
    const std::size_t end = text.find('\0');
    hosts.push_back(text.substr(0, end));
    configs.push_back(take_apart(std::string_view(text).substr(end + 1)));
  }
  throw SharedError(ExitCode::kRanksDisagree, "the ranks have different " + what + explain(configs, hosts),
                    hint, communicator.rank() != 0);
}

void fail_together(Communicator& communicator, const std::function<void()>& act) {
  std::optional<Error> mine;
  try {
    act();
  } catch (const Error& error) {
    mine = error;
  }
  const auto ranks = static_cast<std::size_t>(communicator.size());
  int64_t code = mine ? static_cast<int64_t>(mine->code()) : 0;
  std::vector<int64_t> codes(ranks);
  communicator.all_gather({&code, {1}, DType::kI64}, {codes.data(), {communicator.size()}, DType::kI64});
  const auto first = std::find_if(codes.begin(), codes.end(), [](int64_t c) { return c != 0; });
  if (first == codes.end()) return;
  const auto rank = static_cast<int>(first - codes.begin());
  const bool by_another = communicator.rank() != rank;
  std::string what = "rank " + std::to_string(rank) + " of its group has failed", hint;
  try {
    what = broadcast_text(mine ? mine->what() : "", rank, communicator);
    hint = broadcast_text(mine ? mine->hint() : "", rank, communicator);
  } catch (const Error&) {  // the rank that sends it has left before all have received it
    if (!by_another) throw *mine;
  }
  throw SharedError(static_cast<ExitCode>(*first), what, hint, by_another);
}

std::string broadcast_text(std::string text, int root, Communicator& communicator) {
  auto size = static_cast<int64_t>(text.size());
  communicator.broadcast({&size, {1}, DType::kI64}, root);
  text.resize(static_cast<std::size_t>(size));
  if (size > 0) communicator.broadcast({text.data(), {size}, DType::kU8}, root);
  return text;
}

}  // namespace recollect
