#include "launch/train/preemption.h"

#include <unistd.h>

#include <cstdlib>

#include <fmt/format.h>

#include "comm/bootstrap.h"
#include "engine/io/standard_output.h"
#include "parallel/snapshot/snapshot_folder.h"

namespace recollect {

namespace {

using namespace std::chrono_literals;

constexpr double kLeastGrace = 5;    // seconds, for a step and a snapshot
constexpr double kUsualGrace = 30;   // Slurm's KillWait, Kubernetes' terminationGracePeriodSeconds
constexpr double kMpirunsGrace = 1;  // Open MPI's odls_base_sigkill_timeout
constexpr auto kOneRequest = 500ms;
constexpr timespec kLookInterval{0, 200'000'000};

bool is_launched() {
  try {
    return discover_ranks().has_value();
  } catch (const Error&) {  // several launchers that disagree
    return true;
  }
}

// The signals that are not ignored already, for example by nohup.
sigset_t heeded_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGUSR1, SIGTERM, SIGINT}) {
    if (signal == SIGINT && is_launched()) continue;
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    if (action.sa_handler != SIG_IGN) sigaddset(&signals, signal);
  }
  return signals;
}

}  // namespace

double grace_seconds(const std::function<const char*(const char*)>& environment) {
  const auto number = [&](const char* name, double otherwise) {
    const char* text = environment(name);
    return text ? std::atof(text) : otherwise;
  };
  if (environment("RECOLLECT_GRACE")) return number("RECOLLECT_GRACE", kUsualGrace);
  if (environment("OMPI_COMM_WORLD_RANK")) return number("OMPI_MCA_odls_base_sigkill_timeout", kMpirunsGrace);
  return kUsualGrace;
}

void Preemption::hold() {
  const sigset_t signals = heeded_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

Preemption::Preemption(RankWatch& ranks)
    : ranks_(ranks),
      signals_(heeded_signals()),
      grace_suffices_(grace_seconds([](const char* name) { return std::getenv(name); }) >= kLeastGrace) {
  pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  thread_ = std::thread([this] { attend(); });
}

Preemption::~Preemption() {
  quits_ = true;
  for (const int signal : {SIGUSR1, SIGTERM})
    if (sigismember(&signals_, signal) == 1)
      pthread_kill(thread_.native_handle(), signal);  // wakes the thread
  thread_.join();
  if (sigismember(&signals_, SIGUSR1) == 1) ::signal(SIGUSR1, SIG_IGN);
  if (late_ != 0) ::raise(late_);  // to this thread, which now unblocks it
  pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr);
}

void Preemption::begin_steps(const Config& config, int64_t done) {
  const std::lock_guard lock(mutex_);
  may_wait_ = config.saves_snapshots() && config.training.max_steps > 0;
  step_ = done;
  run_ = {config.training.max_steps, may_wait_ ? config.snapshot_folder() : "", config.resume};
}

int Preemption::agree(Communicator& world) const {
  int64_t signal = asked_;
  if (world.size() > 1) world.all_reduce({&signal, {1}, DType::kI64}, ReduceOp::kMax);
  return static_cast<int>(signal);
}

void Preemption::attend() {
  while (true) {
    siginfo_t sent{};
    const int signal = ::sigtimedwait(&signals_, &sent, &kLookInterval);
    if (quits_) {
      const bool by_destructor = sent.si_code == SI_TKILL && sent.si_pid == ::getpid();
      if (signal > 0 && !by_destructor) late_ = signal;
      return;
    }
    if (signal > 0) take(signal);
    ranks_.look();
  }
}

void Preemption::take(int signal) {
  if (signal == SIGINT) end_at_once(signal, interrupted_text());
  if (signal == SIGTERM && !grace_suffices_)
    end_at_once(signal, "SIGTERM leaves no time for a snapshot here; SIGUSR1 asks for one");
  if (signal == SIGTERM && (!may_wait_ || ranks_.is_stopped())) end_at_once(signal, "");
  if (asked_ == 0) {
    asked_at_ = Clock::now();
    asked_ = signal;
  } else if (Clock::now() - asked_at_ >= kOneRequest) {
    end_at_once(signal, "a second signal: ends without a snapshot of the latest step");
  }
}

std::string Preemption::interrupted_text() const {
  const std::lock_guard lock(mutex_);
  if (!run_) return "stopped by SIGINT before the first step";
  const std::string when = fmt::format("stopped by SIGINT after step {} of {}: ", step_.load(), run_->steps);
  if (run_->snapshots.empty())
    return when + "nothing is saved to resume from; snapshot.every_steps=N would save it";
  std::vector<int64_t> saved;
  try {
    saved = SnapshotFolder(run_->snapshots).steps();
  } catch (const Error& error) {
    return when + error.what();
  }
  if (saved.empty()) return when + "no snapshot is saved yet";
  return fmt::format("{}{} resumes from the newest snapshot, {}", when,
                     run_->resume == "auto" ? "the same command" : "resume=auto",
                     SnapshotFolder(run_->snapshots).of_step(saved.front()));
}

void Preemption::end_at_once(int signal, const std::string& why) {
  if (!why.empty() && (may_wait_ || signal == SIGINT)) warn("{}", why);
  ranks_.write_all(ExitCode::kPeerLost, signal == SIGINT    ? "ended by SIGINT"
                                        : signal == SIGTERM ? "ended by SIGTERM"
                                                            : "ended by a second SIGUSR1");
  ::signal(signal, SIG_DFL);
  ::raise(signal);  // to this thread, which still blocks it
  sigset_t only;    // another pending one must not end the process
  sigemptyset(&only);
  sigaddset(&only, signal);
  pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
  ::_exit(128 + signal);
}

}  // namespace recollect
