#include "launch/train/snapshots.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "comm/agree.h"
#include "comm/gather_texts.h"
#include "engine/io/standard_output.h"
#include "launch/config/read.h"
#include "launch/program/recorded.h"
#include "parallel/snapshot/snapshot_reader.h"

namespace recollect {

namespace {

constexpr int kMostFailures = 3;

// Folders of snapshots, the best one first; rank 0 looks for all.
std::vector<std::string> candidates(const Config& config, Communicator& world) {
  std::string list;
  if (world.rank() == 0) {
    const std::string& path = config.resume;
    const bool one = path != "auto" && step_of_folder(std::filesystem::path(path).filename().string()) >= 0;
    const SnapshotFolder folder(path == "auto" ? config.snapshot_folder() : path);
    if (one)
      list = path + "\n";
    else
      for (const int64_t step : folder.steps()) list += folder.of_step(step) + "\n";
  }
  list = broadcast_text(list, 0, world);
  std::vector<std::string> folders;
  for (std::size_t begin = 0; begin < list.size(); begin = list.find('\n', begin) + 1)
    folders.push_back(list.substr(begin, list.find('\n', begin) - begin));
  return folders;
}

// What is wrong on any rank; "" where all have loaded it.
std::string try_to_load(const std::string& folder, const TrainingState& state, Communicator& world,
                        Resumed& resumed) {
  std::string wrong;
  try {
    SnapshotReader reader(folder);
    reader.load(state);
    resumed.progress = reader.manifest().progress;
    resumed.configuration = reader.manifest().configuration;
  } catch (const Error& error) {
    if (error.code() != ExitCode::kInput) throw;
    wrong = error.what();
  }
  const std::vector<std::string> all = gather_texts(wrong, world);
  const auto bad =
      std::find_if(all.begin(), all.end(), [](const std::string& text) { return !text.empty(); });
  return bad == all.end() ? "" : *bad;
}

SnapshotOptions options_of(const Config& config) {
  return {.path = config.snapshot_folder(),
          .keep = config.snapshot.keep,
          .asynchronous = config.snapshot.asynchronous,
          .configuration = dump_resolved(config),
          .versions = {{"recollect", recorded_line()}}};
}

}  // namespace

Resumed resume_training(const Config& config, const TrainingState& state, Communicator& world) {
  Resumed resumed;
  const bool automatic = config.resume == "auto";
  if (config.resume == "never" || (automatic && !config.saves_snapshots())) return resumed;
  const std::vector<std::string> folders = candidates(config, world);
  if (folders.empty() && automatic) return resumed;
  if (folders.empty())
    throw Error(ExitCode::kInput, fmt::format("resume: there is no snapshot in {}", config.resume),
                "name the folder of one, such as output/snapshots/step-00000100");
  for (const std::string& folder : folders) {
    const std::string wrong = try_to_load(folder, state, world, resumed);
    if (wrong.empty()) {
      resumed.folder = folder;
      break;
    }
    if (!automatic) throw Error(ExitCode::kInput, wrong, "name another snapshot, or resume=auto");
    resumed.passed_over.push_back(wrong);
  }
  if (resumed.folder.empty())
    throw Error(ExitCode::kInput,
                fmt::format("no snapshot in {} can be resumed:\n  {}", config.snapshot_folder(),
                            fmt::join(resumed.passed_over, "\n  ")),
                "start anew with resume=never, which replaces them one by one");
  if (resumed.progress.step >= config.training.max_steps)
    throw Error(ExitCode::kInput,
                fmt::format("{} is of step {}, and training.max_steps is {}: the run is done", resumed.folder,
                            resumed.progress.step, config.training.max_steps),
                "train longer, or start anew with resume=never");
  return resumed;
}

Snapshots::Snapshots(const Config& config, const Session& session)
    : config_(config),
      session_(session),
      saver_(options_of(config), session.state(), session.mesh()),
      last_(std::chrono::steady_clock::now()),
      saved_step_(session.progress().step) {}

// Rank 0's clock is everybody's.
bool Snapshots::is_due() const {
  const Config::Snapshot& s = config_.snapshot;
  if (s.every_steps > 0 && session_.progress().step % s.every_steps == 0) return true;
  if (s.every_minutes == 0) return false;
  int64_t due = std::chrono::steady_clock::now() - last_ >= std::chrono::minutes(s.every_minutes);
  session_.mesh().world().broadcast({&due, {1}, DType::kI64}, 0);
  return due != 0;
}

void Snapshots::begin() {
  last_ = std::chrono::steady_clock::now();
  saved_step_ = session_.progress().step;
  saver_.begin(session_.progress());
  if (!config_.snapshot.asynchronous) note(saver_.finish());
}

void Snapshots::after_step() {
  if (saver_.busy())
    if (const std::optional<SnapshotOutcome> outcome = saver_.look()) note(*outcome);
  if (!is_due()) return;
  if (saver_.busy()) note(saver_.finish());
  begin();
}

void Snapshots::finish() {
  if (saver_.busy()) note(saver_.finish());
  if (saved_step_ == session_.progress().step) return;
  begin();
  if (saver_.busy()) note(saver_.finish());
}

void Snapshots::note(const SnapshotOutcome& outcome) {
  failures_ = outcome.failed ? failures_ + 1 : 0;
  if (!outcome.failed) return;
  if (failures_ == kMostFailures)
    throw Error(ExitCode::kStorage,
                fmt::format("{} snapshots in a row could not be saved, the last one of step {}: {}",
                            failures_, outcome.step, outcome.failed->what()),
                outcome.failed->hint());
  if (session_.mesh().world().rank() == 0)
    warn("the snapshot of step {} could not be saved: {}; training goes on", outcome.step,
         outcome.failed->what());
}

}  // namespace recollect
