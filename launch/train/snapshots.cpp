#include "launch/train/snapshots.h"

#include <sys/statvfs.h>

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "comm/agree.h"
#include "engine/core/byte_count.h"
#include "engine/io/standard_output.h"
#include "launch/program/recorded.h"
#include "launch/ranks/inputs.h"
#include "launch/train/launch_attempt.h"
#include "launch/train/snapshot_lock.h"

namespace recollect {

namespace {

constexpr int kMostFailures = 3;
constexpr std::string_view kGoesOn = "; training goes on", kAgain = "; another try follows";
constexpr uint64_t kMostManifest = 64 << 10,
                   kMostOfATensor = 2 << 10;  // bytes, including check sums and names

SnapshotOptions options_of(const Config& config, const Session& session, std::function<void()> before_begin,
                           std::function<void()> before_commit) {
  return {.path = config.snapshot_folder(),
          .keep = config.snapshot.keep,
          .asynchronous = config.snapshot.asynchronous,
          .configuration = recorded_configuration(config, session),
          .inputs = session.mesh().world().rank() == 0 ? contents_of_inputs(config)
                                                       : std::map<std::string, std::string>(),
          .versions = {{"recollect", recorded_line(config)}},
          .launch = LaunchAttempt().name(),
          .before_begin = std::move(before_begin),
          .before_commit = std::move(before_commit)};
}

// Checks the space for all kept snapshots and one more, which is written before the oldest is deleted.
// Existing ones already have their space. A resumed run only gets a warning.
void check_space(const Config& config, const Session& session) {
  const std::string folder = config.snapshot_folder();
  struct statvfs disk {};
  if (::statvfs(folder.c_str(), &disk) != 0) return;
  uint64_t bytes = kMostManifest;
  for (const StateTensor& tensor : session.state().layout().tensors())
    bytes += tensor.bytes() + kMostOfATensor;
  const auto there = static_cast<int64_t>(SnapshotFolder(folder).steps().size());
  const int64_t more = std::max<int64_t>(1, config.snapshot.keep + 1 - there);
  const uint64_t free = uint64_t{disk.f_bavail} * disk.f_frsize, needed = static_cast<uint64_t>(more) * bytes;
  if (needed <= free) return;
  const std::string wrong = fmt::format(
      "snapshots need {} more in {} ({} of {} each, with one that is being written); "
      "its disk has {} free",
      byte_count(needed), folder, more, byte_count(bytes), byte_count(free));
  const std::string hint = "free some space, name another snapshot.path, or lower snapshot.keep";
  if (there == 0 && session.progress().step == 0) throw Error(ExitCode::kStorage, wrong, hint);
  warn("{}: {}", wrong, hint);
}

}  // namespace

Snapshots::Snapshots(const Config& config, const Session& session, std::function<void()> before_commit,
                     std::string resumed, std::function<void()> before_begin)
    : config_(config),
      session_(session),
      resumed_(std::move(resumed)),
      saver_(options_of(config, session, std::move(before_begin), std::move(before_commit)), session.state(),
             session.mesh()),
      last_(std::chrono::steady_clock::now()),
      saved_step_(session.progress().step) {
  on_first_rank(session.mesh().world(), [&] { check_space(config, session); });
}

// The clock of rank 0 decides for all.
bool Snapshots::is_due() const {
  const Config::Snapshot& s = config_.snapshot;
  if (is_occasion(s.every_steps, s.every_epochs, session_.so_far())) return true;
  if (s.every_minutes == 0) return false;
  int64_t due = std::chrono::steady_clock::now() - last_ >= std::chrono::minutes(s.every_minutes);
  session_.mesh().world().broadcast({&due, {1}, DType::kI64}, 0);
  return due != 0;
}

void Snapshots::begin() {
  last_ = std::chrono::steady_clock::now();
  saved_step_ = session_.progress().step;
  saver_.begin(session_.progress());
}

void Snapshots::after_step() {
  const bool due = is_due(), more = !session_.is_done();
  const std::string_view then = more ? kGoesOn : kAgain;
  if (saver_.busy()) {
    if (const std::optional<SnapshotOutcome> outcome = saver_.look()) note(*outcome, then);
    if (due && saver_.busy()) note(saver_.finish(), then);
    if (more) check_failures();
  }
  if (!due) return;
  begin();
  if (config_.snapshot.asynchronous) return;
  note(saver_.finish(), then);
  if (more) check_failures();
}

// The snapshots of this run, the newest first. The one that it resumed from is older than all that it saved.
std::vector<std::string> Snapshots::own() const {
  const SnapshotFolder folder(config_.snapshot_folder());
  std::vector<std::string> own;
  for (const int64_t step : folder.steps())
    if (own_steps_.contains(step)) own.push_back(folder.of_step(step));
  if (!resumed_.empty() && std::find(own.begin(), own.end(), resumed_) == own.end()) own.push_back(resumed_);
  return own;
}

TrainingProgress Snapshots::go_back() {
  if (saver_.busy()) note(saver_.finish(), kGoesOn);
  Communicator& world = session_.mesh().world();
  const bool first = world.rank() == 0;
  const Resumed back =
      resume_from(first ? own() : std::vector<std::string>(), config_, session_.state(), world);
  if (back.folder.empty())
    throw SharedError(
        ExitCode::kNumerics,
        back.passed_over.empty()
            ? "numerics.on_non_finite is rollback, and no snapshot has been saved yet"
            : fmt::format("numerics.on_non_finite is rollback, and no snapshot can be gone back to:\n  {}",
                          fmt::join(back.passed_over, "\n  ")),
        "lower optimizer.learning_rate, or save snapshots earlier", !first);
  if (first)
    for (const std::string& wrong : back.passed_over) warn("a newer snapshot is passed over: {}", wrong);
  saved_step_ = back.progress.step;
  return back.progress;
}

void Snapshots::finish() {
  if (saver_.busy()) note(saver_.finish(), kAgain);
  const auto save = [&](std::string_view then) {
    begin();
    note(saver_.finish(), then);
  };
  if (saved_step_ != session_.progress().step) save(kAgain);
  if (failures_ > 0) save("");
}

void Snapshots::note(const SnapshotOutcome& outcome, std::string_view then) {
  if (outcome.left && !said_left_)
    warn("the snapshot of step {} is saved, but an older one stays: {}", outcome.step, outcome.left->what());
  said_left_ |= outcome.left.has_value();
  ++(outcome.failed ? totals_.failed : totals_.saved);
  totals_.copied_seconds += outcome.copied_seconds;
  totals_.thread_seconds += outcome.thread_seconds;
  totals_.seconds += outcome.seconds;
  failures_ = outcome.failed ? failures_ + 1 : 0;
  failure_ = outcome.failed ? outcome.failed->what() : "";
  if (!outcome.failed) {
    totals_.bytes += outcome.bytes;
    own_steps_.insert(outcome.step);
    return;
  }
  failed_step_ = outcome.step;
  const bool ends = then.empty() || (then == kGoesOn && failures_ >= kMostFailures);
  if (session_.mesh().world().rank() == 0 && !ends)
    warn("the snapshot of step {} could not be saved: {}{}", outcome.step, failure_, then);
}

void Snapshots::check_saved() const {
  if (failures_ > 0)
    throw Error(
        ExitCode::kStorage,
        fmt::format("all steps are done, and the snapshot of the last one, {}, could not be saved: {}",
                    failed_step_, failure_),
        "see to the disk that snapshot.path is on, and start the run again: it goes on from the newest that "
        "is saved");
}

void Snapshots::check_failures() const {
  if (failures_ >= kMostFailures)
    throw Error(ExitCode::kStorage,
                fmt::format("{} snapshots in a row could not be saved, the last one of step {}: {}",
                            failures_, failed_step_, failure_),
                "see to the disk that snapshot.path is on");
}

}  // namespace recollect
