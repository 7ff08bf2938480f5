#include "comm/device/watchdog.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "comm/wait_graph.h"
#include "engine/core/duration.h"

namespace recollect::device {
namespace {

using std::chrono::milliseconds;

milliseconds interval_for(milliseconds timeout) {
  return std::clamp(timeout / 20, milliseconds(2), milliseconds(200));
}

// The ranks missing here may wait for other ranks in other groups. The late ranks are those at the end of all
// these waits, which wait for no one.
std::string late_text(const ProgressBoard& board, const std::vector<int>& missing,
                      const std::string& within) {
  const auto late = ends_of_waits(missing, [&](int rank) { return board.waited_for_by(rank); });
  std::vector<int> victims = missing;
  std::erase_if(victims, [&](int rank) { return std::find(late.begin(), late.end(), rank) != late.end(); });
  std::string text = name_ranks(late) + " did not come" + within;
  if (!victims.empty())
    text += "; " + name_ranks(victims) + (victims.size() == 1 ? " waits" : " wait") + " in another group";
  return text;
}

}  // namespace

Progress Watchdog::Entry::progress() {
  const uint32_t state = group->state();
  if (idle && *idle == state) return {round, 0};
  idle.reset();
  return {round, state};
}

Watchdog::Watchdog(ProgressBoard& board, Settings settings)
    : board_(board), settings_(std::move(settings)), interval_(interval_for(settings_.timeout)) {}

void Watchdog::start() {
  thread_ = std::thread([this] { loop(); });
}

Watchdog::~Watchdog() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (failed_ && !aborter_.joinable()) enforce(Clock::now());
  if (!aborter_.joinable()) return;
  const auto deadline = Clock::now() + settings_.grace;
  while (!aborted_ && Clock::now() < deadline) std::this_thread::sleep_for(milliseconds(1));
  if (!aborted_) settings_.end_process(reason_);
  aborter_.join();
}

void Watchdog::loop() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    look(Clock::now());
    lock.lock();
    wake_.wait_for(lock, interval_, [this] { return stopping_; });
  }
}

void Watchdog::add(std::shared_ptr<Watched> group) {
  std::lock_guard lock(mutex_);
  board_.open(group->key());
  entries_.push_back({.group = std::move(group), .since = Clock::now()});
}

void Watchdog::remove(const Watched& group) {
  std::lock_guard lock(mutex_);
  board_.close(group.key());
  std::erase_if(entries_, [&](const Entry& entry) { return entry.group.get() == &group; });
}

void Watchdog::completed() {
  std::lock_guard lock(mutex_);
  for (Entry& entry : entries_) {
    if (!entry.group->replays()) continue;
    ++entry.round;
    entry.idle = entry.group->state();
  }
}

void Watchdog::fail(const std::string& reason) {
  noted_ = true;
  std::lock_guard lock(mutex_);
  fail_locked(known_elsewhere().value_or(reason));  // `reason` may only be a consequence of that failure
}

std::optional<std::string> Watchdog::known_elsewhere() const {
  return settings_.stop_reason ? settings_.stop_reason() : std::nullopt;
}

void Watchdog::fail_locked(const std::string& reason) {
  if (failed_) return;
  reason_ = reason;
  failed_.store(true, std::memory_order_release);
  board_.stop(reason);
}

void Watchdog::throw_if_failed() {
  if (!has_failed()) return;
  noted_ = true;
  std::lock_guard lock(mutex_);
  throw Error(ExitCode::kPeerLost,
              "the collectives of rank " + std::to_string(board_.rank()) + " cannot go on: " + reason_,
              "look for the first error among the ranks' messages; NCCL_DEBUG=INFO makes NCCL say more");
}

void Watchdog::look(Clock::time_point now) {
  std::unique_lock lock(mutex_);
  if (!failed_) find_failures(now);
  lock.unlock();
  if (failed_) enforce(now);
}

void Watchdog::find_failures(Clock::time_point now) {
  const auto told = [this] {
    const auto why = board_.stop_reason();
    return why ? why : known_elsewhere();
  };
  if (const auto why = told()) return fail_locked(*why);
  for (int rank = 0; rank < board_.size(); ++rank)
    if (board_.has_died(rank))  // a rank publishes its reason before it ends: look again
      return fail_locked(told().value_or("the process of rank " + std::to_string(rank) + " has ended"));
  for (Entry& entry : entries_) {
    const Progress progress = entry.progress();
    board_.publish(entry.group->key(), progress);
    if (const std::string error = entry.group->asynchronous_error(); !error.empty())
      return fail_locked(entry.group->describe(progress.state) + " among " +
                         name_ranks(entry.group->ranks()) + ": " + error);
    const bool waits = is_inside_call(progress.state) && progress == entry.seen;
    if (!waits) entry.since = now;
    entry.seen = progress;
    if (waits) judge(entry, now);
    if (failed_) return;
  }
}

void Watchdog::judge(Entry& entry, Clock::time_point now) {
  std::vector<int> missing, left, unknown;
  for (const int rank : entry.group->ranks()) {
    const auto progress = board_.progress(rank, entry.group->key());
    if (!progress) {
      unknown.push_back(rank);
    } else if (*progress < entry.seen) {
      missing.push_back(rank);
      if (board_.has_left(rank)) left.push_back(rank);
    }
  }
  if (left.empty() && now - entry.since < settings_.timeout) return;
  const std::string within = " within " + duration_text(settings_.timeout);
  std::string what;
  if (!left.empty()) {
    what = name_ranks(left) + " has left";
  } else if (!missing.empty()) {
    what = late_text(board_, missing, within);
  } else {
    what = (unknown.empty() ? "all have come, but it did not finish" : "it did not finish") + within;
  }
  if (!unknown.empty() && left.empty())
    what += "; how far " + name_ranks(unknown) + " came is not known here";
  fail_locked(entry.group->describe(entry.seen.state) + " among " + name_ranks(entry.group->ranks()) + ": " +
              what);
}

void Watchdog::enforce(Clock::time_point now) {
  std::unique_lock lock(mutex_);
  if (!deadline_) {
    deadline_ = now + settings_.grace;
    aborter_ = std::thread([this, why = reason_] {
      settings_.abort(why);
      aborted_.store(true, std::memory_order_release);
    });
  }
  if (noted_ || ended_ || now < *deadline_) return;
  ended_ = true;
  lock.unlock();
  settings_.end_process(reason_);
}

void end_process(const std::string& why) {
  const std::string line = "error: " + why + " (this rank is stuck, and is ended)\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
  std::_Exit(static_cast<int>(ExitCode::kPeerLost));
}

}  // namespace recollect::device
