#include "launch/report/live_rank.h"

#include "engine/core/error.h"
#include "engine/io/json.h"
#include "launch/report/checked_json.h"

namespace recollect {

std::string live_rank_path(const std::string& folder, int rank) {
  return fmt::format("{}/live.rank{}.json", folder, rank);
}

void append_live_rank(const LiveRank& live, fmt::memory_buffer& text) {
  std::string host;
  for (const char c : live.host)
    if (c != '"' && c != '\\' && static_cast<unsigned char>(c) >= ' ') host += c;
  fmt::format_to(
      std::back_inserter(text),
      "{{\"rank\": {}, \"ranks\": {}, \"host\": \"{}\", \"process\": {}, \"step\": {}, \"max_steps\": {}, "
      "\"written\": {}, \"step_seconds\": {:.6g}, \"waiting_for_peers\": {:.6g}, \"exposed\": {:.6g}, "
      "\"device\": {}, \"host_memory\": {}}}\n",
      live.rank, live.ranks, host, live.process, live.step, live.max_steps, live.written, live.step_seconds,
      live.waiting, live.exposed, live.device, live.host_memory);
}

std::optional<LiveRank> read_live_rank(const std::string& text) {
  const nlohmann::json document = nlohmann::json::parse(text, nullptr, false);
  if (!document.is_object()) return {};
  constexpr int kMostRanks = 1 << 20;
  const std::string source = "live.rank.json";
  try {
    const JsonPlace json(document, source);
    LiveRank live;
    live.ranks = static_cast<int>(json.at("ranks").integer(1, kMostRanks));
    live.rank = static_cast<int>(json.at("rank").integer(0, live.ranks - 1));
    live.host = json.at("host").text();
    live.process = json.at("process").integer();
    live.step = json.at("step").integer();
    live.max_steps = json.at("max_steps").integer();
    live.written = json.at("written").integer();
    live.step_seconds = json.at("step_seconds").amount();
    live.waiting = json.at("waiting_for_peers").amount();
    live.exposed = json.at("exposed").amount();
    live.device = json.at("device").bytes();
    live.host_memory = json.at("host_memory").bytes();
    return live;
  } catch (const Error&) {
    return {};
  }
}

}  // namespace recollect
