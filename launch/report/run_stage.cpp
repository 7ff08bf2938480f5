#include "launch/report/run_stage.h"

#include <signal.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>

#include <fmt/format.h>

#include "engine/core/printable.h"
#include "engine/io/json.h"
#include "engine/io/node.h"

namespace recollect {

namespace {

namespace fs = std::filesystem;

// Parsed from "run NAME" and "process 123 on HOST".
struct Holder {
  long process = 0;
  std::string host;
  bool is_launched = false;  // its launcher may restart it; then the run has a name
};

Holder holder_of(const std::string& lock) {
  Holder holder;
  std::ifstream file(lock);
  for (std::string line; std::getline(file, line);) {
    long process = 0;
    int read = 0;
    if (line.starts_with("run ") && line.size() > 4) holder.is_launched = true;
    if (std::sscanf(line.c_str(), "process %ld on %n", &process, &read) == 1 && read > 0) {
      holder.process = process;
      holder.host = line.substr(static_cast<std::size_t>(read));
    }
  }
  return holder;
}

bool is_alive(long process) {
  return process > 0 && (::kill(static_cast<pid_t>(process), 0) == 0 || errno == EPERM);
}

// The paths of status.N.json, by rank.
std::map<int, fs::path> statuses_in(const std::string& folder) {
  std::map<int, fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    int rank = 0, read = 0;
    const std::string name = entry->path().filename().string();
    if (std::sscanf(name.c_str(), "status.%d.json%n", &rank, &read) == 1 &&
        static_cast<std::size_t>(read) == name.size())
      found.emplace(rank, entry->path());
  }
  return found;
}

}  // namespace

RunStage stage_of_run(const std::string& folder) {
  const std::string lock = folder + "/.recollect.lock";
  std::error_code error;
  if (!fs::exists(lock, error))
    return fs::exists(folder + "/config.resolved.yaml", error) ? RunStage::kEnded : RunStage::kNone;
  const Holder holder = holder_of(lock);
  if (holder.host != host_name()) return statuses_in(folder).empty() ? RunStage::kGoesOn : RunStage::kDied;
  if (is_alive(holder.process)) return RunStage::kGoesOn;
  return holder.is_launched ? RunStage::kWaits : RunStage::kDied;
}

std::string failure_in(const std::string& folder) {
  std::error_code error;
  const fs::file_time_type done = fs::last_write_time(folder + "/train_results.json", error);
  for (const auto& [rank, path] : statuses_in(folder)) {
    std::error_code gone;
    if (!error && fs::last_write_time(path, gone) < done) continue;  // from an earlier run
    std::ifstream file(path);
    const nlohmann::json json = nlohmann::json::parse(file, nullptr, false);
    if (!json.is_object() || !json.contains("first_failure") || !json["first_failure"].is_string()) continue;
    return printable(fmt::format("rank {}: {}", rank, json["first_failure"].get<std::string>()));
  }
  return "";
}

}  // namespace recollect
