#include "launch/train/snapshots.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <map>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "comm/agree.h"
#include "comm/gather_texts.h"
#include "engine/core/printable.h"
#include "engine/io/standard_output.h"
#include "launch/config/read.h"
#include "launch/program/recorded.h"
#include "parallel/snapshot/snapshot_reader.h"

namespace recollect {

namespace {

constexpr int kMostFailures = 3;
constexpr uint64_t kMostManifest = 64 << 10,
                   kMostOfATensor = 2 << 10;  // bytes, check sums and names included

// As it is called where nothing follows: without a slash at its end.
std::string plain_path(const std::string& path) {
  const std::filesystem::path name = std::filesystem::path(path).lexically_normal();
  return (name.has_filename() ? name : name.parent_path()).string();
}

// Folders of snapshots, the best one first; rank 0 looks for all.
std::vector<std::string> candidates(const Config& config, Communicator& world) {
  std::string list;
  if (world.rank() == 0) {
    const bool automatic = config.resume == "auto";
    const std::string path = automatic ? config.snapshot_folder() : plain_path(config.resume);
    const bool one = !automatic && step_of_folder(std::filesystem::path(path).filename().string()) >= 0;
    const SnapshotFolder folder(path);
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

// Key -> value, of a configuration as it is dumped: sections are indented by two.
std::map<std::string, std::string> keys_of(const std::string& dumped) {
  std::map<std::string, std::string> keys;
  std::vector<std::string> sections;
  std::istringstream lines(dumped);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t indent = line.find_first_not_of(' '), colon = line.find(':');
    if (indent == std::string::npos || colon == std::string::npos || line[indent] == '#') continue;
    sections.resize(std::min(sections.size(), indent / 2));
    const std::string name = line.substr(indent, colon - indent);
    if (colon + 1 == line.size())
      sections.push_back(name);
    else
      keys[fmt::format("{}{}{}", fmt::join(sections, "."), sections.empty() ? "" : ".", name)] =
          line.substr(colon + 2);
  }
  return keys;
}

// Of the run, with the classes that it has found in its data: what they are called is nowhere else. One whose name no
// configuration could hold is not kept.
std::string recorded_configuration(Config config, const Session& session) {
  const std::vector<std::string>& names = session.labels();
  if ((config.task == Task::kSequenceClassification || config.task == Task::kTokenClassification) &&
      std::all_of(names.begin(), names.end(),
                  [](const std::string& name) { return printable(name) == name; }))
    config.data.labels = names;
  return dump_resolved(config);
}

bool decides_results(std::string_view key) {
  if (key == "data.labels") return false;  // check_classes looks at them
  constexpr std::string_view kSections[] = {"model.", "optimizer.", "scheduler.", "data."};
  constexpr std::string_view kKeys[] = {"task",
                                        "parallelism.tensor_parallel_size",
                                        "parallelism.data_parallel_size",
                                        "parallelism.sequence_parallel",
                                        "training.micro_batch_size",
                                        "training.global_batch_size",
                                        "training.gradient_accumulation_steps",
                                        "training.precision",
                                        "training.loss_scale",
                                        "training.loss_scale_window",
                                        "training.seed"};
  return std::find(std::begin(kKeys), std::end(kKeys), key) != std::end(kKeys) ||
         std::any_of(std::begin(kSections), std::end(kSections),
                     [&](std::string_view section) { return key.starts_with(section); });
}

std::string changed_keys(const std::string& before, const std::string& now) {
  const std::map<std::string, std::string> old = keys_of(before);
  std::string changed;
  for (const auto& [key, value] : keys_of(now))
    if (const auto was = old.find(key); was != old.end() && was->second != value && decides_results(key))
      changed += fmt::format("{}{} {} -> {}", changed.empty() ? "" : ", ", key, was->second, value);
  return changed;
}

std::string classes_of(const std::string& configuration) {
  const std::map<std::string, std::string> keys = keys_of(configuration);
  const auto found = keys.find("data.labels");
  return found == keys.end() ? "[]" : found->second;
}

// What is wrong on any rank; "" where all have loaded it.
std::string try_to_load(const Config& config, const std::string& folder, const TrainingState& state,
                        Communicator& world, Resumed& resumed) {
  std::string wrong;
  try {
    SnapshotReader reader(folder);
    reader.load(state);
    resumed.progress = reader.manifest().progress;
    const std::string& before = reader.manifest().configuration;
    resumed.changed = changed_keys(before, dump_resolved(config));
    resumed.classes = classes_of(before);
    if (world.rank() == 0) resumed.ignored_files = reader.unknown_files();
  } catch (const Error& error) {
    if (error.code() != ExitCode::kInput) throw;
    wrong = error.what();
  }
  const std::vector<std::string> all = gather_texts(wrong, world);
  const auto bad =
      std::find_if(all.begin(), all.end(), [](const std::string& text) { return !text.empty(); });
  return bad == all.end() ? "" : *bad;
}

SnapshotOptions options_of(const Config& config, const Session& session,
                           std::function<void()> before_commit) {
  return {.path = config.snapshot_folder(),
          .keep = config.snapshot.keep,
          .asynchronous = config.snapshot.asynchronous,
          .configuration = recorded_configuration(config, session),
          .versions = {{"recollect", recorded_line()}},
          .before_commit = std::move(before_commit)};
}

// As many as are kept, and the one that is written before the oldest goes; those that are there have their place already.
void check_space(const Config& config, const StateLayout& layout) {
  const std::string folder = config.snapshot_folder();
  struct statvfs disk {};
  if (::statvfs(folder.c_str(), &disk) != 0) return;
  uint64_t bytes = kMostManifest;
  for (const StateTensor& tensor : layout.tensors()) bytes += tensor.bytes() + kMostOfATensor;
  const auto there = static_cast<int64_t>(SnapshotFolder(folder).steps().size());
  const int64_t more = std::max<int64_t>(1, config.snapshot.keep + 1 - there);
  const uint64_t free = uint64_t{disk.f_bavail} * disk.f_frsize, needed = static_cast<uint64_t>(more) * bytes;
  if (needed <= free) return;
  throw Error(
      ExitCode::kStorage,
      fmt::format("snapshots need {} bytes more in {} ({} of {} each, with one that is being written); "
                  "its disk has {} free",
                  needed, folder, more, bytes, free),
      "free some space, name another snapshot.path, or lower snapshot.keep");
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
    const std::string wrong = try_to_load(config, folder, state, world, resumed);
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
                "start anew with resume=never, whose first snapshot replaces them");
  if (resumed.progress.step > config.training.max_steps)
    throw Error(ExitCode::kInput,
                fmt::format("{} is of step {}, and training.max_steps is {}", resumed.folder,
                            resumed.progress.step, config.training.max_steps),
                "train longer, or start anew with resume=never");
  return resumed;
}

void check_classes(const Resumed& resumed, const Config& config, const Session& session) {
  const std::string classes = classes_of(recorded_configuration(config, session));
  if (resumed.classes == "[]" || classes == "[]" || classes == resumed.classes) return;
  throw Error(ExitCode::kInput,
              fmt::format("the data has the classes {}; {} was trained on {}", classes, resumed.folder,
                          resumed.classes),
              "say data.labels: " + resumed.classes + ", or start anew with resume=never");
}

// A folder that cannot be locked, as on some file systems, is used all the same.
Snapshots::FolderLock::FolderLock(const Config& config, const Session& session) {
  if (session.mesh().world().rank() != 0) return;
  const SnapshotFolder folder(config.snapshot_folder());
  folder.make();
  descriptor_ = ::open(folder.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor_ < 0 || ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  ::close(descriptor_);
  throw Error(ExitCode::kStorage, fmt::format("another run saves its snapshots in {}", folder.path()),
              "name another snapshot.path, or wait for its end");
}

Snapshots::FolderLock::~FolderLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Snapshots::Snapshots(const Config& config, const Session& session, std::function<void()> before_commit)
    : config_(config),
      session_(session),
      lock_(config, session),
      saver_(options_of(config, session, std::move(before_commit)), session.state(), session.mesh()),
      last_(std::chrono::steady_clock::now()),
      saved_step_(session.progress().step) {
  if (session.mesh().world().rank() == 0) check_space(config, session.state().layout());
}

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

TrainingProgress Snapshots::go_back() {
  if (saver_.busy()) note(saver_.finish());
  Config config = config_;
  config.resume = "auto";
  const Resumed resumed = resume_training(config, session_.state(), session_.mesh().world());
  if (resumed.folder.empty())
    throw Error(ExitCode::kNumerics, "numerics.on_non_finite is rollback, and no snapshot has been saved yet",
                "lower optimizer.learning_rate, or save snapshots earlier");
  saved_step_ = resumed.progress.step;
  return resumed.progress;
}

void Snapshots::finish() {
  if (saver_.busy()) note(saver_.finish());
  if (saved_step_ == session_.progress().step) return;
  begin();
  if (saver_.busy()) note(saver_.finish());
}

void Snapshots::note(const SnapshotOutcome& outcome) {
  failures_ = outcome.failed ? failures_ + 1 : 0;
  if (outcome.left && !said_left_)
    warn("the snapshot of step {} is saved, but an older one stays: {}", outcome.step, outcome.left->what());
  said_left_ |= outcome.left.has_value();
  ++(outcome.failed ? totals_.failed : totals_.saved);
  totals_.copied_seconds += outcome.copied_seconds;
  totals_.seconds += outcome.seconds;
  if (!outcome.failed) totals_.bytes += outcome.bytes;
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
