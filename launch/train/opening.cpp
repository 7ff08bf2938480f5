#include "launch/train/opening.h"

#include <unistd.h>

#include <algorithm>
#include <functional>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "engine/io/node.h"
#include "engine/io/system_files.h"
#include "launch/config/check_reports.h"
#include "launch/program/recorded.h"
#include "launch/program/units.h"
#include "launch/report/rank_report.h"

namespace recollect {

namespace {

// The memory that a rank will use, and where. Ranks that are threads of one process share it.
struct Claim {
  uint64_t place = 0, process = 0;  // digests of names
  uint64_t bytes = 0, total = 0;    // total: of the place; 0: unknown
  uint64_t shared = 0;              // the part of `bytes` that another process counts
};

Claim claim_of(const Session& session) {
  const std::hash<std::string> digest{};
  const Device& device = session.executor().memory().device();
  const std::string process = fmt::format("{}:{}", host_name(), ::getpid());
  const MemoryLedger& needs = session.programs().needs();
  if (const auto memory = device.memory())
    return {digest(device.hardware()), digest(fmt::format("{}:{}", process, session.mesh().world().rank())),
            needs.arena_bytes(), memory->total, 0};
  const uint64_t predicted = session.programs().resident().predicted;
  return {digest(host_name()), digest(process),
          predicted > 0 ? predicted : needs.arena_bytes() + needs.host_bytes,
          memory_of_machine(SystemFiles()).value_or(0), predicted > 0 ? session.shared_index(true) : 0};
}

std::vector<Claim> gather_claims(const Session& session) {
  Communicator& world = session.mesh().world();
  Claim mine = claim_of(session);
  std::vector<Claim> all(static_cast<std::size_t>(world.size()));
  constexpr auto kBytes = static_cast<int64_t>(sizeof mine);
  world.all_gather({&mine, {kBytes}, DType::kU8}, {all.data(), {kBytes * world.size()}, DType::kU8});
  return all;
}

struct MemoryPlace {
  int ranks = 0;
  uint64_t total = 0;
  uint64_t shared = 0;                 // shared by several processes, counted by one
  std::map<uint64_t, uint64_t> bytes;  // by process

  uint64_t sum() const {
    uint64_t sum = 0;
    for (const auto& [process, taken] : bytes) sum += taken;
    return sum;
  }
  // The used fraction of the place. Among places of unknown size the one with the most bytes is the largest.
  double part() const { return static_cast<double>(sum()) / (total > 0 ? static_cast<double>(total) : 1.0); }
};

}  // namespace

std::string memory_line(const Session& session) {
  const std::vector<Claim> claims = gather_claims(session);
  std::map<uint64_t, MemoryPlace> places;
  for (const Claim& claim : claims) {
    MemoryPlace& place = places[claim.place];
    ++place.ranks;
    place.total = claim.total;
    uint64_t& bytes = place.bytes[claim.process];
    bytes = std::max(bytes, claim.bytes - claim.shared);
    place.shared = std::max(place.shared, claim.shared);
  }
  const MemoryPlace& fullest =
      std::max_element(places.begin(), places.end(), [](const auto& a, const auto& b) {
        return a.second.part() < b.second.part();
      })->second;
  const bool on_device = session.executor().memory().device().memory().has_value();
  const bool whole_processes = !on_device && session.programs().resident().predicted > 0;
  std::string text = fmt::format("memory: predicted {} {}", whole_processes ? "resident" : "arenas",
                                 bytes_text(fullest.sum()));
  if (fullest.total > 0) text += " of " + bytes_text(fullest.total);
  const auto ranks = static_cast<int>(claims.size());
  if (on_device) text += " on the device";
  if (ranks > 1)
    text += fullest.ranks == ranks ? fmt::format(" for {} ranks", ranks)
                                   : fmt::format(" for {} of {} ranks", fullest.ranks, ranks);
  if (fullest.shared > 0) text += fmt::format(", the data's index of {} once", bytes_text(fullest.shared));
  return text + fmt::format("; arena {}{}", bytes_text(session.programs().needs().arena_bytes()),
                            ranks > 1 ? " a rank" : "");
}

std::string opening_text(const Config& config, const Session& session, const std::string& memory) {
  const TrainingProgram& training = session.training_program();
  const RunDescription run = describe(config, session.mesh(), training);
  if (config.logging.verbose)
    return fmt::format("{}; {}\nbatch: {}\n{}\n", run.model, run.layout, run.batch, memory);
  std::string text = fmt::format("{}; {}\n{}\n", run.model, ranks_text(config, session.mesh()), memory);
  if (shows_tables(config)) return text;
  const std::vector<Remark> warned = recorded_elsewhere(config);
  for (const Remark& remark : training.remarks)
    if (std::none_of(warned.begin(), warned.end(),
                     [&](const Remark& other) { return other.sentence == remark.sentence; }))
      text += fmt::format("{}: {}\n", remark.key, remark.sentence);
  return text;
}

}  // namespace recollect
