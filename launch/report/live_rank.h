// The file live.rankN.json, which each rank writes once a second while it trains, and removes at the end of
// the run. Means are over the steps since the previous write.
#pragma once

#include <cstdint>
#include <iterator>
#include <optional>
#include <string>

#include <fmt/format.h>

namespace recollect {

struct LiveRank {
  int rank = 0, ranks = 1;
  std::string host = {};
  int64_t process = 0;
  int64_t step = 0, max_steps = 0;
  int64_t written = 0;  // seconds since 1970
  double step_seconds = 0, waiting = 0,
         exposed = 0;                    // a step; waits for ranks, for streams
  uint64_t device = 0, host_memory = 0;  // bytes of the arenas
  bool operator==(const LiveRank&) const = default;
};

std::string live_rank_path(const std::string& folder, int rank);

// Allocates nothing if the text is short.
void append_live_rank(const LiveRank& live, fmt::memory_buffer& text);
// Empty if the text is incomplete or something else; the file may be read while it is written.
std::optional<LiveRank> read_live_rank(const std::string& text);

}  // namespace recollect
