#include "launch/run/attempt.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "engine/core/duration.h"
#include "engine/io/open_files.h"
#include "launch/run/processes.h"

namespace recollect::launcher {

namespace {

using namespace std::chrono_literals;

// The end of a rank that lost a peer may be seen before the end of that peer.
constexpr auto kTimeForTheCause = 3s;
// Processes that a rank started may still print after the rank's end.
constexpr auto kLastWords = 2s;
// The time that a rank of Recollect needs to end after a failure.
constexpr std::chrono::milliseconds kToLeave = 500ms;

struct Pipe {
  Descriptor from, to;
};

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    const int reason = errno;
    throw Error(ExitCode::kHostMemory, "no pipe for a rank: " + std::generic_category().message(reason),
                open_files_hint(reason));
  }
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

// A rank of Recollect starts with SIGUSR1 and SIGUSR2 blocked until it can handle them. Any other program
// gets the mask that it would have without the launcher.
sigset_t blocked_in(const Run& run) {
  sigset_t blocked = run.signals.blocked_before();
  if (run.program.ours)
    for (const int signal : {SIGUSR1, SIGUSR2}) sigaddset(&blocked, signal);
  return blocked;
}

template <typename Time>
void make_earlier(std::optional<Time>& moment, Time candidate) {
  moment = moment ? std::min(*moment, candidate) : candidate;
}

}  // namespace

Attempt::~Attempt() { end_all(); }

void Attempt::start(int rank, const MeetingPoint& place) {
  const RankOutput& wanted = run_.options.output[rank];
  const std::string folder = fmt::format("{}/attempt_{}/{}", run_.log_folder, number_, rank);
  const auto log = [&](Stream stream) {
    if (!wanted.kept[static_cast<int>(stream)]) return std::string();
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) throw Error(ExitCode::kStorage, "cannot make the folder " + folder + ": " + error.message());
    return folder + (stream == Stream::kOut ? "/stdout.log" : "/stderr.log");
  };
  Pipe out = make_pipe(), err = make_pipe();
  Rank started{0, Relay(std::move(out.from), rank, Stream::kOut, wanted.shown[0], log(Stream::kOut)),
               Relay(std::move(err.from), rank, Stream::kError, wanted.shown[1], log(Stream::kError))};
  started.pid =
      start_process(run_.program, environment_of_rank(run_.options, run_.identity, number_, place, rank),
                    out.to.get(), err.to.get(), blocked_in(run_), run_.guard.descriptor());
  ranks_.push_back(std::move(started));
}

Outcome Attempt::carry_out() {
  const MeetingPoint place(run_.options, run_.identity, run_.program.ours);
  for (int rank = 0; rank < run_.options.ranks; ++rank) start(rank, place);
  while (goes_on()) {
    wait();
    reap();  // before the signals, so that ranks that have ended by now count as not asked
    for (const int signal : run_.signals.take()) obey(signal);
    if (tell_at_ && Clock::now() >= *tell_at_)
      tell_groups(SIGTERM, run_.program.ours ? std::min(kToLeave, run_.options.grace) : run_.options.grace);
  }
  note_the_deaf();
  end_all();
  read_the_rest();
  return judge();
}

void Attempt::end_all() {
  if (!end_children(run_.spared)) run_.console.say("some processes of the run cannot be killed");
  run_.guard.forget_all();
}

bool Attempt::goes_on() const {
  if (kill_at_ && Clock::now() >= *kill_at_) return false;
  if (ends_.size() < ranks_.size()) return true;
  const bool silent = std::none_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) {
    return rank.output.is_open() || rank.errors.is_open();
  });
  return !silent && last_words_until_ && Clock::now() < *last_words_until_;
}

void Attempt::wait() {
  std::vector<pollfd> events{{run_.signals.descriptor(), POLLIN, 0}, {run_.console.waits_for(), POLLOUT, 0}};
  std::vector<Relay*> relays;
  for (Rank& rank : ranks_)
    for (Relay* relay : {&rank.output, &rank.errors})
      if (relay->is_open() && !run_.console.is_full()) {
        events.push_back({relay->descriptor(), POLLIN, 0});
        relays.push_back(relay);
      }
  auto until = Clock::now() + run_.options.monitor_interval;
  for (const auto& moment : {tell_at_, kill_at_, last_words_until_})
    if (moment) until = std::min(until, *moment);
  const auto time = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
  ::poll(events.data(), events.size(), static_cast<int>(std::max<int64_t>(0, time)));
  for (std::size_t i = 0; i < relays.size(); ++i)
    if (events[i + 2].revents != 0) relays[i]->read_some(run_.console);
  run_.console.write_some();
}

void Attempt::reap() {
  int status = 0;
  for (pid_t pid; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
    const auto rank = std::find_if(ranks_.begin(), ranks_.end(), [&](const Rank& r) { return r.pid == pid; });
    if (rank == ranks_.end()) continue;  // an adopted orphan
    rank->pid = 0;
    ends_.push_back({.rank = static_cast<int>(rank - ranks_.begin()),
                     .pid = pid,
                     .wait_status = status,
                     .time = std::chrono::system_clock::now(),
                     .asked = asked_});
    if (ends_.size() == ranks_.size()) last_words_until_ = Clock::now() + kLastWords;
    const int code = ends_.back().status();
    if (code == 0 || asked_) continue;
    // The peers of a preempted rank are saving too and must not be disturbed.
    std::chrono::milliseconds patience = 0ms;
    if (code == static_cast<int>(ExitCode::kPreempted)) patience = run_.options.grace;
    if (code == static_cast<int>(ExitCode::kPeerLost) && !is_somebody_stopped()) patience = kTimeForTheCause;
    make_earlier(tell_at_, Clock::now() + patience);
  }
}

// Ranks that end_all() will kill get an end by SIGKILL on request.
void Attempt::note_the_deaf() {
  reap();
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
    if (ranks_[rank].pid != 0)
      ends_.push_back({.rank = static_cast<int>(rank),
                       .pid = ranks_[rank].pid,
                       .wait_status = W_EXITCODE(0, SIGKILL),
                       .time = std::chrono::system_clock::now(),
                       .asked = true});
}

void Attempt::obey(int signal) {
  if (!asks_to_end(signal)) {
    preempted_ = preempted_ || signal == SIGUSR1;
    for (const Rank& rank : ranks_)
      if (rank.pid != 0) ::kill(rank.pid, signal);
    return;
  }
  if (signal == SIGINT && std::exchange(int_came_, true)) {
    kill_at_ = Clock::now();
    return;
  }
  if (interrupted_by_ == 0) {
    interrupted_by_ = signal;
    run_.console.say(fmt::format("{} passed on to the ranks; SIGKILL follows after {}{}", signal_name(signal),
                                 duration_text(run_.options.grace),
                                 signal == SIGINT ? ", or a second SIGINT" : ""));
  }
  tell_groups(signal, run_.options.grace);
}

// SIGCONT lets a stopped process receive the signal.
void Attempt::tell_groups(int signal, std::chrono::milliseconds grace) {
  asked_ = true;
  tell_at_.reset();
  for (const Rank& rank : ranks_)
    if (rank.pid != 0)
      for (const int each : {signal, SIGCONT}) ::kill(-rank.pid, each);
  make_earlier(kill_at_, Clock::now() + grace);
}

// If a rank is stopped, the others have lost that one, and it will not end by itself.
bool Attempt::is_somebody_stopped() const {
  return std::any_of(ranks_.begin(), ranks_.end(),
                     [](const Rank& rank) { return rank.pid != 0 && is_stopped(rank.pid); });
}

// All writers have ended: the pipes hold everything that has not been read.
void Attempt::read_the_rest() {
  for (Rank& rank : ranks_)
    for (Relay* relay : {&rank.output, &rank.errors})
      while (relay->is_open() && relay->read_some(run_.console)) {
      }
}

Outcome Attempt::judge() {
  const bool interrupted = interrupted_by_ != 0;
  const RankEnd* root = root_cause(ends_);
  if (root && root->status() == static_cast<int>(ExitCode::kPreempted)) {
    run_.console.say(fmt::format("rank {} was preempted ({})", root->rank, root->text()));
    return {root->status(), !preempted_, interrupted,
            fmt::format("rank {} was preempted, and this launcher was not", root->rank)};
  }
  if (root) {
    const Rank& rank = ranks_[static_cast<std::size_t>(root->rank)];
    run_.console.line(Stream::kError, failure_box(*root, ends_, rank.output, rank.errors));
    return {root->status(), true, interrupted,
            fmt::format("rank {} ended with {}", root->rank, root->text())};
  }
  if (!interrupted) return {};
  // After an interruption, ranks that ended with an exit code of their own decide the status; ranks that died
  // by the signal do not count.
  for (RankEnd& end : ends_) end.asked = end.by_signal();
  root = root_cause(ends_);
  const bool all_done =
      ends_.size() == ranks_.size() &&
      std::all_of(ends_.begin(), ends_.end(), [](const RankEnd& e) { return e.status() == 0; });
  return {root ? root->status() : all_done ? 0 : 128 + interrupted_by_, false, true};
}

}  // namespace recollect::launcher
