#include "launch/run/environment.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include <fmt/format.h>

#include "engine/io/node.h"
#include "engine/io/terminal.h"
#include "engine/runtime/passive_waits.h"
#include "launch/run/relay.h"

namespace recollect::launcher {

namespace {

// After a restart the user's port may still be busy with closing connections.
constexpr std::chrono::milliseconds kPortPatience{2000};

// Whether a training may draw a progress bar: only rank 0, if its stdout goes to the launcher's terminal and
// not to a file.
bool may_draw_bar(const RunOptions& options, int rank) {
  constexpr int kOut = static_cast<int>(Stream::kOut);
  return rank == 0 && options.output[0].shown[kOut] && !options.output[0].kept[kOut] &&
         may_draw_on(STDOUT_FILENO);
}

}  // namespace

int omp_threads_to_set(const RunOptions& options) {
  if (options.ranks == 1 || std::getenv("OMP_NUM_THREADS")) return 0;
  return std::max(1, cores_to_use() / options.ranks);
}

MeetingPoint::MeetingPoint(const RunOptions& options, const RunIdentity& identity, bool for_ours)
    : port_(options.master_port) {
  if (for_ours) {
    store_ = std::make_unique<StoreServer>(StoreOptions{.host = options.master_addr,
                                                        .ports = {static_cast<uint16_t>(port_)},
                                                        .run_id = identity.run_id,
                                                        .token = identity.token,
                                                        .patience = kPortPatience,
                                                        .limits = {}});
    port_ = store_->port();
  } else if (port_ == 0) {
    port_ = free_port();
  }
}

Words environment_of_rank(const RunOptions& options, const RunIdentity& identity, int attempt,
                          const MeetingPoint& place, int rank) {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = std::min(text.find('='), text.size());
    variables[text.substr(0, equals)] = text.substr(std::min(equals + 1, text.size()));
  }
  // Variables of Recollect from an outer launcher would contradict the ones that follow.
  for (const char* name : {"RECOLLECT_RANK", "RECOLLECT_WORLD_SIZE", "RECOLLECT_LOCAL_RANK",
                           "RECOLLECT_LOCAL_SIZE", "RECOLLECT_STORE", "RECOLLECT_STORE_TOKEN", kBarBeside})
    variables.erase(name);
  const std::string self = std::to_string(rank), all = std::to_string(options.ranks);
  for (const char* name : {"RANK", "LOCAL_RANK", "ROLE_RANK"}) variables[name] = self;
  for (const char* name : {"WORLD_SIZE", "LOCAL_WORLD_SIZE", "ROLE_WORLD_SIZE"}) variables[name] = all;
  variables["GROUP_RANK"] = "0";
  variables["GROUP_WORLD_SIZE"] = "1";
  variables["ROLE_NAME"] = "default";
  variables["MASTER_ADDR"] = options.master_addr;
  variables["MASTER_PORT"] = std::to_string(place.port());
  variables["TORCHELASTIC_RESTART_COUNT"] = std::to_string(attempt);
  variables["TORCHELASTIC_MAX_RESTARTS"] = std::to_string(options.max_restarts);
  variables["TORCHELASTIC_RUN_ID"] = options.run_id;
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "False";  // PyTorch's rank 0 hosts its own store
  variables["RECOLLECT_RUN_ID"] = variables["RECOLLECT_LAUNCH"] = identity.run_id;
  if (place.has_store()) variables["RECOLLECT_STORE"] = "launcher";
  if (place.has_store() && may_draw_bar(options, rank))
    variables[kBarBeside] = std::to_string(prefix_of(rank).size());
  variables["RECOLLECT_STORE_TOKEN_FILE"] = identity.token_file;
  variables["RECOLLECT_GRACE"] = fmt::format("{}", std::chrono::duration<double>(options.grace).count());
  if (const int threads = omp_threads_to_set(options)) variables["OMP_NUM_THREADS"] = std::to_string(threads);
  if (place.has_store() && !waits_are_chosen()) variables["GOMP_SPINCOUNT"] = kShortSpins;
  Words entries;
  for (const auto& [name, value] : variables) entries.push_back(name + "=" + value);
  return entries;
}

}  // namespace recollect::launcher
