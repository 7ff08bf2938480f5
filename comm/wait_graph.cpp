#include "comm/wait_graph.h"

#include <algorithm>
#include <map>
#include <set>

#include "engine/core/duration.h"

namespace recollect {
namespace {

constexpr std::size_t kMostTold = 8;  // waits of other ranks in one message

bool is_among(int rank, const std::vector<int>& ranks) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

std::string among(const RankWait& wait) { return " among " + name_ranks(wait.group); }

std::string last_seen(const RankWait& wait) {
  if (wait.before.sequence == 0) return "; not seen there before";
  return "; last seen there in " + wait.before.name();
}

// Returns "rank 2 waits for rank 3", with each combination of waiting and missing ranks once.
std::string victims_text(const RankWait& mine, std::span<const RankWait> others) {
  std::map<std::vector<int>, std::set<int>> who;  // missing ranks -> the ranks that wait for them
  for (const RankWait& wait : others)
    if (!wait.missing.empty() && wait.rank != mine.rank) who[wait.missing].insert(wait.rank);
  std::string text;
  std::size_t told = 0;
  for (const auto& [missing, ranks] : who) {
    if (told++ == kMostTold) return text + "; and " + std::to_string(who.size() - kMostTold) + " more";
    const std::vector<int> names(ranks.begin(), ranks.end());
    text +=
        "; " + name_ranks(names) + (names.size() == 1 ? " waits for " : " wait for ") + name_ranks(missing);
  }
  return text;
}

}  // namespace

std::vector<int> ends_of_waits(const std::vector<int>& first,
                               const std::function<std::vector<int>(int rank)>& waits_for) {
  std::set<int> seen, ends;
  std::vector<int> next = first;
  while (!next.empty()) {
    const int rank = next.back();
    next.pop_back();
    if (!seen.insert(rank).second) continue;
    const std::vector<int> behind = waits_for(rank);
    if (behind.empty()) ends.insert(rank);
    next.insert(next.end(), behind.begin(), behind.end());
  }
  return ends.empty() ? first : std::vector<int>(ends.begin(), ends.end());
}

std::string who_is_late(const RankWait& mine, std::span<const RankWait> others,
                        std::chrono::milliseconds timeout) {
  const std::string within = " did not come within " + duration_text(timeout);
  std::vector<int> ends = ends_of_waits(mine.missing, [&](int rank) {
    if (rank == mine.rank) return mine.missing;
    std::vector<int> waits_for;
    for (const RankWait& wait : others)
      if (wait.rank == rank) waits_for.insert(waits_for.end(), wait.missing.begin(), wait.missing.end());
    return waits_for;
  });
  std::vector<int> here;
  std::erase_if(ends, [&](int rank) {
    const bool lacks = is_among(rank, mine.missing);
    if (lacks) here.push_back(rank);
    return lacks;
  });
  std::string text;
  if (!here.empty()) text = name_ranks(here) + within + last_seen(mine);
  for (const RankWait& wait : others) {
    std::vector<int> there;
    std::erase_if(ends, [&](int rank) {
      const bool lacks = is_among(rank, wait.missing);
      if (lacks) there.push_back(rank);
      return lacks;
    });
    if (there.empty()) continue;
    text += (text.empty() ? "" : "; ") + name_ranks(there) + within + " to " + wait.call.name() +
            among(wait) + last_seen(wait);
  }
  return text + victims_text(mine, others);
}

}  // namespace recollect
