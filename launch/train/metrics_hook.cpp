#include "launch/train/metrics_hook.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "engine/core/error.h"
#include "engine/io/standard_output.h"

extern char** environ;

namespace recollect {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMostWaiting = std::size_t{1} << 20;  // bytes: some thousand lines
constexpr auto kBetweenTries = 10ms;

// The time for the command to end after its last line, and after SIGTERM. It is short after a failure,
// because other ranks wait.
struct Patience {
  std::chrono::milliseconds at_end, told_to;
};
constexpr Patience kPatience{5s, 1s}, kOfAFailure{300ms, 100ms};

// The attributes of `sh -c COMMAND`: only these three descriptors, no blocked or ignored signals, and its own
// process group, so that Ctrl-C does not end it before its last line.
class Spawning {
 public:
  Spawning(int input, int output) {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawn_file_actions_adddup2(&actions_, input, STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions_, output, STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions_, output, STDERR_FILENO);
    ::posix_spawn_file_actions_addclosefrom_np(&actions_, STDERR_FILENO + 1);
    sigset_t none, all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::posix_spawnattr_init(&attributes_);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    ::posix_spawnattr_setpgroup(&attributes_, 0);
    ::posix_spawnattr_setflags(&attributes_,
                               POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  ~Spawning() {
    ::posix_spawnattr_destroy(&attributes_);
    ::posix_spawn_file_actions_destroy(&actions_);
  }
  Spawning(const Spawning&) = delete;
  Spawning& operator=(const Spawning&) = delete;

  // Returns 0, or an error number.
  int run(std::string command, pid_t& child) const {
    std::string shell = "sh", option = "-c";
    char* const words[] = {shell.data(), option.data(), command.data(), nullptr};
    return ::posix_spawn(&child, "/bin/sh", &actions_, &attributes_, words, environ);
  }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

}  // namespace

MetricsHook::MetricsHook(const std::string& command, const std::string& output, bool goes_on)
    : log_(output, goes_on), exceptions_(std::uncaught_exceptions()) {
  waiting_.reserve(kMostWaiting);
  start(command);
}

void MetricsHook::start(const std::string& command) {
  look_at_log();
  const Descriptor log = log_.take_input();
  int ends[2] = {-1, -1};
  int error = ::pipe2(ends, O_CLOEXEC) == 0 ? 0 : errno;
  const Descriptor theirs{ends[0]};
  input_ = Descriptor{ends[1]};
  if (error == 0 && ::fcntl(ends[1], F_SETFL, O_NONBLOCK) != 0) error = errno;
  if (error == 0) error = Spawning(ends[0], log.get()).run(command, child_);
  if (error == 0) return;
  child_ = 0;
  input_.close();
  complain(fmt::format("cannot be started: {}; the run goes on", system_message(error)));
}

void MetricsHook::look_at_log() {
  if (const std::string problem = complained_ ? "" : log_.problem(); !problem.empty()) complain(problem);
}

void MetricsHook::send(std::string_view lines) {
  look_at_log();
  if (input_.get() < 0) return;
  if (waiting_.size() - written_ + lines.size() > kMostWaiting) {
    complain("reads too slowly: lines are left out, and the run goes on");
  } else {
    waiting_.erase(0, std::exchange(written_, 0));
    waiting_ += lines;
  }
  if (!write_waiting()) give_up();
}

bool MetricsHook::write_waiting() {
  while (written_ < waiting_.size()) {
    const ssize_t bytes = ::write(input_.get(), waiting_.data() + written_, waiting_.size() - written_);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return errno == EAGAIN;
    written_ += static_cast<std::size_t>(bytes);
  }
  return true;
}

void MetricsHook::complain(const std::string& what) {
  if (!std::exchange(complained_, true)) warn("logging.hook: {}", what);
}

void MetricsHook::give_up() {
  input_.close();
  const bool ended =
      ends_before(Clock::now() + kBetweenTries);  // a command that stops reading usually ends
  complain((ended ? how_it_ended() : "takes no more lines") + "; the run goes on");
}

bool MetricsHook::ends_before(Clock::time_point deadline) {
  while (child_ != 0) {
    const pid_t got = ::waitpid(child_, &status_, WNOHANG);
    if (got == child_ || (got < 0 && errno != EINTR)) child_ = 0;
    if (child_ != 0 && Clock::now() >= deadline) return false;
    if (child_ != 0) std::this_thread::sleep_for(kBetweenTries / 5);
  }
  return true;
}

std::string MetricsHook::how_it_ended() const {
  if (WIFSIGNALED(status_)) return fmt::format("ended by signal {}", WTERMSIG(status_));
  return fmt::format("ended with exit code {}", WEXITSTATUS(status_));
}

MetricsHook::~MetricsHook() {
  end();
  log_.finish();
  look_at_log();
}

void MetricsHook::end() {
  const Patience& patience = std::uncaught_exceptions() > exceptions_ ? kOfAFailure : kPatience;
  const auto deadline = Clock::now() + patience.at_end;
  bool takes = input_.get() >= 0;
  while (takes && written_ < waiting_.size() && Clock::now() < deadline) {
    pollfd room{.fd = input_.get(), .events = POLLOUT, .revents = 0};
    ::poll(&room, 1, 100);
    takes = write_waiting();
  }
  input_.close();
  if (child_ == 0) return;
  if (ends_before(deadline)) {
    if (status_ != 0) complain(how_it_ended());
    return;
  }
  complain("has not ended after the last line, and is told to");
  for (const int signal : {SIGTERM, SIGKILL}) {
    ::kill(-child_, signal);
    if (ends_before(Clock::now() + patience.told_to)) return;
  }
}

}  // namespace recollect
