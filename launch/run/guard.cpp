#include "launch/run/guard.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cerrno>
#include <system_error>

#include "engine/core/error.h"
#include "engine/io/open_files.h"

namespace recollect::launcher {

namespace {

[[noreturn]] void keep_guard(int from_launcher, const std::vector<std::string>& files) {
  ::setsid();  // the terminal's signals do not reach it; the launcher has blocked the others
  ::prctl(PR_SET_NAME, "recollect-guard");
  ::dup2(from_launcher, STDIN_FILENO);
  ::close_range(1, ~0u, 0);  // so that the guard does not keep a stream open that others read
  std::vector<pid_t> groups;
  pid_t group = 0;
  while (true) {
    const ssize_t size = ::read(STDIN_FILENO, &group, sizeof group);
    if (size < 0 && errno == EINTR) continue;
    if (size != sizeof group) break;
    group == 0 ? groups.clear() : groups.push_back(group);
  }
  for (const pid_t each : groups) ::kill(-each, SIGKILL);
  for (const std::string& file : files) ::remove(file.c_str());
  ::_exit(0);
}

}  // namespace

Guard::Guard(const std::vector<std::string>& files) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0 || (pid_ = ::fork()) < 0) {
    const int reason = errno;
    throw Error(ExitCode::kHostMemory,
                "cannot start another process: " + std::generic_category().message(reason),
                open_files_hint(reason));
  }
  Descriptor from_launcher(ends[0]);
  to_guard_ = Descriptor(ends[1]);
  if (pid_ > 0) return;
  to_guard_.close();
  keep_guard(from_launcher.get(), files);
}

Guard::~Guard() {
  if (::waitpid(pid_, nullptr, WNOHANG) != 0) return;  // it has ended; another process may have its number
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void Guard::forget_all() const {
  const pid_t none = 0;
  [[maybe_unused]] const ssize_t told = ::write(to_guard_.get(), &none, sizeof none);
}

}  // namespace recollect::launcher
